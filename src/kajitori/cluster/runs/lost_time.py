"""Reads from a Run's status how its time was spent: members that hold or held nodes, and marks of its attempts."""

from __future__ import annotations

from datetime import datetime

from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.usage import Holding, Segment
from kajitori.core.usage.ledger import members_of
from kajitori.core.usage.lost_time.slices import Held, Mark


def open_parts(status: RunStatus, now: datetime) -> list[Held]:
    """Return the members that hold nodes, until now."""
    moment = int(now.timestamp())
    return [
        _held_of(part, max(moment, _parse_seconds(part.since) or 0))
        for part in (status.usage.open if status.usage else ())
    ]


def closed_parts(status: RunStatus) -> dict[int, Held]:
    """Return the members that gave their nodes back, as far as the status still has them, by number of the segment."""
    closed = status.usage.closed if status.usage is not None else ()
    return {part.id: _held_of(part, _parse_seconds(part.until) or 0) for part in closed}


def left_out(status: RunStatus) -> list[Held]:
    """Return the time that is only in the totals of a status, because the status has no room for its segments. History
    has these segments, if there is a history."""
    usage = status.usage
    if usage is None:
        return []
    known: dict[int, int] = {}
    for part in usage.closed:
        held = _held_of(part, _parse_seconds(part.until) or 0)
        known[part.gpus] = known.get(part.gpus, 0) + held.member_seconds
    totals: dict[int, int] = {}
    for total in usage.totals:
        totals[total.gpus] = totals.get(total.gpus, 0) + total.member_seconds
    return [
        Held(attempt=0, members=0, gpus=gpus, since=0, until=0, loose_seconds=seconds - known.get(gpus, 0))
        for gpus, seconds in totals.items()
        if seconds > known.get(gpus, 0)
    ]


def marks_of(status: RunStatus, now: datetime) -> tuple[Mark, ...]:
    """Return the times in which attempts were stuck or idle; those that go on end now."""
    moment = int(now.timestamp())
    found = []
    for each in status.stretches:
        since = _parse_seconds(each.since) or 0
        found.append(Mark(each.attempt, each.kind, since, max(since, _parse_seconds(each.until) or moment)))
    return tuple(found)


def lifetime(run: RunObject, now: datetime) -> tuple[int, int]:
    """Return when a run was submitted, and when it ended, or now."""
    created = _parse_seconds(run.metadata.creation_timestamp) or 0
    status = run.status
    ended = _parse_seconds(status.finished_at) if status is not None and status.phase.is_final else None
    return created, max(created, ended if ended is not None else int(now.timestamp()))


def _held_of(part: Holding | Segment, until: int) -> Held:
    since = _parse_seconds(part.since) or 0
    return Held(
        attempt=part.attempt,
        members=members_of(part),
        gpus=part.gpus,
        since=since,
        until=max(since, until),
        started=_parse_seconds(part.started),
        ended=_parse_seconds(part.ended),
        cause=part.cause,
        after=part.after,
        node=part.culprit,
        saves_every=part.saves_every,
    )


def _parse_seconds(text: str) -> int | None:
    moment = parse_time(text)
    return int(moment.timestamp()) if moment is not None else None
