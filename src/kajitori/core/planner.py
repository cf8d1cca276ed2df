"""Where a gang goes: a node for every member at once, or exactly what is missing.

All or nothing. Among the places that hold the whole gang, the one that touches the fewest topology domains wins,
narrowest level first; among those, the fullest that still fits, so that large holes stay whole for large gangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from kajitori.core.snapshot import CPU, GPU, MEMORY, PODS, Counts, Mask, NodeTable, Snapshot, Toleration

CpuRunsOnGpuNodes = Literal["never", "whenNoOthers", "always"]

_UNBOUNDED = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """What one member of a gang asks of a node."""

    cpu_millis: int
    memory_bytes: int
    gpus: int = 0
    gpu_type: str = ""
    """Empty: any type."""
    whole_node: bool = False
    """A node for each member, without any other run's."""
    unlimited: bool = False
    """Nothing limits its memory: no other run's member beside it, which it could get killed. Those of its own gang may
    share a node: they stand and fall together anyway."""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    cpu_runs_on_gpu_nodes: CpuRunsOnGpuNodes = "whenNoOthers"
    """For a request without GPUs: may it take a node that has some?"""

    @property
    def amounts(self) -> Counts:
        """(4,) CPU, memory, GPUs and one Pod."""
        return np.array([self.cpu_millis, self.memory_bytes, self.gpus, 1], dtype=np.int64)

    @property
    def alone(self) -> bool:
        """It shares no node with another run."""
        return self.whole_node or self.unlimited


