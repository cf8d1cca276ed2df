"""History with a million runs and entries of the audit trail: how fast it is written, and how long lists and sums take.

python -m bench.state.history
"""

from __future__ import annotations

import asyncio
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import asyncpg

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from kajitori.core.usage.daily import TimeLevel
from kajitori.core.usage.records import AuditEntry, RunRecord, RunState, SegmentRecord
from kajitori.core.usage.sums import By, Prices
from kajitori.history.audit import AuditFilter
from kajitori.history.runs import RunFilter
from kajitori.history.store import History

START = 1_760_000_000
TOGETHER = 200
"""Runs in one transaction, as the controller writes them."""
LOADED = 5_000
"""Runs in one transaction before the measurement begins."""
MEASURED = 10_000
"""Number of runs that are written at the controller's pace, after all others were written."""
LIST_MS = 100.0
NAMESPACES, OWNERS = 40, 300
DOCUMENT = b'{"metadata": {"labels": {}}, "spec": {"image": "registry/bert:3", "command": ["python", "train.py"]}}' * 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Write runs, then measure lists and sums; the exit code tells whether each kept its limit."""
    parser = option_parser(__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--database", help="URL of an empty database; by default a file in a temporary folder")
    parser.add_argument("--rounds", type=int, default=7, help="of which the median counts")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        url = options.database or f"sqlite://{folder}/history.db"
        return asyncio.run(_measure(url, options.runs, options.rounds))


async def _measure(url: str, runs: int, rounds: int) -> int:
    history = History(url)
    made, measured = _runs(runs), min(MEASURED, runs)
    for part in iter(lambda: list(islice(made, LOADED)), []):
        await history.record(part)
    again, began = _runs(measured, first=runs), time.perf_counter()
    for part in iter(lambda: list(islice(again, TOGETHER)), []):
        await history.record(part)
    writes = measured / (time.perf_counter() - began)
    runs += measured
    entries = _entries(runs)
    for some_entries in iter(lambda: list(islice(entries, LOADED)), []):
        await history.note(some_entries)
    began = time.perf_counter()
    while await history.sum_up():
        pass
    summed = runs / (time.perf_counter() - began)
    began = time.perf_counter()
    while await history.divide(START * 2):
        pass
    divided = runs / (time.perf_counter() - began)
    if url.startswith("postgresql"):
        await _vacuum(url)
    some = frozenset(f"team-{number}" for number in range(0, NAMESPACES, 2))
    month = START + runs * 30 - 30 * 86400
    lists: dict[str, Callable[[], Awaitable[Any]]] = {
        "newest": lambda: history.runs(RunFilter(), 100),
        "of one namespace": lambda: history.runs(RunFilter(namespaces={"team-3"}), 100),
        "of half of the namespaces": lambda: history.runs(RunFilter(namespaces=some), 100),
        "of a user": lambda: history.runs(RunFilter(owner="user-7"), 100),
        "of a user in half of the namespaces": lambda: history.runs(RunFilter(owner="user-7", namespaces=some), 100),
        "failed, of half of the namespaces": lambda: history.runs(RunFilter(namespaces=some, phases=("Failed",)), 100),
        "rare phase": lambda: history.runs(RunFilter(phases=("Stopped",)), 100),
        "by name": lambda: history.runs(RunFilter(name="run-77777"), 100),
        "by a beginning of many old names": lambda: history.runs(RunFilter(name="run-2"), 100),
        "by a beginning of many old names, of half of the namespaces": lambda: history.runs(
            RunFilter(name="run-2", namespaces=some), 100
        ),
        "by a beginning of all names": lambda: history.runs(RunFilter(name="run-"), 100),
        "by a beginning of many names": lambda: history.runs(RunFilter(name="run-1"), 100),
        "a page in the middle": lambda: history.runs(RunFilter(), 100, (START + runs * 15, "")),
        "one run by name": lambda: history.run("team-3", "run-43"),
        "audit trail: newest": lambda: history.audit(AuditFilter(), 100),
        "audit trail: of a user in half of the namespaces": lambda: history.audit(
            AuditFilter(actor="user-7", namespaces=some), 100
        ),
        "audit trail: of an old object": lambda: history.audit(AuditFilter(object="run run-5"), 100),
        "audit trail: of an old object in half of the namespaces": lambda: history.audit(
            AuditFilter(object="run run-5", namespaces=some), 100
        ),
        "audit trail: refused, in half of the namespaces": lambda: history.audit(
            AuditFilter(outcome="refused", namespaces=some), 100
        ),
    }
    sums: dict[str, Callable[[], Awaitable[Any]]] = {
        "usage by team, 30 days": lambda: history.usage(By.TEAM, month, START * 2, Prices(gpu={})),
        "usage by team, all": lambda: history.usage(By.TEAM, 0, START * 2, Prices(gpu={})),
        "usage by owner, all": lambda: history.usage(By.OWNER, 0, START * 2, Prices(gpu={})),
        "usage by type, all": lambda: history.usage(By.TYPE, 0, START * 2, Prices(gpu={})),
        "usage by day, 30 days": lambda: history.usage(By.DAY, month, month + 30 * 86_400, Prices(gpu={})),
        "usage of half of the namespaces by owner, all": lambda: history.usage(
            By.OWNER, 0, START * 2, Prices(gpu={}), namespaces=some
        ),
        "usage of a user by team, all but some hours": lambda: history.usage(
            By.TEAM, START + 30_000, START * 2, Prices(gpu={}), owner="user-7"
        ),
        "lost time by cause or team, 30 days": lambda: history.times(TimeLevel.TEAM, month, START * 2, None),
        "lost time of a team by owner, 30 days": lambda: history.times(TimeLevel.OWNER, month, START * 2, {"team-3"}),
    }
    long_sums: dict[str, Callable[[], Awaitable[Any]]] = {
        "usage by hour, 8 days": lambda: history.usage(By.HOUR, month, month + 8 * 86_400, Prices(gpu={})),
        "usage by node, 30 days": lambda: history.usage(By.NODE, month, START * 2, Prices(gpu={})),
        "lost time by owner, 30 days": lambda: history.times(TimeLevel.OWNER, month, START * 2, None),
        "lost time by node, 30 days": lambda: history.times(TimeLevel.NODE, month, START * 2, None),
        "usage by run, 30 days": lambda: history.usage(By.RUN, month, START * 2, Prices(gpu={})),
    }
    taken = {name: await _milliseconds(ask, rounds) for name, ask in (lists | sums | long_sums).items()}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    await history.close()
    print_table(
        f"{runs:,} runs in {url.partition(':')[0]}: {writes:,.0f} written and "
        f"{summed:,.0f} summed up and {divided:,.0f} divided by cause per second; largest memory {memory} MiB",
        ("", "ms"),
        [(name, f"{value:.1f}") for name, value in taken.items()],
    )
    limits = [Limit(name, taken[name], most=LIST_MS, unit=" ms") for name in lists | sums]
    return print_limits([*limits, Limit("memory", float(memory), most=400, unit=" MiB")])


async def _vacuum(url: str) -> None:
    """Vacuum the tables, as PostgreSQL does by itself within minutes after many changes."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def _milliseconds(ask: Callable[[], Awaitable[Any]], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        await ask()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _entries(count: int) -> Iterator[AuditEntry]:
    """Yield synthetic entries of the audit trail, three of each object, one every half minute; few are refused."""
    lot = random.Random(3)
    for number in range(count):
        yield AuditEntry(
            key=str(number),
            at=(START + number * 30) * 1000,
            actor=f"user-{lot.randrange(OWNERS)}",
            source="10.0.0.1",
            action="stop run",
            namespace=f"team-{number // 3 % NAMESPACES}",
            object=f"run run-{number // 3}",
            outcome="refused" if number % 9_973 == 0 else "done",
            rule="",
            message="",
        )


