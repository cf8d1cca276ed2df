"""Suspicions: from telemetry to the Run's status and back, and over a change of the leader."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs
from kajitori.controllers.watching.feed import Round
from kajitori.controllers.watching.stuck import LOOK_AGAIN_SECONDS, UNSEEN_AGAIN_SECONDS, Inspection, StuckWatcher
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.policy.file import Policy
from kajitori.core.spec.reading.stored import read_stored
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.core.spec.status_parts.suspicions import Stuck
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.stuck import Finding
from kajitori.errors import Unavailable
from kajitori.kube.metadata import ObjectMeta

START = 1_999_999_980
TRAINS, WAITS = 5.0, 4000.0
"""Age of the last output in a minute with progress, and in one without."""


@dataclass
class Looks:
    """Stands for evidence: says what was put in."""

    says: Inspection | Exception = field(default_factory=lambda: Inspection(None))
    count: int = 0

    async def of_suspected(self, run: RunObject, attempt: int, finding: Finding) -> Inspection:
        self.count += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Setting:
    """A watcher and one run. The run's status is written whenever the watcher reports a change."""

    def __init__(self, spec: dict[str, Any] | None = None, looks: Looks | None = None) -> None:
        self.spec = {"image": "x", **(spec or {})}
        self.looks = looks or Looks()
        self.status = RunStatus(phase=Phase.RUNNING, attempts=1, attempt=Attempt(number=1, nodes="n[0-1]"))
        self.minutes = 0
        self.late_seconds = 0
        """Age of a minute when it is handed out."""
        self.told: list[Any] = []
        self.begin()

    def begin(self) -> None:
        """Begin with another leader."""
        self.watcher = StuckWatcher(
            cast(StoredSpecs, SimpleNamespace(of=lambda run: read_stored(run.spec))),
            Policy,
            self.told.append,
            self.looks,
            lambda: datetime.fromtimestamp(START + 60 * self.minutes + self.late_seconds, UTC),
        )

    @property
    def run(self) -> RunObject:
        meta = ObjectMeta(name="bert", namespace="vision", uid="u")
        return RunObject(metadata=meta, spec=msgspec.Raw(msgspec.json.encode(self.spec)), status=self.status)

    async def pass_minutes(self, *ages: float, attempt: int = 1) -> None:
        """Let minutes pass with these ages of the last output, and write the status after each."""
        for age in ages:
            each = minute(self.minutes, age, attempt)
            self.minutes += 1
            await self.show([each])

    async def show(self, intervals: list[Interval]) -> None:
        await self.watcher.watch(
            Round(START + 60.0 * self.minutes, START + 60 * self.minutes, {"u": self.run}, {"u": intervals})
        )
        for _ in range(4):  # a look is a task
            await asyncio.sleep(0)
        self.status = self.watcher.noted(self.run, self.status)

    @property
    def stuck(self) -> Stuck:
        assert self.status.stuck is not None
        return self.status.stuck


def minute(number: int, age: float, attempt: int = 1) -> Interval:
    """Return a minute with this age of the last output."""
    band = Band(2, age, age, age, age, age, Place(0), Place(1))
    return Interval("u", attempt, 60, START + 60 * number, 2, {"output.age": band})


def at(number: int) -> str:
    return format_time(time_at(START + 60 * number))


async def test_a_quiet_run_is_suspected_until_it_makes_progress() -> None:
    setting = Setting()
    await setting.pass_minutes(*30 * [TRAINS], *9 * [WAITS])
    assert (setting.status.stuck, setting.told, setting.looks.count) == (None, [], 0)
    await setting.pass_minutes(WAITS)
    assert (setting.stuck.since, setting.stuck.verdict, setting.stuck.attempt) == (at(30), "suspected", 1)
    assert setting.stuck.message.startswith("It may be stuck: no rank has shown progress for 10m")
    assert ("vision", "bert") in setting.told
    await setting.pass_minutes(TRAINS)
    assert setting.status.stuck is None


async def test_a_run_is_stuck_once_its_processes_were_seen_to_stand_still() -> None:
    setting = Setting(looks=Looks(Inspection(True, ("The others seem to wait for rank 1 on n1.",), (1,))))
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    assert (setting.stuck.verdict, setting.stuck.ranks, setting.stuck.looked_at) == ("stuck", "1", at(15))
    assert setting.stuck.message.startswith("It is stuck: no rank")
    assert setting.stuck.message.endswith("The others seem to wait for rank 1 on n1.")
    await setting.pass_minutes(*20 * [WAITS])
    assert setting.looks.count == 1, "what is known is not asked again"


