"""The usage of nodes by bound Pods, kept up to date with the mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kajitori.cluster.devices import Devices
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.mirror.usage import NodeUsage, PodUsage
from kajitori.core.placement.snapshot import CPU, GPU, MEMORY, PODS, NodeFacts, NodeTable, Snapshot


class BoundUsage:
    """The usage of every node by bound Pods. Only nodes with changes are read again."""

    def __init__(
        self, mirror: Mirror, table: Callable[[], NodeTable], devices: Devices, gpu_resource: Callable[[], str]
    ) -> None:
        self._mirror = mirror
        self._current_table = table
        self._devices = devices
        self._gpu_resource = gpu_resource
        self._snapshot: Snapshot | None = None
        self._counted_resource = ""
        """The GPU resource that the snapshot counts."""
        self._last_change = 0
        """The last change of the mirror's usage of nodes that is part of the snapshot."""

    def snapshot(self) -> Snapshot:
        """Return the present usage. The caller must copy it before changing it."""
        table, resource, snapshot = self._current_table(), self._gpu_resource(), self._snapshot
        with_other_devices = self._devices.take_used_changed()
        if snapshot is None or not _is_alike(snapshot.table, table) or resource != self._counted_resource:
            snapshot, self._counted_resource = Snapshot.empty(table), resource
            self._last_change, _ = self._mirror.usage_changes(self._last_change)
            nodes: Sequence[str] = [node.name for node in table.nodes]
        else:
            self._last_change, changed = self._mirror.usage_changes(self._last_change)
            nodes = [*changed, *with_other_devices.difference(changed)] if with_other_devices else changed
        snapshot.table = table
        for node in nodes:
            row = table.index.get(node)
            if row is not None:
                self._read_node(snapshot, row, node)
        self._snapshot = snapshot
        return snapshot

    def _read_node(self, snapshot: Snapshot, row: int, node: str) -> None:
        """Write the usage of one node, which has this row, into the snapshot."""
        usage = self._mirror.usage_of(node)
        table, facts = snapshot.table, snapshot.table.nodes[row]
        snapshot.used[row], snapshot.members[row], snapshot.alone[row] = 0, 0, False
        if facts.is_by_devices:  # devices can be in use while no Pod is bound yet
            counts = self._devices.used(node)
            for offer in facts.gpu_offers:
                snapshot.used[row, GPU if offer.is_whole else table.gpu_column(offer.type)] = counts.get(offer.type, 0)
        if usage is None:
            return
        snapshot.used[row, CPU] = usage.cpu_millis
        snapshot.used[row, MEMORY] = usage.memory_bytes
        snapshot.used[row, PODS] = usage.pods
        if not facts.is_by_devices:
            for column, count in requested_gpus(usage, facts, table, self._counted_resource):
                snapshot.used[row, column] = count
        snapshot.members[row] = usage.members
        snapshot.alone[row] = usage.lone_members > 0


def requested_gpus(
    usage: NodeUsage | PodUsage, node: NodeFacts, table: NodeTable, resource: str
) -> Iterator[tuple[int, int]]:
    """Yield the column and the number of the GPUs of each type that Pods request on a node with a device plugin."""
    yield GPU, usage.other(resource)
    for offer in node.gpu_offers:
        if not offer.is_whole:
            yield table.gpu_column(offer.type), sum(usage.other(way) for way in offer.ways)


def _is_alike(one: NodeTable, other: NodeTable) -> bool:
    """Whether usage of one table has the rows and columns of the other."""
    if one is other:
        return True
    return (
        one.index == other.index
        and one.gpu_columns == other.gpu_columns
        and all(a.gpu_offers == b.gpu_offers for a, b in zip(one.nodes, other.nodes, strict=True))
    )
