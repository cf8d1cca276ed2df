"""Looks for differences at fresh seeds: `python -m tests.helpers.differential.explore FIRST COUNT`.

Prints each kind of difference once, with the shortest sequence that shows it, and the share of identical sequences.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.helpers.differential import recorded
from tests.helpers.differential.generate import fences, sequence
from tests.helpers.differential.lockstep import Difference, Pair, smallest
from tests.helpers.differential.operations import Operation
from tests.helpers.differential.servers import pair_of, real_server

LENGTH = 25
_AT_ONCE = 4
"""Sequences share nothing; together they hide the pauses that a real server's caches need."""


@dataclass
class Findings:
    """The results of the seeds so far."""

    same: list[int] = field(default_factory=list)
    once: list[int] = field(default_factory=list)
    """Seeds that differed at first but not when repeated, because the real server's caches were behind."""
    different: dict[int, str] = field(default_factory=dict)
    """Seeds, and the kind of the first difference."""

    def __str__(self) -> str:
        tried = len(self.same) + len(self.once) + len(self.different)
        alike = len(self.same) + len(self.once)
        again = f", of these {len(self.once)} at the second try: {self.once}" if self.once else ""
        return (
            f"identical: {alike} of {tried} ({100 * alike / max(1, tried):.1f} %){again}\n"
            f"different: {sorted(self.different)}\nthe same at once: {sorted(self.same)}"
        )


async def explore(seeds: Iterator[int], *, shrink: bool, record: Path | None) -> Findings:
    """Tries every seed, a few at a time."""
    findings = Findings()
    with real_server() as real:
        async with pair_of(real) as pair, asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(_try_all(pair, seeds, findings, shrink=shrink, record=record))
    return findings


async def asked_again(cases: list[recorded.Case]) -> list[recorded.Case]:
    """Recorded sequences with what a real server answers now, as is needed after a change of what is compared."""
    found = []
    with real_server() as real:
        async with pair_of(real) as pair:
            for case in cases:
                answer = await pair.really(
                    case.operations, fences(), prefix=case.prefix, index=case.index, watched=case.watched
                )
                found.append(replace(case, really=answer))
    return found


async def _try_all(pair: Pair, seeds: Iterator[int], findings: Findings, *, shrink: bool, record: Path | None) -> None:
    for seed in seeds:
        operations = sequence(seed, LENGTH)
        if not await _compared(pair, operations):
            findings.same.append(seed)
            continue
        again = await _compared(pair, operations)
        if not again:
            findings.once.append(seed)
            continue
        difference, kept = again[0], operations[: again[0].index + 1]
        known = difference.signature in findings.different.values()
        findings.different[seed] = difference.signature
        if shrink and not known:
            kept, difference = await smallest(pair, operations, fences(), difference)
            if record is not None:
                recorded.append(record, recorded.Case.of(seed, kept, difference))
        after = "" if known else "\n  after\n" + "\n".join(f"    {one}" for one in kept)
        print(f"seed {seed}: {difference}{after}\n", flush=True)


async def _compared(pair: Pair, operations: list[Operation]) -> list[Difference]:
    try:
        return await pair.run(operations, fences())
    except ConnectionError as error:
        print(f"{error}, tried again\n", flush=True)
        return await pair.run(operations, fences())


def main() -> int:
    """0 if every sequence was identical."""
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.differential.explore", description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument("count", type=int, nargs="?", default=0, help="how many seeds")
    parser.add_argument("--no-shrink", action="store_true", help="show sequences as they are")
    parser.add_argument("--record", type=Path, help="add the shortest sequences to this file of cases")
    parser.add_argument("--refresh", type=Path, help="ask a real server the cases of this file again, nothing else")
    arguments = parser.parse_args()
    if arguments.refresh is not None:
        cases = asyncio.run(asked_again(recorded.load(arguments.refresh)))
        arguments.refresh.unlink()
        for case in cases:
            recorded.append(arguments.refresh, case)
        return 0
    seeds = iter(range(arguments.first, arguments.first + arguments.count))
    findings = asyncio.run(explore(seeds, shrink=not arguments.no_shrink, record=arguments.record))
    print(findings)
    return 1 if findings.different else 0


if __name__ == "__main__":
    sys.exit(main())