async def test_a_run_that_went_on_before_the_look_is_not_stuck() -> None:
    """Telemetry is late: a run that shows progress in its next minute stood still for a moment only."""
    setting = Setting({"stuckAfter": "10m"}, Looks(Inspection(True, odd=(1,))))
    setting.late_seconds = 110
    await setting.pass_minutes(*5 * [TRAINS], *11 * [WAITS])
    assert (setting.looks.count, setting.stuck.verdict, setting.stuck.looked_at) == (1, "suspected", "")
    await setting.pass_minutes(TRAINS)
    assert setting.status.stuck is None
    await setting.pass_minutes(*10 * [WAITS])
    assert (setting.looks.count, setting.stuck.verdict) == (2, "suspected"), "the first look says nothing of now"
    assert "progress for 10m" in setting.stuck.message
    await setting.pass_minutes(WAITS)
    assert setting.stuck.verdict == "suspected"
    await setting.pass_minutes(WAITS)
    assert setting.stuck.verdict == "stuck"
    assert "progress for 12m" in setting.stuck.message, "up to now, not up to the look"


async def test_a_run_that_its_nodes_saw_quiet_up_to_the_look_is_stuck_at_once() -> None:
    setting = Setting({"stuckAfter": "10m"}, Looks(Inspection(True, odd=(1,), is_quiet=True)))
    setting.late_seconds = 110
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    assert (setting.looks.count, setting.stuck.verdict) == (1, "stuck")


async def test_a_gang_of_which_a_rank_has_ended_is_judged() -> None:
    setting = Setting()
    await setting.pass_minutes(*30 * [TRAINS])
    setting.status = msgspec.structs.replace(setting.status, members=MemberCounts(total=2, running=1, succeeded=1))
    for _ in range(10):
        each = replace(minute(setting.minutes, WAITS), ranks=1)
        setting.minutes += 1
        await setting.show([each])
    assert setting.stuck.since == at(30)


async def test_the_message_of_a_suspicion_stays_the_same() -> None:
    setting = Setting(looks=Looks(Inspection(True)))
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    before = setting.stuck
    await setting.pass_minutes(*5 * [WAITS])
    assert setting.stuck == before


async def test_processes_that_still_move_are_looked_at_again_later() -> None:
    setting = Setting(looks=Looks(Inspection(False)))
    again = int(LOOK_AGAIN_SECONDS // 60)
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS], *(again - 1) * [WAITS])
    assert (setting.stuck.verdict, setting.looks.count) == ("suspected", 1)
    since = setting.stuck.since
    setting.looks.says = Inspection(True)
    await setting.pass_minutes(WAITS)
    assert (setting.stuck.verdict, setting.stuck.since, setting.looks.count) == ("stuck", since, 2)


async def test_a_suspicion_without_stacks_says_why() -> None:
    setting = Setting(looks=Looks(Unavailable("no node answered")))
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    assert setting.stuck.verdict == "suspected" and setting.stuck.looked_at
    assert setting.stuck.message.endswith("Where its processes are is not known: no node answered.")


