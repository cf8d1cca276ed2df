"""The life of a sweep: independent members, a limited number of them at once, each started until it has ended.

An attempt covers those that are started together, as in a service. How each member stands is written into the status
(`gang.ledger`) before its Pod is taken away: from what is written and what is seen, whoever leads next goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from kajitori.core.gang.judgement import Judgement
from kajitori.core.gang.ledger import Ledger
from kajitori.core.gang.preemption import describe_ending, describe_withdrawal
from kajitori.core.gang.progress import (
    AVOID_AFTER_FAILURES,
    as_starting,
    blocked_members,
    earliest,
    end_members,
    finish,
    is_preempted_by,
    members_text,
    node_by_rank,
    notes_of,
    place_on,
    preemptions_of,
    stop_members,
    with_backoff,
    with_reason,
)
from kajitori.core.gang.types import (
    Action,
    CreateMembers,
    DeleteMember,
    Member,
    MemberState,
    NeedsNodes,
    Run,
    Step,
    Sweep,
)
from kajitori.core.spec.reasons import START_FAILURES, WAITING, Phase, Reason
from kajitori.core.spec.status import NOTABLE_LIMIT, GivesWay, GivesWayTo, MemberCounts, RunStatus
from kajitori.core.words.node_lists import compress, compress_ranks
from kajitori.core.words.times import format_time, parse_time

MAX_PLACED_AT_ONCE = 1000
"""So many members are placed by one attempt at most: its list of nodes stays small however scattered they are."""

REMOVED_AT_ONCE = 256
"""Pods of members that have ended, at one look; the next look has the others."""

CYCLE = timedelta(seconds=1)
"""Unless a quarter of its places is free, a sweep is given nodes at most this often: each time is two writes of the
Run, whatever the number of members."""


def sweep_step(run: Run, sweep: Sweep, status: RunStatus, members: Sequence[Member], now: datetime) -> Step:
    """What a sweep needs next."""
    stored = Ledger.of(run.status.sweep)  # what is not written yet is not acted on
    newest = _newest(members)
    removals = _removals(run, sweep, stored, newest, members)
    # 1. Who has ended since, and how; who has to be started anew.
    judgement = Judgement(run, sweep, status, Ledger.of(status.sweep), now)
    judgement.judge(newest)
    status, ledger = judgement.status, judgement.ledger
    status = msgspec.structs.replace(status, sweep=ledger.state())
    status = _with_counts(run, sweep, status, ledger, newest)
    # 2. Is it over?
    end = judgement.hopeless or _outcome(sweep, status, ledger)
    going = [each for each in newest.values() if each.blocks_restart and not _is_recorded(ledger, each)]
    if end is not None:
        phase, reason, message, exit_code = end
        ledger.add_member_seconds(going, now)
        status = msgspec.structs.replace(status, sweep=ledger.state())
        return Step(finish(status, phase, reason, message, now, exit_code=exit_code), removals)
    alive = [member for member in members if member.blocks_restart]
    if run.stopped:
        if not alive:
            return Step(finish(status, Phase.STOPPED, Reason.STOPPED_BY_USER, "stopped on request", now), removals)
        if run.status.reason is not Reason.STOPPING:
            ledger.add_member_seconds(going, now)
            status = msgspec.structs.replace(status, sweep=ledger.state())
        status = with_reason(status, Reason.STOPPING, f"asked to stop; {members_text(len(alive))} still running")
        return Step(status, (*removals, *stop_members(alive, run.limits.last_grace_seconds)))
    if status.gives_way is not None and alive:
        leaves = _preempt_members(run, status, ledger, alive, removals, now)
        if leaves is not None:
            return leaves
        status = _without_finished_preemptions(run, status)
    status = _with_phase(status, alive, now)
    # 3. An attempt that was begun is completed before the next.
    attempt = status.attempt
    if attempt is not None and not attempt.created:
        made = {member.rank for member in members if member.attempt == attempt.number}
        wanted = [rank for rank in node_by_rank(attempt) if rank in set(sweep.indices) and rank not in made]
        to_make = [rank for rank in wanted if not ledger.has_ended(rank) and rank not in ledger.again]
        if to_make:
            if not alive:
                status = with_reason(status, Reason.CREATING, f"creating {members_text(len(to_make))}")
            return Step(status, (*removals, CreateMembers(tuple(to_make))))
        status = msgspec.structs.replace(status, attempt=msgspec.structs.replace(attempt, created=True))
    # 4. Ask for as many nodes as may be used now.
    wake_at = judgement.next_deadline
    ask = _to_place(sweep, ledger, members, len(alive))
    if not ask:
        if status.reason in WAITING:
            status = with_reason(status, Reason.NONE, "")
        return Step(status, removals, wake_at)
    not_before = _earliest_start(sweep, status, len(alive))
    if not_before is not None and now < not_before:
        return Step(status, removals, earliest(wake_at, not_before))
    planned_at = status.attempt.planned_at if status.attempt is not None else ""
    avoid = frozenset(node for node, failures in status.avoid_nodes.items() if failures >= AVOID_AFTER_FAILURES)
    since = max(planned_at, status.queued_at)
    return Step(status, (*removals, NeedsNodes(ask, {}, avoid, fewest=1, since=since)), wake_at)


def _preempt_members(
    run: Run, status: RunStatus, ledger: Ledger, alive: Sequence[Member], removals: Sequence[Action], now: datetime
) -> Step | None:
    """Those that were asked give way, with all of their grace, and are started anew when there is room. None once they
    have, and others go on."""
    going, kept, taken_back = list[GivesWayTo](), list[GivesWayTo](), list[GivesWayTo]()
    ending: dict[str, Member] = {}
    for asked in preemptions_of(status):
        theirs = [each for each in alive if is_preempted_by(asked, each.rank, each.attempt)]
        told = any(member.terminating or member.rank in ledger.again for member in theirs)
        if theirs and (told or run.preemptor_waits(asked)):
            going.append(asked)
            ending |= {member.pod: member for member in theirs}
        elif theirs:
            taken_back.append(asked)
        if asked in going or (not theirs and run.preemptor_waits(asked)):  # what they left stays promised
            kept.append(asked)
    status = msgspec.structs.replace(status, gives_way=GivesWay.of(kept) if kept else None)
    if not going and not taken_back:
        return None
    if not going:
        return Step(with_reason(status, Reason.NONE, describe_withdrawal(taken_back)), (*removals,))
    leaving = {member.rank for member in ending.values() if not ledger.has_ended(member.rank)}
    if not leaving <= ledger.again:
        ledger.add_member_seconds((member for member in ending.values() if not _is_recorded(ledger, member)), now)
        ledger.again |= leaving
        status = msgspec.structs.replace(status, interruptions=status.interruptions + 1, sweep=ledger.state())
    status = with_reason(status, Reason.PREEMPTED, describe_ending(run, GivesWay.of(going), len(ending)))
    if all(asked.ranks for asked in going):  # each is ended alone, once that is written
        return Step(status, (*removals,))
    return Step(status, (*removals, *end_members(list(ending.values()), run.limits.grace_seconds)))


def _without_finished_preemptions(run: Run, status: RunStatus) -> RunStatus:
    """The status once those are gone that gave way. What they left stays promised to whoever waits for it."""
    asked = [each for each in preemptions_of(status) if run.preemptor_waits(each)]
    reason, message = (Reason.NONE, "") if status.reason is Reason.PREEMPTED else (status.reason, status.message)
    return msgspec.structs.replace(
        status, gives_way=GivesWay.of(asked) if asked else None, reason=reason, message=message
    )


def _is_recorded(ledger: Ledger, member: Member) -> bool:
    """Whether a member's end is taken in already."""
    return ledger.has_ended(member.rank) or member.rank in ledger.again


