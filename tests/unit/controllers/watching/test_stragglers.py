"""The watcher for stragglers writes one Event about each of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs
from kajitori.controllers.watching.feed import Round
from kajitori.controllers.watching.stragglers import StragglerWatcher, _Watched
from kajitori.core.spec.reading.stored import read_stored
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.suspicions import SlowPlace
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.stragglers import Peers
from kajitori.kube.events import About, EventRecorder
from kajitori.kube.metadata import ObjectMeta

START = 1_999_999_980


class Setting:
    """A watcher, and the Events that it wrote."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str, str]] = []
        specs = SimpleNamespace(of=lambda run: read_stored(run.spec))
        self.woken: list[tuple[str, str]] = []
        self.watcher = StragglerWatcher(cast(StoredSpecs, specs), cast(EventRecorder, self), self.woken.append)

    def emit(self, about: About, kind: str, reason: str, message: str) -> None:
        self.said.append((about.name, kind, reason, message))

    async def see(self, run: RunObject, intervals: Sequence[Interval]) -> None:
        uid = run.metadata.uid
        until = intervals[-1].start + 60
        await self.watcher.watch(Round(until + 110.0, until, {uid: run}, {uid: intervals}))


def run_of(attempt: int = 1, **spec: Any) -> RunObject:
    status = RunStatus(phase=Phase.RUNNING, attempts=attempt, attempt=Attempt(number=attempt, nodes="n[0-7]"))
    meta = ObjectMeta(name="bert", namespace="vision", uid="u")
    return RunObject(metadata=meta, spec=msgspec.Raw(msgspec.json.encode({"image": "x", **spec})), status=status)


def minutes(first: int, count: int, rank: int = 5, attempt: int = 1) -> list[Interval]:
    """Return minutes in which one rank works while seven wait."""
    bands = {"cpu.used": Band(8, 0.49, 0.49, 0.5, 0.64, 0.95, Place(0), Place(rank))}
    return [Interval("u", attempt, 60, START + 60 * (first + number), 8, bands) for number in range(count)]


async def test_each_straggler_of_an_attempt_has_one_event() -> None:
    setting = Setting()
    await setting.see(run_of(), minutes(0, 11))
    assert setting.said == [], "it must persist"
    for number in range(11, 40):
        await setting.see(run_of(), minutes(number, 1))
    ((name, kind, reason, message),) = setting.said
    assert (name, kind, reason) == ("bert", "Warning", "Straggler")
    assert message.startswith("Rank 5 on n5 has been slower than its peers since 2033-05-18T03:33:00Z: ")
    await setting.see(run_of(), minutes(40, 15, rank=2))
    assert [each[3][:12] for each in setting.said] == ["Rank 5 on n5", "Rank 2 on n2"]
    await setting.see(run_of(2), [*minutes(55, 15), *minutes(70, 11, attempt=2)])
    assert len(setting.said) == 2, "minutes of the attempt before say nothing of this one"
    await setting.see(run_of(2), minutes(81, 1, attempt=2))
    assert len(setting.said) == 3, "another attempt is another finding"


async def test_members_that_work_alone_have_no_straggler() -> None:
    setting = Setting()
    await setting.see(run_of(type="service"), minutes(0, 30))
    await setting.see(run_of(array="0-7"), minutes(0, 30))
    assert setting.said == []
    await setting.see(run_of(), minutes(0, 30))
    assert len(setting.said) == 1


async def test_a_run_that_ended_is_forgotten() -> None:
    setting = Setting()
    await setting.see(run_of(), minutes(0, 30))
    await setting.watcher.watch(Round(START, START, {}, {}))
    await setting.see(run_of(), minutes(0, 30))
    assert len(setting.said) == 2


async def test_the_status_records_each_straggler_once() -> None:
    """The next leader finds it in the status, and tells it no more."""
    setting, run = Setting(), run_of()
    assert setting.watcher.noted(run, run.current_status) is run.current_status
    await setting.see(run, minutes(0, 12))
    assert setting.woken == [("vision", "bert")]
    status = setting.watcher.noted(run, run.current_status)
    (slow,) = status.slow
    assert (slow.attempt, slow.node, slow.ranks, slow.sign) == (1, "n5", "5", "cpu.used")
    assert (slow.at, slow.message) == ("2033-05-18T03:45:00Z", setting.said[0][3])
    assert setting.watcher.noted(run, status) is status
    later = run_of(2)
    assert setting.watcher.noted(later, later.current_status) is later.current_status, "it was another attempt"
    next_leader = Setting()
    run = msgspec.structs.replace(run, status=status)
    await next_leader.see(run, minutes(0, 12))
    assert (next_leader.said, next_leader.woken) == ([], [])
    assert next_leader.watcher.noted(run, status) is status
    await next_leader.see(run, minutes(12, 15, rank=2))
    assert [each.ranks for each in next_leader.watcher.noted(run, status).slow] == ["5", "2"]


def test_a_status_keeps_the_latest_stragglers() -> None:
    setting, run = Setting(), run_of()
    places = [SlowPlace(attempt=1, node="n1", ranks=str(n), at="2033-05-18T03:45:00Z", sign="x") for n in range(9)]
    setting.watcher._known["u"] = _Watched(1, Peers({}), places)
    assert [each.ranks for each in setting.watcher.noted(run, run.current_status).slow] == [*"12345678"]
