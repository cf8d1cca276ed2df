"""The life of a sweep: independent members, a limited number of them at once, each started until it has ended.

An attempt covers the members that are started together, as in a service. The progress of each member is written into
the status (`sweep_ledger`) before its Pod is deleted, so the next leader can continue from the status and the Pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from kajitori.core.formats.node_lists import compress, compress_ranks
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.preemption import describe_ending, describe_withdrawal
from kajitori.core.gang.status.member_notes import blocked_members, members_text, notes_of
from kajitori.core.gang.status.preemptions import is_preempted_by, preemptions_of
from kajitori.core.gang.status.progress import (
    as_starting,
    describe_stopping,
    earliest,
    end_members,
    finish,
    node_by_rank,
    place_on,
    stop_members,
    why_stopped,
    with_backoff,
    with_reason,
)
from kajitori.core.gang.sweep_ledger import Ledger
from kajitori.core.gang.sweeps.judgement import Judgement, SweepEnd
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
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.avoided_nodes import avoided_nodes
from kajitori.core.spec.status_parts.members import NOTABLE_LIMIT, MemberCounts
from kajitori.core.spec.status_parts.preemption import Preempted, PreemptedBy
from kajitori.core.usage.ledger import detached, release

MAX_PLACED_AT_ONCE = 1000
"""Most members that one attempt places. It bounds the length of the attempt's node list, however scattered they are."""

REMOVED_AT_ONCE = 256
"""Most Pods of ended members that one step deletes; later steps delete the others."""

CYCLE = timedelta(seconds=1)
"""Shortest time between two placements of a sweep, unless a quarter of its places is free.

Each placement costs two writes of the Run, whatever the number of members.
"""


def sweep_step(run: Run, sweep: Sweep, status: RunStatus, members: Sequence[Member], now: datetime) -> Step:
    """Return the next step of a sweep."""
    stored = Ledger.of(run.status.sweep)  # Pods are deleted only after their members' end was written
    newest = _newest_by_index(members)
    removals = _removals(run, sweep, stored, newest, members)
    # 1. Record which members ended since, and which need another start.
    judgement = Judgement(run, sweep, status, Ledger.of(status.sweep), now)
    judgement.judge(newest)
    status, ledger = judgement.status, judgement.ledger
    status = _with_counts(run, sweep, status, ledger, newest)
    # 2. Finish the sweep if its members have ended, or if it was stopped.
    end = judgement.fatal or _outcome(sweep, status, ledger)
    unfinished = [m for m in newest.values() if m.blocks_restart and not _is_recorded(ledger, m)]
    if end is not None:
        ledger.add_member_seconds(unfinished, now)
        status = msgspec.structs.replace(status, sweep=ledger.state())
        return Step(finish(status, end.phase, end.reason, end.message, now, exit_code=end.exit_code), removals)
    alive = [member for member in members if member.blocks_restart]
    if run.stopped:
        return _stop(run, status, ledger, alive, unfinished, removals, now)
    if status.preemption is not None and alive:
        preemption = _preempt_members(run, status, ledger, alive, removals, now)
        if preemption is not None:
            return preemption
        status = _without_finished_preemptions(run, status)
    status = _with_phase(status, alive, now)
    # 3. Complete an attempt that was begun before the next one.
    attempt = status.attempt
    if attempt is not None and not attempt.created:
        created = {member.rank for member in members if member.attempt == attempt.number}
        wanted = frozenset(sweep.indices) - created - ledger.again
        to_make = [rank for rank in node_by_rank(attempt) if rank in wanted and not ledger.has_ended(rank)]
        if to_make:
            if not alive:
                status = with_reason(status, Reason.CREATING, f"creating {members_text(len(to_make))}")
            return Step(status, (*removals, CreateMembers(tuple(to_make))))
        status = msgspec.structs.replace(status, attempt=msgspec.structs.replace(attempt, created=True))
    # 4. Ask for as many nodes as the sweep may use now.
    return _ask_for_nodes(sweep, status, ledger, members, removals, now, wake_at=judgement.next_deadline)


