"""Cost of planning: one gang as large as the cluster, a cycle over a long queue, and both as cluster and queue grow.

python -m bench.scheduling.planner --plots docs/figures
"""

from __future__ import annotations

import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.svg import Axis, lines
from kajitori.core.kubernetes.taints import Taint, Toleration
from kajitori.core.placement.planner import GangRequest, MemberRequest, Placement, occupy_rows, place
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.queue.order import OrderRules
from kajitori.core.queue.backfill.schedule import Schedule, schedule
from kajitori.core.queue.ordering import DecayedUsage, rank
from kajitori.core.queue.victims import RunningGang, choose_victims
from kajitori.core.queue.waiting import WaitingRun

NODES, QUEUED = 7_500, 10_000
GANGS, VICTIM_OF = 2_000, 1_000
"""Gangs of low priority that run on all nodes, and the nodes of a gang for which some of them are preempted."""
GROWTH = (100, 300, 1_000, 3_000, 7_500, 15_000)
GIB = 1 << 30
HOUR = 3600.0
WHOLE = MemberRequest(8_000, 64 * GIB, gpus=8, gpu_type="h100", whole_node=True)
DEDICATED = Taint("team", "vision")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--plots", type=Path, help="a folder for plots, as SVG")
    options = parser.parse_args(arguments)
    rounds = options.rounds

    whole = _large_gang(NODES, rounds)
    reserving = _reservation(NODES, rounds)
    preempting = _victims(NODES, GANGS, VICTIM_OF, rounds)
    free = _cycle(NODES, QUEUED, 0.0, rounds)
    full = _cycle(NODES, QUEUED, 0.9, rounds)
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print_table(
        f"{NODES:,} nodes; milliseconds",
        ("", "time", "started", "reserved"),
        [
            ("a gang of all nodes, placed", f"{whole.milliseconds:.1f}", "1", "0"),
            ("a gang of all nodes, reserved among as many runs", f"{reserving.milliseconds:.1f}", "0", "1"),
            (
                f"which of {GANGS:,} are preempted for a gang of {VICTIM_OF:,}",
                f"{preempting.milliseconds:.1f}",
                "0",
                "0",
            ),
            _row(f"{QUEUED:,} mixed gangs, nothing runs", free),
            _row(f"{QUEUED:,} mixed gangs, nine tenths in use", full),
        ],
    )
    by_nodes = {count: _cycle(count, 1_000, 0.9, rounds).milliseconds for count in GROWTH}
    by_queue = {count: _cycle(NODES, count, 0.9, rounds).milliseconds for count in GROWTH}
    print_table(
        "a cycle as both grow; milliseconds",
        ("", *(f"{count:,}" for count in GROWTH)),
        [
            ("nodes, with 1,000 queued", *(f"{each:.1f}" for each in by_nodes.values())),
            (f"queued, with {NODES:,} nodes", *(f"{each:.1f}" for each in by_queue.values())),
        ],
    )
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        series = {
            "nodes, with 1,000 queued": [(float(n), t) for n, t in by_nodes.items()],
            f"queued, with {NODES:,} nodes": [(float(n), t) for n, t in by_queue.items()],
        }
        drawn = lines("One cycle over the queue", Axis("how many", log=True), Axis("milliseconds", log=True), series)
        (options.plots / "planner-growth.svg").write_text(drawn)
    return print_limits(
        [
            Limit("a gang of all nodes, placed", whole.milliseconds, most=50, unit=" ms"),
            Limit("a gang of all nodes, reserved", reserving.milliseconds, most=50, unit=" ms"),
            Limit("victims among 2,000 gangs", preempting.milliseconds, most=100, unit=" ms"),
            Limit("10,000 queued, nothing runs", free.milliseconds / 1e3, most=1, unit=" s"),
            Limit("10,000 queued, nine tenths in use", full.milliseconds / 1e3, most=1, unit=" s"),
            Limit("memory of all of this at its peak", memory_mib, most=300, unit=" MiB"),
            Limit("one more node at 3,000 to 15,000, beside 300 to 3,000", _beyond_linear(by_nodes), most=2),
            Limit("one more queued at 3,000 to 15,000, beside 300 to 3,000", _beyond_linear(by_queue), most=2),
        ]
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """Return the median of all rounds, and the result of the last one."""

    milliseconds: float
    answer: Schedule | None = None


def _row(what: str, measured: Measured) -> tuple[str, ...]:
    answer = measured.answer
    assert answer is not None
    return what, f"{measured.milliseconds:.0f}", f"{len(answer.placements):,}", str(len(answer.reservations))


def _beyond_linear(milliseconds: dict[int, float]) -> float:
    """Return the cost of one more item among many, divided by that of one more among few: 1 is linear, less is
    better."""
    early = (milliseconds[3_000] - milliseconds[300]) / 2_700
    late = (milliseconds[15_000] - milliseconds[3_000]) / 12_000
    return late / early


def _measure(rounds: int, work: Callable[[], Schedule | None]) -> Measured:
    """Measure processor time, because other work on the machine must not count."""
    took, answer = [], None
    for _ in range(rounds):
        began = time.process_time()
        answer = work()
        took.append(time.process_time() - began)
    return Measured(statistics.median(took) * 1e3, answer)


def cluster(count: int) -> NodeTable:
    """Return three pools in zones, blocks and racks: six tenths of the nodes have h100 GPUs, two tenths a100 GPUs, some
    of which are reserved for one team, and the rest have no GPUs."""
    facts = []
    for number in range(count):
        kind = "h100" if number % 10 < 6 else "a100" if number % 10 < 8 else ""
        rack = number // 16
        facts.append(
            NodeFacts(
                name=f"node-{number:05d}",
                cpu_millis=96_000,
                memory_bytes=1024 * GIB,
                gpus=8 if kind else 0,
                pods=110,
                gpu_type=kind,
                labels={"disk": "nvme"} if number % 3 else {},
                taints=(DEDICATED,) if number % 50 == 6 else (),
                domains=(f"zone-{rack % 4}", f"block-{rack % 32}", f"rack-{rack}"),
            )
        )
    return NodeTable(facts)


def gangs(count: int, lot: random.Random) -> list[WaitingRun]:
    """Return gangs of mixed shapes: most are small, some take many whole nodes, and there are about fifty kinds of
    members."""
    tolerations = (Toleration("team", "Equal", "vision"),)
    members = [WHOLE, MemberRequest(8_000, 64 * GIB, gpus=8, gpu_type="a100", whole_node=True)]
    for gpus in (1, 2, 4, 8):
        for gpu_type in ("", "h100", "a100"):
            members.append(MemberRequest(4_000 * gpus, 32 * GIB * gpus, gpus, gpu_type))
            members.append(MemberRequest(2_000 * gpus, 16 * GIB * gpus, gpus, gpu_type, tolerations=tolerations))
    for cores in (1, 4, 16, 48):
        for memory in (4, 32, 128):
            members.append(MemberRequest(1_000 * cores, memory * GIB))
            members.append(MemberRequest(1_000 * cores, memory * GIB, node_selector=(("disk", "nvme"),)))
    found = []
    for number in range(count):
        size = min(1 << int(lot.expovariate(0.7)), 512)
        gang = GangRequest(f"run-{number}", lot.choice(members), tuple(range(size)))
        found.append(WaitingRun(gang, lot.expovariate(1 / HOUR)))
    return found


def _occupied(table: NodeTable, part: float, lot: random.Random) -> tuple[Snapshot, list[Ending]]:
    """Return a cluster that runs whole-node gangs of one to sixteen members on this share of its nodes."""
    state, endings = Snapshot.empty(table), []
    rows = np.array(lot.sample(range(len(table)), int(part * len(table))), dtype=np.int64)
    at = 0
    while at < len(rows):
        mine = rows[at : at + lot.randint(1, 16)]
        at += len(mine)
        member = MemberRequest(4_000, 32 * GIB, whole_node=True)
        occupy_rows(state, member, mine)
        endings.append(Ending(member, mine, lot.expovariate(1 / (4 * HOUR))))
    return state, endings


def _large_gang(count: int, rounds: int) -> Measured:
    nodes = [
        NodeFacts(name, 96_000, 1024 * GIB, 8, 110, "h100", domains=(f"z{i // 2500}", f"b{i // 250}", f"r{i // 16}"))
        for i, name in enumerate(f"gpu-{number:05d}" for number in range(count))
    ]
    empty = Snapshot.empty(NodeTable(nodes))
    gang = GangRequest("all", WHOLE, tuple(range(count)))

    def work() -> None:
        assert isinstance(place(empty, gang), Placement)

    return _measure(rounds, work)


def _reservation(count: int, rounds: int) -> Measured:
    """Measure a cycle for one gang on a cluster with a run on every node. The runs end at different times, so the gang
    has to wait for the last one."""
    lot = random.Random(1)
    facts = [NodeFacts(f"gpu-{i:05d}", 96_000, 1024 * GIB, 8, 110, "h100") for i in range(count)]
    state = Snapshot.empty(NodeTable(facts))
    occupy_rows(state, WHOLE, np.arange(count))
    endings = [Ending(WHOLE, np.array([row]), lot.random() * HOUR) for row in range(count)]
    gang = WaitingRun(GangRequest("all", WHOLE, tuple(range(count))), HOUR)
    return _measure(rounds, lambda: schedule(state, [gang], endings, 0.0))


def _victims(nodes: int, gangs: int, wanted: int, rounds: int) -> Measured:
    """Measure the choice of victims among gangs of whole nodes and the same number of gangs that share each node with
    two others. Each gang would lose a different amount of work."""
    lot = random.Random(1)
    table = NodeTable([NodeFacts(f"gpu-{i:05d}", 96_000, 1024 * GIB, 8, 110, "h100") for i in range(nodes)])
    state, running = Snapshot.empty(table), list[RunningGang]()
    part = MemberRequest(4_000, 32 * GIB, gpus=2, gpu_type="h100")
    rows = np.array(lot.sample(range(nodes), nodes), dtype=np.int64)
    whole, shared = np.array_split(rows, 2)
    for member, of in (
        (WHOLE, np.array_split(whole, gangs // 2)),
        (part, np.array_split(np.repeat(shared, 3), gangs // 2)),
    ):
        for mine in of:
            occupy_rows(state, member, mine)
            key, unsaved = f"run-{len(running)}", lot.expovariate(1 / HOUR)
            running.append(RunningGang(key, "team", -100, True, member, mine, unsaved_seconds=unsaved))
    gang = GangRequest("urgent", WHOLE, tuple(range(wanted)))

    def work() -> None:
        assert choose_victims(state, gang, running)

    return _measure(rounds, work)


def _cycle(nodes: int, queued: int, part: float, rounds: int) -> Measured:
    """Order and plan one cycle."""
    lot = random.Random(2)
    table = cluster(nodes)
    state, endings = _occupied(table, part, lot)
    queue = gangs(queued, lot)
    queue = [
        replace(run, user=f"user-{i % 99}", queued_at=-lot.random() * 1e5, size=len(run.gang.ranks) / nodes)
        for i, run in enumerate(queue)
    ]
    users, teams = DecayedUsage(7 * 86_400.0), DecayedUsage(7 * 86_400.0)

    def work() -> Schedule:
        ranking = rank(queue, users, teams, OrderRules(), 0.0)
        return schedule(state, ranking.ordered(), endings, 0.0)

    return _measure(rounds, work)


if __name__ == "__main__":
    raise SystemExit(main())
