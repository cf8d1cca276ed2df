"""History is told about runs, again after every failure, and before the object of a run goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest
from tests.helpers.memory_blobs import MemoryBlobs
from tests.helpers.scenes.gangs import NOW

from kajitori.blobs.history_outbox import HistoryOutbox
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.controllers.records import history as keeping
from kajitori.controllers.records import upkeep
from kajitori.controllers.records.history import HistoryKeeper
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import Preempted, PreemptedBy
from kajitori.core.spec.status_parts.usage import Holding, Segment, Usage, UsageTotal
from kajitori.core.usage.records import RunRecord
from kajitori.core.usage.sums import By, Prices
from kajitori.history.audit import AuditFilter
from kajitori.history.runs import RunFilter
from kajitori.history.store import History
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import Resource

NOON = "2026-11-21T12:00:00Z"
LATER = "2026-11-21T12:01:00Z"


class Shown:
    """The part of a mirror that the keeper uses."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], RunObject] = {}
        self._told: list[Callable[[Resource, str, str], None]] = []

    def on_change(self, told: Callable[[Resource, str, str], None]) -> Callable[[], None]:
        self._told.append(told)
        return lambda: self._told.remove(told)

    async def wait_synced(self) -> None:
        """It always is."""

    async def wait_fresh(self) -> None:
        """It always is."""

    def show(self, run: RunObject) -> None:
        self.runs["team", run.metadata.name] = run
        self._tell(run.metadata.name)

    def remove(self, name: str) -> None:
        del self.runs["team", name]
        self._tell(name)

    def _tell(self, name: str) -> None:
        for told in self._told:
            told(RUNS, "team", name)


def run(status: RunStatus | None = None, uid: str = "u1") -> RunObject:
    meta = ObjectMeta(name="bert", namespace="team", uid=uid, creation_timestamp=NOON, resource_version="5")
    return RunObject(metadata=meta, spec=msgspec.Raw(b'{"image": "x", "replicas": 2}'), status=status)


def held(*, closed: bool) -> Usage:
    """Two members that held a node for a minute, or that hold it still."""
    part: dict[str, Any] = {"attempt": 1, "ranks": "0-1", "nodes": "n[1-2]", "since": NOON, "gpus": 8}
    if not closed:
        return Usage(first=10, open=[Holding(**part)])
    total = UsageTotal(gpus=8, member_seconds=120)
    return Usage(first=10, last=10, closed=[Segment(id=10, until=LATER, **part)], totals=[total])


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    made = History(f"sqlite://{tmp_path}/history.db")
    await made.open()  # the tables need an import of seconds on a busy machine
    yield made
    await made.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GATHER_SECONDS", "FIRST_PAUSE_SECONDS", "OUTBOX_SECONDS"):
        monkeypatch.setattr(keeping, name, 0.001)


@asynccontextmanager
async def at_work(keeper: HistoryKeeper) -> AsyncIterator[None]:
    working = asyncio.create_task(keeper.follow())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def keeper_of(shown: Shown, history: History, outbox: HistoryOutbox | None = None) -> HistoryKeeper:
    return HistoryKeeper(history, cast(Mirror, shown), now=lambda: NOW, outbox=outbox)


T = TypeVar("T")


async def until(ask: Callable[[], Awaitable[T]], is_wanted: Callable[[T], bool]) -> T:
    """Ask until the answer is as wanted; the keeper and the database have threads of their own."""
    async with asyncio.timeout(10):
        while not is_wanted(answer := await ask()):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return answer


async def only_run(history: History, is_wanted: Callable[[RunRecord], bool]) -> RunRecord:
    """Wait until history has one run, and that is as wanted."""
    (found,) = await until(lambda: history.runs(RunFilter(), 2), lambda runs: bool(runs) and is_wanted(runs[0]))
    return found


async def used(history: History) -> int:
    sums = await history.usage(By.TEAM, 0, 2**40, Prices(gpu={}))
    return sum(each.member_seconds for each in sums.values())


async def test_a_run_that_was_created_and_not_started_is_not_in_history(history: History) -> None:
    """Neither before its controller has seen it, nor after, nor when it is removed."""
    shown = Shown()
    keeper = HistoryKeeper(history, cast(Mirror, shown), now=lambda: NOW)
    new = run()
    new = msgspec.structs.replace(
        new, metadata=msgspec.structs.replace(new.metadata, generation=1), spec=msgspec.Raw(b'{"stopped": true}')
    )
    status = RunStatus(phase=Phase.STOPPED, reason=Reason.NOT_STARTED, finished_at=NOON)
    seen = msgspec.structs.replace(new, status=status)
    async with at_work(keeper):
        for one in (new, seen):
            shown.show(one)
            async with asyncio.timeout(60):
                while not keeper.is_current:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        assert await keeper.keep_end(seen, status, removed=True)
    assert not await history.runs(RunFilter(), 2)


async def test_what_the_mirror_shows_is_told(history: History) -> None:
    """At the start, at each change of phase, and with the segments that were closed; a new leader tells it again."""
    shown = Shown()
    shown.show(run(RunStatus(phase=Phase.RUNNING, usage=held(closed=False))))
    keeper = keeper_of(shown, history)
    async with at_work(keeper):
        await only_run(history, lambda found: found.phase == "Running")
        ended = RunStatus(phase=Phase.SUCCEEDED, usage=held(closed=True), finished_at=LATER)
        shown.show(run(ended))
        found = await only_run(history, lambda found: found.phase == "Succeeded")
        assert (found.members, found.removed_at, await used(history)) == (2, None, 120)
        await until(lambda: asyncio.sleep(0, keeper.confirmed(run(ended))), lambda number: number == 10)
    async with at_work(keeper_of(shown, history)):
        await asyncio.sleep(0.05)
    assert await used(history) == 120


