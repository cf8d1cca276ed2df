"""The life of a sweep, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from tests.helpers.scenes.gangs import NOW, SUCCEEDED, after, failed, member, with_attempt
from tests.helpers.scenes.sweeps import asked_of, step, sweep, taken_away

from kajitori.core import gang
from kajitori.core.formats.node_lists import compress
from kajitori.core.gang import CreateMembers, DeleteMember, DeleteMembers, Limits, NeedsNodes, Run, Sweep
from kajitori.core.gang.sweep_ledger import Ledger, ranges
from kajitori.core.gang.sweeps.sweep import MAX_PLACED_AT_ONCE, REMOVED_AT_ONCE
from kajitori.core.spec.array import MAX_INDEX, MAX_MEMBERS
from kajitori.core.spec.reading.status_check import damage
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.spec.status_parts.attempts import Attempt, Ran
from kajitori.core.spec.status_parts.members import MemberCounts, Notable, SweepState
from kajitori.core.spec.status_parts.preemption import Preempted, PreemptedBy


def test_a_new_sweep_requests_all_its_places_and_accepts_fewer() -> None:
    run = Run("batch", 6, Limits(), RunStatus(), sweep=Sweep((0, 1, 5, 7, 8, 9), 4))
    (action,) = step(run).actions
    assert isinstance(action, NeedsNodes)
    assert (action.ranks, action.fewest, action.since) == ((0, 1, 5, 7), 1, step(run).status.queued_at)


def test_members_that_fit_start_and_the_rest_is_queued_as_new() -> None:
    """Otherwise a sweep with more and more members would stay at the head of the queue."""
    run = sweep(8, at_once=4, attempt=None, attempts=0, phase=Phase.QUEUED, started_at="")
    status = gang.place_sweep(run.status, (0, 3), "a,b", {}, NOW, launcher="array")
    assert status.attempt is not None
    assert (status.attempt.ranks, status.attempt.world_size, status.phase) == ("0,3", 1, Phase.STARTING)
    created = msgspec.structs.replace(status, attempt=msgspec.structs.replace(status.attempt, created=True))
    answer = step(replace(run, status=created), member(0), member(3))
    (action,) = answer.actions
    assert isinstance(action, NeedsNodes)
    assert (action.ranks, action.since) == ((1, 2), "2026-11-21T12:00:00Z")
    assert answer.status.phase is Phase.RUNNING


def test_a_single_member_keeps_its_index() -> None:
    status = gang.place_sweep(sweep().status, (3,), "a", {}, NOW, launcher="array")
    assert status.attempt is not None
    assert gang.node_by_rank(status.attempt) == {3: "a"}


def test_a_members_end_is_written_before_its_pod_is_deleted() -> None:
    run = sweep()
    answer = step(run, member(0, SUCCEEDED), member(1), member(2), member(3))
    assert (answer.status.sweep, taken_away(answer)) == (SweepState(succeeded="0"), [])
    assert answer.status.members == MemberCounts(total=4, running=3, succeeded=1)
    assert taken_away(step(after(run, answer), member(0, SUCCEEDED), member(1), member(2), member(3))) == ["bert-1-0"]


def test_pods_of_ended_members_are_deleted_in_batches() -> None:
    run = sweep(500, sweep=SweepState(succeeded="0-499"))
    answer = step(run, *(member(rank, SUCCEEDED) for rank in range(500)))
    assert answer.status.phase is Phase.SUCCEEDED
    assert len(taken_away(answer)) == REMOVED_AT_ONCE


def test_an_interrupted_attempt_is_completed_without_repetition() -> None:
    """A member may have ended before the last one is created: its name must not be used again."""
    run = sweep(4, sweep=SweepState(succeeded="0", again="1"))
    run = replace(run, status=with_attempt(run.status, created=False))
    answer = step(run, member(2))
    assert CreateMembers((3,)) in answer.actions
    whole = step(run, member(2), member(3))
    assert whole.status.attempt is not None and whole.status.attempt.created


def test_members_are_placed_several_at_a_time() -> None:
    """At once if a quarter of the places is free or no member runs, otherwise once a second."""
    run = sweep(100, at_once=8, sweep=SweepState(succeeded="0"))
    seven = [member(rank) for rank in range(1, 8)]
    early = timedelta(milliseconds=300)
    assert asked_of(step(run, *seven, at=early)) == ()
    assert step(run, *seven, at=early).wake_at == NOW + timedelta(seconds=1)
    assert asked_of(step(run, *seven, at=timedelta(seconds=1))) == (8,)
    fewer = replace(run, status=msgspec.structs.replace(run.status, sweep=SweepState(succeeded="0-1")))
    assert asked_of(step(fewer, *seven[1:], at=early)) == (8, 9)


def test_an_attempt_places_at_most_a_thousand_members() -> None:
    run = Run("batch", 3000, Limits(), RunStatus(), sweep=Sweep(tuple(range(3000)), 3000))
    assert asked_of(step(run)) == tuple(range(MAX_PLACED_AT_ONCE))


def test_a_running_sweep_says_why_more_members_wait() -> None:
    run = sweep(4)
    told = gang.keep_waiting(run.status, Reason.WAITING_FOR_GPU, "needs 8 GPUs")
    assert (told.phase, told.reason) == (Phase.RUNNING, Reason.WAITING_FOR_GPU)
    waiting = replace(run, status=msgspec.structs.replace(told, sweep=SweepState(again="0")))
    still = step(waiting, *(member(rank) for rank in (1, 2, 3)))
    assert (still.status.phase, still.status.reason) == (Phase.RUNNING, Reason.WAITING_FOR_GPU)
    served = step(replace(run, status=told), *(member(rank) for rank in range(4)))
    assert (served.status.reason, served.status.message) == (Reason.NONE, "")
    alone = step(replace(run, status=msgspec.structs.replace(told, sweep=SweepState(again="0-3"))))
    assert (alone.status.phase, alone.status.reason) == (Phase.QUEUED, Reason.WAITING_FOR_GPU)


def test_it_stops_at_the_first_failure_if_the_spec_says_so() -> None:
    """The other members are healthy: they get the run's full grace."""
    run = sweep(4, stop_at="first-failure", restarts=0)
    answer = step(run, member(0), failed(1, code=3), member(2), member(3))
    assert (answer.status.phase, answer.status.exit_code) == (Phase.FAILED, 3)
    assert answer.status.message == "stopped at the first failure; member 1: exit code 3"
    tidy = step(after(run, answer), member(0), failed(1), member(2), member(3))
    assert tidy.actions == (DeleteMember("bert-1-1", "uid-1-1", 0), DeleteMembers(30, unfinished_only=True))


