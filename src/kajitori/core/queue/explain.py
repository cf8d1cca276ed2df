"""Why a run waits: what is missing, by resource, which runs hold it, and which nodes take no work."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kajitori.core.formats.node_lists import compress_set
from kajitori.core.formats.quantities import format_cores, memory_needed
from kajitori.core.placement.planner import GangRequest, MemberRequest, Shortage
from kajitori.core.placement.snapshot import CPU, MEMORY, PODS, Counts, Snapshot
from kajitori.core.spec.reasons import Reason

SHOWN_HOLDERS = 20
SHOWN_BLOCKED = 5
"""Reasons of nodes that take no work, in the message: each drained node may have its own."""
_ALONE = "taken by a run that shares with no other"


@dataclass(frozen=True, slots=True)
class Use:
    """The part of one node that one Pod takes."""

    node: str
    holder: str
    """`namespace/name` of the run, or of the Pod if it belongs to none."""
    owner: str = ""
    """The user who submitted it, if known."""
    is_run: bool = False
    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    gpu_type: str = ""
    """Empty if only the node tells."""
    since: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """A run or foreign Pod that holds nodes which the waiting run could use."""

    holder: str
    owner: str
    is_run: bool
    gpus: int
    cpu_millis: int
    memory_bytes: int
    nodes: str
    """Compact node list."""
    since: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nodes of the right kind that take no work now, and why."""

    why: str
    nodes: str
    count: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "why is my run waiting?"; `message` has all of it in one line."""

    reason: Reason
    message: str
    lacks: str = ""
    """The missing resources, without the runs that hold them."""
    members: int = 0
    fit_now: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    """How much more would have to be free, by resource: `gpu`, `cpuMillis`, `memoryBytes`, `members`."""
    held: tuple[Holder, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    behind: tuple[str, ...] = ()
    """Runs with reservations that would be delayed if this one took the room that there is now."""


@dataclass(frozen=True, slots=True)
class _NodeKind:
    """The nodes that are eligible for a gang: the runs that hold them, and the nodes that take no work."""

    held: tuple[Holder, ...]
    """The runs and Pods that hold most of them."""
    holders: int
    """Number of all holders."""
    blocked: tuple[Blocked, ...]
    texts: dict[bool, tuple[str, ...]] = field(default_factory=dict)
    """The same as texts, for members with GPUs (True) and without."""


class Explainer:
    """Explanations of many gangs on one snapshot. The holders of the nodes of one kind are computed once.

    `core.queue.what_if` tells what exactly has to be freed and which changes would start a run sooner; that costs more.
    """

    def __init__(self, snapshot: Snapshot, uses: Callable[[str], Iterable[Use]]) -> None:
        """uses: returns what each Pod takes of a node, by the node's name."""
        self._snapshot = snapshot
        self._uses = uses
        self._kinds: dict[bytes, _NodeKind] = {}
        self._lacks: dict[tuple[bytes, MemberRequest], Reason] = {}

    def reason(self, gang: GangRequest, shortage: Shortage) -> Reason:
        """Return the reason for which the gang waits; much cheaper than the whole explanation."""
        if shortage.fit_repaired < shortage.members:
            return Reason.TOO_LARGE_NOW
        if shortage.behind:
            return Reason.WAITING_ITS_TURN
        if gang.member.gpus:
            return Reason.WAITING_FOR_GPU
        key = shortage.eligible.tobytes(), gang.member
        if key not in self._lacks:
            self._lacks[key] = _scarcest_resource(self._snapshot, gang.member, np.flatnonzero(shortage.eligible))
        return self._lacks[key]

    def explain(self, gang: GangRequest, shortage: Shortage) -> Explanation:
        """Return why a gang does not fit into the snapshot."""
        if shortage.behind:
            return _explain_reservations(gang, shortage)
        key = shortage.eligible.tobytes()
        kind = self._kinds.get(key)
        if kind is None:
            rows = np.flatnonzero(shortage.eligible)
            held, holders = _largest_holders(self._snapshot, rows, self._uses)
            kind = self._kinds[key] = _NodeKind(held, holders, _blocked_nodes(self._snapshot, rows))
        return _explain_shortage(gang, shortage, kind, self.reason(gang, shortage))


