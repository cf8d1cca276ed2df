"""The usage in a run's status: which members hold their nodes since when, and what was held before.

A member holds its amounts from the time at which its attempt was planned until the first of these: its Pod says that
its processes have ended; its node no longer answers; its Pod is gone. The first time is the Pod's own, the others are
the time of the decision that recorded them. All of them are stored in the status by compare-and-swap, so the usage does
not depend on which controller looked, or how often one was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import msgspec

from kajitori.core.formats.node_lists import compress, compress_ranks, expand, expand_ranks
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.usage import Amounts, Holding, Segment, Usage, UsageTotal

CLOSED_LENGTH = 24_000
"""Characters of ranks and nodes that the closed segments of a status may take together."""

CLOSED_COUNT = 200
"""Closed segments that a status may have."""

Part = TypeVar("Part", bound=Holding)

Released = Mapping[int, str]
"""Time at which each of these ranks gave its node back."""


class TimeFacts(NamedTuple):
    """When members ran and why they ended, besides the time for which they held their nodes."""

    started: str = ""
    ended: str = ""
    cause: str = ""
    culprit: str = ""


def open_attempt(
    status: RunStatus, amounts: Amounts, type_of: Callable[[str], str], now: datetime, *, saves_every: int = 0
) -> RunStatus:
    """Return the status of an attempt that was just planned, in which its members hold their nodes.

    `amounts` are those of one member, `type_of` returns the GPU type of a node. `saves_every` is about checkpoints (see
    `Holding`).
    """
    attempt = status.attempt
    assert attempt is not None, "an attempt was planned"
    usage = status.usage or Usage(first=_first_id(now))
    setback = status.setback
    by_type: dict[str, list[int]] = {}
    for rank, node in attempt.node_by_rank().items():
        by_type.setdefault(type_of(node) if amounts.gpus else "", []).append(rank)
    begun = [
        Holding(
            attempt=attempt.number,
            ranks=compress_ranks(sorted(ranks)),
            since=attempt.planned_at,
            gpu_type=gpu_type,
            gpus=amounts.gpus,
            cpu_millis=amounts.cpu_millis,
            memory_bytes=amounts.memory_bytes,
            after=setback.reason if setback is not None and setback.attempt == attempt.number - 1 else "",
            saves_every=saves_every,
        )
        for gpu_type, ranks in sorted(by_type.items())
    ]
    return msgspec.structs.replace(status, usage=msgspec.structs.replace(usage, open=[*usage.open, *begun]))


def detached(status: RunStatus) -> Usage | None:
    """Return the usage with a node list in each part, because the status' attempt is about to be replaced."""
    usage, attempt = status.usage, status.attempt
    if usage is None or attempt is None:
        return usage
    planned = attempt.node_by_rank()
    number = attempt.number

    def own(part: Part) -> Part:
        if part.nodes or part.attempt != number:
            return part
        nodes = [planned.get(rank, "") for rank in expand_ranks(part.ranks)]
        return msgspec.structs.replace(part, nodes=compress(nodes)) if all(nodes) else part

    return _within_bounds(
        msgspec.structs.replace(usage, open=[own(part) for part in usage.open], closed=[own(p) for p in usage.closed])
    )


def open_ranks(usage: Usage | None) -> dict[int, set[int]]:
    """Return the ranks that hold their nodes, by attempt."""
    found: dict[int, set[int]] = {}
    for part in usage.open if usage is not None else ():
        found.setdefault(part.attempt, set()).update(expand_ranks(part.ranks))
    return found


def release(
    status: RunStatus, released: Mapping[int, Released], by_rank: Mapping[int, Mapping[int, TimeFacts]] | None = None
) -> RunStatus:
    """Return the status after these members gave their nodes back: by attempt, the time of each rank.

    `by_rank` has the facts about members that live independently of others: by attempt and rank.
    """
    usage = status.usage
    if usage is None or not any(released.values()):
        return status
    left: list[Holding] = []
    closed: list[Segment] = []
    last = max(usage.last, usage.first - 1)
    for part in usage.open:
        given_back, ranks = released.get(part.attempt, {}), expand_ranks(part.ranks)
        gone = [rank for rank in ranks if rank in given_back]
        if not gone:
            left.append(part)
            continue
        nodes = dict(zip(ranks, expand(part.nodes), strict=False)) if part.nodes else {}
        kept = [rank for rank in ranks if rank not in given_back]
        if kept:
            left.append(_of_ranks(part, kept, nodes))
        own = (by_rank or {}).get(part.attempt, {})

        def alike(
            rank: int, given_back: Released = given_back, own: Mapping[int, TimeFacts] = own
        ) -> tuple[str, TimeFacts]:
            return given_back[rank], own.get(rank, TimeFacts())

        gone.sort(key=lambda rank: (alike(rank), rank))
        for (until, facts), same in groupby(gone, key=alike):
            fields = _fields(_of_ranks(part, list(same), nodes))
            fields |= {name: value for name, value in facts._asdict().items() if value}
            last += 1
            closed.append(Segment(**fields, id=last, until=max(until, part.since)))
    if not closed:
        return status
    usage = msgspec.structs.replace(
        usage,
        last=last,
        open=left,
        closed=[*usage.closed, *closed],
        totals=_add_to_totals(usage.totals, closed),
    )
    return msgspec.structs.replace(status, usage=_within_bounds(usage))


