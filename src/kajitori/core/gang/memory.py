"""Peak memory of runs: how it is recorded, and what a new run is told about earlier runs of its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kajitori.core.formats.quantities import round_memory
from kajitori.core.spec.status_parts.members import MemoryPeak

WORTH_WRITING = 1.05
"""A running run's peak is written again once it has grown by this factor. A peak that doubles is written fifteen
times.
"""

EARLIER_RUNS = 10
"""Most earlier runs of a kind that are considered, newest first."""


@dataclass(frozen=True, slots=True)
class MemberPeak:
    """The observed peak memory of one member."""

    rank: int
    attempt: int
    node: str
    size_bytes: int
    limit_bytes: int = 0
    """Its memory limit; 0 if it has none."""
    at: str = ""
    """Time of the observation."""
    ran_out: bool = False
    """It was killed because it exceeded its memory limit."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An ended or running run of the same kind, with its peak."""

    name: str
    peak: MemoryPeak

    @property
    def day(self) -> str:
        """Date of the peak: `2026-11-20`."""
        return self.peak.at.partition("T")[0]


def with_member(known: MemoryPeak | None, member: MemberPeak) -> MemoryPeak | None:
    """Return a run's peak after this observation of a member; the same object if nothing grew."""
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
    """Return the peak that combines both; `one` itself if `other` adds nothing."""
    if one is None or other is None:
        return other if one is None else one
    larger = other if other.peak_bytes > one.peak_bytes else one
    total, ran_out = max(one.total_bytes, other.total_bytes), one.ran_out or other.ran_out
    if larger is one and (total, ran_out) == (one.total_bytes, one.ran_out):
        return one
    return msgspec.structs.replace(larger, total_bytes=total, ran_out=ran_out)


def with_total(known: MemoryPeak | None, total_bytes: int) -> MemoryPeak | None:
    """Return a run's peak after its members together used `total_bytes` at one time."""
    if known is None or known.total_bytes >= total_bytes:
        return known
    return msgspec.structs.replace(known, total_bytes=total_bytes)


def is_worth_writing(old: MemoryPeak | None, new: MemoryPeak | None) -> bool:
    """Return whether the peak changed enough to write the run for it alone."""
    if old is None or new is None:
        return old is not new
    grew = new.peak_bytes >= old.peak_bytes * WORTH_WRITING or new.total_bytes >= old.total_bytes * WORTH_WRITING
    return grew or new.ran_out != old.ran_out


def add_earlier_peaks(
    earlier: Sequence[EarlierRun], limit_bytes: int | None, add: Callable[..., None], *, asked: bool = True
) -> None:
    """Add a finding about the memory that earlier runs of this kind needed, if there are any.

    The highest peak counts. `earlier` has the newest run first. `limit_bytes` is the limit of each member of this run,
    None for no limit. `asked` is False if policy chose the limit; a sufficient limit then gets the quieter finding
    `MemoryEnough`.
    """
    considered = earlier[:EARLIER_RUNS]
    if not considered:
        return
    highest = max(considered, key=lambda run: run.peak.peak_bytes)
    killed = [run for run in considered if run.peak.ran_out]
    out = max(killed, key=lambda run: run.peak.peak_bytes, default=None)
    needed = f"{round_memory(highest.peak.peak_bytes)} a member ({highest.name}, {highest.day})"
    asks = f"this one asks for {round_memory(limit_bytes)}" if limit_bytes is not None else "this one has no limit"
    if out is not None and limit_bytes is not None and limit_bytes <= out.peak.peak_bytes:
        used = round_memory(out.peak.peak_bytes)
        message = (
            f"the run {out.name} ({out.day}), of this kind, was killed when a member had used {used}; {asks}, no more"
        )
        add("MemoryRanOut", message, _FIELD)
    elif limit_bytes is not None and limit_bytes < highest.peak.peak_bytes:
        message = f"earlier runs of this kind peaked at {needed}; {asks}, which is less: it is likely to be killed"
        add("MemoryBelowPeak", message, _FIELD)
    else:
        code = "MemoryPeak" if asked or limit_bytes is None else "MemoryEnough"
        add(code, f"earlier runs of this kind peaked at {needed}; {asks}", _FIELD)


_FIELD = "spec.resources.memory"