def _stop(
    run: Run,
    status: RunStatus,
    ledger: Ledger,
    alive: Sequence[Member],
    unfinished: Sequence[Member],
    removals: Sequence[Action],
    now: datetime,
) -> Step:
    """Return the step of a sweep that was stopped: its members end, and then the sweep."""
    if not alive:
        return Step(finish(status, Phase.STOPPED, *why_stopped(run), now), tuple(removals))
    if run.status.reason is not Reason.STOPPING:
        ledger.add_member_seconds(unfinished, now)
        status = msgspec.structs.replace(status, sweep=ledger.state())
    status = with_reason(status, Reason.STOPPING, describe_stopping(run, alive))
    return Step(status, (*removals, *stop_members(alive, run.limits.last_grace_seconds)))


def _ask_for_nodes(
    sweep: Sweep,
    status: RunStatus,
    ledger: Ledger,
    members: Sequence[Member],
    removals: Sequence[Action],
    now: datetime,
    *,
    wake_at: datetime | None,
) -> Step:
    """Return the step that asks for nodes of members that may start now; `wake_at` is when the sweep is looked at again
    in any case."""
    alive = [member for member in members if member.blocks_restart]
    ask = _to_place(sweep, ledger, members, len(alive))
    if not ask:
        if status.reason in WAITING:
            status = with_reason(status, Reason.NONE, "")
        return Step(status, tuple(removals), wake_at)
    not_before = _earliest_start(sweep, status, len(alive))
    if not_before is not None and now < not_before:
        return Step(status, tuple(removals), earliest(wake_at, not_before))
    planned_at = status.attempt.planned_at if status.attempt is not None else ""
    avoid = avoided_nodes(status.avoid_nodes, is_sweep=True)
    since = max(planned_at, status.queued_at)
    return Step(status, (*removals, NeedsNodes(ask, {}, avoid, fewest=1, since=since)), wake_at)


def _preempt_members(
    run: Run, status: RunStatus, ledger: Ledger, alive: Sequence[Member], removals: Sequence[Action], now: datetime
) -> Step | None:
    """Return the step that ends the preempted members with their full grace; they start again when there is room.

    None once they have ended, and the other members go on.
    """
    ending, kept, withdrawn = list[PreemptedBy](), list[PreemptedBy](), list[PreemptedBy]()
    ending_members: dict[str, Member] = {}
    for preemption in preemptions_of(status):
        concerned = [member for member in alive if is_preempted_by(preemption, member.rank, member.attempt)]
        begun = any(member.terminating or member.rank in ledger.again for member in concerned)
        if concerned and (begun or run.preemptor_waits(preemption)):
            ending.append(preemption)
            ending_members |= {member.pod: member for member in concerned}
        elif concerned:
            withdrawn.append(preemption)
        if preemption in ending or (not concerned and run.preemptor_waits(preemption)):  # its nodes stay reserved
            kept.append(preemption)
    status = msgspec.structs.replace(status, preemption=Preempted.of(kept) if kept else None)
    if not ending and not withdrawn:
        return None
    if not ending:
        return Step(with_reason(status, Reason.NONE, describe_withdrawal(withdrawn)), (*removals,))
    ranks = {member.rank for member in ending_members.values() if not ledger.has_ended(member.rank)}
    if not ranks <= ledger.again:
        new = (member for member in ending_members.values() if not _is_recorded(ledger, member))
        ledger.add_member_seconds(new, now)
        ledger.again |= ranks
        status = msgspec.structs.replace(status, interruptions=status.interruptions + 1, sweep=ledger.state())
    status = with_reason(status, Reason.PREEMPTED, describe_ending(run, Preempted.of(ending), len(ending_members)))
    if all(preemption.ranks for preemption in ending):  # `_removals` deletes each Pod once this is written
        return Step(status, (*removals,))
    return Step(status, (*removals, *end_members(list(ending_members.values()), run.limits.grace_seconds)))


def _without_finished_preemptions(run: Run, status: RunStatus) -> RunStatus:
    """Return the status after preempted members have ended. Their nodes stay reserved while preemptors wait."""
    kept = [preemption for preemption in preemptions_of(status) if run.preemptor_waits(preemption)]
    reason, message = (Reason.NONE, "") if status.reason is Reason.PREEMPTED else (status.reason, status.message)
    preemption = Preempted.of(kept) if kept else None
    return msgspec.structs.replace(status, preemption=preemption, reason=reason, message=message)


def _is_recorded(ledger: Ledger, member: Member) -> bool:
    """Return whether the ledger already has this member's end."""
    return ledger.has_ended(member.rank) or member.rank in ledger.again


