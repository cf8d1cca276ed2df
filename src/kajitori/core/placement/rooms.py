"""How many members of each shape the nodes take, while a cycle places one gang after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest, leftover_of, room_of
from kajitori.core.placement.snapshot import Counts, Mask, Snapshot


@dataclass(eq=False, slots=True)
class Shape:
    """What gangs have in common that ask for equal members on the same nodes."""

    member: MemberRequest
    eligible: Mask
    candidates: Mask
    """Those of the eligible that take work now."""
    _meets: dict[Shape, bool] = field(default_factory=dict, init=False)

    def meets(self, other: Shape) -> bool:
        """Whether both could use the same node."""
        known = self._meets.get(other)
        if known is None:
            known = self._meets[other] = bool((self.candidates & other.candidates).any())
        return known


@dataclass(slots=True)
class _Room:
    """How many members of a shape each node takes, as of a number of changes."""

    room: Counts
    total: int
    changes: int


class Rooms:
    """The room for every shape that was asked for, kept up to date where something was placed."""

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
            rows = rows[known.room[rows] > 0]  # elsewhere there was no room, and there is ever less
            if rows.size:
                rows = distinct(rows) if len(changed) > 1 else rows
                now = room_of(self.state, shape.member, shape.candidates[rows], rows)
                known.total += int(np.add.reduce(now)) - int(np.add.reduce(known.room[rows]))
                known.room[rows] = now
            known.changes = len(self._changed)
        return known

    def may_hold(self, shape: Shape, members: int) -> bool:
        """False only where there is no room for so many: within a cycle there is ever less, so that what was known of a
        shape the last time is enough to say no."""
        known = self._rooms.get(shape)
        return known is None or known.total >= members

    def note(self, rows: Rows) -> None:
        """The state of these rows has changed; each comes once."""
        self.leftover[rows] = leftover_of(self.state, rows)
        self._changed.append(rows)


def distinct(rows: Rows) -> Rows:
    """Each of these rows once, upwards: as np.unique, but quick where there are few."""
    rows = np.sort(rows)
    first = np.empty(len(rows), dtype=bool)
    first[:1] = True
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]
