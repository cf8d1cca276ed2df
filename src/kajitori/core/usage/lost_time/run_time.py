"""The time of a run by category and by cause, as a sum of the slices of its members.

The *effective training time ratio* is productive time divided by the time in which the run was wanted: from the moment
that it was queued to its end. The definition is that of Kokolis et al., "Revisiting Reliability in Large-Scale Machine
Learning Research Clusters" (HPCA 2025, arXiv:2410.21680): work that is repeated after a failure, restarts and time in
the queue are not productive. "The Llama 3 Herd of Models" (arXiv:2407.21783, section 3.3.4) and MegaScale (NSDI 2024,
arXiv:2402.15627) divide by the elapsed time of the training; `RunTime.while_held` is the closest to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kajitori.core.usage.lost_time.slices import Category, Held, Slice, is_interruption


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
    """Return whether a slice counts as a cost of its cause."""
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
