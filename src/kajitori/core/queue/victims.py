"""The choice of running gangs to preempt, so that one waiting gang can start. A member of a sweep counts as a gang of
one.

The fewest gangs are chosen; among equally few, those that lose least: the largest loss among them is as small as it can
be. All chosen gangs are needed, and together they are enough; else none is preempted. No gang is ended for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import GangRequest, MemberRequest, nodes_for, room_of
from kajitori.core.placement.snapshot import Counts, Mask, NodeTable, Snapshot

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A running gang, or one member of a sweep, as a candidate for preemption."""

    key: str
    """`namespace/name` of the run."""
    namespace: str
    priority: int
    low: bool
    """Whether runs of higher priority may preempt it."""
    member: MemberRequest
    rows: Rows
    """Rows of the node table, one for each member."""
    ran_seconds: float = -1.0
    """Time since all of its members ran; negative before that."""
    unsaved_seconds: float = 0.0
    """Work that it loses: the time since its last checkpoint, as far as known."""
    grace_seconds: float = 0.0
    ends_in_seconds: float = math.inf
    """Expected time until it ends by itself."""
    leaving: bool = False
    """It is terminating already: its nodes become free in any case."""
    rank: int | None = None
    """The index of a sweep's member; None for a gang."""


@dataclass(frozen=True, slots=True)
class _Holdings:
    """The holdings of gangs on the eligible nodes: one entry for each gang and node, gang by gang."""

    which: Rows
    """The gang of each entry, as an index."""
    rows: Rows
    members: Counts
    """Number of the gang's members on that node."""
    amounts: Counts
    """(entries, table.width) amounts that these members take together."""
    alone: Mask
    """Entries of gangs that share no node with other runs."""

    @classmethod
    def of(cls, gangs: Sequence[RunningGang], matters: Mask, table: NodeTable) -> _Holdings:
        nodes = len(matters)
        sizes = np.array([gang.rows.size for gang in gangs], dtype=np.int64)
        rows = np.concatenate([gang.rows for gang in gangs]) if gangs else np.empty(0, dtype=np.int64)
        entries = np.repeat(np.arange(len(gangs), dtype=np.int64), sizes) * nodes + rows
        entries, counts = np.unique(entries[matters[rows]], return_counts=True)
        which, rows = np.divmod(entries, max(1, nodes))
        kinds: dict[int, int] = {}
        kind_of = np.array([kinds.setdefault(id(gang.member), len(kinds)) for gang in gangs], dtype=np.int64)[which]
        members = list({id(gang.member): gang.member for gang in gangs}.values())
        amounts = np.array([member.amounts(table) for member in members], dtype=np.int64)
        amounts = amounts.reshape(-1, table.width)[kind_of]
        alone = np.array([member.alone for member in members], dtype=bool)[kind_of]
        return cls(which, rows, counts.astype(np.int64), amounts * counts[:, None], alone)

    def kept(self, of: Mask) -> _Holdings:
        """Return the entries of the gangs that are marked in `of`."""
        selected = of[self.which]
        return _Holdings(
            self.which[selected],
            self.rows[selected],
            self.members[selected],
            self.amounts[selected],
            self.alone[selected],
        )


def without(state: Snapshot, gangs: Sequence[RunningGang]) -> Snapshot:
    """Return the snapshot once these gangs are gone."""
    return _without_holdings(state, _Holdings.of(gangs, np.ones(len(state.table), dtype=bool), state.table))


def _without_holdings(state: Snapshot, holdings: _Holdings) -> Snapshot:
    nodes = len(state.table)
    used = np.empty_like(state.used)
    for column in range(used.shape[1]):
        freed = np.bincount(holdings.rows, weights=holdings.amounts[:, column], minlength=nodes)
        used[:, column] = state.used[:, column] - freed.astype(np.int64)
    left = np.bincount(holdings.rows, weights=holdings.members, minlength=nodes)
    alone = state.alone.copy()
    alone[holdings.rows[holdings.alone]] = False
    members = np.maximum(state.members - left.astype(np.int64), 0)
    return Snapshot(state.table, np.maximum(used, 0), members, alone)


def choose_victims(state: Snapshot, waiting: GangRequest, candidates: Sequence[RunningGang]) -> tuple[RunningGang, ...]:
    """Return the candidates to preempt so that the waiting gang fits; none if it fits anyway, or if all are not enough.

    state: what is used once all gangs have left that leave in any case.
    """
    choice = _Choice(state, waiting, candidates)
    if choice.missing <= 0 or not choice.suffice(choice.everybody):
        return ()
    # 1. The fewest victims.
    order = choice.order(choice.everybody)
    fewest = choice.number_needed(order)
    # 2. Equally few victims with the smallest possible largest loss.
    losses = np.unique(choice.unsaved[order])
    low, high = 0, len(losses) - 1
    while low < high:
        middle = (low + high) // 2
        cheap = choice.order(choice.unsaved <= losses[middle])
        if choice.suffice(choice.mask(cheap[:fewest])):
            high, order = middle, cheap
        else:
            low = middle + 1
    # 3. Without those that are not needed after all: if gangs share nodes, the order is only nearly the best.
    chosen = choice.needed(order[: choice.number_needed(order)])
    return tuple(candidates[index] for index in chosen)


