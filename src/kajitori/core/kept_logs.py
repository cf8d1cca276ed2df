"""Which members' logs are kept when their Pods are to be deleted (rule 11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member, MemberState


def logs_to_keep(actions: Iterable[Action], members: Sequence[Member], limit: int) -> list[Member]:
    """Those of the members that these actions delete whose log is kept: rank 0, then who failed; at most `limit`.

    Who never began has said nothing, and a node that does not answer cannot be asked.
    """
    doomed = {
        member.uid: member
        for action in actions
        for member in members
        if _deletes(action, member) and member.node_ready and member.state is not MemberState.PENDING
    }
    wanted = [member for member in doomed.values() if member.rank == 0 or member.state is MemberState.FAILED]
    return sorted(wanted, key=lambda member: (member.rank != 0, member.rank, -member.attempt))[:limit]


def _deletes(action: Action, member: Member) -> bool:
    match action:
        case DeleteMembers(attempt=attempt, unfinished_only=unfinished_only):
            return attempt in (None, member.attempt) and not (unfinished_only and member.is_over)
        case DeleteMember(uid=uid):
            return uid == member.uid
        case _:
            return False
