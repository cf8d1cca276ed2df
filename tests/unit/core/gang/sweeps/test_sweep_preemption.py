"""Sweeps with all or some members preempted, by one run or several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.helpers.scenes.gangs import NOW, SUCCEEDED, after, member, with_attempt
from tests.helpers.scenes.sweeps import asked_of, step, sweep

from kajitori.core import gang
from kajitori.core.gang import DeleteMember, DeleteMembers, Run
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import SweepState
from kajitori.core.spec.status_parts.preemption import Preempted


def test_a_sweep_is_preempted_as_a_whole_with_full_grace_and_restarts() -> None:
    asked = Preempted(by="vision/bert", uid="u", who="vision/bert (high, of ana)")
    run = sweep(3, sweep=SweepState(succeeded="0"))
    run = replace(run, status=gang.preempt(run.status, asked))
    answer = step(run, member(1), member(2))
    assert answer.status.sweep == SweepState(succeeded="0", again="1-2")
    assert answer.actions == (DeleteMembers(30, unfinished_only=True),)
    ending = step(after(run, answer), member(1, terminating=True), member(2, terminating=True))
    assert (ending.status.reason, ending.status.interruptions, asked_of(ending)) == (Reason.PREEMPTED, 1, ())
    gone = step(after(run, ending))
    assert (gone.status.phase, gone.status.reason, asked_of(gone)) == (Phase.QUEUED, Reason.PREEMPTED, (1, 2))
    not_any_more = step(withdrawn(run), member(1), member(2))
    assert (not_any_more.status.preemption, not_any_more.actions) == (None, ())


def withdrawn(run: Run, *to: str) -> Run:
    """Return the run after these preemptors (all of them if none is named) have stopped waiting."""
    asked = run.status.preemption
    assert asked is not None
    return replace(run, withdrawn=frozenset(part.waiting for part in asked.each if not to or part.by in to))


def some_preempted(ranks: str, **status: Any) -> Run:
    """Return a sweep of four members, with these ranks preempted."""
    asked = Preempted(by="vision/bert", uid="u", who="vision/bert (high, of ana)", ranks=ranks, attempt=1)
    run = sweep(4, **status)
    return replace(run, status=gang.preempt(run.status, asked))


def test_members_that_are_not_preempted_go_on() -> None:
    """Preempted ones restart at no cost; their nodes stay reserved until the preemptor has them."""
    run = some_preempted("1-2")
    assert run.status.message == "members 1-2 preempted by vision/bert (high, of ana)"
    four = [member(rank) for rank in range(4)]
    answer = step(run, *four)
    assert (answer.status.sweep, answer.actions) == (SweepState(again="1-2"), ())
    told = step(after(run, answer), *four)
    assert told.actions == tuple(DeleteMember(member.pod, member.uid, 30) for member in four[1:3])
    assert (told.status.phase, told.status.reason) == (Phase.RUNNING, Reason.PREEMPTED)
    assert told.status.message.endswith("2 members still ending, within 30 s")
    gone = step(after(run, told), member(0), member(3))
    assert (gone.status.phase, gone.status.reason, asked_of(gone)) == (Phase.RUNNING, Reason.NONE, (1, 2))
    assert (gone.status.restarts, gone.status.interruptions) == (0, 1)
    waits = gang.keep_waiting(gone.status, Reason.WAITING_FOR_GPU, "needs 8 h100")
    assert waits.preemption is not None
    placed = gang.place_sweep(waits, [1], "n9", {}, NOW, launcher="array")
    assert placed.preemption == run.status.preemption
    placed = with_attempt(placed, created=True)
    again = step(replace(run, status=placed), member(0), member(1, attempt=2), member(3))
    assert (again.status.sweep, again.status.interruptions) == (SweepState(again="2"), 1)
    started = step(withdrawn(replace(run, status=placed)), member(0), member(1, attempt=2), member(3))
    assert (started.status.preemption, asked_of(started)) == (None, (2,))


def test_many_preempted_members_are_counted() -> None:
    many = ",".join(map(str, range(0, 140, 2)))
    assert some_preempted(many).status.message == "70 members preempted by vision/bert (high, of ana)"


def test_a_partial_preemption_can_be_withdrawn_until_it_is_written() -> None:
    """Once it is written that members restart, they end."""
    run, four = some_preempted("3"), [member(rank) for rank in range(4)]
    assert run.status.message == "member 3 preempted by vision/bert (high, of ana)"
    stays = step(withdrawn(run), *four)
    assert (stays.status.preemption, stays.status.sweep, stays.actions) == (None, SweepState(), ())
    written = after(run, step(run, *four))
    leaves = step(withdrawn(written), *four)
    assert leaves.actions == (DeleteMember(four[3].pod, four[3].uid, 30),)
    assert "which no longer waits" in leaves.status.message
    gone = step(withdrawn(after(run, leaves)), *four[:3])
    assert (gone.status.preemption, asked_of(gone)) == (None, (3,))


def test_members_are_preempted_by_several_runs_independently() -> None:
    """Each preemption begins and ends as if it were the only one."""
    run = some_preempted("1")
    assert run.status.preemption is not None
    first = run.status.preemption
    four = [member(rank) for rank in range(4)]
    run = after(run, step(run, *four))
    asked = Preempted(by="nlp/two", uid="u2", who="nlp/two (high)", ranks="2-3", attempt=1, others=first.each)
    run = replace(run, status=gang.preempt(run.status, asked))
    words = "members 2-3 preempted by nlp/two (high); member 1 preempted by vision/bert (high, of ana)"
    assert run.status.message == words
    answer = step(run, *four)
    assert (answer.status.sweep, answer.status.interruptions) == (SweepState(again="1-3"), 2)
    assert answer.actions == (
        DeleteMember(four[1].pod, four[1].uid, 30),
    )  # the end of the other members is not written yet
    told = step(after(run, answer), *four)
    assert told.actions == tuple(DeleteMember(member.pod, member.uid, 30) for member in four[1:])
    assert told.status.interruptions == 2
    assert told.status.message == f"{words}; 3 members still ending, within 30 s"
    # 1. One preempted member is gone, and its preemptor has its nodes.
    later = step(withdrawn(after(run, told), "vision/bert"), four[0], *four[2:])
    assert later.status.preemption is not None and [part.by for part in later.status.preemption.each] == ["nlp/two"]
    assert later.status.message == "members 2-3 preempted by nlp/two (high); 2 members still ending, within 30 s"
    # 2. Or the other two are gone.
    later = step(withdrawn(after(run, told), "nlp/two"), *four[:2])
    assert later.status.preemption == first
    assert later.status.message.startswith("member 1 preempted by vision/bert (high, of ana); 1 member still ending")
    # 3. Or they are gone, and their preemptor still waits: their nodes stay reserved.
    later = step(after(run, told), *four[:2])
    assert (later.status.preemption, later.status.message.count("preempted by")) == (asked, 1)
    # 4. All preempted members are gone.
    gone = step(after(run, told), four[0])
    assert (gone.status.preemption, gone.status.reason, asked_of(gone)) == (asked, Reason.NONE, (1, 2, 3))


def test_one_of_several_preemptors_stops_waiting() -> None:
    """Its members go on if they were not ended yet; the others end."""
    first = some_preempted("1").status.preemption
    assert first is not None
    asked = Preempted(by="nlp/two", uid="u2", who="nlp/two (high)", ranks="2-3", attempt=1, others=first.each)
    run, four = sweep(4), [member(rank) for rank in range(4)]
    run = replace(run, status=gang.preempt(run.status, asked))
    answer = step(withdrawn(run, "nlp/two"), *four)
    assert (answer.status.sweep, answer.status.preemption) == (SweepState(again="1"), first)
    both = step(withdrawn(run), *four)
    assert (both.status.sweep, both.status.preemption, both.actions) == (SweepState(), None, ())
    assert both.status.message == "goes on: nlp/two and vision/bert no longer wait for its nodes"


def test_some_of_many_preemptors_are_named() -> None:
    others = tuple(Preempted(by=f"t/r{n}", uid=f"u{n}", who=f"t/r{n}", ranks=str(n), attempt=1) for n in range(1, 6))
    asked = Preempted(by="t/r0", uid="u0", who="t/r0", ranks="0", attempt=1, others=others)
    said = "; ".join(f"member {n} preempted by t/r{n}" for n in range(3))
    assert gang.preempt(RunStatus(), asked).message == f"{said}; others by 3 more runs"


def test_a_member_that_ends_while_it_is_preempted_has_ended() -> None:
    run = some_preempted("0,3")
    answer = step(run, member(0, SUCCEEDED), member(1), member(2), member(3))
    assert answer.status.sweep == SweepState(succeeded="0", again="3")
    over = step(run, member(0, SUCCEEDED), member(1), member(2), member(3, SUCCEEDED))
    assert (over.status.sweep, over.status.reason) == (SweepState(succeeded="0,3"), Reason.NONE)