def end_sweep(run: Run, sweep: Sweep, status: RunStatus, members: Sequence[Member]) -> Step:
    """What is left to do for one that has ended: its members end, the Pods of those that have are taken away."""
    removals = _removals(run, sweep, Ledger.of(run.status.sweep), _newest(members), members)
    return Step(status, (*removals, *end_members(members, run.limits.grace_seconds)))


def resume_sweep(status: RunStatus, members: Iterable[Member]) -> RunStatus:
    """The status of a sweep that goes on after its end: with all members that did not succeed. Whoever did meanwhile is
    still to be taken in."""
    ledger = Ledger.of(status.sweep)
    newest = _newest(members)
    begun = {*newest, *(node_by_rank(status.attempt) if status.attempt is not None else ())}
    ledger.resume(begun - {rank for rank, member in newest.items() if member.state is MemberState.SUCCEEDED})
    if status.attempt is not None:
        status = msgspec.structs.replace(status, attempt=msgspec.structs.replace(status.attempt, created=True))
    return msgspec.structs.replace(status, sweep=ledger.state())


def has_lost_ledger(run: Run, members: Sequence[Member]) -> bool:
    """Whether a sweep goes on whose status was lost, or damaged before it was resumed: what is kept of its members'
    results has to tell how they stand."""
    if run.sweep is None or run.stopped or run.deleting:
        return False
    status = run.status
    if status.phase.is_final:
        return run.resumes > status.resumes and status.reason is Reason.STATUS_DAMAGED
    return status.sweep is None and status.attempt is None and bool(status.attempts or members)


