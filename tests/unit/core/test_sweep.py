"""The life of a sweep, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.gangs import FAILED, NOW, PENDING, SUCCEEDED, after, failed, member
from tests.helpers.gangs import step as step_at

from kajitori.core import gang
from kajitori.core.array import MAX_INDEX, MAX_MEMBERS
from kajitori.core.gang import (
    CreateMembers,
    DeleteMember,
    DeleteMembers,
    Limits,
    Member,
    NeedsNodes,
    Run,
    Step,
    Sweep,
)
from kajitori.core.gang.ledger import Ledger, ranges
from kajitori.core.gang.sweep import STARTED_TOGETHER, TAKEN_AWAY_AT_ONCE
from kajitori.core.nodelist import compress
from kajitori.core.reasons import Phase, Reason
from kajitori.core.status import (
    Attempt,
    GivesWay,
    GivesWayTo,
    MemberCounts,
    Notable,
    Ran,
    RunStatus,
    SweepState,
    to_document,
)
from kajitori.core.status_check import damage

LATER = timedelta(seconds=2)


def sweep(count: int = 4, *, at_once: int = 0, stop_at: Any = "", restarts: int = 1, **status: Any) -> Run:
    """A sweep whose first attempt, of all that may be there at once, was placed at noon."""
    at_once = at_once or count
    attempt = Attempt(
        number=1,
        nodes=f"n[0-{at_once - 1}]",
        ranks=f"0-{at_once - 1}",
        world_size=1,
        created=True,
        planned_at="2026-11-21T12:00:00Z",
    )
    fresh = RunStatus(
        phase=Phase.RUNNING,
        attempt=attempt,
        attempts=1,
        queued_at="2026-11-21T11:59:00Z",
        started_at="2026-11-21T12:00:00Z",
        sweep=SweepState(),
    )
    indices = Sweep(tuple(range(count)), at_once, stop_at)
    return Run("batch", count, Limits(restarts=restarts), msgspec.structs.replace(fresh, **status), sweep=indices)


def step(subject: Run, *members: Member, at: timedelta = LATER) -> Step:
    return step_at(subject, *members, at=at)


def asked_of(answer: Step) -> tuple[int, ...]:
    return next((action.ranks for action in answer.actions if isinstance(action, NeedsNodes)), ())


def taken_away(answer: Step) -> list[str]:
    return [action.pod for action in answer.actions if isinstance(action, DeleteMember)]


def test_a_new_sweep_asks_for_as_many_as_may_be_there_and_takes_what_it_gets() -> None:
    run = Run("batch", 6, Limits(), RunStatus(), sweep=Sweep((0, 1, 5, 7, 8, 9), 4))
    (action,) = step(run).actions
    assert isinstance(action, NeedsNodes)
    assert (action.ranks, action.fewest, action.since) == ((0, 1, 5, 7), 1, step(run).status.queued_at)


def test_what_fits_is_started_and_the_rest_waits_its_turn_anew() -> None:
    """So that a sweep that always has more members does not stand before everybody for ever."""
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


def test_one_member_alone_keeps_its_index() -> None:
    status = gang.place_sweep(sweep().status, (3,), "a", {}, NOW, launcher="array")
    assert status.attempt is not None
    assert gang.node_by_rank(status.attempt) == {3: "a"}


def test_a_member_that_has_ended_is_written_down_before_its_pod_goes() -> None:
    run = sweep()
    answer = step(run, member(0, SUCCEEDED), member(1), member(2), member(3))
    assert (answer.status.sweep, taken_away(answer)) == (SweepState(succeeded="0"), [])
    assert answer.status.members == MemberCounts(total=4, running=3, succeeded=1)
    assert taken_away(step(after(run, answer), member(0, SUCCEEDED), member(1), member(2), member(3))) == ["bert-1-0"]


def test_pods_of_members_that_have_ended_go_a_few_at_a_time() -> None:
    run = sweep(500, sweep=SweepState(succeeded="0-499"))
    answer = step(run, *(member(rank, SUCCEEDED) for rank in range(500)))
    assert answer.status.phase is Phase.SUCCEEDED
    assert len(taken_away(answer)) == TAKEN_AWAY_AT_ONCE


def test_each_member_has_restarts_of_its_own() -> None:
    """Counted once, however often the failed Pod is seen; started again once that is gone."""
    run = sweep(2)
    seen = [failed(0), member(1)]
    once = step(run, *seen)
    assert once.status.sweep == SweepState(again="0", restarts={"1": "0"})
    assert once.status.restarts == 1
    again = step(after(run, once), *seen)
    assert (again.status.sweep, taken_away(again), asked_of(again)) == (once.status.sweep, ["bert-1-0"], ())
    gone = step(after(run, again), member(1))
    assert asked_of(gone) == (0,)
    placed = gang.place_sweep(gone.status, (0,), "n9", {}, NOW, launcher="array")
    assert placed.sweep == SweepState(restarts={"1": "0"})
    assert placed.attempt is not None
    placed.attempt.created = True
    last = step(replace(run, status=placed), failed(0, attempt=2, code=7), member(1))
    assert (last.status.sweep, last.status.phase) == (SweepState(failed="0", restarts={"1": "0"}), Phase.RUNNING)
    (note,) = last.status.notable
    assert (note.rank, note.exit_code, note.attempt, note.message) == (0, 7, 2, "exit code 7 (started again once)")
    end = step(after(run, last), member(1, SUCCEEDED))
    assert (end.status.phase, end.status.reason, end.status.exit_code) == (Phase.FAILED, Reason.PROGRAM_FAILED, 7)
    assert end.status.message == "1 of 2 members failed; member 0: exit code 7 (started again once)"


@pytest.mark.parametrize("reason", [Reason.OUT_OF_MEMORY, Reason.COMMAND_NOT_FOUND, Reason.TIME_LIMIT])
def test_what_would_only_happen_again_is_not_tried_again(reason: Reason) -> None:
    """A member that ate its memory is not carried to another node, however many restarts there are (rule 7)."""
    answer = step(sweep(2, restarts=9), failed(0, reason, 137), member(1))
    assert (answer.status.sweep, answer.status.phase) == (SweepState(failed="0"), Phase.RUNNING)


@pytest.mark.parametrize("reason", [Reason.RUNS_AS_ROOT, Reason.IMAGE_UNFIT])
def test_what_holds_for_all_members_ends_them_all(reason: Reason) -> None:
    run = sweep(2)
    answer = step(run, failed(0, reason, None), member(1))
    assert (answer.status.phase, answer.status.reason) == (Phase.FAILED, reason)
    assert DeleteMembers(30, unfinished_only=True) in step(after(run, answer), failed(0, reason), member(1)).actions
    assert step(run, member(0, PENDING, reason=reason), member(1)).status.phase is Phase.FAILED


@pytest.mark.parametrize(
    "lost",
    [
        member(0, node_ready=False),
        member(0, node_draining=True),
        failed(0, Reason.EVICTED),
        failed(0, Reason.NODE_LOST, None),
        None,
    ],
    ids=["its node is silent", "its node is drained", "evicted", "lost", "deleted"],
)
def test_what_is_done_to_a_member_costs_it_nothing(lost: Member | None) -> None:
    run = sweep(2, restarts=0)
    seen = [each for each in (lost, member(1)) if each is not None]
    answer = step(run, *seen)
    assert (answer.status.sweep, answer.status.restarts) == (SweepState(again="0"), 0)
    assert answer.status.interruptions == 1
    next_look = step(after(run, answer), *seen)
    assert next_look.status.interruptions == 1
    assert taken_away(next_look) == (["bert-1-0"] if lost is not None else [])
    assert asked_of(step(after(run, next_look), member(1))) == (0,)


def test_a_member_on_a_dead_node_is_not_waited_for() -> None:
    run = sweep(2, sweep=SweepState(again="0"))
    lingering = member(0, node_ready=False, terminating=True)
    assert asked_of(step(run, lingering, member(1))) == (0,)
    assert asked_of(step(run, replace(lingering, node_ready=True), member(1))) == ()


def test_without_a_memory_limit_nobody_is_carried_to_another_node() -> None:
    run = sweep(2)
    unlimited = replace(run, limits=replace(run.limits, memory_limited=False))
    assert step(unlimited, failed(0, Reason.EVICTED), member(1)).status.sweep == SweepState(failed="0")
    assert step(unlimited, failed(0, Reason.PREEMPTED), member(1)).status.sweep == SweepState(again="0")


def test_somebody_elses_deletion_is_neither_success_nor_failure() -> None:
    run = sweep(2)
    for state in (SUCCEEDED, FAILED):
        ending = member(0, state, terminating=True, reason=Reason.PROGRAM_FAILED)
        assert step(run, ending, member(1)).status.sweep == SweepState()
    assert step(run, member(1)).status.sweep == SweepState(again="0")


def test_starts_that_fail_pause_further_ones_and_leave_the_others_alone() -> None:
    run = sweep(3)
    late = member(0, PENDING, reason=Reason.IMAGE_PULL, message="no such image")
    answer = step(run, late, member(1), member(2), at=timedelta(seconds=599))
    assert (answer.status.sweep, answer.wake_at) == (SweepState(), NOW + timedelta(seconds=600))
    answer = step(run, late, member(1), member(2), at=timedelta(seconds=600))
    assert (answer.status.sweep, answer.status.phase) == (SweepState(again="0"), Phase.RUNNING)
    assert (answer.status.reason, answer.status.failed_starts) == (Reason.IMAGE_PULL, 1)
    paused = step(after(run, answer), member(1), member(2), at=timedelta(seconds=605))
    assert (asked_of(paused), paused.wake_at) == ((), NOW + timedelta(seconds=610))
    assert paused.status.reason is Reason.IMAGE_PULL
    assert asked_of(step(after(run, paused), member(1), member(2), at=timedelta(seconds=610))) == (0,)


def test_members_that_fail_to_start_one_after_the_other_are_one_failed_start() -> None:
    run = sweep(3)
    first = step(run, failed(0, Reason.VOLUME, None), member(1, PENDING), member(2, PENDING))
    second = step(after(run, first), failed(0, Reason.VOLUME), failed(1, Reason.VOLUME, None), member(2, PENDING))
    assert (second.status.failed_starts, second.status.not_before) == (1, first.status.not_before)
    assert second.status.sweep == SweepState(again="0-1")


def test_room_in_a_quota_is_used_as_soon_as_a_member_ends() -> None:
    run = sweep(3, sweep=SweepState(again="2"), not_before="2026-11-21T12:09:00Z", failed_starts=3, reason=Reason.QUOTA)
    assert asked_of(step(run, member(0), member(1))) == ()
    answer = step(run, member(0, SUCCEEDED), member(1))
    assert asked_of(answer) == (2,)


def test_an_attempt_that_was_cut_off_is_completed_and_repeats_nobody_who_has_ended() -> None:
    """A member of it may be over before the last is made: the same name must not come twice."""
    run = sweep(4, sweep=SweepState(succeeded="0", again="1"))
    assert run.status.attempt is not None
    run.status.attempt.created = False
    answer = step(run, member(2))
    assert CreateMembers((3,)) in answer.actions
    whole = step(run, member(2), member(3))
    assert whole.status.attempt is not None and whole.status.attempt.created


def test_members_are_placed_several_at_a_time() -> None:
    """At once where a quarter of the places is free or nobody is there, else once a second."""
    run = sweep(100, at_once=8, sweep=SweepState(succeeded="0"))
    seven = [member(rank) for rank in range(1, 8)]
    early = timedelta(milliseconds=300)
    assert asked_of(step(run, *seven, at=early)) == ()
    assert step(run, *seven, at=early).wake_at == NOW + timedelta(seconds=1)
    assert asked_of(step(run, *seven, at=timedelta(seconds=1))) == (8,)
    fewer = replace(run, status=msgspec.structs.replace(run.status, sweep=SweepState(succeeded="0-1")))
    assert asked_of(step(fewer, *seven[1:], at=early)) == (8, 9)


def test_an_attempt_starts_a_thousand_at_most() -> None:
    run = Run("batch", 3000, Limits(), RunStatus(), sweep=Sweep(tuple(range(3000)), 3000))
    assert asked_of(step(run)) == tuple(range(STARTED_TOGETHER))


def test_why_further_members_wait_is_told_beside_those_that_run() -> None:
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


def test_it_stops_at_the_first_failure_if_asked_of() -> None:
    """The others are healthy: they have the grace of the run to write what they have."""
    run = sweep(4, stop_at="first-failure", restarts=0)
    answer = step(run, member(0), failed(1, code=3), member(2), member(3))
    assert (answer.status.phase, answer.status.exit_code) == (Phase.FAILED, 3)
    assert answer.status.message == "stopped at the first failure; member 1: exit code 3"
    tidy = step(after(run, answer), member(0), failed(1), member(2), member(3))
    assert tidy.actions == (DeleteMember("bert-1-1", "uid-1-1", 0), DeleteMembers(30, unfinished_only=True))


def test_a_failure_that_is_tried_again_is_not_the_first() -> None:
    assert step(sweep(2, stop_at="first-failure"), failed(0), member(1)).status.phase is Phase.RUNNING


def test_it_stops_at_the_first_success_if_asked_of() -> None:
    run = sweep(4, stop_at="first-success", restarts=0)
    answer = step(run, failed(0), member(1, SUCCEEDED), member(2), member(3))
    assert (answer.status.phase, answer.status.exit_code) == (Phase.SUCCEEDED, 0)
    assert "member 1 succeeded" in answer.status.message
    hopeless = step(run, *(failed(rank) for rank in range(4)))
    assert (hopeless.status.phase, hopeless.status.members.failed) == (Phase.FAILED, 4)


def test_stopped_it_keeps_what_has_ended_and_resumed_it_goes_on_with_the_rest() -> None:
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


def test_a_sweep_of_which_all_members_ended_has_ended_though_it_was_stopped() -> None:
    run = replace(sweep(2), stopped=True)
    assert step(run, member(0, SUCCEEDED), member(1, SUCCEEDED)).status.phase is Phase.SUCCEEDED


def test_resumed_after_it_was_stopped_in_mid_burst_it_makes_nobody_of_an_attempt_without_template() -> None:
    run = replace(sweep(2), stopped=True)
    assert run.status.attempt is not None
    run.status.attempt.created = False
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


def test_where_policy_refuses_it_by_now_its_members_end_by_themselves_and_nobody_joins() -> None:
    run = sweep(9, at_once=3, sweep=SweepState(succeeded="0"), members=MemberCounts(total=9))
    life = gang.outline("batch", 1, run.status, False)
    answer = step(life, member(1), member(2, SUCCEEDED))
    assert (answer.status.phase, asked_of(answer)) == (Phase.RUNNING, ())
    ended = step(life, member(1, SUCCEEDED), member(2, SUCCEEDED))
    assert (ended.status.phase, ended.status.members) == (Phase.QUEUED, MemberCounts(total=9, succeeded=3))


def test_its_status_stays_small_with_ten_thousand_members_whatever_their_states() -> None:
    """At worst no two neighbours are alike, a thousand are placed on nodes in no order, and many are worth a look."""
    indices = range(MAX_INDEX - 2 * MAX_MEMBERS + 1, MAX_INDEX, 2)
    assert len(indices) == MAX_MEMBERS
    ended, rest = indices[: MAX_MEMBERS // 2], indices[MAX_MEMBERS // 2 :]
    ledger = Ledger(
        set(ended[::2]), set(ended[1::2]), set(rest), {index: 1 + place % 100 for place, index in enumerate(rest)}
    )
    nodes = [f"ip-10-{i * 37 % 256}-{i * 91 % 256}.compute.internal" for i in range(STARTED_TOGETHER)]
    status = RunStatus(
        phase=Phase.RUNNING,
        attempts=99_999,
        attempt=Attempt(number=99_999, nodes=compress(nodes), ranks=ranges(list(rest[::2])[:STARTED_TOGETHER])),
        sweep=ledger.state(),
        notable=[Notable(rank=i, node=nodes[i], reason="ProgramFailed", message="x" * 300) for i in range(64)],
    )
    others = [
        GivesWayTo(to="n" * 127, uid="u" * 36, who="w" * 200, since="2026-11-21T12:00:00Z", ranks=ranges(rest[n::26]))
        for n in range(26)
    ]
    status.gives_way = GivesWay.of(others)
    assert damage(status) == ""
    assert Ledger.of(status.sweep) == ledger
    document = msgspec.json.encode(to_document(status))
    assert msgspec.json.decode(document, type=RunStatus) == status
    assert len(document) < 200_000  # 300 kB less what image, command and environment may take, twice


def test_what_members_took_is_expected_of_the_others() -> None:
    """The longest; twice as long once somebody runs for longer than that."""
    times: dict[str, Any] = {"started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T12:00:40Z"}
    answer = step(sweep(3), member(0, SUCCEEDED, **times), member(1), member(2))
    assert answer.status.sweep == SweepState(succeeded="0", longest_seconds=40, member_seconds=40)
    slow = member(1, started_at="2026-11-21T12:00:00Z")
    later = step(after(sweep(3), answer), slow, member(2), at=timedelta(seconds=100))
    assert later.status.sweep is not None and later.status.sweep.longest_seconds == 160


def test_what_members_had_of_the_cluster_is_counted_once_however_they_end() -> None:
    """Those that ended by themselves with what they took, those that are given up with what they have had by then."""
    took: dict[str, Any] = {"started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T12:00:10Z"}
    since: dict[str, Any] = {"started_at": "2026-11-21T12:00:00Z"}
    run, minute = sweep(4), timedelta(seconds=60)
    going = [member(2, **since), member(3, node_ready=False, **since)]
    answer = step(run, member(0, SUCCEEDED, **took), failed(1, **took), *going, at=minute)
    assert answer.status.sweep is not None
    assert (answer.status.sweep.member_seconds, answer.status.ran) == (10 + 10 + 60, None)
    again = step(after(run, answer), member(0, SUCCEEDED, **took), failed(1, **took), *going, at=minute)
    assert again.status.sweep == answer.status.sweep
    asked = GivesWay(to="vision/bert", uid="u", who="vision/bert (high, of ana)")
    leaves = replace(run, status=gang.give_way(run.status, asked))
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


def test_where_its_status_was_damaged_what_is_kept_of_its_members_counts() -> None:
    """Those that are known to have succeeded are not run again when it is resumed."""
    damaged = RunStatus(phase=Phase.FAILED, reason=Reason.STATUS_DAMAGED, attempts=3)
    run = replace(sweep(4), status=damaged, resumes=1)
    assert gang.lacks_its_ledger(run)
    assert not gang.lacks_its_ledger(replace(run, resumes=0))
    assert not gang.lacks_its_ledger(replace(run, sweep=None))
    answer = step(gang.with_kept_results(run, [0, 2]))
    assert answer.status.sweep == SweepState(succeeded="0,2")
    assert asked_of(answer) == (1, 3)


def test_how_long_it_ran_is_told_though_nobody_was_seen_running() -> None:
    run = sweep(2, phase=Phase.STARTING, started_at="")
    assert step(run, member(0, SUCCEEDED), member(1, SUCCEEDED)).status.ran == Ran(
        seconds=2, until="2026-11-21T12:00:02Z"
    )


def test_who_succeeded_while_it_ended_is_not_run_again() -> None:
    """Another member's success was enough; resumed, this one's is taken in."""
    run = sweep(3, stop_at="first-success")
    over = step(run, member(0, SUCCEEDED), member(1), member(2))
    resumed = replace(after(run, over), resumes=1, sweep=Sweep((0, 1, 2), 3))
    answer = step(resumed, member(1, SUCCEEDED))
    assert answer.status.sweep == SweepState(succeeded="0-1", again="2")
    assert asked_of(answer) == (2,)


def test_it_gives_way_as_a_whole_with_all_of_its_grace_and_comes_back() -> None:
    asked = GivesWay(to="vision/bert", uid="u", who="vision/bert (high, of ana)")
    run = sweep(3, sweep=SweepState(succeeded="0"))
    run = replace(run, status=gang.give_way(run.status, asked))
    answer = step(run, member(1), member(2))
    assert answer.status.sweep == SweepState(succeeded="0", again="1-2")
    assert answer.actions == (DeleteMembers(30, unfinished_only=True),)
    ending = step(after(run, answer), member(1, terminating=True), member(2, terminating=True))
    assert (ending.status.reason, ending.status.interruptions, asked_of(ending)) == (Reason.PREEMPTED, 1, ())
    gone = step(after(run, ending))
    assert (gone.status.phase, gone.status.reason, asked_of(gone)) == (Phase.QUEUED, Reason.PREEMPTED, (1, 2))
    not_any_more = step(unwanted(run), member(1), member(2))
    assert (not_any_more.status.gives_way, not_any_more.actions) == (None, ())


def unwanted(run: Run, *to: str) -> Run:
    """Those (all of them, where none is named) that it gives way to do not wait any more."""
    asked = run.status.gives_way
    assert asked is not None
    return replace(run, unwanted=frozenset(each.waiting for each in asked.each if not to or each.to in to))


def some_give_way(ranks: str, **status: Any) -> Run:
    """A sweep of four, of which these members are asked to give way."""
    asked = GivesWay(to="vision/bert", uid="u", who="vision/bert (high, of ana)", ranks=ranks, attempt=1)
    run = sweep(4, **status)
    return replace(run, status=gang.give_way(run.status, asked))


def test_of_some_that_give_way_the_others_notice_nothing() -> None:
    """They are started again, which costs no restart; what they left is promised until whoever waits for it has it."""
    run = some_give_way("1-2")
    assert run.status.message == "members 1-2 give way to vision/bert (high, of ana)"
    four = [member(rank) for rank in range(4)]
    answer = step(run, *four)
    assert (answer.status.sweep, answer.actions) == (SweepState(again="1-2"), ())
    told = step(after(run, answer), *four)
    assert told.actions == tuple(DeleteMember(each.pod, each.uid, 30) for each in four[1:3])
    assert (told.status.phase, told.status.reason) == (Phase.RUNNING, Reason.PREEMPTED)
    assert told.status.message.endswith("2 members still ending, within 30 s")
    gone = step(after(run, told), member(0), member(3))
    assert (gone.status.phase, gone.status.reason, asked_of(gone)) == (Phase.RUNNING, Reason.NONE, (1, 2))
    assert (gone.status.restarts, gone.status.interruptions) == (0, 1)
    waits = gang.keep_waiting(gone.status, Reason.WAITING_FOR_GPU, "needs 8 h100")
    assert waits.gives_way is not None
    placed = gang.place_sweep(waits, [1], "n9", {}, NOW, launcher="array")
    assert placed.gives_way == run.status.gives_way and placed.attempt is not None
    placed.attempt.created = True
    again = step(replace(run, status=placed), member(0), member(1, attempt=2), member(3))
    assert (again.status.sweep, again.status.interruptions) == (SweepState(again="2"), 1)
    started = step(unwanted(replace(run, status=placed)), member(0), member(1, attempt=2), member(3))
    assert (started.status.gives_way, asked_of(started)) == (None, (2,))


def test_of_many_members_that_give_way_their_number_is_told() -> None:
    many = ",".join(map(str, range(0, 140, 2)))
    assert some_give_way(many).status.message == "70 members give way to vision/bert (high, of ana)"


def test_some_that_are_not_told_yet_go_on_if_nobody_waits_any_more() -> None:
    """Once it is written that they are to be started again, they leave."""
    run, four = some_give_way("3"), [member(rank) for rank in range(4)]
    assert run.status.message == "member 3 gives way to vision/bert (high, of ana)"
    stays = step(unwanted(run), *four)
    assert (stays.status.gives_way, stays.status.sweep, stays.actions) == (None, SweepState(), ())
    written = after(run, step(run, *four))
    leaves = step(unwanted(written), *four)
    assert leaves.actions == (DeleteMember(four[3].pod, four[3].uid, 30),)
    assert "which does not wait for it any more" in leaves.status.message
    gone = step(unwanted(after(run, leaves)), *four[:3])
    assert (gone.status.gives_way, asked_of(gone)) == (None, (3,))


def test_members_give_way_to_several_runs_each_for_itself() -> None:
    """Each is told, and comes back, as if it were alone; what is over for one of them is not over for the others."""
    run = some_give_way("1")
    assert run.status.gives_way is not None
    first = run.status.gives_way
    four = [member(rank) for rank in range(4)]
    run = after(run, step(run, *four))
    asked = GivesWay(to="nlp/two", uid="u2", who="nlp/two (high)", ranks="2-3", attempt=1, others=first.each)
    run = replace(run, status=gang.give_way(run.status, asked))
    words = "members 2-3 give way to nlp/two (high); member 1 gives way to vision/bert (high, of ana)"
    assert run.status.message == words
    answer = step(run, *four)
    assert (answer.status.sweep, answer.status.interruptions) == (SweepState(again="1-3"), 2)
    assert answer.actions == (DeleteMember(four[1].pod, four[1].uid, 30),)  # that of the others is not written yet
    told = step(after(run, answer), *four)
    assert told.actions == tuple(DeleteMember(each.pod, each.uid, 30) for each in four[1:])
    assert told.status.interruptions == 2
    assert told.status.message == f"{words}; 3 members still ending, within 30 s"
    # 1. One of them is gone, and whom it gave way to has what it waited for.
    later = step(unwanted(after(run, told), "vision/bert"), four[0], *four[2:])
    assert later.status.gives_way is not None and [each.to for each in later.status.gives_way.each] == ["nlp/two"]
    assert later.status.message == "members 2-3 give way to nlp/two (high); 2 members still ending, within 30 s"
    # 2. Or the other two.
    later = step(unwanted(after(run, told), "nlp/two"), *four[:2])
    assert later.status.gives_way == first
    assert later.status.message.startswith("member 1 gives way to vision/bert (high, of ana); 1 member still ending")
    # 3. Or they are gone, and it still waits: what they left stays promised.
    later = step(after(run, told), *four[:2])
    assert (later.status.gives_way, later.status.message.count("way to")) == (asked, 1)
    # 4. All are gone.
    gone = step(after(run, told), four[0])
    assert (gone.status.gives_way, gone.status.reason, asked_of(gone)) == (asked, Reason.NONE, (1, 2, 3))


def test_of_several_whom_members_give_way_to_one_does_not_wait_any_more() -> None:
    """Its members go on if they were not told yet; the others leave."""
    first = some_give_way("1").status.gives_way
    assert first is not None
    asked = GivesWay(to="nlp/two", uid="u2", who="nlp/two (high)", ranks="2-3", attempt=1, others=first.each)
    run, four = sweep(4), [member(rank) for rank in range(4)]
    run = replace(run, status=gang.give_way(run.status, asked))
    answer = step(unwanted(run, "nlp/two"), *four)
    assert (answer.status.sweep, answer.status.gives_way) == (SweepState(again="1"), first)
    both = step(unwanted(run), *four)
    assert (both.status.sweep, both.status.gives_way, both.actions) == (SweepState(), None, ())
    assert both.status.message == "goes on: nlp/two and vision/bert do not wait for its nodes any more"


def test_of_many_runs_that_members_give_way_to_some_are_named() -> None:
    others = tuple(GivesWay(to=f"t/r{n}", uid=f"u{n}", who=f"t/r{n}", ranks=str(n), attempt=1) for n in range(1, 6))
    asked = GivesWay(to="t/r0", uid="u0", who="t/r0", ranks="0", attempt=1, others=others)
    said = "; ".join(f"member {n} gives way to t/r{n}" for n in range(3))
    assert gang.give_way(RunStatus(), asked).message == f"{said}; others to 3 more runs"


def test_who_ends_while_it_is_to_give_way_has_ended() -> None:
    run = some_give_way("0,3")
    answer = step(run, member(0, SUCCEEDED), member(1), member(2), member(3))
    assert answer.status.sweep == SweepState(succeeded="0", again="3")
    over = step(run, member(0, SUCCEEDED), member(1), member(2), member(3, SUCCEEDED))
    assert (over.status.sweep, over.status.reason) == (SweepState(succeeded="0,3"), Reason.NONE)


def test_members_that_the_api_server_refuses_are_tried_again_later() -> None:
    run = sweep(4, restarts=0)
    status = gang.sweep_refused(run, run.status, Reason.QUOTA, "no room", (2, 3), NOW)
    assert (status.sweep, status.reason, status.failed_starts) == (SweepState(again="2-3"), Reason.QUOTA, 1)
    assert status.attempt is not None and status.attempt.created
    paused = step(replace(run, status=status), member(0), member(1))
    assert (asked_of(paused), paused.status.interruptions) == ((), 0)
    assert asked_of(step(replace(run, status=status), member(0), member(1), at=timedelta(seconds=11))) == (2, 3)


def test_those_that_a_quota_had_no_room_for_are_no_part_of_the_attempt() -> None:
    run = sweep(4)
    status = gang.made_in_part(run.status, [1, 3])
    assert status.attempt is not None
    assert gang.node_by_rank(status.attempt) == {0: "n0", 2: "n2"}
    answer = step(replace(run, status=status), member(0), member(2))
    assert (asked_of(answer), answer.status.interruptions) == ((1, 3), 0)
