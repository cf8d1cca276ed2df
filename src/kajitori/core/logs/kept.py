"""Selection of the logs that are kept when members' Pods are deleted (rule 11), and of the Pods that wait for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member, MemberState


def logs_to_keep(actions: Sequence[Action], members: Sequence[Member], limit: int) -> list[Member]:
    """Return the members that lose their Pods by these actions and have their logs kept, at most `limit`.

    Rank 0 comes first, then members that failed, then the others. Members that never started have no log. If a node
    does not respond, only the logs of its failed members are kept, since only their Pods can wait for it.
    """
    wanted = [
        member
        for member in members
        if member.state is not MemberState.PENDING
        and (member.node_ready or member.state is MemberState.FAILED)
        and any(deletes(action, member) for action in actions)
    ]
    return sorted(wanted, key=_order)[:limit]


def terminating_logs(members: Iterable[Member], limit: int) -> list[Member]:
    """Return members that are deleted already and have a log that can still be read, at most `limit`, in that order.

    They run to the end of their grace, or have ended and are still there because our finalizer keeps the Pod.
    """
    wanted = [
        member
        for member in members
        if member.terminating
        and member.node_ready
        and (member.state is MemberState.RUNNING or (member.is_over and member.kept_for_exit_code))
    ]
    return sorted(wanted, key=_order)[:limit]


def _order(member: Member) -> tuple[bool, bool, int, int]:
    return member.rank != 0, member.state is not MemberState.FAILED, member.rank, -member.attempt


def deletes(action: Action, member: Member) -> bool:
    """Whether the action deletes this member's Pod."""
    if isinstance(action, DeleteMember):
        return action.uid == member.uid
    if not isinstance(action, DeleteMembers):
        return False
    return action.attempt in (None, member.attempt) and not (action.unfinished_only and member.is_over)


def without(actions: Sequence[Action], members: Sequence[Member], left: Collection[str]) -> tuple[Action, ...]:
    """Return the actions without deletions of the Pods in `left` (UIDs): these have ended, and their logs are not saved
    yet."""
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