def explain(
    snapshot: Snapshot, gang: GangRequest, shortage: Shortage, uses: Callable[[str], Iterable[Use]]
) -> Explanation:
    """Return why one gang does not fit into the snapshot. uses: returns what each Pod takes of a node, by its name."""
    return Explainer(snapshot, uses).explain(gang, shortage)


def _explain_shortage(gang: GangRequest, shortage: Shortage, kind: _NodeKind, reason: Reason) -> Explanation:
    member = gang.member
    short_by = shortage.members - shortage.fit_now
    missing = {"members": short_by}
    if member.gpus:
        missing["gpu"] = short_by * member.gpus
    else:
        missing["cpuMillis"] = short_by * member.cpu_millis
        missing["memoryBytes"] = short_by * member.memory_bytes
    parts = [_describe_request(gang), _describe_room(member, shortage)]
    if not shortage.eligible.any():
        parts.append("the cluster has no node for such a member yet")
    elif shortage.fit_ever < shortage.members:
        parts.append(f"the nodes that are in order now hold at most {shortage.fit_ever}")
    lacks = "; ".join(parts)
    with_gpus = bool(member.gpus)
    if with_gpus not in kind.texts:
        kind.texts[with_gpus] = tuple(_describe_nodes(kind, member))
    return Explanation(
        reason=reason,
        message="; ".join((lacks, *kind.texts[with_gpus])),
        lacks=lacks,
        members=shortage.members,
        fit_now=shortage.fit_now,
        missing=missing,
        held=kind.held,
        blocked=kind.blocked,
    )


def _describe_nodes(kind: _NodeKind, member: MemberRequest) -> Iterator[str]:
    """Yield texts: which runs hold these nodes, and which nodes take no work."""
    if kind.held:
        shown = ", ".join(_describe_holder(holder, member) for holder in kind.held[:3])
        more = f" and {kind.holders - 3} more" if kind.holders > 3 else ""
        yield f"held by {shown}{more}"
    for item in kind.blocked[:SHOWN_BLOCKED]:
        yield f"{item.count} {_plural(item.count, 'node')} {item.why} ({item.nodes})"
    if left := sum(item.count for item in kind.blocked[SHOWN_BLOCKED:]):
        yield f"{left} more {_plural(left, 'node')} {'takes' if left == 1 else 'take'} no work for other reasons"


def _explain_reservations(gang: GangRequest, shortage: Shortage) -> Explanation:
    """Explain a run for which there is room, but which would delay a reservation."""
    delayed = ", ".join(shortage.behind[:3])
    more = f" and {len(shortage.behind) - 3} more" if len(shortage.behind) > 3 else ""
    message = f"{_describe_request(gang)}; there is room now, but it would delay {delayed}{more}"
    return Explanation(
        reason=Reason.WAITING_ITS_TURN,
        message=f"{message}, for which nodes are reserved",
        lacks=f"{message}, for which nodes are reserved",
        members=shortage.members,
        fit_now=shortage.fit_now,
        behind=shortage.behind,
    )


def _scarcest_resource(snapshot: Snapshot, member: MemberRequest, rows: Counts) -> Reason:
    """Return the resource that most nodes lack for a member without GPUs."""
    if member.alone or not rows.size:
        return Reason.WAITING_FOR_NODES
    free = snapshot.free[rows[~snapshot.alone[rows]]]
    lacks = (free < member.amounts(snapshot.table)).sum(axis=0)
    if not lacks.any():
        return Reason.WAITING_FOR_NODES  # each node with room has a run that shares its node with no other
    column = int(np.argmax([lacks[CPU], lacks[MEMORY], lacks[PODS]]))
    return (Reason.WAITING_FOR_CPU, Reason.WAITING_FOR_MEMORY, Reason.WAITING_FOR_NODES)[column]