@dataclass(frozen=True, slots=True)
class GangRequest:
    """A gang that waits for nodes."""

    key: str
    member: MemberRequest
    ranks: tuple[int, ...]
    """The ranks that need a node, in order."""
    previous: Mapping[int, str] = field(default_factory=dict)
    """Where members were before: they go back there if they can (semi-stateful members)."""
    avoid: frozenset[str] = frozenset()
    """Nodes that this run must not use, because its members failed there before."""
    priority: int = 0
    queued_at: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """A node for every rank asked for, in rank order."""

    key: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a gang cannot start now."""

    key: str
    members: int
    """How many members need a node."""
    fit_now: int
    """How many of them would find one at this moment."""
    fit_ever: int
    """How many would if nothing else ran, on nodes that are ready and not cordoned."""
    fit_repaired: int
    """How many would if, besides, every cordoned and broken node came back."""
    eligible: Mask
    """(nodes,) nodes of the right kind, whatever their state: where to look for who holds what is missing."""


@dataclass(frozen=True, slots=True)
class Plan:
    placements: tuple[Placement, ...]
    shortages: tuple[Shortage, ...]


def plan(snapshot: Snapshot, queue: Iterable[GangRequest]) -> Plan:
    """Places the queued gangs one after the other, in the given order, on what is free.

    The snapshot is not changed. A gang that does not fit takes nothing; later ones may pass it.
    """
    state = snapshot.copy()
    placements: list[Placement] = []
    shortages: list[Shortage] = []
    for gang in queue:
        chosen = place(state, gang)
        if isinstance(chosen, Shortage):
            shortages.append(chosen)
            continue
        placements.append(chosen)
        occupy(state, gang.member, chosen.nodes)
    return Plan(tuple(placements), tuple(shortages))


def occupy(state: Snapshot, member: MemberRequest, nodes: Sequence[str]) -> None:
    """Marks the nodes as used by one member each, in place."""
    rows = np.fromiter((state.table.index[name] for name in nodes), dtype=np.int64, count=len(nodes))
    np.add.at(state.used, rows, member.amounts)
    np.add.at(state.members, rows, 1)
    if member.alone:
        state.alone[rows] = True


def place(state: Snapshot, gang: GangRequest) -> Placement | Shortage:
    """A node for every rank of one gang, or what is missing. Changes nothing."""
    table, member = state.table, gang.member
    need = len(gang.ranks)
    eligible = eligible_nodes(table, member)
    avoided = [table.index[name] for name in gang.avoid if name in table.index]
    if avoided:
        others = eligible.copy()
        others[avoided] = False
        if int(_room(Snapshot.empty(table), member, others & table.usable).sum()) >= need:
            eligible = others  # else there is nowhere else to go: a node with a past is better than none
    room = _room(state, member, eligible & table.usable)
    if int(room.sum()) < need:
        return _shortage(state, gang, eligible, room)

    rows = np.full(need, -1, dtype=np.int64)
    _keep_previous(rows, room, gang, table)
    open_ranks = np.flatnonzero(rows < 0)
    if open_ranks.size:
        held = room.copy()
        near = np.unique(rows[rows >= 0])
        chosen = _choose(held, open_ranks.size, state, near)
        rows[open_ranks] = chosen
    return Placement(gang.key, gang.ranks, tuple(table.nodes[row].name for row in rows))


def eligible_nodes(table: NodeTable, member: MemberRequest) -> Mask:
    """(nodes,) nodes of the right kind: GPU type, selector, taints; whatever runs there and whatever their state."""
    mask = table.tolerated_mask(member.tolerations).copy()
    for key, value in member.node_selector:
        mask &= table.label_mask(key, value)
    if member.gpus:
        mask &= table.has_gpu
        if member.gpu_type:
            mask &= table.type_mask(member.gpu_type)
    elif member.cpu_runs_on_gpu_nodes != "always":
        without_gpu = mask & ~table.has_gpu
        if member.cpu_runs_on_gpu_nodes == "never" or without_gpu.any():
            mask = without_gpu
    return mask & (member.amounts <= table.total).all(axis=1)


def _room(state: Snapshot, member: MemberRequest, candidates: Mask) -> Counts:
    """(nodes,) how many members fit on each node now."""
    amounts = member.amounts
    free = state.table.total - state.used
    room = np.full(len(state.table), _UNBOUNDED, dtype=np.int64)
    for column in (CPU, MEMORY, GPU, PODS):
        if amounts[column]:
            np.minimum(room, free[:, column] // amounts[column], out=room)
    room[~candidates | state.alone] = 0
    np.maximum(room, 0, out=room)
    if member.whole_node:
        room = np.minimum(room, 1)
    if member.alone:
        room[state.members > 0] = 0
    return room


def _shortage(state: Snapshot, gang: GangRequest, eligible: Mask, room: Counts) -> Shortage:
    nothing_runs = Snapshot.empty(state.table)
    return Shortage(
        key=gang.key,
        members=len(gang.ranks),
        fit_now=int(room.sum()),
        fit_ever=int(_room(nothing_runs, gang.member, eligible & state.table.usable).sum()),
        fit_repaired=int(_room(nothing_runs, gang.member, eligible).sum()),
        eligible=eligible,
    )


def _keep_previous(rows: Counts, room: Counts, gang: GangRequest, table: NodeTable) -> None:
    """Sends members back to where they were, as long as there is room; both arrays are changed in place."""
    for position, rank in enumerate(gang.ranks):
        row = table.index.get(gang.previous.get(rank, ""))
        if row is not None and room[row] > 0:
            rows[position] = row
            room[row] -= 1


def _choose(room: Counts, need: int, state: Snapshot, near: Counts) -> npt.NDArray[np.int64]:
    """Rows for `need` members, in table order, so that neighbouring ranks stand next to each other.

    near: rows that other members of the gang already have; their domains come first.
    """
    taken = np.zeros(len(room), dtype=np.int64)
    levels = state.table.domain_levels
    _descend(room, need, levels, near, _leftover(state), taken, np.flatnonzero(room > 0))
    return np.repeat(np.arange(len(room)), taken)


def _leftover(state: Snapshot) -> Counts:
    """(nodes,) how much of its scarcest kind a node still has: GPUs first, then CPU. Fuller nodes are taken first."""
    free = state.table.total - state.used
    return free[:, GPU] * (1 << 40) + free[:, CPU]


def _descend(
    room: Counts,
    need: int,
    levels: Sequence[Counts],
    near: Counts,
    leftover: Counts,
    taken: Counts,
    rows: npt.NDArray[np.int64],
) -> None:
    """Takes `need` members from `rows`, whose room is enough, touching as few domains of each level as it can."""
    if not levels:
        _take_nodes(room, need, leftover, taken, rows)
        return
    numbers = levels[0][rows]
    domains, position = np.unique(numbers, return_inverse=True)
    capacity = np.bincount(position, weights=room[rows]).astype(np.int64)
    close = np.isin(domains, levels[0][near]) if near.size else np.zeros(len(domains), dtype=bool)
    for domain in _fewest(capacity, need, close):
        part = min(need, int(capacity[domain]))
        _descend(room, part, levels[1:], near, leftover, taken, rows[position == domain])
        need -= part


def _fewest(capacity: Counts, need: int, close: Mask) -> list[int]:
    """The fewest domains that together hold `need`, as indices; the last one the smallest that still fits.

    Domains marked `close` are used up first, since the gang stands there already.
    """
    chosen: list[int] = []
    left = need
    remaining = [int(i) for i in np.flatnonzero(capacity > 0)]
    for group in ([i for i in remaining if close[i]], [i for i in remaining if not close[i]]):
        group.sort(key=lambda i: (-int(capacity[i]), i))
        while group and left > 0:
            fitting = [i for i in group if capacity[i] >= left]
            best = min(fitting, key=lambda i: (int(capacity[i]), i)) if fitting else group[0]
            group.remove(best)
            chosen.append(best)
            left -= int(capacity[best])
    return chosen


def _take_nodes(room: Counts, need: int, leftover: Counts, taken: Counts, rows: npt.NDArray[np.int64]) -> None:
    """Takes members from nodes of one domain: fewest nodes first, then the fullest of those that fit alike."""
    order = rows[np.lexsort((rows, leftover[rows], -room[rows]))]
    cumulated = np.cumsum(room[order])
    full = int(np.searchsorted(cumulated, need, side="left"))
    for row in order[:full]:
        taken[row] += room[row]
    rest = need - (int(cumulated[full - 1]) if full else 0)
    if rest:
        others = order[full:]
        fitting = others[room[others] >= rest]
        best = fitting[np.lexsort((fitting, leftover[fitting], room[fitting]))[0]]
        taken[best] += rest


def largest_gang(table: NodeTable, member: MemberRequest) -> int:
    """How many such members the cluster holds when nothing runs on it and every node is well."""
    return int(_room(Snapshot.empty(table), member, eligible_nodes(table, member)).sum())
