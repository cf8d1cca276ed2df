"""The room that is free now, and the part of it that stays free once the reservations have begun."""

from __future__ import annotations

import numpy as np

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest, occupy_rows, room_of
from kajitori.core.placement.rooms import Rooms, Shape, distinct
from kajitori.core.placement.snapshot import Counts, Snapshot


class FreeRoom:
    """The free room of one pass over the queue. It shrinks with each run that starts and with each reservation."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = Rooms(snapshot.copy())
        """The room that is free now."""
        self.reserved: Snapshot | None = None
        """The amounts that the reservations will take; None without reservations."""
        self._unreserved: Rooms | None = None
        """The room that is free now and stays free once the reservations have begun. In it reserved nodes look full."""
        self._usage_at_reservations: Snapshot | None = None
        """Usage of the reserved nodes once the reservations have begun; zero on all other nodes."""

    @property
    def unreserved(self) -> Rooms:
        """The room that is free now and that no reservation needs."""
        return self.now if self._unreserved is None else self._unreserved

    def occupy(self, member: MemberRequest, rows: Rows, *, beyond_reservations: bool) -> None:
        """Count members on these rows as started. beyond_reservations: they may still run once the reservations have
        begun."""
        occupy_rows(self.now.state, member, rows)
        changed = distinct(rows)
        self.now.note(changed)
        if self._usage_at_reservations is not None and self._unreserved is not None:
            reserved = rows[self._usage_at_reservations.members[rows] > 0]
            if beyond_reservations and reserved.size:
                occupy_rows(self._usage_at_reservations, member, reserved)
            self._update_unreserved(self._unreserved, self._usage_at_reservations, changed)

    def reserve(self, member: MemberRequest, rows: Rows, usage_then: Snapshot) -> None:
        """Reserve these rows for members. usage_then: usage of the nodes once the members have begun there."""
        if self._usage_at_reservations is None or self._unreserved is None or self.reserved is None:
            self._usage_at_reservations = Snapshot.empty(self.now.state.table)
            self.reserved = Snapshot.empty(self.now.state.table)
            self._unreserved = Rooms(self.now.state.copy())
        occupy_rows(self.reserved, member, rows)
        changed = np.unique(rows)
        self._usage_at_reservations.raise_to(usage_then, changed)
        self._update_unreserved(self._unreserved, self._usage_at_reservations, changed)

    def _update_unreserved(self, unreserved: Rooms, later: Snapshot, rows: Rows) -> None:
        """Show as free on these rows what is free now and stays free `later`, once the reservations have begun."""
        state, now = unreserved.state, self.now.state
        state.used[rows] = now.used[rows]
        state.members[rows] = now.members[rows]
        state.alone[rows] = now.alone[rows]
        reserved = rows[later.members[rows] > 0]
        if reserved.size:
            state.raise_to(later, reserved)
        unreserved.note(rows)

    def free_nodes_first(self, shape: Shape, room: Counts, need: int) -> Counts:
        """Return `room` cut to `need` members, on nodes that are free now as far as possible. Otherwise a reservation
        might choose only nodes that late runs hold, and each cycle would give the free nodes to other runs.
        """
        state = self.now.state
        if self.reserved is not None:
            state = state.copy()
            state.add(self.reserved)
        free = np.minimum(room, room_of(state, shape.member, shape.candidates))
        later = room - free
        lacking = need - int(free.sum()) - (np.cumsum(later) - later)
        chosen: Counts = free + np.clip(lacking, 0, later)
        return chosen
