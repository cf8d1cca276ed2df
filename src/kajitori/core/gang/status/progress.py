"""Changes of a run's status that all types of runs share: placement, start, waiting, back-off, end.

Each function returns a new status; none changes its argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from kajitori.core.backoff import backoff_seconds
from kajitori.core.formats.node_lists import compress_ranks, expand
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.status.member_notes import members_text, worst_of
from kajitori.core.gang.status.preemptions import describe_preemptions
from kajitori.core.gang.sweep_ledger import members_without_nodes
from kajitori.core.gang.types import Action, DeleteMembers, Limits, Member, NeedsNodes, Run, Sweep
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Ran, Setback, template_text
from kajitori.core.spec.status_parts.avoided_nodes import avoided_nodes
from kajitori.core.usage.ledger import detached

UNSCHEDULED_PATIENCE_SECONDS = 30
"""Longest wait for the scheduler to bind a Pod.

A Pod is pinned to a node with room for it. The scheduler may still refuse it, because its cache was filling or a Pod of
another owner was faster, and look again only minutes later. A new attempt is quicker.
"""

_TERMINATED = 143
"""Exit code of a program that SIGTERM has ended."""

SETBACK_LENGTH = 300
"""Characters of a setback's message that are kept."""


# ------------------------------------------------------------------------------------------------ placement


def place_on(
    status: RunStatus,
    ranks: Sequence[int],
    nodes: str,
    template: dict[str, object],
    port: int,
    replicas: int,
    now: datetime,
    *,
    launcher: str = "none",
    bind_direct: bool = False,
) -> RunStatus:
    """Return the status with an attempt on these nodes (a compact list, in rank order)."""
    number = status.attempts + 1
    attempt = Attempt(
        number=number,
        nodes=nodes,
        ranks="" if len(ranks) == replicas else compress_ranks(ranks),
        template=template_text(template),
        launcher=launcher,
        world_size=replicas,
        bind_direct=bind_direct,
        port=port,
        planned_at=format_time(now),
    )
    return msgspec.structs.replace(
        status,
        usage=detached(status),
        phase=Phase.STARTING,
        reason=Reason.CREATING,
        message="",
        attempt=attempt,
        attempts=number,
        not_before="",
        preemption=None,
        resize=None,
    )


def with_setback(before: RunStatus, status: RunStatus, now: datetime) -> RunStatus:
    """Return the status with the reason of an interruption or restart, if one has just happened."""
    has_happened = status.restarts + status.interruptions > before.restarts + before.interruptions
    if not has_happened or status.reason is Reason.GROWS:
        return status
    reason, message = status.reason.value, status.message
    if status.sweep is not None and status.notable and status.reason is not Reason.PREEMPTED:
        newest = max(status.notable, key=lambda note: note.since)
        reason, message = newest.reason, f"member {newest.rank}: {newest.message or newest.reason}"
    number = status.attempt.number if status.attempt is not None else 0
    setback = Setback(reason=reason, message=message[:SETBACK_LENGTH], attempt=number, at=format_time(now))
    return msgspec.structs.replace(status, setback=setback)


def keep_waiting(status: RunStatus, reason: Reason, message: str) -> RunStatus:
    """Return the status of a run that the planner found no place for.

    A sweep with running members goes on meanwhile.
    """
    if status.sweep is not None and status.phase in _ALIVE:
        return msgspec.structs.replace(status, reason=reason, message=message[:1000])
    if status.preemption is not None:
        message = f"{describe_preemptions(status.preemption)}; {message}"
    reason = waiting_reason(status, reason)
    return msgspec.structs.replace(status, phase=Phase.QUEUED, reason=reason, message=message[:1000], resize=None)


def waiting_reason(status: RunStatus, reason: Reason) -> Reason:
    """Return the reason to show for a run that waits.

    Until it starts again its preemption comes first, then `reason`.
    """
    return reason if status.preemption is None else Reason.PREEMPTED


def already_says(status: RunStatus, reason: Reason) -> bool:
    """Return whether the status of a waiting run already has this reason."""
    goes_on = status.sweep is not None and status.phase in _ALIVE
    return (status.phase is Phase.QUEUED or goes_on) and status.reason is reason


