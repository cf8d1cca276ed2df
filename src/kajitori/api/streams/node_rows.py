"""All nodes as rows of tables, and their changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from kajitori.api.rendering.nodes import table_row
from kajitori.api.streams.live_rows import LiveRows, RowChange
from kajitori.api.views.nodes import NodeCounts, NodeKey, NodeState, NodeTableRow
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.view import ClusterView
from kajitori.core.kubernetes.selectors import LabelSelector
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.core.queue.explain import Use
from kajitori.kube.resources import NODES, PODS, Resource


@dataclass(frozen=True, slots=True, eq=False)
class NodeRow:
    """One node as a row: its summary, the summary's JSON, its labels, and the text that is searched."""

    summary: NodeTableRow
    json: bytes
    labels: Mapping[str, str]
    text: str

    @property
    def state(self) -> NodeState:
        return self.summary.state

    @property
    def key_json(self) -> bytes:
        return msgspec.json.encode(NodeKey(name=self.summary.name))

    def looks_like(self, other: NodeRow) -> bool:
        """Whether both are the same to every reader and every filter."""
        return self.json == other.json and self.labels == other.labels

    @property
    def has_room(self) -> bool:
        """Whether a run with GPUs could start here now, or on a node without GPUs any run."""
        row = self.summary
        amounts = [row.gpus, *row.partial_gpus.values()] if row.gpu_type else [row.cpu_millis]
        return row.state is NodeState.READY and any(amount.used < amount.total for amount in amounts)


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes that a list or a stream shows. Empty sets and texts exclude nothing."""

    states: frozenset[NodeState] = frozenset()
    gpu_types: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    room: bool = False
    words: frozenset[str] = frozenset()
    """Each has to occur in the node's name, GPU type, pool, places, holders, owner or reason, in any case."""
    selector_text: str = ""
    selector: LabelSelector = field(default=LabelSelector(), compare=False)

    def covers(self, row: NodeRow) -> bool:
        """Whether a node matches, its state aside."""
        return (
            (not self.gpu_types or row.summary.gpu_type in self.gpu_types)
            and (not self.pools or row.summary.pool in self.pools)
            and (not self.room or row.has_room)
            and all(word in row.text for word in self.words)
            and (not self.selector or self.selector.matches(row.labels))
        )

    def matches(self, row: NodeRow) -> bool:
        """Whether a node matches."""
        return (not self.states or row.state in self.states) and self.covers(row)

    def counts(self, states: Mapping[NodeState, int]) -> NodeCounts:
        """Return the view of the number of covered nodes by state."""
        by_state = {state.value: states[state] for state in NodeState if states.get(state)}
        total = sum(number for state, number in states.items() if not self.states or state in self.states)
        return NodeCounts(total=total, states=by_state)

    @property
    def digest(self) -> str:
        """A short text that differs between filters."""
        conditions = (
            sorted(self.states),
            sorted(self.gpu_types),
            sorted(self.pools),
            self.room,
            sorted(self.words),
            self.selector_text,
        )
        return hashlib.blake2s(repr(conditions).encode(), digest_size=6).hexdigest()


class NodeRows(LiveRows[str, NodeRow]):
    """The rows of all nodes that the mirror holds, and a log of their latest changes.

    A row is made again only if the node or its usage has changed.
    """

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        super().__init__()
        self._mirror = mirror
        self._cluster = cluster
        self._dirty: set[str] = set()
        self._is_stale = True
        self._version_seen = -1
        self._usage_seen = 0
        self._promised: Mapping[str, Sequence[Use]] = {}
        self._pools: dict[str, str] = {}
        self._facts: dict[str, NodeFacts] = {}
        """Facts of the nodes as their rows show them."""
        self._unsubscribe = mirror.on_change(self._note)

    def close(self) -> None:
        """Stop following the mirror."""
        self._unsubscribe()
        super().close()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        self._is_stale = True
        if resource == NODES:
            self._dirty.add(name)
        elif resource == PODS:  # its run may become known later, while the usage stays the same
            pod = self._mirror.pods.get((namespace, name))
            if pod is not None and pod.spec.node_name:
                self._dirty.add(pod.spec.node_name)
        self._schedule()

    def _refresh(self) -> None:
        """Bring the rows up to date with the mirror."""
        cluster = self._cluster
        version = cluster.version
        if not self._is_stale and version == self._version_seen:
            return
        promised, pools = cluster.promised_uses(), self._pools_by_node()
        self._usage_seen, used = self._mirror.usage_changes(self._usage_seen)
        dirty = self._dirty | set(used) | _differing(self._promised, promised) | _differing(self._pools, pools)
        if version != self._version_seen:
            facts = {facts.name: facts for facts in cluster.table().nodes}
            dirty |= {
                name for name in facts.keys() | self._facts.keys() if facts.get(name) is not self._facts.get(name)
            }
            self._facts = facts
        self._dirty, self._promised, self._pools = set(), promised, pools
        self._is_stale, self._version_seen = False, version
        self._record(self._rebuilt(dirty))

    def _rebuilt(self, dirty: Iterable[str]) -> list[RowChange[str, NodeRow]]:
        changes = []
        for name in dirty:
            before, node, facts = self._rows.get(name), self._mirror.nodes.get(name), self._facts.get(name)
            after = None
            if node is not None and facts is not None:
                promised, pool = self._promised.get(name, ()), self._pools.get(name, "")
                row = table_row(self._mirror, self._cluster, facts, node, promised, pool)
                words = (row.name, row.gpu_type, row.pool, row.why, row.owner, row.state, *row.places, *row.holders)
                after = NodeRow(row, msgspec.json.encode(row), node.metadata.labels, "\n".join(words).casefold())
            if after is not None:
                self._rows[name] = after
            else:
                self._rows.pop(name, None)
            alike = before is not None and after is not None and before.looks_like(after)
            if not alike and before is not after:
                changes.append(RowChange(name, before, after))
        return changes

    def _pools_by_node(self) -> dict[str, str]:
        pools = self._cluster.pools
        if not pools:
            return {}
        nodes = self._cluster.table().nodes
        return {nodes[row].name: name for name, pool in pools.items() for row in pool.rows.tolist()}


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """Return the names that have different values."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
