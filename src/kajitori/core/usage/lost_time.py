"""The time of a run by category: queued, starting, productive, saving, lost, unclear, hung, idle or restarting.

Times are seconds since 1970. A part of the usage ledger (members of one attempt that held their nodes for the same
time) is divided into slices that do not overlap and cover it, so the GPU-seconds of all slices are those of the ledger.

The *effective training time ratio* is productive time divided by the time in which the run was wanted: from the moment
that it was queued to its end. The definition is that of Kokolis et al., "Revisiting Reliability in Large-Scale Machine
Learning Research Clusters" (HPCA 2025, arXiv:2410.21680): work that is repeated after a failure, restarts and time in
the queue are not productive. "The Llama 3 Herd of Models" (arXiv:2407.21783, section 3.3.4) and MegaScale (NSDI 2024,
arXiv:2402.15627) divide by the elapsed time of the training; `while_held` is the closest to that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from statistics import median

import msgspec

from kajitori.core.formats.quantities import format_duration
from kajitori.core.spec.reasons import Phase, Reason

NOTHING_TO_LOSE = -2
"""`saves_every` of services and notebooks: the end of a member takes no work with it."""
NO_CHECKPOINT = -1
"""`saves_every` of a run without a checkpoint: its next attempt begins anew."""
NOT_DECLARED = 0
"""`saves_every` of a run with a checkpoint that does not declare how often it writes it."""

LATE_FACTOR = 1.5
"""If no checkpoint of an attempt is known although it ran for this multiple of the longest time between two of them, it
may have written some without a report. Then the lost time is unclear."""

STUCK, IDLE = "Stuck", "Idle"
"""Causes of time that was hung or idle."""


class Category(StrEnum):
    """How a slice of time was spent. If members differ at a time, the category that is listed first counts for the
    run."""

    PRODUCTIVE = "productive"
    """The program ran, and nothing that it did then was lost."""
    SAVING = "saving"
    """The program said that it stood still to write a checkpoint."""
    LOST = "lost"
    """The program ran, but its work has to be repeated: no checkpoint was written between this time and the end of the
    attempt."""
    UNCLEAR = "unclear"
    """The program ran, and its attempt was interrupted, but it is not known when it wrote its last checkpoint."""
    HUNG = "hung"
    IDLE = "idle"
    STARTING = "starting"
    """From the time at which nodes were given to the run until the programs of all members ran."""
    RESTARTING = "restarting"
    """From the break of an attempt until its members had given their nodes back."""
    QUEUED = "queued"
    """The run had no nodes."""

    @property
    def meaning(self) -> str:
        """A short explanation for reports."""
        return _MEANINGS[self]


_MEANINGS = {
    Category.PRODUCTIVE: "the program ran, and its work was kept",
    Category.SAVING: "it stood still to write checkpoints",
    Category.LOST: "work since the last checkpoint, done again",
    Category.UNCLEAR: "interrupted; its last checkpoint is not known",
    Category.HUNG: "no progress",
    Category.IDLE: "GPUs held and not used",
    Category.STARTING: "images, volumes, code, until all programs ran",
    Category.RESTARTING: "from a break until the nodes were free",
    Category.QUEUED: "without nodes",
}


class Kind(StrEnum):
    """The event that a mark reports."""

    SAVED = "saved"
    """The program stood still to write a checkpoint, as it says."""
    HUNG = "hung"
    IDLE = "idle"


_OVERLAYS = ((Kind.HUNG, Category.HUNG), (Kind.IDLE, Category.IDLE), (Kind.SAVED, Category.SAVING))

_KEEPS_ALL = frozenset(
    {
        "",
        Phase.SUCCEEDED.value,
        Reason.STOPPED_BY_USER.value,
        Reason.RESTARTED_BY_USER.value,
        Reason.PARKED.value,
        Reason.DELETING.value,
    }
)
"""Ends of an attempt that lose no work: it succeeded, or its user ended it."""


class Mark(msgspec.Struct, frozen=True, order=True):
    """A time in one attempt, with the event that filled it."""

    attempt: int
    kind: str
    since: int
    until: int


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Members that held their nodes for the same time."""

    attempt: int
    members: int
    gpus: int
    """Number of GPUs of one member."""
    since: int
    until: int
    started: int | None = None
    """Time at which the programs of all members ran; None if they never did."""
    ended: int | None = None
    """Time at which the attempt was broken; None if it ran until `until`."""
    cause: str = ""
    """Why the attempt ended, as a Reason; empty if it succeeded, or goes on."""
    after: str = ""
    """Why the attempt before it ended, if this one was made for that."""
    node: str = ""
    """Node of the member that broke the attempt."""
    saves_every: int = NOT_DECLARED
    """Seconds between checkpoints as the spec declares them, or one of the constants above."""
    is_known: bool = True
    """False if only the time of the members' nodes is known."""
    loose_seconds: int = 0
    """Seconds of members if only their sum is known; `members` is 0 then."""

    @property
    def member_seconds(self) -> int:
        """Time that these members held their nodes, together."""
        return self.loose_seconds or self.members * max(0, self.until - self.since)


