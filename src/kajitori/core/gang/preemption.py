"""Preemption of a run: its members get SIGTERM and their full grace, and the run is queued again.

The preemption is written into the run's status first. Until a member was asked to end, it can be withdrawn: if the
preemptor no longer waits, no member is ended for it. After that the whole gang ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kajitori.core.formats.times import parse_time
from kajitori.core.gang.status.member_notes import members_text
from kajitori.core.gang.status.preemptions import describe_preemptions
from kajitori.core.gang.status.progress import end_members, with_reason
from kajitori.core.gang.types import Action, DeleteMembers, Member, Run, Step
from kajitori.core.spec.reasons import NEVER_RESTARTED, Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import Preempted, PreemptedBy


def preempt(status: RunStatus, preemption: Preempted) -> RunStatus:
    """Return the status of a run with this preemption; the run's next step acts on it."""
    message = describe_preemptions(preemption)
    return msgspec.structs.replace(status, preemption=preemption, resize=None, reason=Reason.PREEMPTED, message=message)


def preempt_batch(
    run: Run, status: RunStatus, current: Sequence[Member], broken: Member | None, now: datetime
) -> Step | None:
    """Return the step of a preempted gang; None if it is not preempted, or ends by itself.

    `broken` is the member that broke the gang, if any.
    """
    preemption, attempt = status.preemption, status.attempt
    if preemption is None or attempt is None:
        return None
    begun = any(member.terminating for member in current) or (attempt.created and len(current) < run.replicas)
    if broken is not None and (broken.reason in NEVER_RESTARTED or not begun):
        return None
    if not begun and all(member.is_over for member in current):
        return None
    if not begun:
        ends_at = parse_time(preemption.ends_at)
        if ends_at is not None and now < ends_at and run.preemptor_waits(preemption):
            return Step(with_reason(status, Reason.PREEMPTED, describe_preemptions(preemption)), (), ends_at)
        return _begin_or_withdraw(run, status, preemption)
    status = msgspec.structs.replace(
        status,
        phase=Phase.RESTARTING,
        reason=Reason.PREEMPTED,
        message=describe_preemptions(preemption),
        interruptions=status.interruptions + 1,
    )
    return Step(status, (DeleteMembers(run.limits.grace_seconds, unfinished_only=True),))


def preempt_service(run: Run, status: RunStatus, members: Sequence[Member]) -> Step | None:
    """Return the step of a preempted service, which ends as a whole and waits until all of it fits again; else None."""
    preemption = status.preemption
    alive = [member for member in members if member.blocks_restart]
    if preemption is None or (status.phase is Phase.QUEUED and not alive):
        return None
    if status.phase is not Phase.QUEUED:
        if not all(member.terminating for member in alive):
            return _begin_or_withdraw(run, status, preemption)
        status = msgspec.structs.replace(status, phase=Phase.QUEUED, interruptions=status.interruptions + 1)
    message = describe_ending(run, preemption, len(alive)) if alive else describe_preemptions(preemption)
    return Step(with_reason(status, Reason.PREEMPTED, message), end_remaining(run, status, alive))


def describe_ending(run: Run, preemption: Preempted, alive: int) -> str:
    """Return the message while `alive` members are still ending."""
    preempted = describe_preemptions(preemption, withdrawn=run.withdrawn)
    return f"{preempted}; {members_text(alive)} still ending, within {run.limits.grace_seconds} s"


def describe_withdrawal(preemptions: Sequence[PreemptedBy]) -> str:
    """Return the message of a run that goes on because none of these preemptors waits any more."""
    *names, last = sorted({preemption.by for preemption in preemptions})
    who = f"{', '.join(names)} and {last} no longer wait" if names else f"{last} no longer waits"
    return f"goes on: {who} for its nodes"


def end_remaining(run: Run, status: RunStatus, members: Sequence[Member]) -> tuple[Action, ...]:
    """Return the deletion of the remaining members of an ended attempt.

    Members of a run that is preempted or resized get their full grace, survivors of a broken gang a short one.
    """
    is_planned = status.preemption is not None or status.reason is Reason.GROWS
    grace = run.limits.grace_seconds if is_planned else run.limits.restart_grace_seconds
    return end_members(members, grace)


def _begin_or_withdraw(run: Run, status: RunStatus, preemption: Preempted) -> Step:
    """Return the step of a preemption of which not every member knows yet: end the members, or withdraw it."""
    if run.preemptor_waits(preemption):
        status = with_reason(status, Reason.PREEMPTED, describe_preemptions(preemption))
        return Step(status, (DeleteMembers(run.limits.grace_seconds, unfinished_only=True),))
    status = msgspec.structs.replace(status, preemption=None)
    return Step(with_reason(status, Reason.NONE, describe_withdrawal((preemption,))))
