"""Checks whether a simulated node has room for a Pod, as a kubelet does again after the scheduler."""

from __future__ import annotations

from collections.abc import Mapping

from kajitori.embedded.names import GPU_RESOURCE
from kajitori.embedded.objects import Pod
from kajitori.embedded.scheduler.fit import Demand, NodeState, amount, demand_of, matches_node, misfits
from kajitori.embedded.simulator.settings import SimSettings


class NodeUse:
    """The resources that the Pods on each node of the pool use."""

    def __init__(self, settings: SimSettings) -> None:
        self._allocatable = {"cpu": amount("cpu", settings.cpu), "memory": amount("memory", settings.memory)}
        self._allocatable["ephemeral-storage"] = amount("ephemeral-storage", settings.ephemeral_storage)
        self._allocatable[GPU_RESOURCE] = settings.gpus
        self._max_pods = settings.max_pods
        self._nodes: dict[str, NodeState] = {}
        self._taken: dict[str, tuple[str, Demand]] = {}

    def take(self, pod: Pod) -> None:
        """Count the Pod on its node, even if there is no room."""
        uid = pod.metadata.uid
        if uid not in self._taken:
            demand = demand_of(pod)
            self._taken[uid] = (pod.spec.node_name, demand)
            self._node_state(pod.spec.node_name).take(demand)

    def release(self, uid: str) -> None:
        """Remove a Pod that has ended or is gone."""
        held = self._taken.pop(uid, None)
        if held is not None:
            self._nodes[held[0]].release(held[1])

    def refusal(self, pod: Pod, labels: Mapping[str, str]) -> tuple[str, str] | None:
        """Return reason and message, in the kubelet's words, why the Pod can't run here; None if it can."""
        if pod.metadata.uid in self._taken:
            return None
        demand = demand_of(pod)
        node = self._node_state(pod.spec.node_name)
        if not matches_node(demand, node.name, labels):
            return (
                "NodeAffinity",
                "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's affinity",
            )
        resources_only = Demand(amounts=demand.amounts, ports=demand.ports)
        for fault in misfits(resources_only, node):
            if fault == "Too many pods":
                return "OutOfpods", f"Pod was rejected: Node didn't have enough capacity: pods ({node.max_pods})"
            if fault.startswith("Insufficient "):
                resource = fault.removeprefix("Insufficient ")
                asked = dict(demand.amounts)[resource]
                used, capacity = node.used.get(resource, 0), node.allocatable.get(resource, 0)
                return f"OutOf{resource}", (
                    f"Pod was rejected: Node didn't have enough resource: {resource}, "
                    f"requested: {asked}, used: {used}, capacity: {capacity}"
                )
            return "NodePorts", "Pod was rejected: Predicate NodePorts failed: a host port is taken"
        return None

    def _node_state(self, name: str) -> NodeState:
        node = self._nodes.get(name)
        if node is None:
            node = NodeState(
                name,
                labels={},
                taints=(),
                unschedulable=False,
                allocatable=self._allocatable,
                max_pods=self._max_pods,
            )
            self._nodes[name] = node
        return node
