"""The cluster as the planner sees it: immutable facts about nodes, and arrays of what is still free on them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kajitori.core.formats.node_lists import natural_key
from kajitori.core.gpus.offers import BY_CLAIM, GpuOffer
from kajitori.core.kubernetes.taints import Taint, Toleration
from kajitori.core.naming.names import TAINT_UNHEALTHY

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

CPU, MEMORY, GPU, PODS = range(4)
"""First columns of every amounts array: CPU in millicores, memory in bytes, whole GPUs, Pods. A column for each type of
partial GPUs that the cluster has follows (`NodeTable.gpu_columns`)."""

ANSWERS = 1024
"""Number of cached answers of a node table: a mask of 7,500 nodes takes 7.5 kB."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts of a node that do not change with the Pods on it."""

    name: str
    cpu_millis: int
    memory_bytes: int
    gpus: int
    """Number of whole GPUs."""
    pods: int
    gpu_type: str = ""
    """Type of the whole GPUs."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    """Whether its kubelet is healthy and no taint says otherwise."""
    stale_taint: str = ""
    """The taint that makes it count as not ready although its kubelet is healthy: it has not been removed yet."""
    schedulable: bool = True
    """False if the node is cordoned."""
    drained_by: str = ""
    """The user who drains it, and the reason; empty if it is not drained."""
    out: tuple[Taint, ...] = ()
    """Taints that keep it out of the pool: it is unhealthy, or not tested yet. Only runs that tolerate them may use
    it."""
    domains: tuple[str, ...] = ()
    """Its topology domains, from the widest (zone) to the narrowest (rack); policy names the labels."""
    created_at: str = ""
    """When it joined the cluster, RFC 3339."""
    gpu_offers: tuple[GpuOffer, ...] = ()
    """All GPUs by type, whole ones included. Empty if the node has none but whole ones of a device plugin."""

    @property
    def offers(self) -> tuple[GpuOffer, ...]:
        """Its GPUs by type, the whole ones first."""
        if self.gpu_offers or not self.gpus:
            return self.gpu_offers
        return (GpuOffer(self.gpu_type, self.gpus),)

    @property
    def is_by_devices(self) -> bool:
        """Whether its GPUs are devices of dynamic resource allocation, not those of a device plugin."""
        return any(way.startswith(BY_CLAIM) for offer in self.gpu_offers for way in offer.ways)

    @property
    def has_gpus(self) -> bool:
        """Whether it has any GPU, or part of one."""
        return self.gpus > 0 or any(offer.count for offer in self.gpu_offers)

    def offer_of(self, gpu_type: str) -> GpuOffer | None:
        """Return its GPUs of a type, or its whole GPUs if the type is empty; None if it has none."""
        for offer in self.offers:
            if offer.type == gpu_type if gpu_type else offer.is_whole:
                return offer
        return None

    @property
    def takes_work(self) -> bool:
        """Whether it takes work."""
        return self.ready and self.schedulable and not self.out

    @property
    def why_no_work(self) -> str:
        """Why it takes no work, in a word or two; empty if it takes work. Broken comes before cordoned."""
        if self.stale_taint:
            return f"still tainted {self.stale_taint}"
        if not self.ready:
            return "not ready"
        if unhealthy := [taint for taint in self.out if taint.key == TAINT_UNHEALTHY]:
            return f"unhealthy: {unhealthy[0].value}" if unhealthy[0].value else "unhealthy"
        if not self.schedulable:
            return f"drained by {self.drained_by}" if self.drained_by else "cordoned"
        return "not tested yet" if self.out else ""


@dataclass(frozen=True, slots=True)
class Domains:
    """One level of the topology. Each domain is a range of rows of the node table."""

    begins: Counts
    """(domains,) the first row of each domain."""
    bounds: tuple[int, ...]
    """The same, and at the end the number of rows."""

    def within(self, begin: int, end: int) -> tuple[int, int]:
        """Return the range of domains (first, last + 1) that lie in a wider domain with these rows."""
        return bisect_left(self.bounds, begin), bisect_left(self.bounds, end)

    def holds(self, rows: Counts) -> Mask:
        """Return (domains,) whether one of the rows is in each domain."""
        found = np.zeros(len(self.begins), dtype=bool)
        found[self.begins.searchsorted(rows, side="right") - 1] = True
        return found


class NodeTable:
    """Nodes in topology order, with masks and groupings that are computed once and kept.

    A table is built anew when a Node object changes, not when a Pod does: usage is kept apart, in `Snapshot`.
    """

    def __init__(self, nodes: Iterable[NodeFacts]) -> None:
        self.nodes: tuple[NodeFacts, ...] = tuple(sorted(nodes, key=lambda n: (n.domains, natural_key(n.name))))
        self.index: dict[str, int] = {node.name: i for i, node in enumerate(self.nodes)}
        self.by_devices: Mask = np.array([bool(n.gpu_offers) and n.is_by_devices for n in self.nodes], dtype=bool)
        """Mask of the nodes with GPUs that only the scheduler can allocate (devices)."""
        partial = {o.type for n in self.nodes for o in n.gpu_offers if not o.is_whole}
        self.gpu_columns: dict[str, int] = {name: PODS + 1 + i for i, name in enumerate(sorted(partial))}
        """The column of each type of partial GPUs, such as MIG slices."""
        self.total: Counts = np.zeros((len(self.nodes), self.width), dtype=np.int64)
        if self.nodes:
            self.total[:, : PODS + 1] = [(n.cpu_millis, n.memory_bytes, n.gpus, n.pods) for n in self.nodes]
        for row, node in enumerate(self.nodes):
            for offer in node.gpu_offers:
                if not offer.is_whole:
                    self.total[row, self.gpu_columns[offer.type]] = offer.count
        self.usable: Mask = np.array([n.takes_work for n in self.nodes], dtype=bool)
        self.has_gpu: Mask = np.array([n.has_gpus for n in self.nodes], dtype=bool)
        self._label_masks: dict[tuple[str, str], Mask] = {}
        self._taint_masks: dict[tuple[Toleration, ...], Mask] = {}
        self._offer_masks: dict[tuple[str, str | None, int], Mask] = {}
        self._out_masks: dict[tuple[Toleration, ...], Mask] = {}
        self._answers: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def gpu_types(self) -> frozenset[str]:
        """All GPU types that the cluster has."""
        return frozenset(offer.type for node in self.nodes for offer in node.offers if offer.type)

    @property
    def width(self) -> int:
        """Number of columns of amounts arrays."""
        return PODS + 1 + len(self.gpu_columns)

    def gpu_column(self, gpu_type: str) -> int:
        """Return the column that counts GPUs of a type."""
        return self.gpu_columns.get(gpu_type, GPU)

    def with_usable(self, usable: Mask) -> NodeTable:
        """Return the same nodes with another mask of usable nodes, for a what-if."""
        other = copy(self)
        other.usable = usable
        return other

    def once(self, question: Hashable, work_out: Callable[[], T]) -> T:
        """Return the answer to a frequent question about these nodes, computed once. It must not depend on which nodes
        take work."""
        if question not in self._answers:
            if len(self._answers) >= ANSWERS:
                self._answers.clear()
            self._answers[question] = work_out()
        answer: T = self._answers[question]
        return answer

    def label_mask(self, key: str, value: str) -> Mask:
        """Return the nodes with this label."""
        mask = self._label_masks.get((key, value))
        if mask is None:
            mask = np.array([n.labels.get(key) == value for n in self.nodes], dtype=bool)
            self._label_masks[key, value] = mask
        return mask

    def type_mask(self, gpu_type: str) -> Mask:
        """Return the nodes with GPUs of this type."""
        return self.offer_mask(gpu_type)

    def offer_mask(self, gpu_type: str, way: str | None = None, gpus: int = 1) -> Mask:
        """Return the nodes that can give one Pod this number of GPUs of a type, or of whole GPUs if the type is empty.

        way: how the Pod asks for them; None: in any way.
        """
        key = gpu_type, way, gpus
        mask = self._offer_masks.get(key)
        if mask is None:
            found = (node.offer_of(gpu_type) for node in self.nodes)
            mask = np.array(
                [o is not None and (way is None or way in o.ways) and gpus <= o.most for o in found], dtype=bool
            )
            self._offer_masks[key] = mask
        return mask

    def usable_by(self, tolerations: Sequence[Toleration]) -> Mask:
        """Return the nodes that take work of runs with these tolerations: a test may run on a node out of the pool."""
        key = tuple(tolerations)
        if key not in self._out_masks:
            self._out_masks[key] = np.array([_is_let_onto(n, key) for n in self.nodes], dtype=bool)
        others = self._out_masks[key]
        return self.usable | others if others.any() else self.usable

    def tolerated_mask(self, tolerations: Sequence[Toleration]) -> Mask:
        """Return the nodes that have no NoSchedule or NoExecute taint beyond the tolerated ones."""
        key = tuple(tolerations)
        mask = self._taint_masks.get(key)
        if mask is None:
            verdicts: dict[tuple[Taint, ...], bool] = {}
            for node in self.nodes:
                if node.taints not in verdicts:
                    verdicts[node.taints] = all(
                        taint.effect == "PreferNoSchedule" or any(t.tolerates(taint) for t in key)
                        for taint in node.taints
                    )
            mask = np.array([verdicts[node.taints] for node in self.nodes], dtype=bool)
            self._taint_masks[key] = mask
        return mask

    @cached_property
    def domain_levels(self) -> tuple[Domains, ...]:
        """The topology, from its widest level to its narrowest.

        Neighbouring rows of the table share domains. A domain is identified within its wider domain: rack `1` of two
        zones is two racks.
        """
        depth = max((len(n.domains) for n in self.nodes), default=0)
        levels = []
        for level in range(1, depth + 1):
            neighbours = enumerate(pairwise(self.nodes), 1)
            begins = [row for row, (a, b) in neighbours if a.domains[:level] != b.domains[:level]]
            levels.append(Domains(np.array([0, *begins], dtype=np.int64), (0, *begins, len(self.nodes))))
        return tuple(levels)


def _is_let_onto(node: NodeFacts, tolerations: Sequence[Toleration]) -> bool:
    """Whether a node that is out of the pool takes work of runs with these tolerations."""
    lacks_only_a_toleration = bool(node.out) and node.ready and node.schedulable
    return lacks_only_a_toleration and all(
        any(toleration.tolerates(taint) for toleration in tolerations) for taint in node.out
    )


@dataclass(slots=True)
class Snapshot:
    """A table of nodes and the usage of each node at one moment.

    used: (nodes, table.width) amounts of all unfinished Pods, whether or not they belong to runs.
    members: (nodes,) number of Pods of runs on each node. alone: (nodes,) nodes that one run shares with no other.
    """

    table: NodeTable
    used: Counts
    members: Counts
    alone: Mask

    @classmethod
    def empty(cls, table: NodeTable) -> Snapshot:
        """Return a snapshot on which nothing runs."""
        size = len(table)
        return cls(table, np.zeros((size, table.width), np.int64), np.zeros(size, np.int64), np.zeros(size, bool))

    def copy(self) -> Snapshot:
        """Return an independent snapshot, for a what-if."""
        return Snapshot(self.table, self.used.copy(), self.members.copy(), self.alone.copy())

    def add(self, other: Snapshot) -> None:
        """Add the usage of another snapshot, in place."""
        self.used += other.used
        self.members += other.members
        self.alone |= other.alone

    def raise_to(self, other: Snapshot, rows: npt.NDArray[np.int64]) -> None:
        """Raise the usage of these rows to that of another snapshot if that is more, in place."""
        self.used[rows] = np.maximum(self.used[rows], other.used[rows])
        self.members[rows] = np.maximum(self.members[rows], other.members[rows])
        self.alone[rows] |= other.alone[rows]

    @property
    def free(self) -> Counts:
        """(nodes, table.width) amounts that are left; never negative."""
        free: Counts = np.maximum(self.table.total - self.used, 0)
        return free