class Slice(msgspec.Struct, frozen=True):
    """A part of the time of some members."""

    category: Category
    cause: str
    node: str
    since: int
    until: int

    @property
    def seconds(self) -> int:
        return self.until - self.since


def divide(held: Held, marks: Sequence[Mark]) -> list[Slice]:
    """Return the slices of some members' time, in order. They do not overlap and cover all of it.

    `marks` are those of all attempts of the run.
    """
    since, until = held.since, max(held.since, held.until)
    if held.loose_seconds:
        return []
    if not held.is_known:
        return _non_empty((Slice(Category.UNCLEAR, "", "", since, until),))
    if held.started is None:
        return _non_empty((Slice(Category.STARTING, held.cause or held.after, held.node, since, until),))
    start = min(max(held.started, since), until)
    end = min(max(held.ended if held.ended is not None else until, start), until)
    kept, otherwise = _kept_until(held, marks, start, end)
    why = (held.cause, held.node) if otherwise is Category.LOST else ("", "")
    running = [Slice(Category.PRODUCTIVE, "", "", start, kept), Slice(otherwise, *why, kept, end)]
    own = [mark for mark in marks if mark.attempt == held.attempt]
    for kind, category in reversed(_OVERLAYS):
        cause = {Category.HUNG: STUCK, Category.IDLE: IDLE}.get(category, "")
        for mark in own:
            if mark.kind == kind:
                running = list(_overlay(running, Slice(category, cause, "", mark.since, mark.until)))
    return _non_empty(
        (
            Slice(Category.STARTING, held.after, "", since, start),
            *running,
            Slice(Category.RESTARTING, held.cause if is_interruption(held.cause) else "", held.node, end, until),
        )
    )


def is_interruption(cause: str) -> bool:
    """Whether this end of an attempt cost something: it was neither a success nor its user's choice."""
    return cause not in _KEEPS_ALL


def _kept_until(held: Held, marks: Sequence[Mark], start: int, end: int) -> tuple[int, Category]:
    """Return the time until which the work of an attempt is kept, and the category of the time after it."""
    if not is_interruption(held.cause) or held.saves_every == NOTHING_TO_LOSE:
        return end, Category.PRODUCTIVE
    saves = [mark for mark in marks if mark.kind == Kind.SAVED]
    own = [mark.until for mark in saves if mark.attempt == held.attempt and mark.until >= start]
    if own:
        return min(max(own), end), Category.LOST
    if saves:  # reports of this attempt may have been lost with its node
        longest = max(_seconds_between_saves(saves), default=0)
        is_late = longest and end - start > LATE_FACTOR * longest
        return start, Category.UNCLEAR if is_late else Category.LOST
    if held.saves_every == NO_CHECKPOINT:
        return start, Category.LOST
    if held.saves_every > 0:
        return end - (end - start) % held.saves_every, Category.LOST
    return start, Category.UNCLEAR


def _seconds_between_saves(saves: Iterable[Mark]) -> list[int]:
    """Return the seconds between two checkpoints that follow each other in one attempt."""
    return [
        following.since - mark.until
        for mark, following in pairwise(sorted(saves))
        if mark.attempt == following.attempt and following.since > mark.until
    ]


def _overlay(slices: Iterable[Slice], over: Slice) -> Iterator[Slice]:
    """Yield the slices, with `over` in place of the parts that it overlaps."""
    for each in slices:
        since, until = max(each.since, over.since), min(each.until, over.until)
        if since >= until:
            yield each
            continue
        yield Slice(each.category, each.cause, each.node, each.since, since)
        yield Slice(over.category, over.cause, over.node or each.node, since, until)
        yield Slice(each.category, each.cause, each.node, until, each.until)


def _non_empty(slices: Iterable[Slice]) -> list[Slice]:
    return [each for each in slices if each.until > each.since]


# ---------------------------------------------------------------------------------------------- one run


@dataclass(slots=True)
class CauseSum:
    """The cost of one cause. GPU-seconds are those of all members."""

    times: int = 0
    """Number of attempts that it ended."""
    gpu_seconds: int = 0
    member_seconds: int = 0


