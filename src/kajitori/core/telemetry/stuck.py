"""Whether a run is suspected to be stuck, from the bands of its minutes and from its own rhythm.

Two kinds of signs are told apart. *Progress* is output, a training figure that changed, or bytes to or from disks and
networks: a program that waits for ever makes none. *Work* is processor time or a GPU in use: a program that spins, or a
collective operation on a GPU that polls for its peers, looks as if it worked. So a run with neither is suspected soon,
and a run that works without progress much later.

The longest quiet time of a healthy run is learned from the run itself: evaluations, checkpoints and compilations
repeat. A run that never showed progress is never suspected, because its rhythm is not known.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.telemetry.hangs.stacks import NO_TIME, Frame, ProcessStacks
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MINUTE_SECONDS, TRAFFIC, TRAINING_PREFIX
from kajitori.core.telemetry.report import Answer, Series, member_columns

MOVED_BYTES_PER_SECOND = 4096.0
"""Traffic of the busiest rank that counts as progress. Connections that only keep themselves alive need less."""
WORKING_CORES = 0.05
WORKING_GPU_PERCENT = 1.0
"""Use by the busiest rank that counts as work. Threads that only look whether there is something to do need less."""
RHYTHM_INTERVALS = 3
"""Intervals with progress after which a run's rhythm counts as known."""
LATE_SECONDS = 4 * MINUTE_SECONDS
"""If the newest interval is older than this, there is no finding: bands appear up to two minutes after their
beginning."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of the time after which a run is suspected."""

    floor_seconds: float = 600.0
    """Shortest quiet time, for a run without progress and without work."""
    working_floor_seconds: float = 3600.0
    """The same for a run that works without progress."""
    ceiling_seconds: float = 6 * 3600.0
    factor: float = 3.0
    """Multiple of the longest quiet time so far."""
    exact_seconds: float | None = None
    """Quiet time that the user chose. It replaces what follows from the rhythm, which need not be known."""

    def after(self, longest_seconds: float, *, works: bool) -> float:
        """Return the quiet time after which a run is suspected that was quiet for `longest_seconds` before."""
        if self.exact_seconds is not None:
            return self.exact_seconds
        floor = self.working_floor_seconds if works else self.floor_seconds
        return min(max(floor, self.factor * longest_seconds), max(self.ceiling_seconds, floor))


class Verdict(StrEnum):
    """Whether a run makes progress."""

    WELL = "well"
    """It makes progress, or is not quiet for long enough."""
    UNKNOWN = "unknown"
    """Too little was measured of it."""
    SUSPECTED = "suspected"
    STUCK = "stuck"
    """It is suspected, and none of its processes moved between two looks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Judgement about the progress of a run."""

    verdict: Verdict
    quiet_seconds: float = 0.0
    """Time without progress, up to the end of the last complete interval: nothing is known of the time after it."""
    after_seconds: float = 0.0
    """Quiet time after which it is suspected; 0 if it is not known."""
    longest_seconds: float = 0.0
    """Longest quiet time before this one."""
    works: bool = False
    """Whether it used a processor or a GPU meanwhile."""
    since: float = 0.0
    """End of the last complete interval with progress, in seconds since 1970; 0 if it is not quiet."""
    until: float = 0.0
    """End of the last complete interval, in seconds since 1970; 0 if there was none."""
    step: float | None = None
    """Newest step that any rank wrote to its training figures; None without."""


@dataclass(slots=True)
class Rhythm:
    """Summary of the intervals of one attempt so far. It takes one interval after another and keeps none of them.

    Intervals in which some ranks did not report are left out: one of these ranks may be the one that prints. Ranks that
    have ended need not report. After a long time without complete intervals the quiet time is counted anew, because
    there may have been progress in between.
    """

    ranks: int = 0
    """Most ranks that reported."""
    end: float = 0.0
    """End of the last complete interval, in seconds since 1970."""
    quiet_seconds: float = 0.0
    longest_seconds: float = 0.0
    works: bool = False
    intervals: int = 0
    """Intervals with progress."""
    progresses: bool = False
    """Whether the last complete interval showed progress."""
    _figures: dict[str, float] = field(default_factory=dict)
    """The newest training figures."""

    def take_all(self, intervals: Sequence[Interval], left: int | None = None) -> None:
        """Take the next intervals, in the order of time.

        `left` is the number of members that have not ended; None if none has. An ended rank reports no more, so it is
        missing in the intervals after the last one that has more ranks.
        """
        ended = -math.inf
        if left is not None:
            ended = max((each.start for each in intervals if each.ranks > left), default=ended)
        for each in intervals:
            self.take(each, left if each.start > ended else None)

    def take(self, each: Interval, left: int | None = None) -> None:
        """Take the next interval. `left`: the number of members that had not ended; None if none had."""
        if each.ranks < (self.ranks if left is None else min(left, self.ranks)):
            return
        if each.ranks > self.ranks:
            self.ranks, self.end, self.quiet_seconds, self.longest_seconds, self.works = (
                each.ranks,
                0.0,
                0.0,
                0.0,
                False,
            )
            self.intervals, self.progresses, self._figures = 0, False, {}
        if self.end and each.start - self.end > LATE_SECONDS:
            self.quiet_seconds, self.works = 0.0, False
        self.end = each.start + each.seconds
        figures = _training_figures(each)
        self.progresses = _has_progressed(each) or any(
            self._figures.get(name) != value for name, value in figures.items()
        )
        if self.progresses:
            self.longest_seconds = max(self.longest_seconds, self.quiet_seconds)
            self.quiet_seconds, self.works = 0.0, False
            self.intervals += 1
        else:
            self.quiet_seconds += each.seconds
            self.works = self.works or _is_working(each)
        self._figures = figures or self._figures

    def judge(self, now: float, patience: Patience) -> Finding:
        """Return the judgement at this time: UNKNOWN if the last complete interval is long ago.

        The time since the last complete interval does not count as quiet: there may have been progress in it.
        """
        if not self.end or now - self.end > LATE_SECONDS:
            return Finding(Verdict.UNKNOWN)
        quiet = self.quiet_seconds
        since = self.end - quiet if quiet else 0.0
        step = self._figures.get(f"{TRAINING_PREFIX}step")
        if self.intervals < RHYTHM_INTERVALS and patience.exact_seconds is None:
            return Finding(Verdict.UNKNOWN, quiet, works=self.works, since=since, until=self.end, step=step)
        after = patience.after(self.longest_seconds, works=self.works)
        verdict = Verdict.SUSPECTED if quiet >= after else Verdict.WELL
        return Finding(verdict, quiet, after, self.longest_seconds, self.works, since, self.end, step)


