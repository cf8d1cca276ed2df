"""The earliest time at which enough running gangs are expected to have ended for a waiting gang to start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest, room_of
from kajitori.core.placement.rooms import Shape
from kajitori.core.placement.snapshot import Counts, NodeTable, Snapshot

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ending:
    """The expected end of something that runs; never in the past."""

    member: MemberRequest
    rows: Rows
    """Rows of the node table, one for each member."""
    ends_at: float
    priority: int = 0
    late_since: float | None = None
    """Start of a run that has taken longer than was expected; None for any other run."""


class Fit(NamedTuple):
    """A time at which a gang fits."""

    at: float
    usage: Snapshot
    """The usage at that time, with all reservations."""
    room: Counts
    """The number of members that each node takes then."""


class Releases:
    """The expected ends of running gangs on the nodes that a shape could use, in order."""

    def __init__(self, endings: Iterable[Ending], shape: Shape, table: NodeTable) -> None:
        self._table = table
        self._shape = shape
        order = sorted(endings, key=attrgetter("ends_at"))
        numbers: dict[int, int] = {}
        members: list[MemberRequest] = []
        member_numbers, sizes, ends = [], [], []
        for ending in order:
            number = numbers.setdefault(id(ending.member), len(members))
            if number == len(members):
                members.append(ending.member)
            member_numbers.append(number)
            sizes.append(ending.rows.size)
            ends.append(ending.ends_at)
        rows = np.concatenate([ending.rows for ending in order]) if order else np.empty(0, dtype=np.int64)
        member_of_row = np.repeat(np.array(member_numbers, dtype=np.int64), sizes)
        times = np.repeat(np.array(ends, dtype=np.float64), sizes)
        usable = shape.candidates[rows]
        self._rows, member_of_row, self._times = rows[usable], member_of_row[usable], times[usable]
        amounts = np.array([member.amounts(table) for member in members], dtype=np.float64)
        self._amounts = amounts.reshape(-1, table.width)[member_of_row]
        self._alone = np.array([member.alone for member in members], dtype=bool)[member_of_row]

    def earliest(self, state: Snapshot, reserved: Snapshot | None, need: int, missing: int) -> Fit | None:
        """Return the earliest time at which `need` members fit beside all reservations; None if they never fit.
        missing: an estimate of how many members do not fit yet.

        Room only grows as runs end, so this searches over their ends. The first probe assumes that every member that
        ends frees room for its own amounts, which is exact if all members are alike; bisection follows.
        """
        times = np.unique(self._times)
        found: Fit | None = None
        low, high = 0, len(times)
        probe, is_guess = self._probable_index(times, missing), True
        while low < high:
            usage = self._usage_after(state, float(times[probe]))
            if reserved is not None:
                usage.add(reserved)
            room = room_of(usage, self._shape.member, self._shape.candidates)
            if int(room.sum()) >= need:
                found = Fit(float(times[probe]), usage, room)
                high = probe
                probe = high - 1 if is_guess else (low + high) // 2
                is_guess = False
            elif probe == len(times) - 1:
                return None
            else:
                low = probe + 1
                probe = (low + high) // 2 if found else high - 1  # if it never fits, one step shows that
        return found

    def _probable_index(self, times: Floats, missing: int) -> int:
        """Return the index of the first end after which `missing` more members probably fit."""
        wanted = self._shape.member.amounts(self._table)
        asked = wanted > 0
        parts = (self._amounts[:, asked] / wanted[asked]).min(axis=1, initial=np.inf)
        count = int(np.searchsorted(np.cumsum(parts), missing - 1e-6))
        moment = self._times[min(count, len(self._times) - 1)] if len(self._times) else 0.0
        return int(np.searchsorted(times, moment))

    def _usage_after(self, state: Snapshot, moment: float) -> Snapshot:
        """Return the usage once everything that ends by this time has ended."""
        count = int(np.searchsorted(self._times, moment, side="right"))
        rows, nodes = self._rows[:count], len(state.table)
        used = np.empty_like(state.used)
        for column in range(used.shape[1]):
            freed = np.bincount(rows, weights=self._amounts[:count, column], minlength=nodes)
            used[:, column] = state.used[:, column] - freed.astype(np.int64)
        np.maximum(used, 0, out=used)
        members = np.maximum(state.members - np.bincount(rows, minlength=nodes), 0)
        alone = state.alone.copy()
        alone[rows[self._alone[:count]]] = False
        return Snapshot(state.table, used, members, alone)
