"""Counts of a run's members, and notes on those that failed or wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from kajitori.core.gang.types import Member, MemberState, Run
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import NOTABLE_LIMIT, MemberCounts, Notable

_WAIT_REASONS = (
    Reason.ADMISSION,
    Reason.QUOTA,
    Reason.KUBELET_REFUSED,
    Reason.CONTAINER_CONFIG,
    Reason.IMAGE_PULL,
    Reason.VOLUME,
    Reason.STORAGE,
    Reason.UNSCHEDULED,
)
"""Reasons for which a member waits, the least likely to disappear by itself first."""


def members_text(count: int) -> str:
    """Return `1 member` or `2 members`."""
    return "1 member" if count == 1 else f"{count} members"


def count_members(run: Run, status: RunStatus, members: Sequence[Member]) -> RunStatus:
    """Return the status with the members' counts and notes on the members that need attention.

    Notes on how members of the last attempt ended stay until a member of this attempt fails.
    """
    states = [member.state for member in members]
    counts = MemberCounts(
        total=run.replicas,
        pending=states.count(MemberState.PENDING),
        running=states.count(MemberState.RUNNING),
        succeeded=states.count(MemberState.SUCCEEDED),
        failed=states.count(MemberState.FAILED),
    )
    failed = [member for member in members if member.state is MemberState.FAILED]
    waiting = blocked_members(members)
    notable = status.notable
    if failed:
        notable = notes_of([*failed, *waiting], notable)
    elif waiting or (states and MemberState.PENDING not in states):  # the earlier cause of waiting is over
        renewed = {(member.rank, member.attempt) for member in waiting}
        ends = [note for note in notable if note.exit_code is not None or _outlasts_waiting(note, renewed)]
        notable = [*notes_of(waiting, notable), *ends]
    return msgspec.structs.replace(status, members=counts, notable=notable[:NOTABLE_LIMIT])


def _outlasts_waiting(note: Notable, renewed: Collection[tuple[int, int]]) -> bool:
    """Return whether a note without an exit code stays. A kubelet starts the program of a service's member again and
    again in one attempt: the newest note replaces the one before."""
    return note.reason not in _WAIT_REASONS and (note.rank, note.attempt) not in renewed


def blocked_members(members: Iterable[Member]) -> list[Member]:
    """Return the pending members that wait for something other than their creation."""
    nothing = (Reason.NONE, Reason.CREATING)
    return [member for member in members if member.state is MemberState.PENDING and member.reason not in nothing]


def notes_of(members: Iterable[Member], before: Iterable[Notable] = ()) -> list[Notable]:
    """Return notes on these members. An earlier note on the same member and attempt keeps its time."""
    since = {(note.rank, note.attempt): note.since for note in before}
    return [
        Notable(
            rank=member.rank,
            node=member.node,
            reason=member.reason.value,
            message=member.message[:300],
            exit_code=member.exit_code,
            attempt=member.attempt,
            since=member.ended_at or since.get((member.rank, member.attempt), ""),
        )
        for member in members
    ]


def worst_of(waiting: Sequence[Member]) -> Member | None:
    """Return the waiting member with the reason that is the least likely to disappear by itself."""
    return min(
        waiting,
        key=lambda m: (_WAIT_REASONS.index(m.reason) if m.reason in _WAIT_REASONS else 99, m.rank),
        default=None,
    )
