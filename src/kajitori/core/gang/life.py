"""The next step of a run: the rules that hold for every type of run, before those of its own type.

The returned status is written before the actions are performed: intent first (rule 2). The answer depends only on the
present state, never on an event, so `next_step` can be called at any time and any number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.batch import batch_step
from kajitori.core.gang.dependencies import wait_for_runs, without_pins
from kajitori.core.gang.holding import note_stretches, note_times, settle, trim
from kajitori.core.gang.service import service_step
from kajitori.core.gang.status.health import note_health
from kajitori.core.gang.status.member_notes import count_members, members_text
from kajitori.core.gang.status.progress import (
    describe_stopping,
    earliest,
    end_members,
    finish,
    stop_members,
    why_stopped,
    with_reason,
    with_setback,
    with_time_ran,
    without_old_suspicion,
)
from kajitori.core.gang.sweeps.sweep import end_sweep, resume_sweep, sweep_step
from kajitori.core.gang.types import (
    DeleteMembers,
    HoldMember,
    Member,
    MemberState,
    Release,
    ReleaseMember,
    Remove,
    Run,
    Step,
)
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.core.usage.ledger import seconds_between


def next_step(run: Run, members: Sequence[Member], now: datetime) -> Step:
    """Return what a run needs next. `members` are all Pods that belong to this run, of every attempt."""
    step = _without_holds(run, _next_step(run, members, now), members)
    status = with_setback(run.status, with_time_ran(run, step.status, now), now)
    status = note_stretches(run.status, note_times(run, status, members, now), now)
    status, health_changes_at = note_health(run, without_old_suspicion(status), members, now)
    settled = trim(run.status, settle(run, status, members, now), run.confirmed)
    return replace(step, status=settled, wake_at=earliest(step.wake_at, health_changes_at))


_WITHOUT_SURVIVORS = frozenset(
    {Reason.STUCK, Reason.PREEMPTED, Reason.DRAINED, Reason.GROWS, Reason.TIME_LIMIT, Reason.PARKED, Reason.RESTORED}
)
"""Reasons to end members that need no new stacks: all members were well, or their stacks were taken before."""


def ends_survivors(step: Step) -> bool:
    """Whether the step ends the remaining members of a gang because one has failed."""
    status = step.status
    has_failed = status.phase in (Phase.RESTARTING, Phase.FAILED) and status.reason not in _WITHOUT_SURVIVORS
    return has_failed and status.sweep is None and any(isinstance(act, DeleteMembers) for act in step.actions)


def _next_step(run: Run, members: Sequence[Member], now: datetime) -> Step:
    status = msgspec.structs.replace(
        run.status, observed_generation=run.generation, queued_at=run.status.queued_at or format_time(now)
    )
    if run.deleting:
        return _delete_step(run, status, members)
    if status.phase.is_final:
        status = _with_end(status, members, now)
        if run.resumes <= status.resumes or run.stopped:
            return _finished_step(run, status, members, now)
        status = _resumed(run, status, now)
        if run.sweep is not None:
            status = resume_sweep(status, members)
    status = _with_attempts_of_pods(status, members)
    regained = _recover_lost_status(run, status, members, now)
    if regained is not None:
        return regained
    if not run.stopped:
        status, waits = wait_for_runs(run, status, now)
        if waits is not None:
            return waits
    if run.sweep is not None:
        return sweep_step(run, run.sweep, status, members, now)
    if run.stopped:
        return _stop_step(run, status, members, now)
    over = _over_time_limit(run, status, members, now)
    if over is not None:
        return over
    step = service_step(run, status, members, now) if run.type == "service" else batch_step(run, status, members, now)
    return _wake_for_time_limit(run, step)


def _finished_step(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> Step:
    """Return the step of a run that has ended and is not resumed: end members that are left, and wait for removal."""
    status = msgspec.structs.replace(status, members=_counts_after_end(status.members, members))
    if run.sweep is not None and status.reason is not Reason.STATUS_DAMAGED:
        return _until_removed(run, end_sweep(run, run.sweep, status, members), now)
    return _until_removed(run, _tidy_step(run, status, members), now)


def _with_end(status: RunStatus, members: Sequence[Member], now: datetime) -> RunStatus:
    """Return the status of a finished run with its end time and the highest attempt number ever used.

    A damaged status may have lost that number; the names of the Pods still have it. Attempt numbers are never used
    twice (rule 1).
    """
    attempts = status.attempts
    if status.reason is Reason.STATUS_DAMAGED:
        attempts = max([attempts, *(member.attempt for member in members)])
    return msgspec.structs.replace(status, finished_at=status.finished_at or format_time(now), attempts=attempts)


def _with_attempts_of_pods(status: RunStatus, members: Sequence[Member]) -> RunStatus:
    """Return the status with the number of the last attempt, taken from the Pods if the status lost its attempt."""
    if status.attempt is not None or not members:
        return status
    last = max(member.attempt for member in members)
    interruptions = status.interruptions + (1 if last > status.attempts else 0)
    return msgspec.structs.replace(status, attempts=max(status.attempts, last), interruptions=interruptions)


def _recover_lost_status(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> Step | None:
    """Return the step of a run that lost its status while it had members; None if the status has its attempt.

    The run begins again with the attempt after the last one of its Pods, so no attempt number is used twice (rule 1).
    The number of members and the port of their rendezvous are lost, so members that still run are ended. If all members
    of the last attempt succeeded, the run has succeeded.
    """
    if status.attempt is not None or not members:
        return None
    last = max(member.attempt for member in members)
    done = {member.rank for member in members if member.attempt == last and member.state is MemberState.SUCCEEDED}
    alive = [member for member in members if member.blocks_restart]
    if run.type == "batch" and run.sweep is None and not alive and len(done) >= run.replicas:
        return Step(finish(status, Phase.SUCCEEDED, Reason.NONE, "", now, exit_code=0))
    if not alive:
        return None
    message = f"its status was lost; attempt {last} is ended ({members_text(len(alive))})"
    status = with_reason(status, Reason.STATUS_DAMAGED, message)
    return Step(count_members(run, status, members), end_members(alive, run.limits.grace_seconds))


def _delete_step(run: Run, status: RunStatus, members: Sequence[Member]) -> Step:
    """Return the step of a run being deleted: its finalizer is removed once its last Pod is gone.

    Two kinds of Pods do not block that: Pods on dead nodes (rule 6), and ended Pods that only another controller's
    finalizer keeps.
    """
    if any(not member.terminating or (member.node_ready and not member.is_held) for member in members):
        if not status.phase.is_final:  # it would hide how the run ended, in history too
            status = with_reason(status, Reason.DELETING, "its members are being ended")
        grace = run.limits.last_grace_seconds
        any_has_longer = any(member.has_longer_than(grace) for member in members)
        return Step(status, (DeleteMembers(grace),) if any_has_longer else ())
    return Step(status, (Release(),))


def _tidy_step(run: Run, status: RunStatus, members: Sequence[Member]) -> Step:
    """Return the step of a finished run: members that still run are ended; the other Pods stay for their logs."""
    return Step(status, end_members(members, run.limits.restart_grace_seconds))


def _counts_after_end(counts: MemberCounts, members: Sequence[Member]) -> MemberCounts:
    """Return the counts of a run that has ended.

    The numbers of failed and succeeded members stay as they were at its end; members that are still ending are
    counted until they are gone. A total of 0 means that members were never counted.
    """
    if not counts.total:
        return counts
    alive = [member.state for member in members if member.blocks_restart]
    running = alive.count(MemberState.RUNNING)
    return msgspec.structs.replace(counts, running=running, pending=len(alive) - running)


def _until_removed(run: Run, step: Step, now: datetime) -> Step:
    """Return the step of a finished run, with its removal once its retention time has passed."""
    is_new = step.status.reason is Reason.NOT_STARTED
    seconds = run.limits.remove_created_after_seconds if is_new else run.limits.remove_after_seconds
    ended = parse_time(step.status.finished_at)
    if seconds is None or ended is None:
        return step
    due = ended + timedelta(seconds=seconds)
    if now < due:
        return replace(step, wake_at=earliest(step.wake_at, due))
    return replace(step, actions=(*step.actions, Remove()))


def _resumed(run: Run, status: RunStatus, now: datetime) -> RunStatus:
    return msgspec.structs.replace(
        status,
        phase=Phase.QUEUED,
        reason=Reason.NOT_PLANNED_YET,
        message="",
        resumes=run.resumes,
        restarts=0,
        failed_starts=0,
        not_before="",
        setback=None,
        preemption=None,
        idle=None,
        resize=None,
        exit_code=None,
        notable=[],
        avoid_nodes={},
        unstarted=[],
        after=without_pins(status.after),
        queued_at=format_time(now),
        rested_seconds=status.rested_seconds + seconds_between(status.finished_at, format_time(now)),
        started_at="",
        finished_at="",
        attempt=_without_template(status.attempt),
    )


def _stop_step(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> Step:
    alive = [member for member in members if member.blocks_restart]
    first = max((member for member in members if member.rank == 0), key=lambda member: member.attempt, default=None)
    if not alive:
        has_run = first is not None and status.phase is not Phase.QUEUED  # else it is left from an earlier start
        exit_code = first.exit_code if first is not None and has_run else None
        reason, message = why_stopped(run, exit_code)
        return Step(
            count_members(run, finish(status, Phase.STOPPED, reason, message, now, exit_code=exit_code), members)
        )
    status = with_reason(status, Reason.STOPPING, describe_stopping(run, alive))
    deletions = stop_members(alive, run.limits.last_grace_seconds)
    running = (member for member in alive if member.state is MemberState.RUNNING and not member.terminating)
    kept = sorted(running, key=lambda member: member.rank)[: run.limits.held_members]
    holds = (HoldMember(member.pod, member.uid) for member in kept if not member.kept_for_exit_code)
    return Step(count_members(run, status, members), (*holds, *deletions))


def _without_holds(run: Run, step: Step, members: Sequence[Member]) -> Step:
    """Return the step that also lets go of Pods that were kept for an exit code, unless the run is still being stopped.

    The status is written before the actions, so no exit code is lost if the controller dies in between.
    """
    if run.stopped and not run.deleting and not step.status.phase.is_final:
        return step
    releases = (ReleaseMember(member.pod, member.uid) for member in members if member.kept_for_exit_code)
    return replace(step, actions=(*releases, *step.actions))


def _over_time_limit(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> Step | None:
    started = parse_time(status.started_at)
    limit = run.limits.time_limit_seconds
    if limit is None or started is None or now < started + timedelta(seconds=limit):
        return None
    alive = [member for member in members if member.blocks_restart]
    message = f"ran longer than its time limit of {limit} s"
    if alive:
        status = with_reason(status, Reason.TIME_LIMIT, message)
        return Step(count_members(run, status, members), end_members(alive, run.limits.grace_seconds))
    return Step(count_members(run, finish(status, Phase.FAILED, Reason.TIME_LIMIT, message, now), members))


def _wake_for_time_limit(run: Run, step: Step) -> Step:
    started = parse_time(step.status.started_at)
    limit = run.limits.time_limit_seconds
    if limit is None or started is None or step.status.phase.is_final:
        return step
    return Step(step.status, step.actions, earliest(step.wake_at, started + timedelta(seconds=limit)))


def _without_template(attempt: Attempt | None) -> Attempt | None:
    return msgspec.structs.replace(attempt, template="") if attempt else None