def node_by_rank(attempt: Attempt) -> dict[int, str]:
    """Return the node of every rank that the attempt covers."""
    return attempt.node_by_rank()


def needs_nodes(status: RunStatus, ranks: tuple[int, ...], *, expand_previous: bool = True) -> NeedsNodes:
    """Return the request to the planner: these ranks, near their previous nodes, and off nodes that they failed on."""
    avoid = avoided_nodes(status.avoid_nodes, is_sweep=False)
    previous = node_by_rank(status.attempt) if status.attempt and expand_previous else {}
    return NeedsNodes(ranks, previous, avoid)


def end_members(members: Iterable[Member], grace_seconds: int) -> tuple[Action, ...]:
    """Return one deletion by collection, if any pending or running member was not asked to end yet."""
    if any(not member.terminating and not member.is_over for member in members):
        return (DeleteMembers(grace_seconds, unfinished_only=True),)
    return ()


def stop_members(members: Iterable[Member], grace_seconds: int) -> tuple[Action, ...]:
    """Return the same for a run that a user stops: members that terminate with a longer grace are deleted again."""
    if any(member.has_longer_than(grace_seconds) and not member.is_over for member in members):
        return (DeleteMembers(grace_seconds, unfinished_only=True),)
    return ()


def why_stopped(run: Run, exit_code: int | None = None) -> tuple[Reason, str]:
    """Return reason and message of a run that was stopped on request, parked, or created stopped."""
    if run.was_never_started:
        return Reason.NOT_STARTED, "created, and not started yet: kaji resume"
    if run.restarting:
        return Reason.RESTARTED_BY_USER, "asked to restart; it is queued again"
    if run.parked:
        return Reason.PARKED, "parked to free its idle GPUs; its checkpoint and its folders are kept: kaji resume"
    if exit_code in (None, _TERMINATED):
        return Reason.STOPPED_BY_USER, "stopped on request"
    ended = "its program" if run.replicas == 1 else "member 0"
    return Reason.STOPPED_BY_USER, f"stopped on request; {ended} ended with exit code {exit_code}"


def describe_stopping(run: Run, alive: Sequence[Member]) -> str:
    """Return the message while members of a run that was stopped, restarted or parked are still ending."""
    how = "asked to restart" if run.restarting else "is being parked" if run.parked else "asked to stop"
    return f"{how}; {members_text(len(alive))} still running"


# ------------------------------------------------------------------------------------------------ status


def as_starting(status: RunStatus, pending: Sequence[Member]) -> RunStatus:
    """Return the status while members are not running yet; it names what the worst of them waits for."""
    worst = worst_of(pending)
    reason = worst.reason if worst and worst.reason is not Reason.NONE else Reason.CREATING
    message = f"{members_text(len(pending))} not running yet"
    if worst and worst.message:
        message += f"; member {worst.rank}: {worst.message}"
    return msgspec.structs.replace(status, phase=Phase.STARTING, reason=reason, message=message[:1000])


def as_running(status: RunStatus, attempt: Attempt, now: datetime) -> RunStatus:
    """Return the status once every member runs. Its reason and message are those of a suspicion, if there is one."""
    status, stuck = with_start_times(status, attempt, now), status.stuck
    reason, message = Reason.NONE, ""
    if stuck is not None and stuck.attempt == attempt.number:
        reason = Reason.STUCK if stuck.verdict == Reason.STUCK.value.lower() else Reason.SUSPECTED_STUCK
        message = stuck.message
    return msgspec.structs.replace(status, phase=Phase.RUNNING, reason=reason, message=message, failed_starts=0)


def without_old_suspicion(status: RunStatus) -> RunStatus:
    """Return the status without a suspicion that its running attempt does not have."""
    if status.stuck is None:
        return status
    is_of_now = status.attempt is not None and status.attempt.number == status.stuck.attempt
    return status if is_of_now and status.phase is Phase.RUNNING else msgspec.structs.replace(status, stuck=None)


def with_start_times(status: RunStatus, attempt: Attempt, now: datetime) -> RunStatus:
    """Return the status with the first start times of the attempt and of the run."""
    if not attempt.started_at:
        attempt = msgspec.structs.replace(attempt, started_at=format_time(now))
    return msgspec.structs.replace(status, attempt=attempt, started_at=status.started_at or format_time(now))


