"""Cost of explaining why runs wait: briefly for all of them in every cycle, and exactly for one.

python -m bench.scheduling.explain
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.scheduling.planner import GIB, HOUR, NODES, QUEUED, cluster, gangs
from kajitori.core.placement.planner import GangRequest, MemberRequest, occupy_rows
from kajitori.core.placement.releases import Ending
from kajitori.core.placement.snapshot import NodeTable, Snapshot
from kajitori.core.queue.backfill.schedule import schedule
from kajitori.core.queue.explain import Explainer, Use
from kajitori.core.queue.freeing import Occupant, Simulation, to_free
from kajitori.core.queue.waiting import WaitingRun
from kajitori.core.queue.what_if import ask

ANSWER_SECONDS = 0.5
"""Seconds that the Web API gives to each part of an answer (`kajitori.api.queue.state`)."""

HOLDER = MemberRequest(4_000, 32 * GIB, whole_node=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    options = parser.parse_args(arguments)
    lot = random.Random(3)
    table = cluster(NODES)
    full = _situation(table, gangs(QUEUED, lot), lot, members=16)
    crowded = _situation(table, [], lot, members=1)
    mine = WaitingRun(GangRequest("mine", MemberRequest(1_000, GIB, whole_node=True), tuple(range(NODES // 10))), HOUR)
    h100 = int(table.type_mask("h100").sum())
    huge = WaitingRun(
        GangRequest("huge", MemberRequest(1_000, GIB, 8, "h100", whole_node=True), tuple(range(h100))), HOUR
    )
    seconds = {
        "cycle": _measure(options.rounds, lambda: _tell_all(full, tell=False)),
        "told": _measure(options.rounds, lambda: _tell_all(full, tell=True)),
        "exact": _measure(options.rounds, lambda: _ask(crowded, huge)),
        "first": _measure(options.rounds, lambda: ask(_with(full, mine, 0), "mine", _watch)),
        "behind 100": _measure(options.rounds, lambda: ask(_with(full, mine, 100), "mine", _watch)),
        "behind all": _measure(options.rounds, lambda: ask(_with(full, mine, QUEUED), "mine", _watch)),
    }
    print_table(
        f"{NODES:,} nodes, nine tenths in use, {QUEUED:,} queued",
        ("", "seconds"),
        [
            ("a cycle", f"{seconds['cycle']:.2f}"),
            ("a cycle, and words for all that wait", f"{seconds['told']:.2f}"),
            (f"exactly what {h100:,} whole nodes lack, each of another run", f"{seconds['exact']:.2f}"),
            ("all about the first of the queue", f"{seconds['first']:.2f}"),
            ("all about who is behind 100", f"{seconds['behind 100']:.2f}"),
            (f"all about who is behind {QUEUED:,}", f"{seconds['behind all']:.2f}"),
        ],
    )
    return print_limits(
        [
            Limit("a cycle, and words for all that wait", seconds["told"], most=1, unit=" s"),
            Limit("exactly what the largest gang lacks", seconds["exact"], most=2, unit=" s"),
            Limit("all about who is behind 100", seconds["behind 100"], most=5, unit=" s"),
            Limit("all about who is behind all", seconds["behind all"], most=5, unit=" s"),
        ]
    )


def _measure(rounds: int, work: Callable[[], object]) -> float:
    """Measure processor seconds, because other work on the machine must not count."""
    took = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took)


def _watch() -> Callable[[], bool]:
    until = time.process_time() + ANSWER_SECONDS
    return lambda: time.process_time() < until


def _situation(table: NodeTable, queue: Sequence[WaitingRun], lot: random.Random, *, members: int) -> Simulation:
    """Fill nine tenths of the cluster with runs of at most this many whole nodes."""
    state, occupants = Snapshot.empty(table), []
    rows = np.array(lot.sample(range(len(table)), int(0.9 * len(table))), dtype=np.int64)
    at = 0
    while at < len(rows):
        mine = rows[at : at + lot.randint(1, members)]
        at += len(mine)
        occupy_rows(state, HOLDER, mine)
        ending = Ending(HOLDER, mine, lot.expovariate(1 / (4 * HOUR)))
        amounts = np.repeat(HOLDER.amounts(table)[None, :], len(mine), axis=0)
        occupants.append(Occupant(f"team/{at}", mine, amounts, np.ones(len(mine), dtype=bool), endings=(ending,)))
    return Simulation(state, queue, occupants)


def _with(situation: Simulation, mine: WaitingRun, place: int) -> Simulation:
    queue = [*situation.queue[:place], mine, *situation.queue[place:]]
    return Simulation(situation.snapshot, queue, situation.occupants)


def _ask(situation: Simulation, queued: WaitingRun) -> None:
    found = to_free(_with(situation, queued, 0), queued.gang.key)
    assert found is not None and found.least and len(found.steps) > 1_000


def _tell_all(situation: Simulation, *, tell: bool) -> None:
    """Do what the controller does in a cycle if no run has an explanation yet."""
    found = schedule(situation.snapshot, situation.queue, situation.endings, 0.0)
    if not tell:
        return
    by_key = {queued.gang.key: queued.gang for queued in situation.queue}
    on: dict[str, list[Use]] = {}
    for occupant in situation.occupants:
        for row in occupant.rows.tolist():
            name = situation.snapshot.table.nodes[row].name
            on.setdefault(name, []).append(Use(name, occupant.key, "ada", True, 4_000, 32 * GIB))

    def uses(node: str) -> Iterable[Use]:
        return on.get(node, ())

    explainer = Explainer(situation.snapshot, uses)
    for shortage in found.shortages:
        gang = by_key[shortage.key]
        explainer.reason(gang, shortage)
        assert explainer.explain(gang, shortage).message


if __name__ == "__main__":
    raise SystemExit(main())
