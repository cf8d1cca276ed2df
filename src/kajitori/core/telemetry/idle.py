"""Whether GPUs of a run are idle, and since when, from the bands of its minutes.

A band has extremes and percentiles over all GPUs of an attempt. So it tells *how many* GPUs are idle, within bounds,
but not which ones. If the maximum is below the limit, all of them are idle; this is exact, also over longer intervals.
If only a percentile is below it, at least that share of the GPUs is idle in this minute, but perhaps not the same GPUs
as a minute before. Then GPUs are *perhaps* idle, and the nodes have to be asked: they have the last hour of each GPU
(`idle_places`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from kajitori.core.telemetry.bands import PERCENTILES, Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MINUTE_SECONDS, TRAFFIC

LATE_SECONDS = 5 * MINUTE_SECONDS
"""If the newest complete interval is older than this, there is no finding."""
GAP_SECONDS = 15 * MINUTE_SECONDS
"""Longest gap between complete intervals within an idle stretch. After a longer gap a new stretch begins."""

_SHOWS_USE = ("gpu.used", "gpu.sm.active")
"""Quantities of which at least one has to be measured: a GPU without both may be busy."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Values from which on a GPU, or a member, counts as working."""

    utilisation: float = 5.0
    """Percent of the time in which a kernel ran."""
    multiprocessors: float = 5.0
    """Percent of the multiprocessors that had work, if DCGM reports it."""
    memory_traffic: float = 5.0
    """Percent of the time in which memory was read or written."""
    cores: float = 0.5
    bytes_per_second: float = 2.0**20
    """Traffic of disks or networks."""

    @property
    def of_gpu(self) -> Mapping[str, float]:
        """The limits of a GPU's quantities. It is idle if it is below all of them that were measured."""
        return {
            "gpu.used": self.utilisation,
            "gpu.sm.active": self.multiprocessors,
            "gpu.memory.busy": self.memory_traffic,
        }


@dataclass(frozen=True, slots=True)
class Patience:
    """Times after which idle GPUs are a finding, in seconds; None: never."""

    quiet_seconds: int | None = 2 * 3600
    """Neither GPUs nor processors, disks and networks are used."""
    idle_seconds: int | None = 12 * 3600
    """GPUs are idle, although processors, disks or networks may be in use."""


class Bounds(NamedTuple):
    """The possible numbers of GPUs."""

    fewest: int
    most: int


def below(band: Band, limit: float, *, is_minute: bool) -> Bounds:
    """Return how many values of a band are below a limit.

    `is_minute`: whether the band is over one minute. Percentiles of longer intervals are means of those of the minutes,
    so that only the extremes say anything.
    """
    if band.most < limit:
        return Bounds(band.size, band.size)
    if band.least >= limit:
        return Bounds(0, 0)
    if not is_minute:
        return Bounds(0, band.size)
    fewest, most = 1, band.size - 1
    for share, value in zip(PERCENTILES, (band.p10, band.median, band.p90), strict=True):
        index = share * (band.size - 1)  # as `bands_of` interpolates between the two nearest values
        lower = math.floor(index)
        if value < limit:
            fewest = max(fewest, lower + 1)
        else:
            most = min(most, lower + 1 if index > lower else lower)
    return Bounds(min(fewest, most), most)


_NONE = Bounds(0, 0)


class Use(NamedTuple):
    """Use of an attempt's GPUs in one interval."""

    gpus: int
    idle: Bounds
    peak: float
    """Highest utilisation of any GPU, in percent."""
    works: bool
    """Whether a member used its processors, disks or network."""


def use_in(interval: Interval, limits: Limits) -> Use | None:
    """Return the use of GPUs in an interval; None if no GPU was measured."""
    bands, is_minute = interval.bands, interval.seconds == MINUTE_SECONDS
    gpus = max((bands[name].size for name in _SHOWS_USE if name in bands), default=0)
    if not gpus:
        return None
    busy, most = 0, gpus
    for name, limit in limits.of_gpu.items():
        if name in bands:
            bounds = below(bands[name], limit, is_minute=is_minute)
            busy += bands[name].size - bounds.fewest  # at most this many are busy by this quantity
            most = min(most, gpus - (bands[name].size - bounds.most))
    peak = max(bands[name].most for name in _SHOWS_USE if name in bands)
    return Use(gpus, Bounds(max(0, min(gpus - busy, most)), most), peak, _is_working(bands, limits))


