"""Cost of one cycle over the whole queue for the controller: node facts, expectations, shares, order, and plan.

python -m bench.scheduling.queue
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago, in_queue

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.scheduling.planner import NODES, QUEUED, cluster, gangs
from kajitori.cli import ALLOCATIONS_BETWEEN_COLLECTIONS
from kajitori.cluster.objects import Node
from kajitori.cluster.queue.outlook import Outlook, PendingRun
from kajitori.controllers.queue.queue import Cycle, Queue
from kajitori.core.formats.node_lists import compress
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemberCounts

FINISHED, USERS, PROGRAMS = 10_000, 99, 8


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    rounds = parser.parse_args(arguments).rounds
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)  # as in every process of kaji
    found = {part: _measured(part, rounds) for part in (0.0, 0.9)}
    print_table(
        f"{NODES:,} nodes, {QUEUED:,} queued, {FINISHED:,} runs that are over; seconds",
        ("", "plan", "of it the order", "started", "reserved", "first look"),
        [
            (
                "nothing runs" if not part else f"{part:.0%} of the nodes in use",
                f"{plan:.2f}",
                f"{order:.2f}",
                f"{len(cycle.starts):,}",
                str(len(cycle.plan.schedule.reservations) if cycle.plan is not None else 0),
                f"{first:.1f}",
            )
            for part, (plan, order, first, cycle) in found.items()
        ],
    )
    return print_limits(
        [
            Limit("nothing runs, plan", found[0.0][0], most=1, unit=" s"),
            Limit("nine tenths in use, plan", found[0.9][0], most=1, unit=" s"),
            Limit("what a newcomer learns first of all Runs", found[0.9][2], most=4, unit=" s"),
        ]
    )


def _measured(part: float, rounds: int) -> tuple[float, float, float, Cycle]:
    """Return seconds of a cycle, of the order alone, and of a new leader's first cycle; and the plan."""
    lot = random.Random(2)
    scene = _scene(part, lot)
    queue = _queue(scene, lot)
    began = time.process_time()
    Outlook(scene.mirror, scene.cluster).past.refresh()
    first = time.process_time() - began
    cycle = _plan(queue)  # fills caches
    gc.collect()
    gc.freeze()  # as a mirror does with objects that it has read
    plan = _median(rounds, lambda: _plan(queue))
    applicants = [PendingRun(waiting.run, waiting.request) for waiting in queue._waiting.values()]
    order = _median(rounds, lambda: queue._outlook.order(applicants, NOW))
    return plan, order, first, cycle


def _plan(queue: Queue) -> Cycle:
    """Run one cycle; started runs wait again afterwards, so that the next cycle is the same."""
    waiting = dict(queue._waiting)
    cycle = queue.plan((), NOW)
    queue._waiting, queue._unseen = waiting, {}
    return cycle


def _median(rounds: int, work: Callable[[], object]) -> float:
    """Measure processor time, because other work on the machine must not count."""
    took = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took)


def _scene(part: float, lot: random.Random) -> QueueScene:
    """Return the cluster of bench.scheduling.planner as a mirror shows it, with this share of its nodes in use."""
    scene = QueueScene(0)
    for facts in cluster(NODES).nodes:
        zone, block, rack = facts.domains
        labels = {"topology.kubernetes.io/zone": zone, "kajitori.dev/block": block, "kajitori.dev/rack": rack}
        labels |= {"kajitori.dev/gpu-type": facts.gpu_type, **facts.labels}
        amounts = {"cpu": f"{facts.cpu_millis}m", "memory": str(facts.memory_bytes), "pods": str(facts.pods)}
        amounts |= {names.GPU_RESOURCE: str(facts.gpus)} if facts.gpus else {}
        document = {
            "metadata": {"name": facts.name, "labels": labels},
            "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in facts.taints]},
            "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        scene.mirror.nodes[facts.name] = msgspec.convert(document, Node)
    for number in range(FINISHED):
        scene.finished(
            f"old-{number}",
            seconds=lot.randint(10, 40_000),
            until=ago(hours=lot.randint(1, 500)),
            members=1 + number % 4,
            owner=f"user-{number % USERS}",
            command=["train", "abcdefgh"[number % PROGRAMS]],
        )
    taken = lot.sample(sorted(scene.mirror.nodes), int(part * NODES))
    while taken:
        mine = [taken.pop() for _ in range(min(len(taken), lot.randint(1, 16)))]
        number = len(taken)
        scene.runs(
            f"run-{number}",
            compress(mine),
            since=ago(hours=lot.randint(1, 30)),
            owner=f"user-{number % USERS}",
            command=["train", "abcdefgh"[number % PROGRAMS]],
        )
    return scene


def _queue(scene: QueueScene, lot: random.Random) -> Queue:
    queue = Queue(scene.mirror, scene.cluster)
    for number, each in enumerate(gangs(QUEUED, lot)):
        since, members = ago(minutes=lot.randint(1, 3000)), len(each.gang.ranks)
        status = RunStatus(phase=Phase.QUEUED, queued_at=since, members=MemberCounts(total=members))
        name, program = f"wait-{number}", "abcdefgh"[number % PROGRAMS]
        run = scene.show(name, status, owner=f"user-{number % USERS}", command=["train", program])
        request = replace(each.gang, key=f"team/{name}", queued_at=since)
        queue.wait(in_queue(PendingRun(run, request)))
    return queue


if __name__ == "__main__":
    raise SystemExit(main())
