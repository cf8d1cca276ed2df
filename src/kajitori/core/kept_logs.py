"""Which members' logs are kept when their Pods are to be deleted (rule 11)."""

from __future__ import annotations

from collections.abc import Sequence

from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member, MemberState


def logs_to_keep(actions: Sequence[Action], members: Sequence[Member], limit: int) -> list[Member]:
    """Those of the members that these actions delete whose log is kept: rank 0, then who failed; at most `limit`.

    Who never began has said nothing, and a node that does not answer cannot be asked.
    """
    one_by_one = {action.uid for action in actions if isinstance(action, DeleteMember)}
    collections = [action for action in actions if isinstance(action, DeleteMembers)]
    wanted = [
        member
        for member in members
        if (member.rank == 0 or member.state is MemberState.FAILED)
        and member.state is not MemberState.PENDING
        and member.node_ready
        and (member.uid in one_by_one or any(_covers(collection, member) for collection in collections))
    ]
    return sorted(wanted, key=lambda member: (member.rank != 0, member.rank, -member.attempt))[:limit]


def _covers(collection: DeleteMembers, member: Member) -> bool:
    return collection.attempt in (None, member.attempt) and not (collection.unfinished_only and member.is_over)
