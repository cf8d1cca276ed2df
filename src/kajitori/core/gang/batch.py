"""The life of a batch run: members start together and stop together.

A failure of one member ends the whole attempt. The next attempt begins when no member of the last one can still run.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from kajitori.core.formats.node_lists import expand_ranks
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.growing import resize_batch, shrink_to_healthy_nodes
from kajitori.core.gang.preemption import describe_ending, end_remaining, preempt_batch
from kajitori.core.gang.status.blamed_nodes import blame_late, blame_node, note_unstarted
from kajitori.core.gang.status.member_notes import count_members, members_text, notes_of, worst_of
from kajitori.core.gang.status.progress import (
    as_running,
    as_starting,
    earliest,
    end_members,
    finish,
    needs_nodes,
    node_by_rank,
    start_patience_seconds,
    with_backoff,
    with_reason,
    with_setback,
    with_start_times,
)
from kajitori.core.gang.types import Action, CreateMembers, DeleteMembers, Member, MemberState, Run, Step
from kajitori.core.spec.reasons import (
    COUNTS_AS_RESTART,
    MAY_BE_ITS_MEMORY,
    NEVER_COUNTED,
    NEVER_RESTARTED,
    START_FAILURES,
    Phase,
    Reason,
)
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.core.spec.status_parts.suspicions import Stuck

_DELETED = "its Pod was deleted from outside"

_SIGNALLED = 128
"""Exit codes above this one stand for a signal."""


def batch_step(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> Step:
    """Return the next step of a gang: judge its current attempt, or ask for nodes if it has none."""
    attempt = status.attempt
    if attempt is None or status.phase in (Phase.QUEUED, Phase.RESTARTING):
        return _await_nodes(run, status, members, now)

    # 1. Count the members of the attempt, and end those of earlier attempts.
    run = replace(run, replicas=len(node_by_rank(attempt)))  # a changed spec applies from the next attempt on
    current = _members_of_attempt(run, status, attempt, members)
    tidy = _end_earlier_attempts(run, attempt, members)
    status = count_members(run, status, current)
    if _mpi_has_succeeded(attempt, current):
        return _succeed(status, attempt, tidy, now)
    # 2. End the attempt if a member failed, or if the gang is preempted or resized.
    ended = _end_attempt(run, status, attempt, current, now)
    if ended is not None:
        return ended
    # 3. Create the members that have no Pod yet.
    missing = sorted(set(range(run.replicas)) - {member.rank for member in current})
    if missing:  # only before `created`: after that a missing member is a lost one
        status = with_reason(status, Reason.CREATING, f"creating {members_text(len(missing))}")
        return _within_deadline(run, Step(status, (*tidy, CreateMembers(tuple(missing)))), current, current, now)
    if not attempt.created:
        attempt = msgspec.structs.replace(attempt, created=True)
        status = msgspec.structs.replace(status, attempt=attempt)
    # 4. Finish the run if all members succeeded; make room if a node is drained.
    if all(member.state is MemberState.SUCCEEDED for member in current):
        return _succeed(status, attempt, tidy, now)
    leaving = _leave_nodes(run, status, current, tidy, now)
    if leaving is not None:
        return leaving
    # 5. Say whether all members run, and restart the gang if it is stuck.
    pending = [member for member in current if member.state is MemberState.PENDING]
    if pending:
        return _within_deadline(run, Step(as_starting(status, pending), tidy), current, pending, now)
    if status.stuck is not None and _is_to_restart(run, status.stuck, attempt):
        return _end_stuck_attempt(run, status, status.stuck, current, now)
    return Step(as_running(status, attempt, now), tidy)


def _members_of_attempt(run: Run, status: RunStatus, attempt: Attempt, members: Sequence[Member]) -> list[Member]:
    """Return the members of the current attempt. Those that another program deleted count as failed."""
    planned = [member for member in members if member.attempt == attempt.number and member.rank < run.replicas]
    return [_unless_deleted(member, status) for member in planned]


def _end_earlier_attempts(run: Run, attempt: Attempt, members: Sequence[Member]) -> tuple[Action, ...]:
    """Return the actions that delete the remaining members of earlier attempts."""
    left = {member.attempt for member in members if member.attempt < attempt.number and not member.terminating}
    return tuple(DeleteMembers(run.limits.restart_grace_seconds, attempt=number) for number in sorted(left))


def _mpi_has_succeeded(attempt: Attempt, current: Sequence[Member]) -> bool:
    """Return whether rank 0 of an MPI gang has succeeded: it tells the others when to end."""
    return attempt.launcher == "mpi" and any(
        member.rank == 0 and member.state is MemberState.SUCCEEDED for member in current
    )


def _succeed(status: RunStatus, attempt: Attempt, tidy: tuple[Action, ...], now: datetime) -> Step:
    """Return the step that finishes a run as succeeded."""
    status = with_start_times(status, attempt, now)
    return Step(finish(status, Phase.SUCCEEDED, Reason.NONE, "", now, exit_code=0), tidy)


def _end_attempt(
    run: Run, status: RunStatus, attempt: Attempt, current: Sequence[Member], now: datetime
) -> Step | None:
    """Return the step that ends the attempt because the gang is preempted, broken or resized; None if it goes on."""
    broken = _cause_of_break(run, status, attempt, current)
    preempted = preempt_batch(run, status, current, broken, now)
    if preempted is not None:
        return preempted
    if broken is not None:
        return _end_broken_attempt(run, status, broken, current, now)
    return resize_batch(run, status, current)


def _leave_nodes(
    run: Run, status: RunStatus, current: Sequence[Member], tidy: tuple[Action, ...], now: datetime
) -> Step | None:
    """Return the step of a gang with members that are evicted, deleted from outside, or on a node that is drained; None
    if it has none. `tidy` ends members of earlier attempts."""
    ending = [member for member in current if member.terminating and not member.is_over]
    evicted = [member for member in ending if member.reason is Reason.DRAINED]
    if evicted:
        who = ", ".join(f"{member.rank} on {member.node}" for member in evicted[:3])
        return _leave_draining_node(
            run, status, current, f"member {who} was evicted, and the gang leaves as a whole", now
        )
    if ending:  # deleted by another program: the gang ends once the Pod is gone; until then it may write a checkpoint
        first = ending[0]
        reason = first.reason if first.reason in NEVER_COUNTED else Reason.MEMBER_DELETED
        return Step(with_reason(status, reason, f"member {first.rank} is being ended from outside"), tidy)
    to_move = [member for member in current if member.node_draining and not member.is_over]
    if to_move:
        nodes = ", ".join(sorted({member.node for member in to_move})[:3])
        return _leave_draining_node(run, status, current, f"moved away from {nodes}, which is being drained", now)
    return None


def _is_to_restart(run: Run, stuck: Stuck, attempt: Attempt) -> bool:
    """Whether a gang is restarted because it is stuck, for which stacks are the evidence."""
    return run.limits.restarts_stuck and stuck.attempt == attempt.number and stuck.verdict == "stuck"


def _end_stuck_attempt(run: Run, status: RunStatus, stuck: Stuck, current: Sequence[Member], now: datetime) -> Step:
    odd = _odd_member(stuck, current, now)
    if odd.node:  # so that node health learns from it, if the next attempt does better elsewhere
        status = msgspec.structs.replace(status, notable=notes_of([odd]))
    return _end_broken_attempt(run, status, odd, current, now)


def _odd_member(stuck: Stuck, current: Sequence[Member], now: datetime) -> Member:
    """Return the member for which the others of a stuck gang seem to wait, as the cause of the attempt's end. Its node
    is known only if there is one such member.
    """
    odd = expand_ranks(stuck.ranks) if stuck.ranks else []
    found = next((member for member in current if member.rank in odd), current[0])
    node = found.node if len(odd) == 1 else ""
    message, ended_at = stuck.message, format_time(now)
    return replace(found, reason=Reason.STUCK, message=message, node=node, exit_code=None, ended_at=ended_at)


def _await_nodes(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> Step:
    """Return the step between attempts: end the remaining members, wait for the backoff to pass, then ask for nodes."""
    actions = end_remaining(run, status, members)
    blocking = [member for member in members if member.blocks_restart]
    counts = MemberCounts(total=run.replicas)
    if blocking:
        message = f"waiting for {members_text(len(blocking))} of the last attempt to end"
        if status.preemption is not None:
            message = describe_ending(run, status.preemption, len(blocking))
        return Step(msgspec.structs.replace(status, members=counts, message=message), actions)
    status = msgspec.structs.replace(status, members=counts)
    not_before = parse_time(status.not_before)
    if not_before is not None and now < not_before:
        return Step(status, actions, not_before)
    needs = needs_nodes(status, tuple(range(run.replicas)))
    return Step(status, (*actions, replace(needs, fewest=run.fewest, grows=run.fewest is not None)))


def _unless_deleted(member: Member, status: RunStatus) -> Member:
    """Return the member, as a failed one if another program deleted its Pod.

    Its exit code then only answers SIGTERM, and says nothing about success or failure of the program.
    """
    itself = member.state is MemberState.SUCCEEDED or member.reason in COUNTS_AS_RESTART
    if not (member.terminating and member.is_over and itself):
        return member
    reason = status.reason if status.reason in NEVER_COUNTED else Reason.MEMBER_DELETED
    return replace(member, state=MemberState.FAILED, reason=reason, message=_DELETED)


def _cause_of_break(run: Run, status: RunStatus, attempt: Attempt, current: Sequence[Member]) -> Member | None:
    """Return the member that caused the end of the attempt; None while the attempt is intact.

    If several members ended, the order is: a member killed for memory (it must not be moved to another node), then
    a cause outside the run (it makes the others fail), then the program that failed first. Times have a resolution
    of one second; within a second a member killed by a signal comes first, because the others fail when it is gone.
    """
    failed = [
        member
        for member in current
        if member.state is MemberState.FAILED
        or (member.state is MemberState.PENDING and member.reason in NEVER_RESTARTED)  # it does not pass by itself
    ]
    lost = [
        replace(member, reason=Reason.NODE_LOST, message=f"node {member.node} does not answer")
        for member in current
        if not member.is_over and not member.node_ready and member.node
    ]
    if attempt.created:
        failed += _deleted_members(run, status, attempt, {member.rank for member in current})
    return min((*failed, *lost), key=_order_of_causes, default=None)


def _deleted_members(run: Run, status: RunStatus, attempt: Attempt, present: Container[int]) -> Iterator[Member]:
    """Yield the members of an attempt that have no Pod any more, as failed ones."""
    nodes = node_by_rank(attempt)
    reason = status.reason if status.reason in NEVER_COUNTED else Reason.MEMBER_DELETED
    for rank in range(run.replicas):
        if rank not in present:
            yield Member(
                rank=rank,
                attempt=attempt.number,
                pod="",
                uid="",
                state=MemberState.FAILED,
                node=nodes.get(rank, ""),
                reason=reason,
                message=_DELETED,
            )


def _order_of_causes(member: Member) -> tuple[int, str, bool, int]:
    """Return the sort key of a member that ended: the cause of the others' end comes first."""
    if member.reason is Reason.OUT_OF_MEMORY:
        kind = 0
    elif member.reason in COUNTS_AS_RESTART:
        kind = 2
    else:
        kind = 1
    ended_by_itself = (member.exit_code or 0) <= _SIGNALLED
    return kind, member.ended_at or "9999", ended_by_itself, member.rank


