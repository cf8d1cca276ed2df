"""A gang that is stuck: what its status shows, and its restart once there is evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.gangs import SUCCEEDED, after, failed, member, run, step

from kajitori.core.gang import DeleteMembers, Limits, Run, ends_survivors
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.suspicions import Stuck

SINCE = "2026-11-21T11:00:00Z"


def suspected(limits: Limits | None = None, **fields: Any) -> Run:
    """Return a running gang of two with a suspicion."""
    subject = run()
    assert subject.status.attempt is not None
    stuck = Stuck(**{"since": SINCE, "attempt": subject.status.attempt.number, "message": "It may be stuck.", **fields})
    status = msgspec.structs.replace(subject.status, stuck=stuck)
    return replace(subject, status=status, limits=limits or Limits(restarts=3, restarts_stuck=True))


@pytest.mark.parametrize(("verdict", "reason"), [("suspected", Reason.SUSPECTED_STUCK), ("stuck", Reason.STUCK)])
def test_a_suspicion_shows_as_reason_and_message(verdict: str, reason: Reason) -> None:
    answer = step(suspected(Limits(), verdict=verdict), member(0), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.RUNNING, reason)
    assert answer.status.message == "It may be stuck."
    again = msgspec.structs.replace(answer.status, stuck=None)
    well = step(replace(suspected(), status=again), member(0), member(1))
    assert (well.status.reason, well.status.message) == (Reason.NONE, "")


def test_a_suspicion_alone_restarts_nothing() -> None:
    answer = step(suspected(ranks="1"), member(0), member(1))
    assert (answer.status.phase, answer.actions) == (Phase.RUNNING, ())


def test_a_stuck_gang_restarts_as_a_whole_if_it_asked_for_that() -> None:
    """It counts as a restart, and against the node of the only odd rank."""
    answer = step(suspected(verdict="stuck", ranks="1"), member(0), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.RESTARTING, Reason.STUCK)
    assert (answer.status.restarts, answer.status.interruptions) == (1, 0)
    assert answer.status.message == "member 1: It may be stuck."
    assert answer.status.setback is not None and answer.status.setback.reason == "Stuck"
    assert answer.status.avoid_nodes == {member(1).node: 1}
    (note,) = answer.status.notable
    assert (note.rank, note.node, note.reason, note.since) == (1, member(1).node, "Stuck", "2026-11-21T12:00:00Z")
    assert [type(action) for action in answer.actions] == [DeleteMembers]
    assert answer.status.stuck is None, "the next attempt begins without suspicion"


@pytest.mark.parametrize("ranks", ["", "0-1"])
def test_no_node_is_blamed_if_no_single_rank_stands_out(ranks: str) -> None:
    answer = step(suspected(verdict="stuck", ranks=ranks), member(0), member(1))
    assert (answer.status.phase, answer.status.avoid_nodes) == (Phase.RESTARTING, {})


def test_a_stuck_gang_without_restarts_left_fails() -> None:
    limits = Limits(restarts=0, restarts_stuck=True)
    answer = step(suspected(limits, verdict="stuck"), member(0), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, Reason.STUCK)


def test_a_gang_that_ends_is_not_restarted_for_a_hang() -> None:
    subject = suspected(verdict="stuck", ranks="1")
    done = step(subject, member(0, SUCCEEDED), member(1, SUCCEEDED))
    assert (done.status.phase, done.status.stuck) == (Phase.SUCCEEDED, None)
    broken = step(subject, member(0), failed(1))
    assert (broken.status.phase, broken.status.reason) == (Phase.RESTARTING, Reason.PROGRAM_FAILED)


def test_a_suspicion_of_an_earlier_attempt_is_dropped() -> None:
    subject = suspected()
    assert subject.status.stuck is not None
    old = msgspec.structs.replace(subject.status.stuck, attempt=99)
    answer = step(replace(subject, status=msgspec.structs.replace(subject.status, stuck=old)), member(0), member(1))
    assert (answer.status.stuck, answer.status.reason) == (None, Reason.NONE)


def test_survivors_are_ended_by_a_failure_and_not_by_other_ends() -> None:
    """Before these ends, what they do is kept as evidence."""
    assert ends_survivors(step(run(), member(0), failed(1)))
    last = step(run(restarts=0), member(0), failed(1))
    assert not ends_survivors(last) and ends_survivors(step(after(run(), last), member(0), failed(1)))
    assert not ends_survivors(step(run(), member(0, SUCCEEDED), member(1, SUCCEEDED)))
    assert not ends_survivors(step(replace(run(), stopped=True), member(0), member(1)))
    assert not ends_survivors(step(run(), member(0), member(1, node_draining=True)))
    assert not ends_survivors(step(suspected(verdict="stuck"), member(0), member(1))), "its stacks were taken before"


def test_the_note_on_an_odd_rank_stays_until_node_health_has_judged_it() -> None:
    """Node health blames its node only once the next attempt has run elsewhere for long."""
    answer = step(suspected(verdict="stuck", ranks="1"), member(0), member(1))
    (note,) = answer.status.notable
    second = msgspec.structs.replace(
        answer.status, phase=Phase.RUNNING, attempts=2, attempt=Attempt(number=2, nodes="m[0-1]", created=True)
    )
    again = step(replace(run(), status=second), member(0, attempt=2), member(1, attempt=2))
    assert again.status.notable == [note]