@dataclass(slots=True)
class RunTime:
    """The time of one run by category and by cause."""

    since: int
    until: int
    seconds: dict[Category, int]
    """Time of the run as a whole; the sum is `whole`."""
    rested: int = 0
    """Seconds between an end of the run and the time at which its user resumed it, which are in no category."""
    gpu_seconds: dict[Category, int] = field(default_factory=dict)
    """The sum is what the usage ledger says."""
    member_seconds: dict[Category, int] = field(default_factory=dict)
    causes: dict[str, CauseSum] = field(default_factory=dict)

    @property
    def whole(self) -> int:
        """Seconds in which the run was wanted."""
        return self.until - self.since - self.rested

    @property
    def ratio(self) -> float | None:
        """The effective training time ratio; None if no time has passed."""
        return self.seconds.get(Category.PRODUCTIVE, 0) / self.whole if self.whole > 0 else None

    @property
    def while_held(self) -> float | None:
        """The same for the time in which the run had nodes; None if it had none."""
        return ratio_of(self.member_seconds)


def ratio_of(seconds: Mapping[Category, int]) -> float | None:
    """Return productive time divided by all time that nodes were held; None if none was."""
    whole = sum(amount for category, amount in seconds.items() if category is not Category.QUEUED)
    return seconds.get(Category.PRODUCTIVE, 0) / whole if whole > 0 else None


def time_of_run(parts: Iterable[tuple[Held, Sequence[Slice]]], since: int, until: int, *, rested: int = 0) -> RunTime:
    """Return where the time of a run went between its submission and its end, or now.

    The run as a whole is in the category of the member that is best off: a sweep is productive while any member is. It
    is queued while no member has a node, less the `rested` seconds in which it had ended and was not resumed yet.
    """
    found = RunTime(since, max(since, until), {})
    slices: list[Slice] = []
    broken: set[tuple[int, str]] = set()
    for held, divided in parts:
        if held.loose_seconds:
            add_to(found.member_seconds, Category.UNCLEAR, held.loose_seconds)
            add_to(found.gpu_seconds, Category.UNCLEAR, held.loose_seconds * held.gpus)
        for each in divided:
            seconds = held.members * each.seconds
            add_to(found.member_seconds, each.category, seconds)
            add_to(found.gpu_seconds, each.category, seconds * held.gpus)
            if costs(each):
                cause = found.causes.setdefault(each.cause, CauseSum())
                cause.gpu_seconds += seconds * held.gpus
                cause.member_seconds += seconds
        if is_interruption(held.cause) and (held.attempt, held.cause) not in broken:
            broken.add((held.attempt, held.cause))
            found.causes.setdefault(held.cause, CauseSum()).times += 1
        slices += divided
    for category, seconds in _categories_by_time(slices, found.since, found.until):
        add_to(found.seconds, category, seconds)
    found.rested = min(max(0, rested), found.seconds.get(Category.QUEUED, 0))
    if found.rested:
        add_to(found.seconds, Category.QUEUED, -found.rested)
    return found


def costs(each: Slice) -> bool:
    """Whether a slice counts as a cost of its cause."""
    return bool(each.cause) and each.category not in (Category.PRODUCTIVE, Category.SAVING)


def add_to(sums: dict[Category, int], category: Category, amount: int) -> None:
    """Add an amount to the sum of a category."""
    sums[category] = sums.get(category, 0) + amount


_RANK = {category: number for number, category in enumerate(Category)}


def _categories_by_time(slices: Iterable[Slice], since: int, until: int) -> Iterator[tuple[Category, int]]:
    """Yield category and length of each part of the time between two times."""
    changes: dict[int, list[tuple[Category, int]]] = {since: [], until: []}
    for each in slices:
        begin, end = max(each.since, since), min(each.until, until)
        if begin < end:
            changes.setdefault(begin, []).append((each.category, 1))
            changes.setdefault(end, []).append((each.category, -1))
    present = dict.fromkeys(Category, 0)
    for at, following in pairwise(sorted(changes)):
        for category, number in changes[at]:
            present[category] += number
        yield min((c for c in Category if present[c]), key=_RANK.__getitem__, default=Category.QUEUED), following - at


# ---------------------------------------------------------------------------------------------- checkpoints

_ANNOUNCED = frozenset({Reason.PREEMPTED.value, Reason.DRAINED.value, Reason.GROWS.value})
"""Ends that are announced to the program early enough to write a checkpoint."""

MOST_TIMES = 500
"""Maximum number of checkpoint times in a report."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A run's checkpoints, and the interval between them that would have cost least."""

    count: int = 0
    last: int | None = None
    """Time at which the last one was written."""
    times: tuple[int, ...] = ()
    """Times at which the newest ones were written, the oldest first."""
    every_seconds: float | None = None
    """Median time between two of them, without the time to write one."""
    cost_seconds: float | None = None
    """Median time for which the training stood still to write one, as the program said; None if it is not known."""
    failures: int = 0
    """Attempts that ran and were broken without notice."""
    between_failures: float | None = None
    """Mean time between two of these; None without a failure."""
    best_seconds: float | None = None
    """The interval that would have cost least; None if costs or failures are not known."""

    def waste(self, interval: float | None) -> float | None:
        """Return the expected share of time that checkpoints and repeated work take with this interval."""
        if interval is None or self.cost_seconds is None or self.between_failures is None:
            return None
        cycle = interval + self.cost_seconds
        return min(1.0, self.cost_seconds / cycle + cycle / 2 / self.between_failures)