def test_a_failure_that_is_retried_does_not_stop_the_sweep() -> None:
    assert step(sweep(2, stop_at="first-failure"), failed(0), member(1)).status.phase is Phase.RUNNING


def test_it_stops_at_the_first_success_if_the_spec_says_so() -> None:
    run = sweep(4, stop_at="first-success", restarts=0)
    answer = step(run, failed(0), member(1, SUCCEEDED), member(2), member(3))
    assert (answer.status.phase, answer.status.exit_code) == (Phase.SUCCEEDED, 0)
    assert "member 1 succeeded" in answer.status.message
    hopeless = step(run, *(failed(rank) for rank in range(4)))
    assert (hopeless.status.phase, hopeless.status.members.failed) == (Phase.FAILED, 4)


def test_a_resumed_sweep_continues_with_the_unfinished_members() -> None:
    run = replace(sweep(4, at_once=3, restarts=0), stopped=True)
    stopping = step(run, member(0, SUCCEEDED), failed(1), member(2))
    assert stopping.status.reason is Reason.STOPPING
    assert stopping.actions == (DeleteMembers(30, unfinished_only=True),)
    stopped = step(after(run, stopping), member(0, SUCCEEDED), failed(1))
    assert (stopped.status.phase, stopped.status.sweep) == (Phase.STOPPED, SweepState(succeeded="0", failed="1"))
    resumed = replace(after(run, stopped), stopped=False, resumes=1)
    answer = step(resumed, failed(1))
    assert answer.status.sweep == SweepState(succeeded="0", again="1-2")
    assert asked_of(answer) == (2, 3)  # member 1 as soon as its old Pod is gone
    assert asked_of(step(after(resumed, answer))) == (1, 2, 3)
    assert answer.status.exit_code is None


def test_a_stopped_sweep_with_all_members_ended_has_its_result() -> None:
    run = replace(sweep(2), stopped=True)
    assert step(run, member(0, SUCCEEDED), member(1, SUCCEEDED)).status.phase is Phase.SUCCEEDED


