"""The status of a run that is restored from a backup."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kajitori.core.formats.times import format_time
from kajitori.core.gang.dependencies import without_pins
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, Setback


def restored(status: RunStatus, taken_at: datetime, now: datetime) -> RunStatus:
    """Return the status of a run from a backup in a cluster that has none of its Pods.

    An ended run stays as it was, and a waiting one keeps its place in the queue. A run that had members waits for a new
    attempt, which continues from its checkpoint; the number of that attempt was never used before. What the run held
    until the backup is in history, so its ledger begins anew.
    """
    status = msgspec.structs.replace(
        status,
        usage=None,
        removal_waits="",
        node_request=None,
        preemption=None,
        resize=None,
        avoid_nodes={},
        unstarted=[],
        after=without_pins(status.after),
        observed_generation=0,
    )
    if status.phase.is_final:
        return msgspec.structs.replace(status, attempt=_without_template(status.attempt))
    had_members = status.attempt is not None and status.phase is not Phase.QUEUED
    message = f"restored from the backup of {format_time(taken_at)}"
    status = msgspec.structs.replace(
        status,
        phase=Phase.QUEUED,
        reason=Reason.RESTORED,
        message=f"{message}; it continues from its checkpoint" if status.attempts else message,
        attempt=None,
        not_before="",
        started_at="",
        notable=[],
        failed_starts=0,
        queued_at=status.queued_at or format_time(now),
        members=msgspec.structs.replace(status.members, running=0, pending=0),
    )
    if not had_members:
        return status
    setback = Setback(reason=Reason.RESTORED.value, message=message, attempt=status.attempts, at=format_time(now))
    return msgspec.structs.replace(status, interruptions=status.interruptions + 1, setback=setback)


def _without_template(attempt: Attempt | None) -> Attempt | None:
    return msgspec.structs.replace(attempt, template="") if attempt is not None else None