def _is_working(bands: Mapping[str, Band], limits: Limits) -> bool:
    cores = bands.get("cpu.used")
    if cores is not None and cores.most >= limits.cores:
        return True
    return any(name in bands and bands[name].most >= limits.bytes_per_second for name in TRAFFIC)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which GPUs were idle without interruption. Times are seconds since 1970."""

    since: int
    quiet_since: int
    """Time since which processors, disks and network were quiet as well; the end if they worked last."""
    gpus: int
    idle: Bounds
    """Numbers of GPUs that were idle in each interval."""
    peak: float

    def extended(self, use: Use, start: int, end: int) -> Stretch:
        """Return the stretch with one more interval."""
        idle = Bounds(min(self.idle.fewest, use.idle.fewest), min(self.idle.most, use.idle.most))
        quiet = end if use.works else min(self.quiet_since, start)
        return replace(self, quiet_since=quiet, idle=idle, gpus=use.gpus, peak=max(self.peak, use.peak))


@dataclass(frozen=True, slots=True)
class Watched:
    """Summary of an attempt's intervals so far, of constant size."""

    attempt: int
    first: int = 0
    """Start of the first complete interval; 0 if there was none."""
    until: int = 0
    """End of the last complete interval; 0 if there was none."""
    whole: Stretch | None = None
    """Stretch in which all GPUs were idle."""
    least_rank: int = 0
    """Rank of the least used GPU in the last complete interval: of equal ones the lowest, so that all GPUs that were
    not used at all have this rank or a higher one."""
    part: Stretch | None = None
    """Stretch in which at least one GPU was idle in each minute."""


def watch(
    before: Watched | None, intervals: Sequence[Interval], held: Mapping[int, int], limits: Limits
) -> Watched | None:
    """Return the summary after the intervals of one time. They are left out unless that time is later than the last
    one.

    `held`: GPUs that the run holds, by attempt; members of a sweep or a service may belong to several. If fewer were
    measured of one of them, the interval says nothing: the others may have worked. For a new attempt a new summary
    begins.
    """
    current = [each for each in intervals if each.attempt in held]
    if not current:
        return before
    attempt, start = max(each.attempt for each in current), current[0].start
    if before is None or attempt > before.attempt:
        before = Watched(attempt)
    uses = {each.attempt: use_in(each, limits) for each in current}
    if attempt < before.attempt or start < before.until or not _are_complete(uses, held):
        return before
    use, end = _combined_use([use for use in uses.values() if use is not None]), start + current[0].seconds
    if start - before.until > GAP_SECONDS:
        before = replace(before, whole=None, part=None)
    return replace(
        before,
        first=before.first or start,
        until=end,
        least_rank=_least_rank(current),
        whole=_continue_stretch(before.whole, use, start, end) if use.idle.fewest >= use.gpus else None,
        part=_continue_stretch(before.part, use, start, end) if use.idle.fewest else None,
    )


def _are_complete(uses: Mapping[int, Use | None], held: Mapping[int, int]) -> bool:
    """Whether all GPUs that the run holds were measured."""
    return all((use := uses.get(attempt)) is not None and use.gpus >= gpus for attempt, gpus in held.items())


def _least_rank(intervals: Sequence[Interval]) -> int:
    bands = [each.bands[name] for each in intervals for name in _SHOWS_USE if name in each.bands]
    return min(bands, key=lambda band: band.least).least_at.rank


def _combined_use(uses: Sequence[Use]) -> Use:
    """Return the use of the GPUs of several attempts at the same time."""
    if len(uses) == 1:
        return uses[0]
    idle = Bounds(sum(use.idle.fewest for use in uses), sum(use.idle.most for use in uses))
    peak, works = max(use.peak for use in uses), any(use.works for use in uses)
    return Use(sum(use.gpus for use in uses), idle, peak, works)


