"""The life of a service: members live independently; a failed or lost member is replaced, the others stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from kajitori.core.formats.node_lists import expand_ranks
from kajitori.core.formats.times import parse_time
from kajitori.core.gang.preemption import preempt_service
from kajitori.core.gang.status.blamed_nodes import blame_late, blame_node, note_unstarted
from kajitori.core.gang.status.member_notes import count_members, members_text
from kajitori.core.gang.status.progress import (
    as_running,
    as_starting,
    finish,
    needs_nodes,
    start_patience_seconds,
    with_backoff,
    with_reason,
)
from kajitori.core.gang.types import Action, CreateMembers, DeleteMember, Member, MemberState, Run, Step
from kajitori.core.spec.reasons import START_FAILURES, Phase, Reason
from kajitori.core.spec.status import RunStatus


@dataclass(frozen=True, slots=True)
class _SortedMembers:
    """The members of a service, by what happens to them."""

    kept: dict[int, Member]
    """The members that stay, by rank."""
    replaced: list[Member]
    """Members that are replaced, and Pods that are left over from earlier ones."""
    ending: list[Member]
    """Members that may still run: their successors have to wait."""
    late: list[Member]
    """Members among `replaced` that did not start in time."""
    deadline: datetime | None
    """The earliest start deadline of the members that have not started yet."""


def service_step(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> Step:
    """Return the next step of a service: replace failed and lost members, and leave the others alone."""
    preempted = preempt_service(run, status, members)
    if preempted is not None:
        return preempted
    # 1. Separate the members that stay from those that are replaced.
    attempt = status.attempt
    found = _sort_members(run, status, members, now)
    kept = found.kept
    actions: list[Action] = [
        DeleteMember(m.pod, m.uid, run.limits.grace_seconds if not m.is_over else 0)
        for m in found.replaced
        if not m.terminating
    ]
    # 2. Fail the run if a member exceeded its memory limit; else count the failures of members.
    failed = [
        m for m in found.replaced if m.state is MemberState.FAILED and not m.terminating and m.rank < run.replicas
    ]
    culprit = min((m for m in failed if m.reason is Reason.OUT_OF_MEMORY), key=lambda m: m.rank, default=None)
    if culprit is not None:  # its successor would exhaust the memory of another node (rule 7)
        status = count_members(run, status, members)
        message = f"member {culprit.rank}: {culprit.message}"
        return Step(finish(status, Phase.FAILED, culprit.reason, message, now, exit_code=culprit.exit_code))
    status = _count_failures(run, status, failed, [member for member in found.late if not member.terminating], now)
    status = count_members(run, status, [*kept.values(), *failed])

    # 3. Complete the attempt: create the members that it covers and that have no Pod yet.
    if attempt is not None and not attempt.created:
        covered = set(expand_ranks(attempt.ranks)) if attempt.ranks else set(range(run.replicas))
        made = {m.rank for m in members if m.attempt == attempt.number}
        to_make = sorted((covered - made) & set(range(run.replicas)))
        if to_make:
            status = with_reason(status, Reason.CREATING, f"creating {members_text(len(to_make))}")
            return Step(status, (*actions, CreateMembers(tuple(to_make))))
        attempt = replace(attempt, created=True)
        status = replace(status, attempt=attempt)

    # 4. Ask for nodes for the members that are missing, once the backoff has passed.
    wanted = sorted(set(range(run.replicas)) - set(kept) - {m.rank for m in found.ending})
    if wanted:
        queued = replace(status, phase=Phase.RESTARTING if kept else Phase.QUEUED)
        not_before = parse_time(status.not_before)
        if not_before is not None and now < not_before:
            return Step(queued, tuple(actions), not_before)
        actions.append(needs_nodes(status, tuple(wanted), expand_previous=False))
        is_starting = attempt is None or status.phase is Phase.STARTING
        return Step(status if is_starting else queued, tuple(actions))
    # 5. Say whether all members run.
    if attempt is None or len(kept) < run.replicas:
        return Step(status, tuple(actions))
    pending = [m for m in kept.values() if m.state is MemberState.PENDING]
    if pending:
        status = as_starting(status, pending)
        if status.started_at:
            status = replace(status, phase=Phase.RESTARTING)
        return Step(status, tuple(actions), found.deadline)
    return Step(as_running(status, attempt, now), tuple(actions))


def _sort_members(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> _SortedMembers:
    newest: dict[int, Member] = {}
    for member in members:
        if member.rank not in newest or member.attempt > newest[member.rank].attempt:
            newest[member.rank] = member
    late, deadline = _late_members(run, status, newest.values(), now)
    replaced = [
        m
        for m in members
        if m.rank >= run.replicas or m is not newest[m.rank] or m.is_over or _has_lost_its_node(m) or m in late
    ]
    kept = {rank: m for rank, m in newest.items() if m not in replaced and not m.terminating}
    ending = [m for m in members if m.blocks_restart and (m.terminating or m in replaced)]
    return _SortedMembers(kept, replaced, ending, late, deadline)


def _count_failures(
    run: Run, status: RunStatus, failed: Sequence[Member], newly_late: Sequence[Member], now: datetime
) -> RunStatus:
    """Return the status with new failures counted against nodes, and with a backoff after failed starts."""
    noted = {(note.rank, note.attempt) for note in status.notable}
    for member in failed:
        if (member.rank, member.attempt) not in noted:
            status = blame_node(status, member)
    refused = [m for m in failed if m.reason in START_FAILURES and (m.rank, m.attempt) not in noted]
    not_before = parse_time(status.not_before)
    is_pausing = not_before is not None and now < not_before  # these failures were counted when the backoff began
    if is_pausing or not (refused or newly_late):
        return status
    status, _ = with_backoff(status, run.limits, now)
    attempt = status.attempt
    if attempt is not None:
        status = blame_late(status, attempt, newly_late)
        status = note_unstarted(status, attempt, [*refused, *newly_late], now)
    return status


def _late_members(
    run: Run, status: RunStatus, newest: Iterable[Member], now: datetime
) -> tuple[list[Member], datetime | None]:
    """Return the members that should have started by now, and the earliest start deadline of the others."""
    attempt = status.attempt
    planned = parse_time(attempt.planned_at) if attempt else None
    if attempt is None or planned is None:
        return [], None
    late, deadlines = [], []
    for member in newest:
        if member.attempt != attempt.number or member.state is not MemberState.PENDING:
            continue
        deadline = planned + timedelta(seconds=start_patience_seconds(run.limits, member))
        if now >= deadline:
            late.append(member)
        else:
            deadlines.append(deadline)
    return late, min(deadlines, default=None)


def _has_lost_its_node(member: Member) -> bool:
    """Return whether its node does not answer, or is being drained."""
    return bool(member.node) and (not member.node_ready or member.node_draining)