def _end_broken_attempt(run: Run, status: RunStatus, cause: Member, current: Sequence[Member], now: datetime) -> Step:
    """Return the step that ends a broken attempt: fail the run, or go back for nodes.

    The next call deletes the remaining members, after this status is written.
    """
    status = msgspec.structs.replace(blame_node(status, cause), resize=None)
    what = cause.message or cause.reason.value
    message = f"member {cause.rank}: {what}"
    if not run.limits.memory_limited and cause.reason in MAY_BE_ITS_MEMORY:
        message += "; without a memory limit it is not carried to another node"
        return Step(finish(status, Phase.FAILED, cause.reason, message, now, exit_code=cause.exit_code))
    if cause.reason in NEVER_RESTARTED:
        return Step(finish(status, Phase.FAILED, cause.reason, message, now, exit_code=cause.exit_code))
    if cause.reason in COUNTS_AS_RESTART:
        if status.restarts >= run.limits.restarts:
            allowed = run.limits.restarts
            tail = f" (restarted {allowed} of {allowed} times)" if allowed else ""
            return Step(finish(status, Phase.FAILED, cause.reason, message + tail, now, exit_code=cause.exit_code))
        changes = {"restarts": status.restarts + 1}
    elif cause.reason in START_FAILURES:
        others = [m for m in current if m.state is MemberState.FAILED and m.rank != cause.rank]
        if status.attempt is not None:
            status = note_unstarted(status, status.attempt, [cause, *others], now)
        return failed_start(run, status, cause.reason, message, now)
    else:
        changes = {"interruptions": status.interruptions + 1}
    resize = shrink_to_healthy_nodes(run, current, now) if cause.reason is Reason.NODE_LOST else None
    status = msgspec.structs.replace(
        status, phase=Phase.RESTARTING, reason=cause.reason, message=message, resize=resize, **changes
    )
    return Step(status, end_members(current, run.limits.restart_grace_seconds))


