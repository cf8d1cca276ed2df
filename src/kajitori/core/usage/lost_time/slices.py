"""The time of members in slices by category: starting, productive, saving, lost, unclear, hung, idle, restarting.

Times are seconds since 1970. A part of the usage ledger (members of one attempt that held their nodes for the same
time) is divided into slices that do not overlap and cover it, so the GPU-seconds of all slices are those of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise

import msgspec

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
    """Return whether this end of an attempt lost work: it was neither a success nor the choice of the run's user."""
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
        longest = max(seconds_between_saves(saves), default=0)
        is_late = longest and end - start > LATE_FACTOR * longest
        return start, Category.UNCLEAR if is_late else Category.LOST
    if held.saves_every == NO_CHECKPOINT:
        return start, Category.LOST
    if held.saves_every > 0:
        return end - (end - start) % held.saves_every, Category.LOST
    return start, Category.UNCLEAR


def seconds_between_saves(saves: Iterable[Mark]) -> list[int]:
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