def checkpoints_of(parts: Sequence[Held], marks: Iterable[Mark]) -> Checkpoints:
    """Return facts about a run's checkpoints, from its marks and the ends of its attempts."""
    saves = sorted(mark for mark in marks if mark.kind == Kind.SAVED)
    between = _seconds_between_saves(saves)
    cost = float(median(mark.until - mark.since for mark in saves)) if saves else None
    ran: dict[int, tuple[int, int]] = {}
    broken: set[int] = set()
    for held in parts:
        if held.started is not None and not held.loose_seconds:
            end = held.ended if held.ended is not None else held.until
            known = ran.get(held.attempt, (held.started, end))
            ran[held.attempt] = min(known[0], held.started), max(known[1], end)
            if held.cause not in _KEEPS_ALL | _ANNOUNCED:
                broken.add(held.attempt)
    running = sum(max(0, end - start) for start, end in ran.values())
    mean = running / len(broken) if broken and running else None
    return Checkpoints(
        count=len(saves),
        last=max((mark.until for mark in saves), default=None),
        times=tuple(sorted(mark.until for mark in saves)[-MOST_TIMES:]),
        every_seconds=float(median(between)) if between else None,
        cost_seconds=cost,
        failures=len(broken),
        between_failures=mean,
        best_seconds=best_interval(cost, mean) if cost is not None and mean is not None else None,
    )


def best_interval(cost_seconds: float, between_failures: float) -> float:
    """Return the time between two checkpoints that costs least, without the time to write one.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (Future Generation
    Computer Systems 22, 2006); its first term is that of J. W. Young (Communications of the ACM 17, 1974).
    """
    if cost_seconds >= 2 * between_failures:
        return between_failures
    share = cost_seconds / (2 * between_failures)
    first = math.sqrt(2 * cost_seconds * between_failures)
    return first * (1 + math.sqrt(share) / 3 + share / 9) - cost_seconds


def describe(found: RunTime, checkpoints: Checkpoints, *, can_save: bool) -> list[str]:
    """Return in sentences how much of a run's time was productive, and what is known of its checkpoints.

    `can_save`: whether it has a checkpoint at all, or a type that loses nothing.
    """
    words = []
    if found.ratio is not None:
        kept = found.seconds.get(Category.PRODUCTIVE, 0)
        words.append(
            f"{found.ratio:.1%} of its time was productive: {format_duration(kept)} of {format_duration(found.whole)} "
            "since it was submitted."
        )
    best, failures = checkpoints.best_seconds, checkpoints.failures
    often = f"{failures} failure{'s' if failures != 1 else ''}"
    if best is not None:
        words.append(
            f"With {often}, one every {_round_duration(checkpoints.between_failures)}, and checkpoints that took "
            f"{_round_duration(checkpoints.cost_seconds)} each, a checkpoint every {_round_duration(best)} would have "
            f"cost least: {checkpoints.waste(best):.1%} of the time (Young and Daly)."
        )
        if checkpoints.every_seconds is not None:
            words.append(
                f"It wrote one every {_round_duration(checkpoints.every_seconds)}, which costs "
                f"{checkpoints.waste(checkpoints.every_seconds):.1%}."
            )
    elif not can_save:
        lost = found.seconds.get(Category.LOST, 0)
        words += [f"It has no checkpoint, so each failure lost all of its attempt: {format_duration(lost)}."] * bool(
            lost
        )
    elif found.seconds.get(Category.UNCLEAR):
        words.append(f"When it wrote its checkpoints is not known, or only in part: {SAY_SO}.")
    elif checkpoints.cost_seconds is None and failures:
        words.append(f"What a checkpoint costs is not known: {SAY_SO}.")
    elif checkpoints.cost_seconds is not None and not failures:
        words.append("It had no failure, so nothing can be said about a better interval between checkpoints.")
    return words


SAY_SO = 'let rank 0 append {"checkpoint_seconds": 12.5} to $KAJI_METRICS after each checkpoint'


def _round_duration(seconds: float | None) -> str:
    """Return a duration in at most two units."""
    whole = round(seconds or 0.0)
    for unit in (86_400, 3600):
        if whole >= unit:
            step = 3600 if unit == 86_400 else 60
            whole = round(whole / step) * step
            break
    return format_duration(whole) if whole or not seconds else f"{seconds:.1f}s"