def _leave_draining_node(run: Run, status: RunStatus, current: Sequence[Member], message: str, now: datetime) -> Step:
    """Return the step that moves a gang off a node being drained, with its full grace to write a checkpoint."""
    status = msgspec.structs.replace(
        status,
        phase=Phase.RESTARTING,
        reason=Reason.DRAINED,
        message=message,
        interruptions=status.interruptions + 1,
        resize=shrink_to_healthy_nodes(run, current, now),
    )
    return Step(status, (DeleteMembers(run.limits.grace_seconds, unfinished_only=True),))


def failed_to_create(run: Run, status: RunStatus, reason: Reason, message: str, now: datetime) -> Step:
    """Return the step after the API server refused a member for good (quota, admission).

    The whole attempt is taken down. In a service the members of earlier attempts stay.
    """
    step = failed_start(run, status, reason, message, now)
    step = replace(step, status=with_setback(status, step.status, now))
    attempt = status.attempt
    if run.type != "service" or attempt is None:
        return step
    over = msgspec.structs.replace(attempt, created=True)  # the next attempt covers the missing members
    status = msgspec.structs.replace(step.status, attempt=over)
    return Step(status, (DeleteMembers(run.limits.restart_grace_seconds, attempt=attempt.number),), step.wake_at)


def failed_start(run: Run, status: RunStatus, reason: Reason, message: str, now: datetime) -> Step:
    """Return the step after a failed start: free the nodes and requeue with backoff. It does not count as a restart."""
    status, seconds = with_backoff(status, run.limits, now)
    so_far = f"{status.failed_starts} starts failed, " if status.failed_starts > 1 else ""
    status = msgspec.structs.replace(
        status,
        phase=Phase.QUEUED,
        reason=reason,
        message=f"{message}; {so_far}tried again in {seconds} s",
        interruptions=status.interruptions + 1,
    )
    return Step(status, (DeleteMembers(run.limits.restart_grace_seconds),), now + timedelta(seconds=seconds))