def test_a_resumed_sweep_creates_no_pods_of_an_incomplete_attempt() -> None:
    """That attempt has no template any more."""
    run = replace(sweep(2), stopped=True)
    run = replace(run, status=with_attempt(run.status, created=False))
    stopped = step(run)
    assert stopped.status.phase is Phase.STOPPED
    answer = step(replace(after(run, stopped), stopped=False, resumes=1))
    assert [type(action) for action in answer.actions] == [NeedsNodes]
    assert answer.status.interruptions == 0


def test_a_longer_array_has_more_members_and_a_shorter_one_fewer() -> None:
    run = sweep(2)
    longer = replace(run, replicas=3, sweep=Sweep((0, 1, 2), 3))
    assert asked_of(step(longer, member(0), member(1))) == (2,)
    shorter = replace(run, replicas=1, sweep=Sweep((0,), 1))
    answer = step(shorter, member(0), member(1))
    assert (taken_away(answer), answer.status.members.total) == (["bert-1-1"], 1)
    assert step(shorter, member(0, SUCCEEDED), member(1)).status.phase is Phase.SUCCEEDED


def test_a_sweep_that_is_refused_now_finishes_its_running_members() -> None:
    run = sweep(9, at_once=3, sweep=SweepState(succeeded="0"), members=MemberCounts(total=9))
    life = gang.run_without_spec("batch", 1, run.status, False)
    answer = step(life, member(1), member(2, SUCCEEDED))
    assert (answer.status.phase, asked_of(answer)) == (Phase.RUNNING, ())
    ended = step(life, member(1, SUCCEEDED), member(2, SUCCEEDED))
    assert (ended.status.phase, ended.status.members) == (Phase.QUEUED, MemberCounts(total=9, succeeded=3))