def judge(
    intervals: Iterable[Interval], now: float, patience: Patience | None = None, left: int | None = None
) -> Finding:
    """Judge the intervals of one attempt. `now` is in seconds since 1970; `left` as in `Rhythm.take_all`."""
    rhythm = Rhythm()
    rhythm.take_all(sorted(intervals, key=lambda each: each.start), left)
    return rhythm.judge(now, patience or Patience())


def _training_figures(each: Interval) -> dict[str, float]:
    """Return the newest training figures, without rates."""
    names = [name for name in each.bands if name.startswith(TRAINING_PREFIX) and not name.endswith(".rate")]
    return {name: each.bands[name].most for name in names}


def _has_progressed(each: Interval) -> bool:
    bands = each.bands
    output = bands.get("output.age")
    if output is not None and output.least < each.seconds:
        return True
    return any(name in bands and bands[name].most >= MOVED_BYTES_PER_SECOND for name in TRAFFIC)


def _is_working(each: Interval) -> bool:
    cpu, gpu = each.bands.get("cpu.used"), each.bands.get("gpu.used")
    return (cpu is not None and cpu.most >= WORKING_CORES) or (gpu is not None and gpu.most >= WORKING_GPU_PERCENT)


Stacks = Mapping[int, Sequence[ProcessStacks]]
"""Processes by rank."""


def stood_still(looks: Sequence[Stacks], ranks: Iterable[int]) -> bool | None:
    """Whether every process of these ranks was at the same lines in all looks; None if that is not known.

    Together with the suspicion this is the evidence that a run is stuck: an evaluation moves on between the looks. Each
    process that can be read must have been read twice: if a node did not answer, or had no time for a process, that
    process may be the one that works.
    """
    places: dict[tuple[int, int], list[list[tuple[Frame, ...]]]] = {}
    unread: set[tuple[int, int]] = set()
    for look in looks:
        for rank, processes in look.items():
            for each in processes:
                if each.threads:
                    places.setdefault((rank, each.pid), []).append([thread.frames for thread in each.threads])
                elif each.trouble == NO_TIME:
                    unread.add((rank, each.pid))
    if any(place != seen[0] for seen in places.values() for place in seen):
        return False
    compared = {process for process, seen in places.items() if len(seen) > 1}
    is_complete = unread <= compared and all(sum(rank in look for look in looks) > 1 for rank in ranks)
    return True if compared and is_complete else None


def stayed_quiet(answer: Answer, member: Series, since: float) -> bool:
    """Whether a member has shown no progress since this time, by the samples that its node took after it.

    Stricter than a minute's bands: a single sample with traffic, and any figure that the program wrote, is progress.
    """
    times = array("d")
    times.frombytes(member.at)
    if not times:
        return False
    columns = member_columns(answer, member)
    age = columns.get("output.age", ())
    if age and age[-1] < times[-1] - since:
        return False
    if any(value >= MOVED_BYTES_PER_SECOND for name in TRAFFIC for value in columns.get(name, ())):
        return False
    return not any(points for name, points in member.training.items() if not name.endswith(".rate"))


def describe(finding: Finding, *, is_still: bool | None) -> str:
    """Return a finding as sentences. `is_still`: what `stood_still` says."""
    quiet, longest, after = (
        format_duration(int(seconds // MINUTE_SECONDS) * MINUTE_SECONDS)
        for seconds in (finding.quiet_seconds, finding.longest_seconds, finding.after_seconds)
    )
    as_of = format_time(time_at(finding.until))
    busy = "though processors or GPUs are busy" if finding.works else "and neither processors nor GPUs work"
    match finding.verdict:
        case Verdict.UNKNOWN:
            return "Whether it makes progress is not known yet: it has not shown for long enough how regularly it does."
        case Verdict.WELL if not finding.quiet_seconds:
            return f"It makes progress: output, training figures, or bytes of disks or networks (as of {as_of})."
        case Verdict.WELL:
            return f"It has shown no progress for {quiet} (as of {as_of}), which is suspicious only after {after}."
    if is_still:
        start = "It is stuck"
    elif is_still is None:
        start = "It may be stuck"
    else:
        start = "It may be stuck, but its processes still move"
    at = f", since step {finding.step:,.0f}" if finding.step is not None else ""
    sentence = f"{start}: no rank has shown progress for {quiet}{at}, {busy}."
    return f"{sentence} Its longest quiet time before was {longest}." if finding.longest_seconds else sentence
