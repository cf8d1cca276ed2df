"""The usage ledger keeps when programs ran and what ended them, whenever a controller looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from tests.helpers.scenes.gangs import NOW, SUCCEEDED, after, failed, member, run, step, with_attempt

from kajitori.core.gang import Member, Run, Sweep
from kajitori.core.gang.holding import MAX_STRETCHES
from kajitori.core.gang.life import next_step
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.attempts import Setback
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.core.spec.status_parts.suspicions import IdleState, Stretch, Stuck
from kajitori.core.spec.status_parts.usage import Amounts, Segment
from kajitori.core.usage.ledger import open_attempt

LATE = timedelta(hours=3)
"""A controller that was dead for so long."""


def at(minute: int) -> str:
    return f"2026-11-21T12:{minute:02}:00Z"


def holding(subject: Run, **changes: object) -> Run:
    """Return the run with its attempt in the usage ledger."""
    status = msgspec.structs.replace(subject.status, **changes)
    opened = open_attempt(status, Amounts(gpus=8), lambda node: "h100", NOW, saves_every=600)
    return replace(subject, status=opened)


def closed(subject: Run, *looks: tuple[Member, ...]) -> list[Segment]:
    """Return the closed segments after looks at these members, hours late."""
    for members in looks:
        subject = after(subject, step(subject, *members, at=LATE))
    assert subject.status.usage is not None
    return subject.status.usage.closed


BROKEN = (
    failed(0, started_at=at(2), ended_at=at(30)),
    member(1, started_at=at(3)),
)


def test_a_late_controller_writes_the_times_of_the_pods() -> None:
    """The gang ran from minute 3, when its last program started, until its first one failed."""
    survivor = failed(1, Reason.PROGRAM_FAILED, 143, started_at=at(3), ended_at=at(31))
    first, last = closed(holding(run()), BROKEN, (BROKEN[0], survivor))
    for segment in (first, last):
        assert (segment.started, segment.ended) == (at(3), at(30))
        assert (segment.cause, segment.culprit, segment.saves_every) == ("ProgramFailed", "n0", 600)
    assert (first.until, last.until) == (at(30), at(31))


def test_an_attempt_whose_programs_never_all_ran_has_no_start() -> None:
    (segment,) = closed(
        holding(run()),
        (
            failed(0, Reason.IMAGE_PULL, None, ended_at=at(4)),
            failed(1, Reason.PROGRAM_FAILED, started_at=at(1), ended_at=at(4)),
        ),
    )
    assert (segment.started, segment.cause, segment.culprit) == ("", "ImagePull", "n0")


def test_a_gang_that_succeeds_was_broken_by_nothing() -> None:
    over = member(0, SUCCEEDED, started_at=at(1), ended_at=at(9))
    (segment,) = closed(holding(run()), (over, replace(over, rank=1)))
    assert (segment.started, segment.ended, segment.cause, segment.until) == (at(1), "", "", at(9))


def test_a_preempted_gang_names_no_node() -> None:
    """No node is to blame, although members fail when they are asked to end."""
    preempted = Preempted(by="vision/large", uid="u2")
    asked = tuple(failed(rank, code=143, started_at=at(1), ended_at=at(9), terminating=True) for rank in (0, 1))
    segments = closed(holding(run(), preemption=preempted), asked)
    assert {(each.cause, each.culprit, each.ended) for each in segments} == {("Preempted", "", at(9))}


def test_the_next_attempt_knows_what_it_was_made_for() -> None:
    """An attempt that its user resumed later was made for nothing that happened."""
    setback = Setback(reason="NodeLost", attempt=1, at=at(0))
    for number, after_what in ((2, "NodeLost"), (3, "")):
        planned = with_attempt(run(setback=setback, attempts=number).status, number=number)
        opened = open_attempt(planned, Amounts(), lambda node: "", NOW)
        assert opened.usage is not None
        assert [part.after for part in opened.usage.open] == [after_what]


@pytest.mark.parametrize("kind", ["sweep", "service"])
def test_members_that_live_independently_have_times_of_their_own(kind: str) -> None:
    subject = run(type="service") if kind == "service" else replace(run(), sweep=Sweep((0, 1), 2))
    members = (
        failed(0, started_at=at(2), ended_at=at(30)),
        member(1, SUCCEEDED, started_at=at(3), ended_at=at(40)),
    )
    first, last = closed(holding(subject), members)
    assert (first.ranks, first.started, first.cause, first.culprit) == ("0", at(2), "ProgramFailed", "n0")
    assert (last.ranks, last.started, last.cause) == ("1", at(3), "")


def test_time_between_an_end_and_a_resume_is_counted_apart() -> None:
    ended = run(phase=Phase.STOPPED, finished_at=at(0), rested_seconds=5)
    resumed = next_step(replace(ended, resumes=1), (), NOW + LATE).status
    assert resumed.rested_seconds == 5 + LATE.total_seconds()


def stretches(subject: Run, minute: int, **changes: object) -> list[tuple[str, str, str]]:
    """Return kind, start and end of the stretches after a look in this minute."""
    subject = replace(subject, status=msgspec.structs.replace(subject.status, **changes))
    members = (member(0, started_at=at(0)), member(1, started_at=at(0)))
    status = step(subject, *members, at=timedelta(minutes=minute)).status
    return [(each.kind, each.since, each.until) for each in status.stretches]


STUCK = Stuck(since=at(5), verdict="stuck", attempt=1)
IDLE = IdleState(since=at(7), attempt=1, gpus=8, fewest=8, most=8)


def test_a_hang_is_noted_while_it_lasts_and_stays_noted() -> None:
    hung = Stretch(attempt=1, kind="hung", since=at(5))
    assert stretches(run(), 20, stuck=STUCK) == [("hung", at(5), "")]
    assert stretches(run(), 21, stuck=STUCK, stretches=[hung]) == [("hung", at(5), "")]
    assert stretches(run(), 22, stretches=[hung]) == [("hung", at(5), at(22))]
    closed_one = msgspec.structs.replace(hung, until=at(22))
    assert stretches(run(), 23, stretches=[closed_one]) == [("hung", at(5), at(22))]


def test_idle_gpus_and_hangs_are_noted_apart() -> None:
    """Another attempt, or a later time, is another stretch."""
    old = Stretch(attempt=1, kind="idle", since=at(1))
    assert stretches(run(), 20, stuck=STUCK, idle=IDLE, stretches=[old]) == [
        ("idle", at(1), at(20)),
        ("hung", at(5), ""),
        ("idle", at(7), ""),
    ]


def test_suspicions_and_partly_idle_gpus_are_no_lost_time() -> None:
    suspected = msgspec.structs.replace(STUCK, verdict="suspected")
    assert stretches(run(), 20, stuck=suspected, idle=msgspec.structs.replace(IDLE, fewest=3)) == []


def test_a_status_keeps_only_the_latest_stretches() -> None:
    many = [Stretch(attempt=1, kind="idle", since=at(n), until=at(n)) for n in range(MAX_STRETCHES + 5)]
    assert len(stretches(run(), 40, stretches=many, stuck=STUCK)) == MAX_STRETCHES
