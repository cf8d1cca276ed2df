"""Rows of a sweep's table of results, from the Pods of its members."""

from __future__ import annotations

from kajitori.cluster.objects import Pod
from kajitori.cluster.runs.members import culprit_peak, main_container, peak_of, started_at_of
from kajitori.core.gang import Member
from kajitori.core.gang.sweeps.results import MemberResult, parse_result

_MESSAGE_LENGTH = 300


def result_of(pod: Pod, member: Member, restarts: int) -> MemberResult:
    """Return the row of a member, as its Pod shows it now."""
    container = main_container(pod)
    ended = container.state.terminated if container is not None else None
    peak = culprit_peak(pod, member) or peak_of(pod)
    succeeded = member.state.value == "Succeeded"
    return MemberResult(
        index=member.rank,
        state=member.state.value,
        attempt=member.attempt,
        restarts=restarts,
        exit_code=member.exit_code,
        reason=member.reason.value,
        message=member.message[:_MESSAGE_LENGTH],
        node=member.node,
        started_at=started_at_of(pod),
        ended_at=member.ended_at,
        peak_bytes=peak.size_bytes if peak is not None else 0,
        result=parse_result(ended.message, succeeded=succeeded) if ended is not None else None,
    )