def _runs(count: int, first: int = 0) -> Iterator[RunState]:
    """Yield synthetic runs of several teams and users, one every half minute, each with its usage."""
    lot = random.Random(5)
    for number in range(first, first + count):
        created, seconds = START + number * 30, lot.randrange(60, 86400)
        phase = "Stopped" if number % 9_973 == 0 else lot.choice(("Succeeded", "Succeeded", "Succeeded", "Failed"))
        record = RunRecord(
            uid=f"{number:08x}-4f3a-4c7e-9a51-{lot.getrandbits(48):012x}",
            namespace=f"team-{number % NAMESPACES}",
            name=f"run-{number}",
            owner=f"user-{lot.randrange(OWNERS)}",
            type="batch",
            phase=phase,
            reason="",
            created_at=created,
            started_at=created,
            ended_at=created + seconds,
            removed_at=created + 90 * 86400,
            members=4,
            gpus=32,
            attempts=1,
            seen_at=created * 1000,
            document=DOCUMENT,
        )
        node = lot.randrange(7000)
        held = SegmentRecord(
            id=created * 1000,
            attempt=1,
            members=4,
            since=created,
            until=created + seconds,
            nodes=f"gpu-[{node:05}-{node + 3:05}]",
            gpu_type="h100",
            gpus=8,
            cpu_millis=32_000,
            memory_bytes=2**36,
            started=created + 30,
            ended=created + seconds - 10 if phase == "Failed" else None,
            cause=lot.choice(("ProgramFailed", "NodeLost", "Preempted")) if phase == "Failed" else "",
            culprit=f"gpu-{node:05}" if phase == "Failed" else "",
            saves_every=3600,
            counts=int(phase == "Failed"),
        )
        yield RunState(run=record, segments=(held,), ledger=created * 1000, last=created * 1000)


if __name__ == "__main__":
    raise SystemExit(main())