def _describe_request(gang: GangRequest) -> str:
    member, members = gang.member, gang.least
    needs = "needs at least" if 1 < members < len(gang.ranks) else "needs"
    what = _describe_amount(member, members)
    if member.whole_node:
        return f"{needs} {what} on {members} whole {_plural(members, 'node')}"
    apart = ", on nodes without other runs, since it has no memory limit" if member.unlimited else ""
    return f"{needs} {what} for {members} {_plural(members, 'member')}{apart}"


def _describe_room(member: MemberRequest, shortage: Shortage) -> str:
    if not shortage.fit_now:
        return "nothing fits now"
    unit = "node" if member.whole_node else "member"
    verb = "is" if shortage.fit_now == 1 else "are"
    if member.whole_node:
        return f"{shortage.fit_now} {_plural(shortage.fit_now, unit)} {verb} free"
    return f"there is room for {shortage.fit_now}"


def _describe_amount(member: MemberRequest, members: int) -> str:
    if member.gpus:
        gpus = member.gpus * members
        return f"{gpus} {member.gpu_type or _plural(gpus, 'GPU')}"
    return f"{format_cores(member.cpu_millis * members)} and {memory_needed(member.memory_bytes * members)} of memory"


def _describe_holder(holder: Holder, member: MemberRequest) -> str:
    owner = f" ({holder.owner})" if holder.owner else ""
    kind = "" if holder.is_run else "Pod "
    if member.gpus and holder.gpus:
        amount = f" {holder.gpus} {_plural(holder.gpus, 'GPU')}"
    else:
        amount = f" {format_cores(holder.cpu_millis)}, {memory_needed(holder.memory_bytes)}"
    return f"{kind}{holder.holder}{owner}{amount} on {holder.nodes}"


def _largest_holders(
    snapshot: Snapshot, rows: Counts, uses: Callable[[str], Iterable[Use]]
) -> tuple[tuple[Holder, ...], int]:
    """Return the largest holders of the nodes of the right kind that take work, and the number of all holders."""
    found: dict[str, list[Use]] = {}
    for row in rows[snapshot.table.usable[rows]].tolist():
        for use in uses(snapshot.table.nodes[row].name):
            found.setdefault(use.holder, []).append(use)
    holders = list(found.values())
    if bool(snapshot.table.has_gpu[rows].any()):
        holders = [parts for parts in holders if any(use.gpus for use in parts)] or holders
    largest = heapq.nsmallest(SHOWN_HOLDERS, holders, key=_by_size)
    return tuple(_sum_up(parts) for parts in largest), len(holders)


def _by_size(parts: Sequence[Use]) -> tuple[int, int, int, str]:
    gpus, cpu = sum(use.gpus for use in parts), sum(use.cpu_millis for use in parts)
    return -gpus, -cpu, -sum(use.memory_bytes for use in parts), parts[0].holder


def _sum_up(parts: Sequence[Use]) -> Holder:
    first = parts[0]
    return Holder(
        holder=first.holder,
        owner=first.owner,
        is_run=first.is_run,
        gpus=sum(use.gpus for use in parts),
        cpu_millis=sum(use.cpu_millis for use in parts),
        memory_bytes=sum(use.memory_bytes for use in parts),
        nodes=compress_set(use.node for use in parts),
        since=min((use.since for use in parts if use.since), default=""),
    )


def _blocked_nodes(snapshot: Snapshot, rows: Counts) -> tuple[Blocked, ...]:
    table = snapshot.table
    kinds: dict[str, list[str]] = {}
    for row in rows[~table.usable[rows] | snapshot.alone[rows]]:
        node = table.nodes[row]
        why = node.why_no_work or _ALONE
        kinds.setdefault(why, []).append(node.name)
    return tuple(
        Blocked(why, compress_set(names), len(names))
        for why, names in sorted(kinds.items(), key=lambda kind: (-len(kind[1]), kind[0]))
    )


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