async def test_nodes_that_did_not_answer_are_asked_again_soon() -> None:
    """They may have been busy. Ten more minutes would be lost with a gang that hangs."""
    setting = Setting(looks=Looks(Inspection(None, ("No agent answered.",))))
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    assert (setting.stuck.verdict, setting.looks.count) == ("suspected", 1)
    setting.looks.says = Inspection(True)
    await setting.pass_minutes(*int(UNSEEN_AGAIN_SECONDS // 60) * [WAITS])
    assert (setting.stuck.verdict, setting.looks.count) == ("stuck", 2)


async def test_the_next_leader_keeps_a_suspicion_and_repeats_nothing() -> None:
    setting = Setting(looks=Looks(Inspection(True, odd=(1,))))
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    before = setting.stuck
    setting.begin()
    setting.status = setting.watcher.noted(setting.run, setting.status)
    assert setting.stuck == before, "before it has read anything"
    past = [minute(number, age) for number, age in enumerate([*5 * [TRAINS], *10 * [WAITS]])]
    await setting.show(past)
    assert (setting.stuck, setting.looks.count) == (before, 1)
    await setting.pass_minutes(TRAINS)
    assert setting.status.stuck is None


async def test_the_next_leader_knows_the_rhythm_without_history() -> None:
    setting = Setting()
    await setting.pass_minutes(*30 * [TRAINS], *6 * [WAITS])
    known = setting.watcher.save_state()
    setting.begin()
    setting.watcher.restore_state(known)
    await setting.pass_minutes(*4 * [WAITS])
    assert setting.stuck.since == at(30)
    setting.begin()
    setting.watcher.restore_state(b"")
    await setting.pass_minutes(WAITS)
    assert setting.stuck.since == at(30), "a suspicion is in the status"


async def test_silent_nodes_neither_suspect_a_run_nor_clear_it() -> None:
    setting = Setting()
    await setting.pass_minutes(*5 * [TRAINS], *9 * [WAITS])
    setting.minutes += 30
    await setting.pass_minutes(WAITS)
    assert setting.status.stuck is None, "nothing is known of 30 minutes"
    await setting.pass_minutes(*9 * [WAITS])
    before = setting.stuck
    setting.minutes += 30
    await setting.pass_minutes(WAITS)
    assert setting.stuck.since == before.since


async def test_a_new_attempt_begins_without_its_predecessors_rhythm() -> None:
    setting = Setting()
    await setting.pass_minutes(*5 * [TRAINS], *5 * [WAITS])
    setting.status = RunStatus(phase=Phase.RUNNING, attempts=2, attempt=Attempt(number=2, nodes="n[0-1]"))
    await setting.pass_minutes(*20 * [WAITS], attempt=2)
    assert setting.status.stuck is None, "it has shown no rhythm"


@pytest.mark.parametrize(
    ("spec", "is_suspected"),
    [
        ({}, True),
        ({"stuckAfter": "20m"}, False),
        ({"stuckAfter": "2m"}, True),
        ({"type": "service"}, False),
        ({"ports": [8888]}, False),
        ({"ports": [6006], "stuckAfter": "10m"}, True),
        ({"array": "0-9"}, False),
    ],
)
async def test_the_spec_says_which_runs_are_judged_and_when(spec: dict[str, Any], is_suspected: bool) -> None:
    setting = Setting(spec)
    await setting.pass_minutes(*5 * [TRAINS], *12 * [WAITS])
    assert (setting.status.stuck is not None) is is_suspected


class Hanging(Looks):
    """Looks that do not end."""

    async def of_suspected(self, run: RunObject, attempt: int, finding: Finding) -> Inspection:
        self.count += 1
        await asyncio.Event().wait()
        raise AssertionError


async def looks() -> int:
    """Return the number of looks that are under way."""
    await asyncio.sleep(0)
    return len(asyncio.all_tasks()) - 1


async def test_one_look_at_a_time_ends_with_the_leader() -> None:
    setting = Setting(looks=Hanging())
    await setting.pass_minutes(*5 * [TRAINS], *(20 + int(LOOK_AGAIN_SECONDS // 60)) * [WAITS])
    assert (setting.looks.count, await looks()) == (1, 1)
    await setting.watcher.close()
    assert await looks() == 0


@pytest.mark.parametrize("change", ["it is gone", "it is another attempt", "it is not judged any more"])
async def test_the_look_at_a_run_ends_when_it_changes(change: str) -> None:
    setting = Setting(looks=Hanging())
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    assert await looks() == 1
    if change == "it is gone":
        await setting.watcher.watch(Round(START + 60.0 * 15, START + 60 * 15, {}, {}))
    elif change == "it is another attempt":
        setting.status = RunStatus(phase=Phase.RUNNING, attempts=2, attempt=Attempt(number=2, nodes="n[0-1]"))
        await setting.pass_minutes(TRAINS, attempt=2)
    else:
        setting.spec["type"] = "service"
        await setting.pass_minutes(WAITS)
    assert await looks() == 0


@pytest.mark.parametrize(
    "status",
    [
        RunStatus(phase=Phase.RESTARTING, attempts=1, attempt=Attempt(number=1, nodes="n[0-1]")),
        RunStatus(phase=Phase.RUNNING, attempts=2, attempt=Attempt(number=2, nodes="n[0-1]")),
        RunStatus(phase=Phase.QUEUED, attempts=1),
    ],
)
async def test_only_the_attempt_that_was_judged_is_suspected(status: RunStatus) -> None:
    setting = Setting()
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    assert setting.watcher.noted(setting.run, status) is status


async def test_the_nodes_of_an_attempt_are_heard_or_silent() -> None:
    """As long as a young attempt has not reported, others tell whether nodes report at all."""
    setting = Setting()

    def measures(number: int, minutes_ago: float) -> bool:
        started = format_time(time_at(START + 60 * (setting.minutes - minutes_ago)))
        return setting.watcher.measures("u", Attempt(number=number, nodes="n[0-1]", started_at=started))

    assert not measures(1, 1)
    await setting.pass_minutes(TRAINS)
    assert measures(1, 30)
    assert measures(2, 1) and not measures(2, 10)
    remembered = setting.watcher.save_state()
    setting.begin()
    assert not measures(2, 1), "another leader has heard of none"
    setting.watcher.restore_state(remembered)
    assert measures(2, 1)
    setting.minutes += 10
    assert not measures(1, 30) and not measures(2, 1)


async def test_a_fault_of_a_look_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting(looks=Looks(RuntimeError("boom")))
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    assert setting.stuck.verdict == "suspected"
    assert "the processes of run vision/bert were not looked at" in caplog.text


async def test_a_run_is_reconciled_only_when_its_suspicion_changes() -> None:
    """Else thousands of suspected runs would be reconciled each minute."""
    setting = Setting()
    await setting.pass_minutes(*5 * [TRAINS], *10 * [WAITS])
    for _ in range(8):
        before, told = setting.status.stuck, len(setting.told)
        await setting.pass_minutes(WAITS)
        assert len(setting.told) == told or setting.status.stuck != before