def with_succeeded(run: Run, succeeded: Iterable[int]) -> Run:
    """Such a run, with what is known of those of its members that succeeded."""
    ledger = Ledger(succeeded=set(succeeded))
    return replace(run, status=msgspec.structs.replace(run.status, sweep=ledger.state()))


def place_sweep(
    status: RunStatus,
    ranks: Sequence[int],
    nodes: str,
    template: dict[str, object],
    now: datetime,
    *,
    launcher: str,
    bind_direct: bool = False,
) -> RunStatus:
    """The status of a sweep of which these members get these nodes (a compact list, in their order)."""
    ledger = Ledger.of(status.sweep)
    ledger.again.difference_update(ranks)
    goes_on = status.phase is Phase.RUNNING
    asked = status.gives_way if status.gives_way is not None and status.gives_way.ranks else None
    status = place_on(status, ranks, nodes, template, 0, 0, now, launcher=launcher, bind_direct=bind_direct)
    assert status.attempt is not None
    attempt = msgspec.structs.replace(status.attempt, world_size=1)
    if goes_on:  # with the others: nothing to be told, and what some of them left is still for whom they did
        status = msgspec.structs.replace(status, phase=Phase.RUNNING, reason=Reason.NONE, gives_way=asked)
    return msgspec.structs.replace(status, sweep=ledger.state(), attempt=attempt)


def _earliest_start(sweep: Sweep, status: RunStatus, alive: int) -> datetime | None:
    """Before when no further members are placed: a pause after failed starts, or so that several are placed at once."""
    pause_ends = parse_time(status.not_before)
    planned_at = parse_time(status.attempt.planned_at) if status.attempt is not None else None
    is_limited = sweep.at_once < len(sweep.indices)
    if planned_at is None or not alive or (is_limited and 4 * (sweep.at_once - alive) >= sweep.at_once):
        return pause_ends
    return max(pause_ends or planned_at, planned_at + CYCLE)


def failed_to_create_in_sweep(
    run: Run, status: RunStatus, reason: Reason, message: str, not_made: Sequence[int], now: datetime
) -> RunStatus:
    """The API server refused a member for good (quota, admission): those that were not made are tried again later."""
    ledger = Ledger.of(status.sweep)
    ledger.again.update(not_made)
    status, seconds = with_backoff(status, run.limits, now)
    message = f"{message}; tried again in {seconds} s"
    attempt = msgspec.structs.replace(status.attempt, created=True) if status.attempt is not None else None
    phase = Phase.RUNNING if status.members.running else Phase.QUEUED
    return msgspec.structs.replace(
        status, phase=phase, reason=reason, message=message[:1000], attempt=attempt, sweep=ledger.state()
    )


def without_uncreated(status: RunStatus, left_out: Sequence[int]) -> RunStatus:
    """The status of a sweep without those of its attempt that were not made: the quota had no room for them."""
    assert status.attempt is not None
    nodes = node_by_rank(status.attempt)
    kept = [rank for rank in nodes if rank not in left_out]
    attempt = msgspec.structs.replace(
        status.attempt, ranks=compress_ranks(kept), nodes=compress([nodes[rank] for rank in kept])
    )
    return msgspec.structs.replace(status, attempt=attempt)


def _newest(members: Iterable[Member]) -> dict[int, Member]:
    newest: dict[int, Member] = {}
    for member in members:
        if member.rank not in newest or member.attempt > newest[member.rank].attempt:
            newest[member.rank] = member
    return newest


