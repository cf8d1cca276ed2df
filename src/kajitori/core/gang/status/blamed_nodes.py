"""Nodes that failures and failed starts of members speak against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from kajitori.core.formats.times import format_time
from kajitori.core.gang.status.member_notes import notes_of
from kajitori.core.gang.status.progress import node_by_rank
from kajitori.core.gang.types import Member
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt

_REMEMBERED_NODES = 64
"""Largest number of nodes with failures that a status holds."""
_REMEMBERED_STARTS = 8
"""Largest number of nodes with failed starts that a status holds."""
_MAY_BE_THE_NODE = (
    Reason.START_DEADLINE,
    Reason.IMAGE_PULL,
    Reason.VOLUME,
    Reason.CONTAINER_CONFIG,
    Reason.KUBELET_REFUSED,
    Reason.FIRST_STEP_FAILED,
)
"""Reasons of failed starts that may be due to the node."""
_NODE_TAKEN_MEANWHILE = ("Node didn't have enough resource", "OutOf", "Predicate ")
"""Texts in the refusal of a kubelet that accepted another Pod meanwhile, or of a node that was changed."""
_NOT_THE_NODE = (
    Reason.STORAGE,
    Reason.OUT_OF_MEMORY,
    Reason.PREEMPTED,
    Reason.MEMBER_DELETED,
    Reason.FIRST_STEP_REFUSED,
    Reason.FIRST_STEP_NO_PEERS,
    Reason.FIRST_STEP_NO_CODE,
)
"""Reasons of failures that say nothing about the node."""


def blame_node(status: RunStatus, member: Member) -> RunStatus:
    """Count a failure against the member's node, unless the failure says nothing about the node."""
    if not member.node or member.reason in _NOT_THE_NODE:
        return status
    failures = dict(status.avoid_nodes)
    failures[member.node] = failures.pop(member.node, 0) + 1
    while len(failures) > _REMEMBERED_NODES:
        del failures[next(iter(failures))]
    return msgspec.structs.replace(status, avoid_nodes=failures)


def blame_late(status: RunStatus, attempt: Attempt, late: Iterable[Member]) -> RunStatus:
    """Count a failure against the nodes of late members: the planned node if a member was never bound to one."""
    planned = node_by_rank(attempt)
    for member in late:
        status = blame_node(status, replace(member, node=member.node or planned.get(member.rank, "")))
    return status


def note_unstarted(status: RunStatus, attempt: Attempt, failed: Sequence[Member], now: datetime) -> RunStatus:
    """Record the one node that kept an attempt from starting.

    `failed` are all members that did not start, the worst first. Nothing is recorded if they are on several nodes,
    or if another Pod took the node's room first.
    """
    planned = node_by_rank(attempt)
    nodes = {member.node or planned.get(member.rank, "") for member in failed}
    if len(nodes) != 1 or "" in nodes:
        return status
    (node,), worst = nodes, failed[0]
    reason = Reason.START_DEADLINE if worst.reason in (Reason.NONE, Reason.CREATING) else worst.reason
    if reason not in _MAY_BE_THE_NODE or any(text in worst.message for text in _NODE_TAKEN_MEANWHILE):
        return status
    (note,) = notes_of([replace(worst, node=node, reason=reason, ended_at=format_time(now))])
    others = [note for note in status.unstarted if note.node != node]
    return msgspec.structs.replace(status, unstarted=[*others, note][-_REMEMBERED_STARTS:])
