"""Sums of usage by day: the part of a segment that each sum gets, and the sums and segments that cover a period.

Days are those of UTC, numbered from 1970. Each sum exists for one day and for a block of `BLOCK_DAYS` days, so that
the sums over years are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from kajitori.core.usage.lost_time.run_time import costs
from kajitori.core.usage.lost_time.slices import Category, Held, Slice, is_interruption

DAY = 86_400
BLOCK_DAYS = 32
MIB_SHIFT = 20


def shares(since: int, until: int, each_seconds: int) -> Iterator[tuple[int, int]]:
    """Yield the number (counted from 1970) of every day, hour or other piece of `each_seconds` that a span touches, and
    the seconds of the span in it."""
    for number in range(since // each_seconds, -(-until // each_seconds)):
        yield number, min(until, (number + 1) * each_seconds) - max(since, number * each_seconds)


class Level(StrEnum):
    """The keys of a sum. Fewer keys mean fewer rows to add up."""

    TEAM = "team"
    """One namespace, all owners."""
    OWNER = "owner"
    """One owner, all namespaces."""
    BOTH = "both"
    """One owner in one namespace."""


class TimeLevel(StrEnum):
    """Subject of a sum of time by category and cause."""

    TEAM = "team"
    """One namespace, all owners."""
    OWNER = "owner"
    """One owner in one namespace."""
    NODE = "node"
    """One node, which is named as the key's owner. Its sums have only the cost of failures of members on it."""


class SumKey(msgspec.Struct, frozen=True, order=True):
    """Key of one sum."""

    level: str
    days: int
    """Number of days: 1 or `BLOCK_DAYS`."""
    first: int
    """Number of the first of these days."""
    namespace: str
    owner: str
    gpu_type: str


class Amount(msgspec.Struct):
    """Used amounts. Memory is in two parts, since byte-seconds of a large run exceed 64 bits."""

    gpu_seconds: int = 0
    cpu_milli_seconds: int = 0
    mib_seconds: int = 0
    odd_byte_seconds: int = 0
    """Byte-seconds beyond whole MiB."""
    member_seconds: int = 0


class UsedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One stored segment, or time of a run with more segments than its status has room for (`members` is 0 then)."""

    namespace: str
    owner: str
    gpu_type: str
    gpus: int
    cpu_millis: int
    memory_bytes: int
    members: int
    since: int
    until: int
    member_seconds: int


class Stretch(msgspec.Struct, frozen=True):
    """A stretch of time with one sum for each `days` days. Days are numbers, `until` is excluded."""

    days: int
    since: int
    until: int


class Parts(msgspec.Struct, frozen=True):
    """The sums that a time is made of, and the seconds at its edges that need the segments themselves."""

    sums: tuple[Stretch, ...]
    edges: tuple[tuple[int, int], ...]


def daily_sums(parts: Iterable[UsedPart]) -> dict[SumKey, Amount]:
    """Return the shares of these segments in every sum."""
    found: dict[SumKey, Amount] = {}
    for part in parts:
        for day, seconds in _days_of(part):
            for key in _keys_of(part, day):
                _add_seconds(found.setdefault(key, Amount()), part, seconds)
    return found


class TimeKey(msgspec.Struct, frozen=True, order=True):
    """Key of one sum of time by category and cause."""

    level: str
    day: int
    namespace: str
    owner: str
    category: str
    cause: str


class TimeAmount(msgspec.Struct):
    """The time of one sum."""

    gpu_seconds: int = 0
    member_seconds: int = 0
    times: int = 0
    """Number of attempts that the cause ended."""

    def add(self, gpu_seconds: int, member_seconds: int, times: int = 0) -> None:
        self.gpu_seconds += gpu_seconds
        self.member_seconds += member_seconds
        self.times += times


class TimedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One stored segment, with the known facts about its time."""

    namespace: str
    owner: str
    held: Held
    counts: int = 0
    """Number of ends of attempts that it stands for."""


def daily_times(parts: Iterable[tuple[TimedPart, Sequence[Slice]]]) -> dict[TimeKey, TimeAmount]:
    """Return the shares of divided segments in every sum."""
    found: dict[TimeKey, TimeAmount] = {}

    def add(part: TimedPart, day: int, slice_: Slice, seconds: int, times: int = 0) -> None:
        what = slice_.category.value, slice_.cause
        keys = [
            TimeKey(TimeLevel.TEAM.value, day, part.namespace, "", *what),
            TimeKey(TimeLevel.OWNER.value, day, part.namespace, part.owner, *what),
        ]
        if slice_.node and costs(slice_):
            keys.append(TimeKey(TimeLevel.NODE.value, day, "", slice_.node, *what))
        for key in keys:
            found.setdefault(key, TimeAmount()).add(seconds * part.held.gpus, seconds, times)

    for part, slices in parts:
        held = part.held
        last_day = (held.until if held.since >= held.until else held.until - 1) // DAY
        if held.loose_seconds:
            add(part, last_day, Slice(Category.UNCLEAR, "", "", held.since, held.until), held.loose_seconds)
        for each in slices:
            for day, seconds in shares(each.since, each.until, DAY):
                add(part, day, each, held.members * seconds)
        if part.counts > 0 and is_interruption(held.cause):
            add(part, last_day, Slice(Category.RESTARTING, held.cause, held.node, 0, 0), 0, part.counts)
    return found


def parts_of(since: int, until: int) -> Parts:
    """Return the sums and segments that cover the period between two times (seconds since 1970)."""
    first, end = -(-since // DAY), until // DAY
    if end <= first:
        return Parts((), ((since, until),) if until > since else ())
    block, block_end = -(-first // BLOCK_DAYS) * BLOCK_DAYS, end // BLOCK_DAYS * BLOCK_DAYS
    if block_end > block:
        stretches = [Stretch(1, first, block), Stretch(BLOCK_DAYS, block, block_end), Stretch(1, block_end, end)]
    else:
        stretches = [Stretch(1, first, end)]
    edges = ((since, first * DAY), (end * DAY, until))
    return Parts(
        tuple(stretch for stretch in stretches if stretch.until > stretch.since),
        tuple(edge for edge in edges if edge[1] > edge[0]),
    )


def _days_of(part: UsedPart) -> Iterator[tuple[int, int]]:
    """Yield each day of a part with the member-seconds on it. Time without members counts on the day of its end."""
    if not part.members:
        yield (part.until if part.since == part.until else part.until - 1) // DAY, part.member_seconds
        return
    for day, seconds in shares(part.since, part.until, DAY):
        yield day, part.members * seconds


def _keys_of(part: UsedPart, day: int) -> Iterator[SumKey]:
    for days, first in ((1, day), (BLOCK_DAYS, day // BLOCK_DAYS * BLOCK_DAYS)):
        yield SumKey(Level.TEAM.value, days, first, part.namespace, "", part.gpu_type)
        yield SumKey(Level.OWNER.value, days, first, "", part.owner, part.gpu_type)
        yield SumKey(Level.BOTH.value, days, first, part.namespace, part.owner, part.gpu_type)


def _add_seconds(amount: Amount, part: UsedPart, seconds: int) -> None:
    amount.gpu_seconds += part.gpus * seconds
    amount.cpu_milli_seconds += part.cpu_millis * seconds
    amount.mib_seconds += (part.memory_bytes >> MIB_SHIFT) * seconds
    amount.odd_byte_seconds += part.memory_bytes % (1 << MIB_SHIFT) * seconds
    amount.member_seconds += seconds