def _removals(
    run: Run, sweep: Sweep, stored: Ledger, newest: dict[int, Member], members: Sequence[Member]
) -> tuple[Action, ...]:
    """Pods that are no longer needed, as far as that is written: those of members that have ended or are given up."""
    indices = frozenset(sweep.indices)
    found: list[Action] = []
    for member in members:
        is_old = member is not newest[member.rank] or member.rank not in indices
        if member.terminating or not (is_old or stored.has_ended(member.rank) or member.rank in stored.again):
            continue
        grace = 0 if member.is_over or not member.node_ready else run.limits.grace_seconds
        found.append(DeleteMember(member.pod, member.uid, grace))
        if len(found) == REMOVED_AT_ONCE:
            break
    return tuple(found)


def _to_place(sweep: Sweep, ledger: Ledger, members: Sequence[Member], alive: int) -> tuple[int, ...]:
    """Which members get nodes next, those first that were started before.

    Who still has a Pod waits until it is gone, unless that is on a dead node (rule 6).
    """
    room = max(0, min(sweep.at_once - alive, MAX_PLACED_AT_ONCE))
    there = {member.rank for member in members if member.node_ready or not member.terminating}
    open_ones = [index for index in sweep.indices if not ledger.has_ended(index) and index not in there]
    if len(open_ones) > room:
        open_ones.sort(key=lambda index: index not in ledger.again)  # stable: by index otherwise
        open_ones = open_ones[:room]
    return tuple(sorted(open_ones))


def _with_counts(run: Run, sweep: Sweep, status: RunStatus, ledger: Ledger, newest: dict[int, Member]) -> RunStatus:
    """The status with the members' counts and the few worth a look."""
    indices = frozenset(sweep.indices)
    current = [
        member
        for rank, member in newest.items()
        if rank in indices and not ledger.has_ended(rank) and rank not in ledger.again
    ]
    states = [member.state for member in current]
    counts = MemberCounts(
        total=run.replicas,
        pending=states.count(MemberState.PENDING),
        running=states.count(MemberState.RUNNING),
        succeeded=len(indices & ledger.succeeded),
        failed=len(indices & ledger.failed),
    )
    failed = [note for note in status.notable if note.rank in ledger.failed]
    waiting = notes_of(blocked_members(current)[:NOTABLE_LIMIT], status.notable)
    return msgspec.structs.replace(status, members=counts, notable=[*failed, *waiting][:NOTABLE_LIMIT])


def _outcome(sweep: Sweep, status: RunStatus, ledger: Ledger) -> tuple[Phase, Reason, str, int | None] | None:
    """Phase, reason, words and exit code of a sweep that is over now; None while it is not."""
    total, failed, succeeded = status.members.total, status.members.failed, status.members.succeeded
    if sweep.stop_at == "first-success" and succeeded:
        first = min(ledger.succeeded & frozenset(sweep.indices))
        return Phase.SUCCEEDED, Reason.NONE, f"member {first} succeeded, which was to be enough", 0
    all_ended = failed + succeeded >= total
    if failed and (all_ended or sweep.stop_at == "first-failure"):
        first_note = next((note for note in status.notable if note.rank in ledger.failed), None)
        words = f"{failed} of {members_text(total)} failed" if all_ended else "stopped at the first failure"
        if first_note is None:
            return Phase.FAILED, Reason.PROGRAM_FAILED, words, None
        message = f"{words}; {'the first: ' if failed > 1 else ''}member {first_note.rank}: {first_note.message}"
        return Phase.FAILED, Reason(first_note.reason), message, first_note.exit_code
    return (Phase.SUCCEEDED, Reason.NONE, "", 0) if all_ended else None


def _with_phase(status: RunStatus, alive: Sequence[Member], now: datetime) -> RunStatus:
    """The phase, by who is there; why further members wait stays with it as the queue told it."""
    is_told = (
        status.gives_way is not None
        or status.reason in WAITING
        or (status.reason in START_FAILURES and bool(status.not_before))
    )
    if any(member.state is MemberState.RUNNING for member in alive) or (alive and status.started_at):
        reason, message = (status.reason, status.message) if is_told else (Reason.NONE, "")
        started_at = status.started_at or format_time(now)
        return msgspec.structs.replace(
            status, phase=Phase.RUNNING, reason=reason, message=message, started_at=started_at
        )
    if alive:
        return as_starting(status, [member for member in alive if member.state is MemberState.PENDING])
    if status.attempt is not None and not status.attempt.created:
        return msgspec.structs.replace(status, phase=Phase.STARTING)
    if not is_told:
        status = with_reason(status, Reason.NOT_PLANNED_YET, "")
    return msgspec.structs.replace(status, phase=Phase.QUEUED)
