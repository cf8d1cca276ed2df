"""What members needed of memory: the peak that is recorded of each run, and what the next of its kind is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kajitori.core.spec.status import MemoryPeak
from kajitori.core.words.quantities import round_memory

WORTH_WRITING = 1.05
"""While a run goes on, a peak is written once it has grown by so much: to double, it takes fifteen writes."""

EARLIER_RUNS = 10
"""Of one kind, the newest that are looked at."""


@dataclass(frozen=True, slots=True)
class MemberPeak:
    """What one member held at most, as far as anybody saw."""

    rank: int
    attempt: int
    node: str
    size_bytes: int
    limit_bytes: int = 0
    """Its memory limit; 0 where it has none."""
    at: str = ""
    """When that was seen."""
    ran_out: bool = False
    """It was ended because it used more than it may."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run of the same kind that is over, or goes on, with what it needed."""

    name: str
    peak: MemoryPeak

    @property
    def day(self) -> str:
        """`2026-11-20`"""
        return self.peak.at.partition("T")[0]


def with_member(known: MemoryPeak | None, member: MemberPeak) -> MemoryPeak | None:
    """The peak of a run, now that this is known of a member. The same object where nothing grew."""
    if member.size_bytes <= 0:
        return known
    if known is not None and known.peak_bytes >= member.size_bytes:
        if member.ran_out and not known.ran_out:
            return msgspec.structs.replace(known, ran_out=True)
        return known
    return MemoryPeak(
        peak_bytes=member.size_bytes,
        rank=member.rank,
        attempt=member.attempt,
        node=member.node,
        limit_bytes=member.limit_bytes,
        at=member.at,
        total_bytes=max(known.total_bytes if known is not None else 0, member.size_bytes),
        ran_out=member.ran_out or (known is not None and known.ran_out),
    )


def merged(one: MemoryPeak | None, other: MemoryPeak | None) -> MemoryPeak | None:
    """What both know together. The same object as `one` where the other knows nothing more."""
    if one is None or other is None:
        return other if one is None else one
    larger = other if other.peak_bytes > one.peak_bytes else one
    total, ran_out = max(one.total_bytes, other.total_bytes), one.ran_out or other.ran_out
    if larger is one and (total, ran_out) == (one.total_bytes, one.ran_out):
        return one
    return msgspec.structs.replace(larger, total_bytes=total, ran_out=ran_out)


def with_total(known: MemoryPeak | None, total_bytes: int) -> MemoryPeak | None:
    """The peak of a run whose members held so much together at one look."""
    if known is None or known.total_bytes >= total_bytes:
        return known
    return msgspec.structs.replace(known, total_bytes=total_bytes)


def is_worth_writing(old: MemoryPeak | None, new: MemoryPeak | None) -> bool:
    """Whether a run is written for the sake of its peak alone."""
    if old is None or new is None:
        return old is not new
    grew = new.peak_bytes >= old.peak_bytes * WORTH_WRITING or new.total_bytes >= old.total_bytes * WORTH_WRITING
    return grew or new.ran_out != old.ran_out


def add_earlier_peaks(
    earlier: Sequence[EarlierRun], limit_bytes: int | None, add: Callable[..., None], *, asked: bool = True
) -> None:
    """Adds the finding about what earlier runs of this kind needed, where some are known: newest first, of which the
    highest counts. `limit_bytes` is what each member of this one may use; `asked` whether its user said so: who leaves
    it to policy, and gets enough, need not be told each time (`MemoryEnough`).
    """
    looked_at = earlier[:EARLIER_RUNS]
    if not looked_at:
        return
    highest = max(looked_at, key=lambda each: each.peak.peak_bytes)
    ended = [each for each in looked_at if each.peak.ran_out]
    out = max(ended, key=lambda each: each.peak.peak_bytes, default=None)
    needed = f"{round_memory(highest.peak.peak_bytes)} a member ({highest.name}, {highest.day})"
    asks = f"this one asks for {round_memory(limit_bytes)}" if limit_bytes is not None else "this one has no limit"
    if out is not None and limit_bytes is not None and limit_bytes <= out.peak.peak_bytes:
        used = round_memory(out.peak.peak_bytes)
        message = (
            f"{out.name} ({out.day}), a run of this kind, was ended when a member had used {used}; {asks}, no more"
        )
        add("MemoryRanOut", message, _FIELD)
    elif limit_bytes is not None and limit_bytes < highest.peak.peak_bytes:
        message = f"earlier runs of this kind peaked at {needed}; {asks}, which is less: it is likely to be killed"
        add("MemoryBelowPeak", message, _FIELD)
    else:
        code = "MemoryPeak" if asked or limit_bytes is None else "MemoryEnough"
        add(code, f"earlier runs of this kind peaked at {needed}; {asks}", _FIELD)


_FIELD = "spec.resources.memory"