async def test_a_run_that_is_deleted_keeps_how_it_ended(history: History) -> None:
    """The object goes away only after that; nothing is told about it afterwards."""
    shown, ended = Shown(), run(RunStatus(phase=Phase.FAILED, reason=Reason.PROGRAM_FAILED, usage=held(closed=True)))
    shown.show(ended)
    keeper = keeper_of(shown, history)
    async with at_work(keeper):
        assert ended.status is not None
        assert await keeper.keep_end(ended, ended.status, removed=True, rule="deleted")
        shown.show(ended)
        shown.remove("bert")
        await asyncio.sleep(0.02)
    found = await only_run(history, lambda found: found.removed_at is not None)
    assert (found.phase, found.reason, await used(history)) == ("Failed", "ProgramFailed", 120)
    assert [entry.rule for _, entry in await history.audit(AuditFilter(), 5)] == ["deleted"]


async def test_a_run_whose_finalizer_was_taken_away_holds_nothing_any_more(history: History) -> None:
    """What it held until then counts, once."""
    shown = Shown()
    shown.show(run(RunStatus(phase=Phase.RUNNING, usage=held(closed=False))))
    async with at_work(keeper_of(shown, history)):
        await only_run(history, lambda found: found.phase == "Running")
        shown.remove("bert")
        found = await only_run(history, lambda found: found.removed_at is not None)
    assert (found.phase, found.reason) == ("Stopped", "Deleting")


async def test_a_run_that_disappeared_while_nobody_looked_is_marked(history: History) -> None:
    """A new leader compares history with what is there."""
    shown = Shown()
    shown.show(run(RunStatus(phase=Phase.RUNNING)))
    async with at_work(keeper_of(shown, history)):
        await only_run(history, lambda found: found.phase == "Running")
    async with at_work(keeper_of(Shown(), history)):
        found = await only_run(history, lambda found: found.removed_at is not None)
    assert found.phase == "Stopped"


async def test_a_removal_waits_for_the_database_and_then_for_the_outbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it does not answer, the object stays; after half a minute the record waits in the outbox instead, from
    which the next keeper takes it."""
    down = History(f"postgresql://kaji@/none?host={tmp_path}")
    ended, blobs = run(RunStatus(phase=Phase.FAILED, usage=held(closed=True))), MemoryBlobs()
    assert ended.status is not None
    lonely = keeper_of(Shown(), down)
    assert not await lonely.keep_end(ended, ended.status, removed=True)
    assert "is not available" in lonely.describe_wait()
    keeper = keeper_of(Shown(), down, HistoryOutbox(blobs))
    assert not await keeper.keep_end(ended, ended.status, removed=True)
    monkeypatch.setattr(keeping, "OUTBOX_AFTER_SECONDS", 0.0)
    assert not await keeper.keep_end(ended, ended.status, removed=False)
    assert await keeper.keep_end(ended, ended.status, removed=True)
    back = History(f"sqlite://{tmp_path}/history.db")
    await back.open()
    async with at_work(keeper_of(Shown(), back, HistoryOutbox(blobs))):
        found = await only_run(back, lambda found: found.removed_at is not None)
    assert (found.phase, await used(back)) == ("Failed", 120)
    assert [each async for each in HistoryOutbox(blobs).waiting()] == []
    await back.close()


async def test_decisions_of_the_controller_are_noted_once(history: History) -> None:
    """A preemption, with the rule behind it."""
    asked = PreemptedBy(by="nlp/gpt", uid="u9", attempts=1, who="nlp/gpt (high, of bob)", since=NOON)
    shown = Shown()
    shown.show(run(RunStatus(phase=Phase.RUNNING, preemption=Preempted.of([asked]))))
    for _ in range(2):
        async with at_work(keeper_of(shown, history)):
            entries = await until(lambda: history.audit(AuditFilter(), 5), bool)
            await asyncio.sleep(0.02)
    ((_, entry),) = entries
    assert (entry.action, entry.rule, entry.message) == ("preempt run", "priority", "for nlp/gpt (high, of bob)")


async def test_history_is_kept_in_shape_while_runs_are_told(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Usage is summed up by day, runs older than policy keeps them leave, and how current history is is noted."""
    monkeypatch.setattr(upkeep, "UPKEEP_SECONDS", 0.001)
    monkeypatch.setattr(upkeep, "REST_SECONDS", 0)
    shown = Shown()
    shown.show(run(RunStatus(phase=Phase.SUCCEEDED, usage=held(closed=True), finished_at=LATER)))
    keeper = keeper_of(shown, history)
    keep_for: list[int | None] = [None]
    later = NOW + timedelta(days=40)
    work = upkeep.keep_up_forever(history, keeper, lambda: later, lambda: keep_for[0])
    assert await history.current_at() == 0
    async with at_work(keeper):
        keeping_up = asyncio.create_task(work)
        await until(history.current_at, lambda at: at == later.timestamp() * 1000)
        shown.remove("bert")
        await only_run(history, lambda found: found.removed_at is not None)
        monkeypatch.setattr(upkeep, "EXPIRE_SECONDS", 0)
        keep_for[0] = 30 * 86400
        await until(lambda: history.runs(RunFilter(), 2), lambda runs: not runs)
        keeping_up.cancel()
        await asyncio.gather(keeping_up, return_exceptions=True)
    assert await used(history) == 120