def mark_attempt(usage: Usage, attempt: int, facts: TimeFacts) -> Usage:
    """Return the usage with the known facts about an attempt added to its open parts."""

    def marked(part: Holding) -> Holding:
        if part.attempt != attempt:
            return part
        news = {name: value for name, value in facts._asdict().items() if value and not getattr(part, name)}
        return msgspec.structs.replace(part, **news) if news else part

    parts = [marked(part) for part in usage.open]
    return usage if parts == usage.open else msgspec.structs.replace(usage, open=parts)


def without_confirmed(usage: Usage, confirmed: int) -> Usage:
    """Return the usage without the closed segments up to this number, which history has."""
    kept = [segment for segment in usage.closed if segment.id > confirmed]
    return usage if len(kept) == len(usage.closed) else msgspec.structs.replace(usage, closed=kept)


def members_of(part: Holding) -> int:
    """Return the number of members of an open or closed part."""
    return len(expand_ranks(part.ranks))


def seconds_between(since: str, until: str) -> int:
    """Return the seconds between two stored times; 0 if one is missing or they are the wrong way round."""
    start, end = parse_time(since), parse_time(until)
    return max(0, round((end - start).total_seconds())) if start is not None and end is not None else 0


def nodes_of(part: Holding, attempt: Attempt | None) -> str:
    """Return the nodes of a part as a compact list; empty if they are not known."""
    if part.nodes:
        return part.nodes
    if attempt is None or attempt.number != part.attempt:
        return ""
    planned = attempt.node_by_rank()
    nodes = [planned.get(rank, "") for rank in expand_ranks(part.ranks)]
    return compress(nodes) if all(nodes) else ""


def amounts_key(part: Amounts) -> tuple[str, int, int, int]:
    """Return a key that is equal for equal amounts."""
    return part.gpu_type, part.gpus, part.cpu_millis, part.memory_bytes


def _of_ranks(part: Holding, ranks: Sequence[int], nodes: Mapping[int, str]) -> Holding:
    ordered = sorted(ranks)
    own = compress([nodes[rank] for rank in ordered]) if nodes else ""
    return Holding(**_fields(part) | {"ranks": compress_ranks(ordered), "nodes": own})


def _fields(part: Holding) -> dict[str, Any]:
    return {name: getattr(part, name) for name in Holding.__struct_fields__}


def _add_to_totals(totals: Iterable[UsageTotal], closed: Iterable[Segment]) -> list[UsageTotal]:
    found = {amounts_key(total): total for total in totals}
    for part in closed:
        key = amounts_key(part)
        before = found.get(key) or UsageTotal(
            gpu_type=part.gpu_type, gpus=part.gpus, cpu_millis=part.cpu_millis, memory_bytes=part.memory_bytes
        )
        seconds = before.member_seconds + members_of(part) * seconds_between(part.since, part.until)
        found[key] = msgspec.structs.replace(before, member_seconds=seconds)
    return list(found.values())


def _within_bounds(usage: Usage) -> Usage:
    """Return the usage without its oldest closed segments if they take too much room. Their time is in the totals."""
    room, kept = CLOSED_LENGTH, 0
    for segment in reversed(usage.closed):
        room -= len(segment.ranks) + len(segment.nodes)
        if room < 0 or kept == CLOSED_COUNT:
            break
        kept += 1
    if kept == len(usage.closed):
        return usage
    return msgspec.structs.replace(usage, closed=usage.closed[len(usage.closed) - kept :])


def _first_id(now: datetime) -> int:
    """Return the number of the first segment. A status that was lost begins again with a number that was never used."""
    return int(now.timestamp() * 1000)