def test_the_status_of_ten_thousand_members_stays_small() -> None:
    """The worst case: no two neighbours in one state, a thousand on unordered nodes, and the most notes."""
    indices = range(MAX_INDEX - 2 * MAX_MEMBERS + 1, MAX_INDEX, 2)
    assert len(indices) == MAX_MEMBERS
    ended, rest = indices[: MAX_MEMBERS // 2], indices[MAX_MEMBERS // 2 :]
    ledger = Ledger(
        set(ended[::2]), set(ended[1::2]), set(rest), {index: 1 + place % 100 for place, index in enumerate(rest)}
    )
    nodes = [f"ip-10-{i * 37 % 256}-{i * 91 % 256}.compute.internal" for i in range(MAX_PLACED_AT_ONCE)]
    status = RunStatus(
        phase=Phase.RUNNING,
        attempts=99_999,
        attempt=Attempt(number=99_999, nodes=compress(nodes), ranks=ranges(list(rest[::2])[:MAX_PLACED_AT_ONCE])),
        sweep=ledger.state(),
        notable=[Notable(rank=i, node=nodes[i], reason="ProgramFailed", message="x" * 300) for i in range(64)],
    )
    others = [
        PreemptedBy(by="n" * 127, uid="u" * 36, who="w" * 200, since="2026-11-21T12:00:00Z", ranks=ranges(rest[n::26]))
        for n in range(26)
    ]
    status = msgspec.structs.replace(status, preemption=Preempted.of(others))
    assert damage(status) == ""
    assert Ledger.of(status.sweep) == ledger
    document = msgspec.json.encode(to_document(status))
    assert msgspec.json.decode(document, type=RunStatus) == status
    assert len(document) < 200_000  # 300 kB without twice the most for image, command and environment


def test_the_longest_member_gives_the_expected_length() -> None:
    """It doubles once a member runs longer."""
    times: dict[str, Any] = {"started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T12:00:40Z"}
    answer = step(sweep(3), member(0, SUCCEEDED, **times), member(1), member(2))
    assert answer.status.sweep == SweepState(succeeded="0", longest_seconds=40, member_seconds=40)
    slow = member(1, started_at="2026-11-21T12:00:00Z")
    later = step(after(sweep(3), answer), slow, member(2), at=timedelta(seconds=100))
    assert later.status.sweep is not None and later.status.sweep.longest_seconds == 160


def test_member_seconds_are_counted_once_per_member() -> None:
    """Ended members with their run time, members that are given up with their run time so far."""
    took: dict[str, Any] = {"started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T12:00:10Z"}
    since: dict[str, Any] = {"started_at": "2026-11-21T12:00:00Z"}
    run, minute = sweep(4), timedelta(seconds=60)
    going = [member(2, **since), member(3, node_ready=False, **since)]
    answer = step(run, member(0, SUCCEEDED, **took), failed(1, **took), *going, at=minute)
    assert answer.status.sweep is not None
    assert (answer.status.sweep.member_seconds, answer.status.ran) == (10 + 10 + 60, None)
    again = step(after(run, answer), member(0, SUCCEEDED, **took), failed(1, **took), *going, at=minute)
    assert again.status.sweep == answer.status.sweep
    asked = Preempted(by="vision/bert", uid="u", who="vision/bert (high, of ana)")
    leaves = replace(run, status=gang.preempt(run.status, asked))
    stops = replace(run, stopped=True)
    for subject in (leaves, stops):
        ending = step(subject, member(0, SUCCEEDED, **took), member(2, **since), at=minute)
        assert ending.status.sweep is not None and ending.status.sweep.member_seconds == 70
        still = step(after(subject, ending), member(2, terminating=True, **since), at=2 * minute)
        assert still.status.sweep == ending.status.sweep
    first = sweep(3, stop_at="first-success")
    over = step(first, member(0, SUCCEEDED, **took), member(1, **since), at=minute)
    assert over.status.sweep is not None and over.status.sweep.member_seconds == 70
    assert over.status.ran == Ran(seconds=60, until="2026-11-21T12:01:00Z")


def test_a_damaged_status_is_restored_from_kept_results() -> None:
    """Members that are known to have succeeded do not run again when it is resumed."""
    damaged = RunStatus(phase=Phase.FAILED, reason=Reason.STATUS_DAMAGED, attempts=3)
    run = replace(sweep(4), status=damaged, resumes=1)
    assert gang.has_lost_ledger(run, ())
    assert not gang.has_lost_ledger(replace(run, resumes=0), ())
    assert not gang.has_lost_ledger(replace(run, sweep=None), ())
    answer = step(gang.with_succeeded(run, [0, 2]))
    assert answer.status.sweep == SweepState(succeeded="0,2")
    assert asked_of(answer) == (1, 3)


def test_a_lost_status_is_restored_from_kept_results() -> None:
    """The status was wiped: its Pods, or the number of its attempts, show that it had begun."""
    wiped = replace(sweep(4), status=RunStatus(queued_at="2026-11-21T11:59:00Z"))
    assert not gang.has_lost_ledger(wiped, ()), "it is new"
    assert gang.has_lost_ledger(wiped, (member(1, attempt=3),))
    begun = replace(wiped, status=msgspec.structs.replace(wiped.status, attempts=3))
    assert gang.has_lost_ledger(begun, ())
    assert not gang.has_lost_ledger(replace(begun, stopped=True), ())
    known = gang.with_succeeded(wiped, [0, 2])
    answer = step(known, member(1, attempt=3))
    assert answer.status.sweep == SweepState(succeeded="0,2") and answer.status.attempts == 3
    assert not gang.has_lost_ledger(after(known, answer), (member(1, attempt=3),))
    goes_on = step(after(known, answer), failed(1, attempt=3))
    assert goes_on.status.sweep is not None and goes_on.status.sweep.succeeded == "0,2"


def test_run_time_is_known_even_if_no_member_was_seen_running() -> None:
    run = sweep(2, phase=Phase.STARTING, started_at="")
    assert step(run, member(0, SUCCEEDED), member(1, SUCCEEDED)).status.ran == Ran(
        seconds=2, until="2026-11-21T12:00:02Z"
    )


def test_a_member_that_succeeded_during_the_end_is_not_repeated() -> None:
    """Another member's success ended the sweep; after a resumption this one's success counts, too."""
    run = sweep(3, stop_at="first-success")
    over = step(run, member(0, SUCCEEDED), member(1), member(2))
    resumed = replace(after(run, over), resumes=1, sweep=Sweep((0, 1, 2), 3))
    answer = step(resumed, member(1, SUCCEEDED))
    assert answer.status.sweep == SweepState(succeeded="0-1", again="2")
    assert asked_of(answer) == (2,)