def _within_deadline(run: Run, step: Step, current: Sequence[Member], waiting: Sequence[Member], now: datetime) -> Step:
    """Return the step, or a failed start if the attempt has been starting for too long.

    The time counts anew from each member that is created or starts: thousands of members take longer than one.
    """
    attempt = step.status.attempt
    planned = parse_time(attempt.planned_at) if attempt else None
    if attempt is None or planned is None:
        return step
    worst = worst_of(waiting)
    patience = start_patience_seconds(run.limits, worst)
    last_progress = parse_time(max((moment for m in current for moment in (m.created_at, m.started_at)), default=""))
    since = max(planned, last_progress or planned)
    deadline = since + timedelta(seconds=patience)
    if now < deadline:
        return Step(step.status, step.actions, earliest(step.wake_at, deadline))
    reason = worst.reason if worst and worst.reason is not Reason.NONE else Reason.START_DEADLINE
    what = f"member {worst.rank}: {worst.message or worst.reason}" if worst else "its members were not created"
    passed = f"did not start within {patience} s" if since == planned else f"no member started for {patience} s"
    message = f"{passed}: {what}"
    culprits = [member for member in waiting if member is worst or member.reason is Reason.UNSCHEDULED]
    status = blame_late(step.status, attempt, culprits)
    if worst is not None and attempt.created:  # otherwise the API server is slow, not the node
        status = note_unstarted(status, attempt, [worst, *waiting], now)
    return failed_start(run, status, reason, message, now)
