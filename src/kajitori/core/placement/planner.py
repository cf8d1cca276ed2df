"""Placement of one gang: a node for every member at once, or exactly what is missing.

All or nothing. Among the places that hold the whole gang, the one that touches the fewest topology domains wins,
narrowest level first; among those, the fullest that still fits, so that large holes stay whole for large gangs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from kajitori.core.kubernetes.taints import Toleration
from kajitori.core.placement.choosing import Rows, choose
from kajitori.core.placement.snapshot import CPU, GPU, Counts, Mask, NodeTable, Snapshot

CpuRunsOnGpuNodes = Literal["never", "whenNoOthers", "always"]

_UNBOUNDED = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """The resources and nodes that one member of a gang asks for."""

    cpu_millis: int
    memory_bytes: int
    gpus: int = 0
    gpu_type: str = ""
    """Empty: whole GPUs of any type."""
    gpu_way: str | None = None
    """The way in which its Pod asks for GPUs (`core.gpus.offers`); None if that is not decided."""
    whole_node: bool = False
    """Whether each member gets a node of its own, without other runs."""
    unlimited: bool = False
    """Whether its memory has no limit: then no member of another run may be beside it, since it could get that killed.
    Members of its own gang may share a node: they fail together anyway."""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    cpu_runs_on_gpu_nodes: CpuRunsOnGpuNodes = "whenNoOthers"
    """Whether a request without GPUs may take a node with GPUs."""
    barred: frozenset[str] = frozenset()
    """Nodes that an autoscaler made for other runs and that are kept for them."""

    def amounts(self, table: NodeTable) -> Counts:
        """Return (table.width,) CPU, memory, whole GPUs, one Pod, and GPUs of each partial type."""
        amounts = [self.cpu_millis, self.memory_bytes, 0, 1, *([0] * len(table.gpu_columns))]
        amounts[table.gpu_column(self.gpu_type)] = self.gpus
        return np.array(amounts, dtype=np.int64)

    @property
    def alone(self) -> bool:
        """Whether it shares no node with another run."""
        return self.whole_node or self.unlimited


@dataclass(frozen=True, slots=True)
class GangRequest:
    """A gang that waits for nodes."""

    key: str
    member: MemberRequest
    ranks: tuple[int, ...]
    """The ranks that need a node, in order."""
    previous: Mapping[int, str] = field(default_factory=dict)
    """Earlier nodes of members, by rank: they go back there if they can."""
    avoid: frozenset[str] = frozenset()
    """Nodes that this run must not use, because its members failed there before."""
    priority: int = 0
    queued_at: str = ""
    fewest: int | None = None
    """Minimum number of members to start with; more start if they fit, the first ranks first. None: all or none."""
    grows: bool = False
    """It can have more members later: others are preempted for the fewest alone."""

    @property
    def least(self) -> int:
        """The number of members that have to fit."""
        return len(self.ranks) if self.fewest is None else min(self.fewest, len(self.ranks))

    def fitting(self, room: int) -> GangRequest:
        """Return the request with as many members as there is room for."""
        return self if len(self.ranks) <= room else replace(self, ranks=self.ranks[:room])


@dataclass(frozen=True, slots=True)
class Placement:
    """A node for every placed rank, in rank order: all requested ranks, unless the gang may start with fewer."""

    key: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a gang cannot start now."""

    key: str
    members: int
    """Number of members that need a node, at least."""
    fit_now: int
    """Number of these that fit at this moment."""
    fit_ever: int
    """Number that would fit if nothing else ran, on nodes that are ready and not cordoned."""
    fit_repaired: int
    """Number that would fit if, besides, every cordoned and broken node took work again."""
    eligible: Mask
    """(nodes,) nodes of the right kind, whatever their state."""
    behind: tuple[str, ...] = ()
    """Gangs with reservations that would be delayed if this one took the room that there is now."""


def occupy(state: Snapshot, member: MemberRequest, nodes: Sequence[str]) -> None:
    """Mark the nodes as used by one member each, in place."""
    occupy_rows(state, member, np.array([state.table.index[name] for name in nodes], dtype=np.int64))


def occupy_rows(state: Snapshot, member: MemberRequest, rows: Rows) -> None:
    """Mark rows of the table as used by one member each, in place; a row that occurs twice takes two members."""
    np.add.at(state.used, rows, member.amounts(state.table))
    np.add.at(state.members, rows, 1)
    if member.alone:
        state.alone[rows] = True


def place(state: Snapshot, gang: GangRequest) -> Placement | Shortage:
    """Return a node for every rank of one gang, or for as many as fit if fewer are enough; else what is missing.
    Nothing is changed."""
    eligible = nodes_for(state.table, gang)
    room = room_of(state, gang.member, eligible & state.table.usable_by(gang.member.tolerations))
    total = int(room.sum())
    if total < gang.least:
        return shortage_of(state.table, gang, eligible, total)
    gang = gang.fitting(total)
    return placement_of(state.table, gang, rows_for(state.table, gang, room, leftover_of(state)))


