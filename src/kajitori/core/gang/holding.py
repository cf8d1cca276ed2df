"""The members of a run that still hold their nodes: parts of the usage ledger are closed as members release their
nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kajitori.core.gang.types import Member, Run
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.usage.ledger import open_ranks, release, without_confirmed
from kajitori.core.words.times import format_time


def settle(run: Run, status: RunStatus, members: Sequence[Member], now: datetime) -> RunStatus:
    """Return the status after members gave their nodes back (see `core.usage.ledger` for when that is)."""
    holding = open_ranks(status.usage)
    if not holding:
        return status
    moment = format_time(now)
    released: dict[int, dict[int, str]] = {attempt: {} for attempt in holding}
    for member in members:
        ranks = holding.get(member.attempt)
        if ranks is None or member.rank not in ranks:
            continue
        ranks.remove(member.rank)
        if member.is_over:
            released[member.attempt][member.rank] = min(member.ended_at or moment, moment)
        elif member.node and not member.node_ready:
            released[member.attempt][member.rank] = moment
    to_make = status.attempt.number if status.attempt is not None and _makes_members(run, status) else 0
    for attempt, absent in holding.items():
        if attempt != to_make:
            released[attempt].update(dict.fromkeys(absent, moment))
    return release(status, released)


def trim(before: RunStatus, status: RunStatus, confirmed: int) -> RunStatus:
    """Return the status without the closed segments that history has. That alone is no reason to write a status."""
    usage = status.usage
    if usage is None or not usage.closed or status == before:
        return status
    return msgspec.structs.replace(status, usage=without_confirmed(usage, confirmed))


def _makes_members(run: Run, status: RunStatus) -> bool:
    """Whether members of the attempt are still to be created: a missing one holds its node all the same."""
    attempt = status.attempt
    if attempt is None or attempt.created or status.phase.is_final or run.deleting or run.stopped:
        return False
    independent = run.sweep is not None or run.type == "service"
    return independent or status.phase is Phase.STARTING
