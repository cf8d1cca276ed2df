"""The number of members of each shape that every node takes, kept up to date while a cycle places gangs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest, leftover_of, room_of
from kajitori.core.placement.snapshot import Counts, Mask, Snapshot


@dataclass(eq=False, slots=True)
class Shape:
    """The gangs that ask for equal members on the same nodes."""

    member: MemberRequest
    eligible: Mask
    candidates: Mask
    """The eligible nodes that take work now."""
    _overlaps: dict[Shape, bool] = field(default_factory=dict, init=False)

    def overlaps(self, other: Shape) -> bool:
        """Whether both shapes could use the same node; remembered for each other shape."""
        known = self._overlaps.get(other)
        if known is None:
            known = self._overlaps[other] = bool((self.candidates & other.candidates).any())
        return known


@dataclass(slots=True)
class _Room:
    """The number of members of a shape that each node takes, after a number of changes."""

    room: Counts
    total: int
    changes: int


class Rooms:
    """The room for every shape that was asked for, updated on the nodes where something was placed."""

    def __init__(self, state: Snapshot) -> None:
        self.state = state
        self.leftover = leftover_of(state)
        self._changed: list[Rows] = []
        self._rooms: dict[Shape, _Room] = {}

    def of(self, shape: Shape) -> _Room:
        known = self._rooms.get(shape)
        if known is None:
            room = room_of(self.state, shape.member, shape.candidates)
            known = self._rooms[shape] = _Room(room, int(room.sum()), len(self._changed))
        elif known.changes < len(self._changed):
            changed = self._changed[known.changes :]
            rows = np.concatenate(changed) if len(changed) > 1 else changed[0]
            rows = rows[known.room[rows] > 0]  # room only ever shrinks: other rows had none
            if rows.size:
                rows = distinct(rows) if len(changed) > 1 else rows
                now = room_of(self.state, shape.member, shape.candidates[rows], rows)
                known.total += int(np.add.reduce(now)) - int(np.add.reduce(known.room[rows]))
                known.room[rows] = now
            known.changes = len(self._changed)
        return known

    def may_hold(self, shape: Shape, members: int) -> bool:
        """Whether there may be room for this many members; False is certain. Room only shrinks within a cycle, so the
        last known room of a shape is an upper bound.
        """
        known = self._rooms.get(shape)
        return known is None or known.total >= members

    def note(self, rows: Rows) -> None:
        """Note that the usage of these rows has changed; each row occurs once."""
        self.leftover[rows] = leftover_of(self.state, rows)
        self._changed.append(rows)


def distinct(rows: Rows) -> Rows:
    """Return each of these rows once, in ascending order: as np.unique, but faster for few rows."""
    rows = np.sort(rows)
    first = np.empty(len(rows), dtype=bool)
    first[:1] = True
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]
