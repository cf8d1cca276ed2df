"""Resize of an elastic gang: its attempt is ended, and the next one starts on the chosen nodes.

The nodes are written into the run's status first and are reserved for it from then on. A resize does not count as a
restart of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kajitori.core.formats.node_lists import compress, expand
from kajitori.core.formats.times import format_time
from kajitori.core.gang.types import DeleteMembers, Member, Run, Step
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Resize


def grow(status: RunStatus, nodes: Sequence[str], fewest: int, now: datetime) -> RunStatus:
    """Return the status with these nodes, in rank order, for the next attempt; the run's next step acts on it."""
    resize = Resize(nodes=compress(nodes), fewest=fewest, since=format_time(now))
    message = _resize_message(status.attempt.world_size if status.attempt is not None else 0, len(nodes))
    return msgspec.structs.replace(status, resize=resize, reason=Reason.GROWS, message=message)


def resize_batch(run: Run, status: RunStatus, current: Sequence[Member]) -> Step | None:
    """Return the step of a gang with a resize: all members get SIGTERM and their full grace.

    None if there is no resize, or if the attempt has ended by itself.
    """
    if status.resize is None or all(member.is_over for member in current):
        return None
    message = _resize_message(run.replicas, len(expand(status.resize.nodes)))
    status = msgspec.structs.replace(status, phase=Phase.RESTARTING, reason=Reason.GROWS, message=message)
    return Step(status, (DeleteMembers(run.limits.grace_seconds, unfinished_only=True),))


def _resize_message(before: int, after: int) -> str:
    return f"goes on from its checkpoint with {after} members instead of {before}"


def shrink_to_healthy_nodes(run: Run, current: Sequence[Member], now: datetime) -> Resize | None:
    """Return the healthy nodes on which an elastic gang continues after it lost some, or must leave some.

    None if the gang has to wait for other nodes, because it is not elastic or needs more nodes than are left.
    """
    healthy = [
        member.node
        for member in sorted(current, key=lambda member: member.rank)
        if member.node and member.node_ready and not member.node_draining and not member.node_cordoned
    ]
    if run.fewest is None or len(healthy) < run.fewest:
        return None
    return Resize(nodes=compress(healthy), fewest=run.fewest, since=format_time(now))