def end_sweep(run: Run, sweep: Sweep, status: RunStatus, members: Sequence[Member]) -> Step:
    """Return the step of a finished sweep: end members that still run, and delete the Pods of the others."""
    removals = _removals(run, sweep, Ledger.of(run.status.sweep), _newest_by_index(members), members)
    return Step(status, (*removals, *end_members(members, run.limits.grace_seconds)))


def resume_sweep(status: RunStatus, members: Iterable[Member]) -> RunStatus:
    """Return the status of a sweep that is resumed after its end.

    All members that did not succeed are queued again. Members that succeeded meanwhile are not requeued; the next
    judgement records them.
    """
    ledger = Ledger.of(status.sweep)
    newest = _newest_by_index(members)
    begun = {*newest, *(node_by_rank(status.attempt) if status.attempt is not None else ())}
    ledger.resume(begun - {rank for rank, member in newest.items() if member.state is MemberState.SUCCEEDED})
    if status.attempt is not None:
        status = msgspec.structs.replace(status, attempt=msgspec.structs.replace(status.attempt, created=True))
    return msgspec.structs.replace(status, sweep=ledger.state())


def has_lost_ledger(run: Run, members: Sequence[Member]) -> bool:
    """Return whether the sweep must continue, but its status was lost, or damaged before it was resumed.

    Its progress then has to come from the kept results of its members.
    """
    if run.sweep is None or run.stopped or run.deleting:
        return False
    status = run.status
    if status.phase.is_final:
        return run.resumes > status.resumes and status.reason is Reason.STATUS_DAMAGED
    return status.sweep is None and status.attempt is None and bool(status.attempts or members)


def with_succeeded(run: Run, succeeded: Iterable[int]) -> Run:
    """Return the run with a ledger in which these members succeeded."""
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
    """Return the status of a sweep with an attempt of these members on these nodes (a compact list, in rank order)."""
    ledger = Ledger.of(status.sweep)
    ledger.again.difference_update(ranks)
    goes_on = status.phase is Phase.RUNNING
    preemption = status.preemption if status.preemption is not None and status.preemption.ranks else None
    status = place_on(status, ranks, nodes, template, 0, 0, now, launcher=launcher, bind_direct=bind_direct)
    assert status.attempt is not None
    attempt = msgspec.structs.replace(status.attempt, world_size=1)
    if goes_on:  # other members run; nodes freed by a preemption stay reserved for its preemptor
        status = msgspec.structs.replace(status, phase=Phase.RUNNING, reason=Reason.NONE, preemption=preemption)
    return msgspec.structs.replace(status, sweep=ledger.state(), attempt=attempt)


def _earliest_start(sweep: Sweep, status: RunStatus, alive: int) -> datetime | None:
    """Return the time before which no more members are placed: the end of a backoff, or the end of the cycle."""
    backoff_ends = parse_time(status.not_before)
    planned_at = parse_time(status.attempt.planned_at) if status.attempt is not None else None
    is_limited = sweep.at_once < len(sweep.indices)
    if planned_at is None or not alive or (is_limited and 4 * (sweep.at_once - alive) >= sweep.at_once):
        return backoff_ends
    return max(backoff_ends or planned_at, planned_at + CYCLE)


def failed_to_create_in_sweep(
    run: Run, status: RunStatus, reason: Reason, message: str, not_created: Sequence[int], now: datetime
) -> RunStatus:
    """Return the status after the API server refused a member for good (quota, admission).

    The members that were not created are tried again after the backoff.
    """
    ledger = Ledger.of(status.sweep)
    ledger.again.update(not_created)
    status, seconds = with_backoff(status, run.limits, now)
    message = f"{message}; tried again in {seconds} s"
    attempt = msgspec.structs.replace(status.attempt, created=True) if status.attempt is not None else None
    phase = Phase.RUNNING if status.members.running else Phase.QUEUED
    return msgspec.structs.replace(
        status, phase=phase, reason=reason, message=message[:1000], attempt=attempt, sweep=ledger.state()
    )