def placement_of(table: NodeTable, gang: GangRequest, rows: Rows) -> Placement:
    """Return the placement of a gang on these rows, in rank order."""
    nodes = table.nodes
    return Placement(gang.key, gang.ranks, tuple(nodes[row].name for row in rows.tolist()))


def rows_for(table: NodeTable, gang: GangRequest, room: Counts, leftover: Counts) -> Rows:
    """Return the row of each rank's node.

    room: (nodes,) number of members that each node takes, together enough. leftover: (nodes,) how empty each node is;
    fuller nodes are taken first.
    """
    need = len(gang.ranks)
    nowhere = np.empty(0, dtype=np.int64)
    if not gang.previous:
        return choose(room, need, table.domain_levels, leftover, nowhere)
    rows = np.full(need, -1, dtype=np.int64)
    room = room.copy()
    _keep_previous(rows, room, gang, table)
    open_ranks = np.flatnonzero(rows < 0)
    if open_ranks.size:
        near = np.unique(rows[rows >= 0])
        rows[open_ranks] = choose(room, open_ranks.size, table.domain_levels, leftover, near)
    return rows


def nodes_for(table: NodeTable, gang: GangRequest) -> Mask:
    """Return (nodes,) the nodes of the right kind for this gang, without those it avoids if the others suffice."""
    eligible = eligible_nodes(table, gang.member)
    avoided = [table.index[name] for name in gang.avoid if name in table.index]
    if avoided:
        others = eligible.copy()
        others[avoided] = False
        usable = table.usable_by(gang.member.tolerations)
        if int(room_of(Snapshot.empty(table), gang.member, others & usable).sum()) >= gang.least:
            return others
    return eligible  # a node with failures is better than none


def eligible_nodes(table: NodeTable, member: MemberRequest) -> Mask:
    """Return (nodes,) the nodes of the right kind by GPU type, selector and taints, regardless of their state and of
    what runs there. The caller must not change the result."""
    return table.once((eligible_nodes, member), lambda: _eligible_nodes(table, member))


def _eligible_nodes(table: NodeTable, member: MemberRequest) -> Mask:
    mask = table.tolerated_mask(member.tolerations).copy()
    for key, value in member.node_selector:
        mask &= table.label_mask(key, value)
    if member.gpus:
        mask &= table.offer_mask(member.gpu_type, member.gpu_way, member.gpus)
    elif member.cpu_runs_on_gpu_nodes != "always":
        without_gpu = mask & ~table.has_gpu
        if member.cpu_runs_on_gpu_nodes == "never" or without_gpu.any():
            mask = without_gpu
    mask[[table.index[name] for name in member.barred if name in table.index]] = False
    mask &= (member.amounts(table) <= table.total).all(axis=1)
    mask.setflags(write=False)
    return mask


def room_of(state: Snapshot, member: MemberRequest, candidates: Mask, rows: Rows | slice = slice(None)) -> Counts:
    """Return (nodes,) how many members fit on each node now. rows: look at these nodes only. candidates: a mask with
    one entry for each of the nodes."""
    free = state.table.total[rows] - state.used[rows]
    room = np.full(len(free), _UNBOUNDED, dtype=np.int64)
    for column, amount in enumerate(member.amounts(state.table).tolist()):
        if amount == 1:
            np.minimum(room, free[:, column], out=room)
        elif amount:
            np.minimum(room, free[:, column] // amount, out=room)
    room[~candidates | state.alone[rows]] = 0
    np.maximum(room, 0, out=room)
    if member.whole_node:
        np.minimum(room, 1, out=room)
    if member.alone:
        room[state.members[rows] > 0] = 0
    return room


def shortage_of(table: NodeTable, gang: GangRequest, eligible: Mask, fit_now: int) -> Shortage:
    """Return why this gang cannot start. fit_now: number of its members that fit now."""
    nothing_runs = Snapshot.empty(table)
    usable = table.usable_by(gang.member.tolerations)
    return Shortage(
        key=gang.key,
        members=gang.least,
        fit_now=fit_now,
        fit_ever=int(room_of(nothing_runs, gang.member, eligible & usable).sum()),
        fit_repaired=int(room_of(nothing_runs, gang.member, eligible).sum()),
        eligible=eligible,
    )


def _keep_previous(rows: Rows, room: Counts, gang: GangRequest, table: NodeTable) -> None:
    """Place members on their earlier nodes if there is room. Changes both arrays in place."""
    for position, rank in enumerate(gang.ranks):
        row = table.index.get(gang.previous.get(rank, ""))
        if row is not None and room[row] > 0:
            rows[position] = row
            room[row] -= 1


def leftover_of(state: Snapshot, rows: Rows | slice = slice(None)) -> Counts:
    """Return how much of its scarcest resource each node still has: GPUs first, then CPU. Fuller nodes are taken
    first."""
    free: Counts = state.table.total[rows] - state.used[rows]
    return free[:, GPU] * (1 << 40) + free[:, CPU]


def largest_gang(table: NodeTable, member: MemberRequest) -> int:
    """Return how many such members the cluster holds if nothing runs on it and every node takes work."""

    def count() -> int:
        return int(room_of(Snapshot.empty(table), member, eligible_nodes(table, member)).sum())

    return table.once((largest_gang, member), count)
