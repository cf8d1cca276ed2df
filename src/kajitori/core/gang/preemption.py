"""A run that is asked to give way: its members get SIGTERM and all of their grace, and it goes back to its place.

Whom it gives way to is written into its status first. As long as none of its members was told, that can be taken back:
where the other one does not wait any more, nobody is ended for it. After that the gang leaves as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kajitori.core.gang.progress import describe_preemptions, end_members, members_text, with_reason
from kajitori.core.gang.types import Action, DeleteMembers, Member, Run, Step
from kajitori.core.spec.reasons import NEVER_RESTARTED, Phase, Reason
from kajitori.core.spec.status import GivesWay, GivesWayTo, RunStatus


def preempt(status: RunStatus, asked: GivesWay) -> RunStatus:
    """The status of a run that is asked to give way; its life acts on it."""
    return msgspec.structs.replace(
        status, gives_way=asked, resize=None, reason=Reason.PREEMPTED, message=describe_preemptions(asked)
    )


def preempt_batch(run: Run, status: RunStatus, current: Sequence[Member], broken: Member | None) -> Step | None:
    """What a gang does that was asked; None where it was not, or ends by itself. broken: what broke it, if anything."""
    asked, attempt = status.gives_way, status.attempt
    if asked is None or attempt is None:
        return None
    told = any(member.terminating for member in current) or (attempt.created and len(current) < run.replicas)
    if broken is not None and (broken.reason in NEVER_RESTARTED or not told):
        return None
    if not told and all(member.is_over for member in current):
        return None
    if not told:
        return _begin_or_withdraw(run, status, asked)
    status = msgspec.structs.replace(
        status,
        phase=Phase.RESTARTING,
        reason=Reason.PREEMPTED,
        message=describe_preemptions(asked),
        interruptions=status.interruptions + 1,
    )
    return Step(status, (DeleteMembers(run.limits.grace_seconds, unfinished_only=True),))


def preempt_service(run: Run, status: RunStatus, members: Sequence[Member]) -> Step | None:
    """The same for a service: all of it gives way, and comes back when there is room for all of it."""
    asked = status.gives_way
    alive = [member for member in members if member.blocks_restart]
    if asked is None or (status.phase is Phase.QUEUED and not alive):
        return None
    if status.phase is not Phase.QUEUED:
        if not all(member.terminating for member in alive):
            return _begin_or_withdraw(run, status, asked)
        status = msgspec.structs.replace(status, phase=Phase.QUEUED, interruptions=status.interruptions + 1)
    message = describe_ending(run, asked, len(alive)) if alive else describe_preemptions(asked)
    return Step(with_reason(status, Reason.PREEMPTED, message), end_remaining(run, status, alive))


def describe_ending(run: Run, asked: GivesWay, alive: int) -> str:
    """What is said until so many members have ended."""
    words = describe_preemptions(asked, withdrawn=run.withdrawn)
    return f"{words}; {members_text(alive)} still ending, within {run.limits.grace_seconds} s"


def describe_withdrawal(asked: Sequence[GivesWayTo]) -> str:
    """What is said where it goes on, since none of these waits any more."""
    *names, last = sorted({each.to for each in asked})
    who = f"{', '.join(names)} and {last} do" if names else f"{last} does"
    return f"goes on: {who} not wait for its nodes any more"


def end_remaining(run: Run, status: RunStatus, members: Sequence[Member]) -> tuple[Action, ...]:
    """Ends what is left of an attempt that is over: whoever gives way or grows has all of his grace, survivors of a
    broken gang a short one."""
    in_order = status.gives_way is not None or status.reason is Reason.GROWS
    grace = run.limits.grace_seconds if in_order else run.limits.restart_grace_seconds
    return end_members(members, grace)


def _begin_or_withdraw(run: Run, status: RunStatus, asked: GivesWay) -> Step:
    """Nobody, or not everybody, was told yet."""
    if run.preemptor_waits(asked):
        status = with_reason(status, Reason.PREEMPTED, describe_preemptions(asked))
        return Step(status, (DeleteMembers(run.limits.grace_seconds, unfinished_only=True),))
    status = msgspec.structs.replace(status, gives_way=None)
    return Step(with_reason(status, Reason.NONE, describe_withdrawal((asked,))))
