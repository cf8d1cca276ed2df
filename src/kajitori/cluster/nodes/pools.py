"""Node pools that can grow, from the mirror and policy: their nodes, their possible nodes, and nodes kept for runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.occupancy.index import Occupancy
from kajitori.cluster.run_object import RunObject
from kajitori.core.nodes.provisioning import Pool, reserved_nodes
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import GangRequest, MemberRequest
from kajitori.core.placement.snapshot import NodeTable
from kajitori.core.policy.file import Policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.node_request import NodeRequest


class PoolView:
    """The node pools of `ClusterView`, computed anew with each table of nodes."""

    def __init__(self, mirror: Mirror, occupancy: Occupancy, is_test: Callable[[RunObject], bool]) -> None:
        """is_test: whether a run tests a node. No nodes are kept from tests, and tests take none from other runs."""
        self._mirror = mirror
        self._occupancy = occupancy
        self._is_test = is_test
        self._table: NodeTable | None = None
        self._pools: dict[str, Pool] = {}
        self._possible: NodeTable | None = None

    def of(self, table: NodeTable, policy: Policy) -> Mapping[str, Pool]:
        """Return the pools of policy, in its order. Every change of policy makes a new table."""
        if table is not self._table:
            self._table, self._possible = table, None
            self._pools = {name: _pool_of(name, table, policy) for name in policy.node_pools}
        return self._pools

    def possible(self, table: NodeTable, policy: Policy) -> NodeTable:
        """Return all nodes that the cluster has or may get: they limit the size of a run at submission."""
        pools = self.of(table, policy)
        if not pools:
            return table
        if self._possible is None:
            to_come = (
                replace(pool.new_node, name=f"{name}/{number}")
                for name, pool in pools.items()
                for number in range(len(pool.rows), pool.rules.max_nodes)
            )
            self._possible = NodeTable([*table.nodes, *to_come])
        return self._possible

    def requests(self) -> Iterator[tuple[str, NodeRequest]]:
        """Yield the node requests that runs have made and still need, by `namespace/name`."""
        for (namespace, name), run in self._mirror.runs.items():
            request = run.status.node_request if run.status is not None else None
            if request is not None and request.is_live:
                yield f"{namespace}/{name}", request

    def holds(self, table: NodeTable, policy: Policy) -> dict[str, Rows]:
        """Return the nodes that are kept for each run, by `namespace/name`."""
        pools = self.of(table, policy)
        return (
            reserved_nodes(self.requests(), pools, table, _Members(self._mirror, self._occupancy, self._is_test))
            if pools
            else {}
        )

    def barred(self, table: NodeTable, policy: Policy) -> Barred:
        """Return what keeps gangs off nodes that are kept for other runs."""

        def is_test(key: str) -> bool:
            namespace, _, name = key.partition("/")
            run = self._mirror.runs.get((namespace, name))
            return run is not None and self._is_test(run)

        return Barred(self.holds(table, policy), table, is_test)


class _Members:
    """The runs that have members on a node, or are starting members there, by `namespace/name`; without tests."""

    def __init__(self, mirror: Mirror, occupancy: Occupancy, is_test: Callable[[RunObject], bool]) -> None:
        self._mirror = mirror
        self._occupancy = occupancy
        self._is_test = is_test
        self._starting: dict[str, set[str]] | None = None

    def __call__(self, node: str) -> set[str]:
        if self._starting is None:
            self._starting = defaultdict(set)
            for held in self._occupancy.runs():
                starts = held.run.status is not None and held.run.status.phase is Phase.STARTING
                if held.plan is not None and starts and not self._is_test(held.run):
                    for planned in held.plan.nodes.values():
                        self._starting[planned].add(held.key)
        pods = (pod for pod in self._mirror.pods_on_node(node) if not pod.is_finished)
        metas = [run.metadata for run in map(self._mirror.run_of, pods) if run is not None and not self._is_test(run)]
        return {f"{meta.namespace}/{meta.name}" for meta in metas} | self._starting.get(node, set())


class Barred:
    """Keeps gangs off nodes that came for other runs, by changing the request of their members."""

    def __init__(self, kept: Mapping[str, Rows], table: NodeTable, is_test: Callable[[str], bool]) -> None:
        self._is_test = is_test
        self._kept = {key: frozenset(table.nodes[row].name for row in rows.tolist()) for key, rows in kept.items()}
        self._all = frozenset().union(*self._kept.values())
        self._members: dict[int, tuple[MemberRequest, MemberRequest]] = {}

    def __call__(self, request: GangRequest) -> GangRequest:
        """Return the gang, kept off these nodes. Equal member requests stay one object, which the planner relies on."""
        if not self._all or self._is_test(request.key):
            return request
        own = self._kept.get(request.key)
        if own:
            return replace(request, member=replace(request.member, barred=self._all - own))
        known = self._members.get(id(request.member))
        if known is None:
            known = self._members[id(request.member)] = request.member, replace(request.member, barred=self._all)
        return replace(request, member=known[1])


def _pool_of(name: str, table: NodeTable, policy: Policy) -> Pool:
    rules = policy.node_pools[name]
    gpu_type = policy.gpu.type_of(rules.all_labels) if rules.node.gpus else ""
    mask = np.ones(len(table), dtype=bool)
    for key, value in rules.node_selector.items():
        mask &= table.label_mask(key, value)
    rows, new_node = np.flatnonzero(mask), rules.new_node(f"{name}/new", gpu_type, policy.topology)
    like = next((table.nodes[row] for row in rows.tolist() if table.nodes[row].is_by_devices), None)
    if like is not None and new_node.gpus:  # new nodes will offer their GPUs in the same way
        offers = tuple(replace(o, count=new_node.gpus, type=gpu_type) for o in like.gpu_offers if o.is_whole)
        new_node = replace(new_node, gpu_offers=offers)
    return Pool(name, rules, new_node, rows)
