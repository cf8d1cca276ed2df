"""The members of a run that still hold their nodes: parts of the usage ledger are closed as members release their
nodes. Each part also keeps when the programs of its members ran, and what ended them, for `core.usage.lost_time`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kajitori.core.formats.times import format_time
from kajitori.core.gang.types import Member, MemberState, Run
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.suspicions import Stretch
from kajitori.core.usage.ledger import TimeFacts, mark_attempt, open_ranks, release, without_confirmed
from kajitori.core.usage.lost_time.slices import Kind

MAX_STRETCHES = 16
"""Largest number of periods, in which the run was stuck or idle, that a status keeps."""
_ALIVE = (Phase.STARTING, Phase.RUNNING)


def note_times(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> RunStatus:
    """Return the status in which the open parts of the present attempt say when its programs ran, and what ended them.

    The times are those of the Pods, so a controller that looks late writes the same. Members of sweeps and services
    live independently: what ended one of them is noted as it gives its node back.
    """
    attempt, usage = run.status.attempt, status.usage
    if attempt is None or usage is None or all(part.attempt != attempt.number for part in usage.open):
        return status
    own = [member for member in members if member.attempt == attempt.number]
    ended, cause, culprit = "", "", ""
    if not _are_independent(run) and status.phase not in _ALIVE:  # earlier notes are kept
        ended, cause, culprit = _end_of_gang(status, own, now)
    usage = mark_attempt(usage, attempt.number, TimeFacts(_all_started(attempt, own), ended, cause, culprit))
    return status if usage is status.usage else msgspec.structs.replace(status, usage=usage)


def note_stretches(before: RunStatus, status: RunStatus, now: datetime) -> RunStatus:
    """Return the status with a note of each period in which the run was stuck or idle, before the finding about it is
    removed. `before` is the stored status. A suspicion without evidence does not count, nor does a run of which only
    some GPUs are idle.
    """
    moment = format_time(now)
    known = [*status.stretches]
    had, has = _findings_by_kind(before), _findings_by_kind(status)
    for number, stretch in enumerate(known):
        if not stretch.until and has.get(stretch.kind) != stretch:
            known[number] = msgspec.structs.replace(stretch, until=max(stretch.since, moment))
    noted = {(stretch.attempt, stretch.kind, stretch.since) for stretch in known}
    for finding in (*had.values(), *has.values()):
        key = finding.attempt, finding.kind, finding.since
        if key not in noted:
            noted.add(key)
            ends = "" if has.get(finding.kind) == finding else max(finding.since, moment)
            known.append(msgspec.structs.replace(finding, until=ends))
    known = known[-MAX_STRETCHES:]
    return status if known == status.stretches else msgspec.structs.replace(status, stretches=known)


def _findings_by_kind(status: RunStatus) -> dict[str, Stretch]:
    """Return the present findings, by kind."""
    found, stuck, idle = {}, status.stuck, status.idle
    if stuck is not None and stuck.verdict == "stuck":
        found[Kind.HUNG.value] = Stretch(attempt=stuck.attempt, kind=Kind.HUNG.value, since=stuck.since)
    if idle is not None and idle.is_certain:
        found[Kind.IDLE.value] = Stretch(attempt=idle.attempt, kind=Kind.IDLE.value, since=idle.since)
    return found


def settle(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> RunStatus:
    """Return the status after members gave their nodes back (see `core.usage.ledger` for when that is)."""
    holding = open_ranks(status.usage)
    if not holding:
        return status
    moment = format_time(now)
    released: dict[int, dict[int, str]] = {attempt: {} for attempt in holding}
    facts: dict[int, dict[int, TimeFacts]] = {}
    independent = _are_independent(run)
    for member in members:
        ranks = holding.get(member.attempt)
        if ranks is None or member.rank not in ranks:
            continue
        ranks.remove(member.rank)
        if member.is_over:
            released[member.attempt][member.rank] = min(member.ended_at or moment, moment)
        elif member.node and not member.node_ready:
            released[member.attempt][member.rank] = moment
        else:
            continue
        if independent:
            facts.setdefault(member.attempt, {})[member.rank] = _end_of_member(member)
    to_make = status.attempt.number if status.attempt is not None and _makes_members(run, status) else 0
    for attempt, absent in holding.items():
        if attempt != to_make:
            released[attempt].update(dict.fromkeys(absent, moment))
    return release(status, released, facts)


def trim(before: RunStatus, status: RunStatus, confirmed: int) -> RunStatus:
    """Return the status without the closed segments that history has stored. A caller does not write a status for this
    change alone.
    """
    usage = status.usage
    if usage is None or not usage.closed or status == before:
        return status
    return msgspec.structs.replace(status, usage=without_confirmed(usage, confirmed))


def _makes_members(run: Run, status: RunStatus) -> bool:
    """Whether members of the attempt have yet to be created. Such a member holds its node although it has no Pod."""
    attempt = status.attempt
    if attempt is None or attempt.created or status.phase.is_final or run.deleting or run.stopped:
        return False
    return _are_independent(run) or status.phase is Phase.STARTING


def _are_independent(run: Run) -> bool:
    return run.sweep is not None or run.type == "service"


def _all_started(attempt: Attempt, members: Sequence[Member]) -> str:
    """Return the time at which the programs of all members of an attempt ran; empty if they did not."""
    started = {member.rank: member.started_at for member in members if member.started_at}
    ranks = attempt.node_by_rank()
    return max(started.values()) if started and all(rank in started for rank in ranks) else ""


def _end_of_gang(status: RunStatus, members: Sequence[Member], now: datetime) -> tuple[str, str, str]:
    """Return when a gang was broken, why, and the node of the member that broke it."""
    if status.phase is Phase.SUCCEEDED:
        return "", "", ""
    cause = status.reason.value or status.phase.value
    failed = [member for member in members if member.state is MemberState.FAILED]
    lost = [member for member in members if not member.is_over and member.node and not member.node_ready]
    guilty = [member for member in failed if member.reason is status.reason]
    guilty = guilty or (lost if status.reason is Reason.NODE_LOST else [])
    first = min(guilty, key=lambda member: (member.ended_at or "9999", member.rank), default=None)
    moment = format_time(now)
    ended = min((member.ended_at for member in failed if member.ended_at), default=moment)
    return min(ended, moment), cause, first.node if first is not None else ""


def _end_of_member(member: Member) -> TimeFacts:
    """Return what is known of a member that lived independently of others and gave its node back."""
    if member.state is MemberState.SUCCEEDED:
        return TimeFacts(member.started_at)
    if member.is_over:
        return TimeFacts(member.started_at, cause=(member.reason or Reason.PROGRAM_FAILED).value, culprit=member.node)
    return TimeFacts(member.started_at, cause=Reason.NODE_LOST.value, culprit=member.node)