def _continue_stretch(stretch: Stretch | None, use: Use, start: int, end: int) -> Stretch:
    begun = stretch or Stretch(start, start, use.gpus, use.idle, use.peak)
    return begun.extended(use, start, end)


def watch_all(
    before: Watched | None, intervals: Iterable[Interval], held: Mapping[int, int], limits: Limits
) -> Watched | None:
    """Return the summary after more intervals, in any order."""
    ordered = sorted(intervals, key=lambda each: (each.start, each.seconds))
    for _, several in groupby(ordered, key=lambda each: (each.start, each.seconds)):
        before = watch(before, tuple(several), held, limits)
    return before


class Verdict(StrEnum):
    """Conclusion about the GPUs of a run."""

    UNKNOWN = "unknown"
    """GPUs were not measured, or not lately."""
    USED = "used"
    """GPUs are in use, or not idle for long enough."""
    IDLE = "idle"
    """All GPUs are idle."""
    PERHAPS = "perhaps"
    """Some GPUs may be idle while others work: the nodes have to be asked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Judgement about the GPUs of a run, from its bands."""

    verdict: Verdict
    attempt: int = 0
    since: int = 0
    """Seconds since 1970; 0 unless something was found."""
    is_older: bool = False
    """Whether the time before `since` was not measured, so that the GPUs may be idle for longer."""
    gpus: int = 0
    idle: Bounds = _NONE
    peak: float = 0.0
    """Highest utilisation of any GPU since then, in percent."""
    works: bool = False
    """Whether processors, disks or network worked meanwhile."""
    places: tuple[Place, ...] | None = None
    """With PERHAPS: the GPUs that were idle in the last hour, as their nodes say; None if they were not asked."""


def judge(watched: Watched | None, patience: Patience, now: float) -> Finding:
    """Return the finding about an attempt. `now` is the end of what is known, in seconds since 1970."""
    if watched is None or not watched.until or now - watched.until > LATE_SECONDS:
        return Finding(Verdict.UNKNOWN, watched.attempt if watched is not None else 0)
    for verdict, stretch in ((Verdict.IDLE, watched.whole), (Verdict.PERHAPS, watched.part)):
        if stretch is None:
            continue
        quiet, idle = watched.until - stretch.quiet_since, watched.until - stretch.since
        if _reaches_limit(quiet, patience.quiet_seconds) or _reaches_limit(idle, patience.idle_seconds):
            works = stretch.quiet_since > stretch.since
            is_older = stretch.since == watched.first
            return Finding(
                verdict,
                watched.attempt,
                stretch.since,
                is_older,
                stretch.gpus,
                stretch.idle,
                stretch.peak,
                works,
            )
    return Finding(Verdict.USED, watched.attempt)


def _reaches_limit(seconds: int, limit: int | None) -> bool:
    return limit is not None and seconds >= limit


# ---------------------------------------------------------------------------------------------- single GPUs

MOST_BUSY_SHARE = 0.02
"""Share of samples of an idle GPU that may be above a limit. One sample of 15 s is not a minute's mean."""

Samples = Mapping[Place, Mapping[str, Sequence[float]]]
"""Samples of an hour by GPU and quantity, as nodes keep them."""


def idle_places(samples: Samples, limits: Limits) -> list[Place]:
    """Return the GPUs that were idle in the whole time for which nodes have samples, in order.

    A GPU without samples of its use counts as used.
    """
    found = []
    for place, columns in samples.items():
        known = {name: [each for each in columns.get(name, ()) if math.isfinite(each)] for name in limits.of_gpu}
        if any(known[name] for name in _SHOWS_USE) and all(
            sum(each >= limit for each in known[name]) <= MOST_BUSY_SHARE * len(known[name])
            for name, limit in limits.of_gpu.items()
        ):
            found.append(place)
    return sorted(found)
