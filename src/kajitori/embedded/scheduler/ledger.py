"""The scheduler's state: free resources of each node, waiting Pods, and Pods that are placed but not confirmed yet.

Level-triggered and without a clock: the binder passes in the newest Node or Pod, and asks for decisions.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field

from kajitori.embedded.objects import Node, Pod
from kajitori.embedded.scheduler.fit import Choice, Demand, NodeState, Term, choose_node, demand_of

SCHEDULER_NAME = "default-scheduler"

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Storage:
    """The effect of a Pod's claims on its placement.

    waits_for: why the Pod can't be placed yet, in kube-scheduler's words; empty if it can. to_select: names of claims
    that wait for the choice of a node. volumes: node affinity of the bound volumes.
    """

    waits_for: str = ""
    to_select: tuple[str, ...] = ()
    volumes: tuple[tuple[Term, ...], ...] = ()
    """Includes the nodes that have the devices of the Pod."""
    is_early: bool = False
    """Whether it is too early to decide, so that the Pod gets no message."""
    by_devices: frozenset[str] = frozenset()
    """Extended resources that devices stand for: no node has to have them."""


NO_STORAGE = Storage()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for one Pod: a node to bind it to, a node to write to its claims first, or why there is none."""

    pod: Pod
    choice: Choice
    to_select: tuple[str, ...] = ()


@dataclass(slots=True)
class Placed:
    """A Pod that uses a node's resources. It is `assumed` until the API server shows it on the node."""

    uid: str
    node: str
    demand: Demand
    assumed: bool = False


@dataclass(slots=True)
class Ledger:
    """Nodes, waiting Pods and placed Pods of one cluster."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    waiting: dict[Key, Pod] = field(default_factory=dict)
    placed: dict[Key, Placed] = field(default_factory=dict)
    generation: int = 0
    """Grows with every change that may help a Pod that did not fit."""
    _on_node: dict[str, dict[Key, Placed]] = field(default_factory=dict)
    _order: list[str] = field(default_factory=list)
    _real: dict[str, NodeState] = field(default_factory=dict)
    """The nodes that are not simulated."""
    _offset: int = 0
    _decided_at: dict[Key, int] = field(default_factory=dict)
    _refused: dict[Demand, Choice] = field(default_factory=dict)
    _refused_at: int = -1

    def see_node(self, name: str, node: Node | None) -> None:
        """Take the newest state of a node; None if it was deleted."""
        old = self.nodes.get(name)
        if node is None:
            self._real.pop(name, None)
            if self.nodes.pop(name, None) is not None:
                self._order.remove(name)
                self.note_change()
            return
        new = NodeState.of(node)
        if old is not None and _is_same_node(old, new):
            return
        for placed in self._on_node.get(name, {}).values():
            new.take(placed.demand)
        self.nodes[name] = new
        self._real.pop(name, None)
        if not new.simulated:
            self._real[name] = new
        if old is None:
            insort(self._order, name)
        self.note_change()

    def see_pod(self, key: Key, pod: Pod | None) -> None:
        """Take the newest state of a Pod; None if it was deleted."""
        if pod is None or pod.is_finished:
            self._forget(key)
        elif pod.spec.node_name:
            self.waiting.pop(key, None)
            self._decided_at.pop(key, None)
            before = self.placed.get(key)
            if before is None or (before.uid, before.node) != (pod.metadata.uid, pod.spec.node_name):
                self._remove(key)
                self._put(key, Placed(pod.metadata.uid, pod.spec.node_name, demand_of(pod)))
            else:
                before.assumed = False
        elif bool(pod.metadata.deletion_timestamp) or not _is_ours(pod):
            self._forget(key)
        else:
            former, placed = self.waiting.get(key), self.placed.get(key)
            if placed is not None and placed.uid != pod.metadata.uid:
                self._forget(key)
            elif former is not None and former.spec != pod.spec:
                self._decided_at.pop(key, None)
            self.waiting[key] = pod

    def note_change(self) -> None:
        """Record a change that may help a Pod that did not fit."""
        self.generation += 1

    def decide(self, storage_of: Callable[[Pod], Storage], limit: int = 256) -> list[Decision]:
        """Decide on up to `limit` waiting Pods that have no decision in this state yet: highest priority first, then
        oldest.

        A Pod that gets a node counts there from now on, until `undo` is called or a newer version of the Pod is seen.
        """
        if self._refused_at != self.generation:
            self._refused, self._refused_at = {}, self.generation
        due = [
            (key, pod)
            for key, pod in self.waiting.items()
            if key not in self.placed and self._decided_at.get(key) != self.generation
        ]
        due.sort(key=lambda entry: _queue_order(entry[1]))
        return [self._decide(key, pod, storage_of(pod)) for key, pod in due[:limit]]

    def undo(self, pod: Pod) -> None:
        """Take back a decision that could not be carried out, and decide on the Pod again."""
        placed = self.placed.get(pod.key)
        if placed is not None and placed.assumed and placed.uid == pod.metadata.uid:
            self._remove(pod.key)
        self._decided_at.pop(pod.key, None)

    def _decide(self, key: Key, pod: Pod, storage: Storage) -> Decision:
        self._decided_at[key] = self.generation
        if storage.is_early:
            return Decision(pod, Choice())
        if storage.waits_for:
            return Decision(pod, Choice(message=f"0/{len(self.nodes)} nodes are available: {storage.waits_for}."))
        demand = demand_of(pod, storage.volumes, storage.by_devices)
        refused = self._refused.get(demand)
        if refused is not None:
            return Decision(pod, refused)
        self._offset += 1
        choice = self._choose(demand)
        if not choice.node:
            self._refused[demand] = choice
        elif not storage.to_select:
            self._put(key, Placed(pod.metadata.uid, choice.node, demand, assumed=True))
        return Decision(pod, choice, storage.to_select)

    def _choose(self, demand: Demand) -> Choice:
        """Choose a node. A Pod that asks for no device gets a node that runs containers, if one has room, and not a
        simulated one."""
        if self._real and len(self._real) < len(self.nodes) and demand.prefers_real_nodes:
            choice = choose_node(demand, self._real)
            if choice.node:
                return choice
        return choose_node(demand, self.nodes, self._order, self._offset)

    def _put(self, key: Key, placed: Placed) -> None:
        self.placed[key] = placed
        self._on_node.setdefault(placed.node, {})[key] = placed
        if placed.node in self.nodes:
            self.nodes[placed.node].take(placed.demand)

    def _remove(self, key: Key) -> None:
        placed = self.placed.pop(key, None)
        if placed is None:
            return
        there = self._on_node[placed.node]
        del there[key]
        if not there:
            del self._on_node[placed.node]
        if placed.node in self.nodes:
            self.nodes[placed.node].release(placed.demand)
        self.note_change()

    def _forget(self, key: Key) -> None:
        self.waiting.pop(key, None)
        self._decided_at.pop(key, None)
        self._remove(key)


def _is_ours(pod: Pod) -> bool:
    return pod.spec.scheduler_name in ("", SCHEDULER_NAME) and not pod.spec.scheduling_gates


def _queue_order(pod: Pod) -> tuple[int, str, str, str]:
    meta = pod.metadata
    return -(pod.spec.priority or 0), meta.creation_timestamp or "", meta.namespace, meta.name


def _is_same_node(old: NodeState, new: NodeState) -> bool:
    return (
        old.labels == new.labels
        and old.taints == new.taints
        and old.unschedulable == new.unschedulable
        and old.allocatable == new.allocatable
        and old.max_pods == new.max_pods
    )