class _Choice:
    """The search for victims for one waiting gang: how much room it has once some candidates have left."""

    def __init__(self, state: Snapshot, waiting: GangRequest, candidates: Sequence[RunningGang]) -> None:
        self._state = state
        self._member = waiting.member
        self._need = waiting.least
        self._eligible = nodes_for(state.table, waiting) & state.table.usable_by(waiting.member.tolerations)
        self._room = room_of(state, self._member, self._eligible)
        self._candidates = candidates
        self._holdings = _Holdings.of(candidates, self._eligible, state.table)
        self.missing = self._need - int(self._room.sum())
        self.unsaved: Floats = np.array([gang.unsaved_seconds for gang in candidates], dtype=np.float64)
        self._sizes = np.array([gang.rows.size for gang in candidates], dtype=np.float64)
        self.everybody: Mask = np.ones(len(candidates), dtype=bool)

    def mask(self, gangs: Rows) -> Mask:
        """Return these gangs as a mask over the candidates."""
        found = np.zeros(len(self.everybody), dtype=bool)
        found[gangs] = True
        return found

    def suffice(self, leave: Mask) -> bool:
        """Whether there is room once these gangs leave."""
        return int(self._room_after(leave).sum()) >= self._need

    def _room_after(self, leave: Mask) -> Counts:
        return room_of(_without_holdings(self._state, self._holdings.kept(leave)), self._member, self._eligible)

    def order(self, among: Mask) -> Rows:
        """Return the gangs that make room, best first: those that make most of the missing room; among equals those
        that lose least, then the smallest.

        If several gangs share a node, all of them have to leave it. So the nodes are ordered: by the number of gangs
        that have to leave for one member's room there, each weighed by the room that it makes in all.
        """
        holdings = self._holdings.kept(among)
        gain = (self._room_after(among) - self._room).astype(np.float64)
        nodes, gangs = len(gain), len(self.everybody)
        sharing = np.bincount(holdings.rows, minlength=nodes)
        parts = gain[holdings.rows] / np.maximum(sharing[holdings.rows], 1)
        makes = np.minimum(np.bincount(holdings.which, weights=parts, minlength=gangs), self.missing)
        useful = gain[holdings.rows] > 0
        which, rows = holdings.which[useful], holdings.rows[useful]
        cost = np.bincount(rows, weights=1.0 / makes[which], minlength=nodes) / np.maximum(gain, 1.0)
        loses, sizes = np.zeros(nodes), np.zeros(nodes)
        np.maximum.at(loses, rows, self.unsaved[which])
        np.maximum.at(sizes, rows, self._sizes[which])
        best_first = np.unique(rows)
        keys = (sizes[best_first], loses[best_first], cost[best_first])
        best_first = best_first[np.lexsort((best_first, *keys))]
        place = np.empty(nodes, dtype=np.int64)
        place[best_first] = np.arange(best_first.size)
        first = np.full(gangs, nodes, dtype=np.int64)
        np.minimum.at(first, which, place[rows])
        found = np.flatnonzero(first < nodes)
        return found[np.lexsort((found, self.unsaved[found], first[found]))]

    def number_needed(self, order: Rows) -> int:
        """Return how many of these gangs, counted from the front, have to leave. All of them together are enough."""
        low, high = 1, len(order)
        while low < high:
            middle = (low + high) // 2
            if self.suffice(self.mask(order[:middle])):
                high = middle
            else:
                low = middle + 1
        return low

    def needed(self, chosen: Rows) -> list[int]:
        """Return the gangs of `chosen` that really have to leave; all of `chosen` are enough together. Gangs of the
        highest priority are kept first if possible, then those that would lose most.
        """
        gangs = self._candidates
        leave = self.mask(chosen)
        after = _without_holdings(self._state, self._holdings.kept(leave))
        room = room_of(after, self._member, self._eligible)
        spare = int(room.sum()) - self._need
        least = self._least_loss(leave, room)
        left = []
        for index in sorted(chosen.tolist(), key=lambda i: (-gangs[i].priority, -self.unsaved[i], i)):
            if least[index] <= spare:
                back, rows = self._with_gang_back(after, index)
                room_back = room_of(back, self._member, self._eligible[rows], rows)
                lost = int(room[rows].sum() - room_back.sum())
                if lost <= spare:
                    spare -= lost
                    room[rows] = room_back
                    after = back
                    continue
            left.append(index)
        return sorted(left, key=lambda i: (gangs[i].priority, self.unsaved[i], i))

    def _least_loss(self, leave: Mask, room: Counts) -> Counts:
        """Return (gangs,) the room that is certainly lost if a gang stays: the room on nodes that no other gang of
        `leave` uses.
        """
        holdings = self._holdings.kept(leave)
        single = np.bincount(holdings.rows, minlength=len(room))[holdings.rows] == 1
        lost = (room - self._room)[holdings.rows] * single
        return np.bincount(holdings.which, weights=lost, minlength=len(leave)).astype(np.int64)

    def _with_gang_back(self, state: Snapshot, index: int) -> tuple[Snapshot, Rows]:
        """Return the snapshot with a gang back on its nodes, and these nodes."""
        own_rows = slice(*np.searchsorted(self._holdings.which, (index, index + 1)))
        rows = self._holdings.rows[own_rows]
        after = state.copy()
        after.used[rows] += self._holdings.amounts[own_rows]
        after.members[rows] += self._holdings.members[own_rows]
        after.alone[rows] |= self._holdings.alone[own_rows]
        return after, rows
