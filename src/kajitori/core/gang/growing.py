"""An elastic gang that goes on with another size: its attempt is ended, and the next begins on nodes that are chosen.

They are written into its status first, and kept for it from then on. Nobody counts it as a restart of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kajitori.core.gang.types import DeleteMembers, Member, Run, Step
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import Resize, RunStatus
from kajitori.core.words.node_lists import compress, expand
from kajitori.core.words.times import format_time


def grow(status: RunStatus, nodes: Sequence[str], fewest: int, now: datetime) -> RunStatus:
    """The status of a run whose next attempt is to have these nodes, in rank order; its life acts on it."""
    resize = Resize(nodes=compress(nodes), fewest=fewest, since=format_time(now))
    message = _words(status.attempt.world_size if status.attempt is not None else 0, len(nodes))
    return msgspec.structs.replace(status, resize=resize, reason=Reason.GROWS, message=message)


def resize_batch(run: Run, status: RunStatus, current: Sequence[Member]) -> Step | None:
    """What a gang does that is to grow: all of its members get SIGTERM and all of their grace. None where it is not to,
    or ends by itself."""
    if status.resize is None or all(member.is_over for member in current):
        return None
    message = _words(run.replicas, len(expand(status.resize.nodes)))
    status = msgspec.structs.replace(status, phase=Phase.RESTARTING, reason=Reason.GROWS, message=message)
    return Step(status, (DeleteMembers(run.limits.grace_seconds, unfinished_only=True),))


def _words(before: int, after: int) -> str:
    return f"goes on from its checkpoint with {after} members instead of {before}"


def shrink_to_healthy_nodes(run: Run, current: Sequence[Member], now: datetime) -> Resize | None:
    """The nodes that an elastic gang goes on with which has lost some, or is to leave them; None where it waits for
    others: it is not elastic, or too few are left."""
    left = [
        member.node
        for member in sorted(current, key=lambda member: member.rank)
        if member.node and member.node_ready and not member.node_draining and not member.node_cordoned
    ]
    if run.fewest is None or len(left) < run.fewest:
        return None
    return Resize(nodes=compress(left), fewest=run.fewest, since=format_time(now))
