"""Which members' logs are kept when their Pods are to be deleted (rule 11), and which Pods wait for that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member, MemberState


def logs_to_keep(actions: Sequence[Action], members: Sequence[Member], limit: int) -> list[Member]:
    """The members whose Pods these actions delete and whose logs are kept: at most `limit` of an attempt.

    Rank 0 comes first, then those that failed, then the others. A member that never began has said nothing. A node that
    does not answer is asked only for the log of a member that failed: such a Pod can wait.
    """
    wanted = [
        member
        for member in members
        if member.state is not MemberState.PENDING
        and (member.node_ready or member.state is MemberState.FAILED)
        and any(deletes(action, member) for action in actions)
    ]

    def order(member: Member) -> tuple[bool, bool, int, int]:
        return member.rank != 0, member.state is not MemberState.FAILED, member.rank, -member.attempt

    return sorted(wanted, key=order)[:limit]


def deletes(action: Action, member: Member) -> bool:
    """Whether the action deletes this member's Pod."""
    if isinstance(action, DeleteMember):
        return action.uid == member.uid
    if not isinstance(action, DeleteMembers):
        return False
    return action.attempt in (None, member.attempt) and not (action.unfinished_only and member.is_over)


def without(actions: Sequence[Action], members: Sequence[Member], left: Collection[str]) -> tuple[Action, ...]:
    """The actions with those Pods left alone (their UIDs) whose logs are still to be kept. All of them have ended."""
    spared = [member for member in members if member.uid in left]
    kept: list[Action] = []
    for action in actions:
        if not any(deletes(action, member) for member in spared):
            kept.append(action)
        elif isinstance(action, DeleteMembers):
            fewer = replace(action, unfinished_only=True)
            if any(deletes(fewer, member) for member in members):
                kept.append(fewer)
    return tuple(kept)