def without_uncreated(status: RunStatus, uncreated: Sequence[int], now: datetime) -> RunStatus:
    """Return the status of a sweep without the members of its attempt that the quota had no room for."""
    assert status.attempt is not None
    nodes = node_by_rank(status.attempt)
    left_out = frozenset(uncreated)
    kept = [rank for rank in nodes if rank not in left_out]
    attempt = msgspec.structs.replace(
        status.attempt, ranks=compress_ranks(kept), nodes=compress([nodes[rank] for rank in kept])
    )
    given_back = {attempt.number: dict.fromkeys(uncreated, format_time(now))}
    status = release(msgspec.structs.replace(status, usage=detached(status)), given_back)
    return msgspec.structs.replace(status, attempt=attempt)


def _newest_by_index(members: Iterable[Member]) -> dict[int, Member]:
    newest: dict[int, Member] = {}
    for member in members:
        if member.rank not in newest or member.attempt > newest[member.rank].attempt:
            newest[member.rank] = member
    return newest


def _removals(
    run: Run, sweep: Sweep, stored: Ledger, newest: dict[int, Member], members: Sequence[Member]
) -> tuple[Action, ...]:
    """Return deletions of Pods no longer needed: their members' end is written, or they are not the newest."""
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
    """Return the members that get nodes next; members that were started before come first.

    A member that still has a Pod waits until the Pod is gone, unless it is on a dead node (rule 6).
    """
    room = max(0, min(sweep.at_once - alive, MAX_PLACED_AT_ONCE))
    with_pod = {member.rank for member in members if member.node_ready or not member.terminating}
    unplaced = [index for index in sweep.indices if not ledger.has_ended(index) and index not in with_pod]
    if len(unplaced) > room:
        unplaced.sort(key=lambda index: index not in ledger.again)  # stable: by index otherwise
        unplaced = unplaced[:room]
    return tuple(sorted(unplaced))


def _with_counts(run: Run, sweep: Sweep, status: RunStatus, ledger: Ledger, newest: dict[int, Member]) -> RunStatus:
    """Return the status with the ledger, the members' counts and notes on the members that need attention."""
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
    notable = [*failed, *waiting][:NOTABLE_LIMIT]
    return msgspec.structs.replace(status, sweep=ledger.state(), members=counts, notable=notable)


def _outcome(sweep: Sweep, status: RunStatus, ledger: Ledger) -> SweepEnd | None:
    """Return how a sweep has ended; None while it goes on."""
    total, failed, succeeded = status.members.total, status.members.failed, status.members.succeeded
    if sweep.stop_at == "first-success" and succeeded:
        first = min(ledger.succeeded & frozenset(sweep.indices))
        message = f"member {first} succeeded, which is enough for this sweep"
        return SweepEnd(Phase.SUCCEEDED, Reason.NONE, message, 0)
    all_ended = failed + succeeded >= total
    if failed and (all_ended or sweep.stop_at == "first-failure"):
        first_note = next((note for note in status.notable if note.rank in ledger.failed), None)
        summary = f"{failed} of {members_text(total)} failed" if all_ended else "stopped at the first failure"
        if first_note is None:
            return SweepEnd(Phase.FAILED, Reason.PROGRAM_FAILED, summary, None)
        message = f"{summary}; {'the first: ' if failed > 1 else ''}member {first_note.rank}: {first_note.message}"
        return SweepEnd(Phase.FAILED, Reason(first_note.reason), message, first_note.exit_code)
    return SweepEnd(Phase.SUCCEEDED, Reason.NONE, "", 0) if all_ended else None


def _with_phase(status: RunStatus, alive: Sequence[Member], now: datetime) -> RunStatus:
    """Return the status with the phase that the present members imply.

    The reason and message of the queue, about members that still wait, are kept.
    """
    keeps_reason = (
        status.preemption is not None
        or status.reason in WAITING
        or (status.reason in START_FAILURES and bool(status.not_before))
    )
    if any(member.state is MemberState.RUNNING for member in alive) or (alive and status.started_at):
        reason, message = (status.reason, status.message) if keeps_reason else (Reason.NONE, "")
        started_at = status.started_at or format_time(now)
        return msgspec.structs.replace(
            status, phase=Phase.RUNNING, reason=reason, message=message, started_at=started_at
        )
    if alive:
        return as_starting(status, [member for member in alive if member.state is MemberState.PENDING])
    if status.attempt is not None and not status.attempt.created:
        return msgspec.structs.replace(status, phase=Phase.STARTING)
    if not keeps_reason:
        status = with_reason(status, Reason.NOT_PLANNED_YET, "")
    return msgspec.structs.replace(status, phase=Phase.QUEUED)