def with_time_ran(run: Run, status: RunStatus, now: datetime) -> RunStatus:
    """Return the status with the run time of the attempt added, if this status says that the attempt is over."""
    before = run.status.phase
    if run.type == "service" or run.sweep is not None:  # members start and end independently: first start to end
        is_over, since = status.phase.is_final and not before.is_final, status.started_at
        if run.sweep is not None and not since and status.attempt is not None:  # no member was observed running
            since = status.attempt.planned_at
    else:
        is_over = before in _ALIVE and status.phase not in _ALIVE
        since = status.attempt.started_at if status.attempt is not None else ""
    start = parse_time(since)
    if not is_over or start is None:
        return status
    seconds = max(0, round((now - start).total_seconds() * _size_fraction(run)))
    earlier = status.ran.seconds if status.ran is not None else 0
    return msgspec.structs.replace(status, ran=Ran(seconds=earlier + seconds, until=format_time(now)))


def _size_fraction(run: Run) -> float:
    """Return the size of an elastic gang's attempt as a fraction of the full size; 1.0 for any other run."""
    attempt = run.status.attempt
    return attempt.world_size / run.replicas if run.fewest is not None and attempt is not None else 1.0


_ALIVE = (Phase.STARTING, Phase.RUNNING)


def finish(
    status: RunStatus, phase: Phase, reason: Reason, message: str, now: datetime, *, exit_code: int | None = None
) -> RunStatus:
    """Return the status of a run that has ended."""
    return msgspec.structs.replace(
        status, phase=phase, reason=reason, message=message[:1000], exit_code=exit_code, finished_at=format_time(now)
    )


def refuse(status: RunStatus, message: str, generation: int, now: datetime) -> RunStatus:
    """Return the status of a run that policy refuses: final, with every reason, and without Pods."""
    status = msgspec.structs.replace(status, observed_generation=generation)
    return finish(status, Phase.FAILED, Reason.REFUSED, message, now)


def run_without_spec(type: Literal["batch", "service"], generation: int, status: RunStatus, deleting: bool) -> Run:
    """Return a run with a spec that cannot be used any more. It is built from the status alone, so it can end, but not
    start."""
    template = status.attempt.pod_template if status.attempt else {}
    grace = template.get("spec", {}).get("terminationGracePeriodSeconds", Limits().grace_seconds)
    attempted = len(expand(status.attempt.nodes)) if status.attempt else 0
    if status.sweep is not None:
        covered = node_by_rank(status.attempt) if status.attempt else {}
        sweep = Sweep(tuple(sorted(members_without_nodes(status.sweep).union(covered))), at_once=0)
        total, limits = status.members.total, Limits(grace_seconds=grace)
        return Run(type, total, limits, status, deleting=deleting, generation=generation, sweep=sweep)
    members = max(status.members.total, attempted) if type == "service" else attempted
    return Run(type, members, Limits(grace_seconds=grace), status, deleting=deleting, generation=generation)


def with_backoff(status: RunStatus, limits: Limits, now: datetime) -> tuple[RunStatus, int]:
    """Return the status after a failed start, and the backoff in seconds, which grows with every failure in a row."""
    failed_starts = status.failed_starts + 1
    seconds = round(backoff_seconds(failed_starts, limits.start_pause_seconds, limits.start_pause_max_seconds))
    not_before = format_time(now + timedelta(seconds=seconds))
    return msgspec.structs.replace(status, failed_starts=failed_starts, not_before=not_before), seconds


def start_patience_seconds(limits: Limits, worst: Member | None) -> int:
    """Return how long a start may take if `worst` is its worst member."""
    if worst is not None and worst.reason in (Reason.UNSCHEDULED, Reason.STORAGE):
        return min(limits.start_deadline_seconds, UNSCHEDULED_PATIENCE_SECONDS)
    return limits.start_deadline_seconds


def with_reason(status: RunStatus, reason: Reason, message: str) -> RunStatus:
    """Return the status with another reason and message for its phase."""
    return msgspec.structs.replace(status, reason=reason, message=message)


def earliest(*moments: datetime | None) -> datetime | None:
    """Return the earliest of these times; None if all are None."""
    return min((moment for moment in moments if moment is not None), default=None)
