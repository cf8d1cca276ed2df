"""Gives each node its range of Pod addresses, as kube-controller-manager does with `--allocate-node-cidrs`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Network

from kajitori import errors
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.controllers.informer import Key
from kajitori.embedded.controllers.node_ranges import NodeRanges
from kajitori.embedded.objects import Node, Pod
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About
from kajitori.kube.resources import NODES, PODS

log = logging.getLogger(__name__)


@dataclass
class _Given:
    """A range that was written, or whose write may have succeeded, and that the watch has not shown yet."""

    uid: str
    range: IPv4Network
    written: bool = False


class NodeIpam(Controller):
    """Gives each Node that has no range one of the cluster's ranges, and never takes one away.

    All state is in the Nodes: a given range is in the Node's spec. It is free again once the Node is deleted and no Pod
    with an address of it is left.
    """

    name = "node-ipam-controller"

    def __init__(
        self,
        client: KubeClient,
        cluster: IPv4Network,
        node_prefix: int,
        cache: Cache | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(client, cache, clock=clock)
        self._ranges = NodeRanges(cluster, node_prefix)
        self._given: dict[str, _Given] = {}
        self._without: set[str] = set()
        """UIDs of nodes for which no range was left."""
        self._nodes = self.cache.informer(NODES, Node)
        self._pods = self.cache.informer(PODS, Pod)
        self._nodes.listen(self._see_node)
        self._pods.listen(self._see_pod)

    async def reconcile(self) -> None:
        """Give a range to each node that has none."""
        waiting = [node for node in self._nodes.items.values() if not node.spec.pod_cidrs]
        fresh = [node for node in waiting if node.metadata.name not in self._given]
        if fresh:
            pods = (pod for pod in self._pods.items.values() if not (pod.is_finished or pod.spec.host_network))
            in_use = self._ranges.in_use((pod.spec.node_name, pod.status.pod_ip) for pod in pods)
            for node in sorted(fresh, key=lambda node: (node.metadata.creation_timestamp or "", node.metadata.name)):
                given = self._ranges.give(node.metadata.name, in_use)
                if given is None:
                    self._report_exhausted(node)
                else:
                    self._given[node.metadata.name] = _Given(node.metadata.uid, given)
        self._without &= {node.metadata.uid for node in waiting}
        failed: errors.KajitoriError | None = None
        for name, pending in list(self._given.items()):
            try:
                if not pending.written:
                    await self._write(name, pending)
            except errors.KajitoriError as cause:
                # The write may have succeeded nevertheless, so the range stays this node's and is written again.
                failed = cause
        if failed is not None:
            raise failed

    async def _write(self, name: str, given: _Given) -> None:
        cidr = str(given.range)
        try:
            patch = {"metadata": {"uid": given.uid}, "spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}
            await self.client.patch(NODES, name, patch)
            given.written = True
        except errors.InvalidInput as cause:  # another program gave it one, which can't be changed
            log.warning("node %s does not take %s: %s", name, cidr, cause)
            self._withdraw_range(name)

    def _withdraw_range(self, name: str) -> None:
        self._given.pop(name, None)
        self._ranges.forget(name)

    def _see_node(self, key: Key, old: Node | None, new: Node | None) -> None:
        name = key[1]
        if new is None:
            self._withdraw_range(name)
            self.changed()
        elif new.spec.pod_cidrs:
            self._given.pop(name, None)
            if old is None or old.spec.pod_cidrs != new.spec.pod_cidrs:
                self._ranges.record(name, new.spec.pod_cidrs)
                self._report_overlaps(new)
        elif (given := self._given.get(name)) is None or given.uid != new.metadata.uid:
            self._withdraw_range(name)
            self.changed()

    def _see_pod(self, _key: Key, _old: Pod | None, new: Pod | None) -> None:
        if self._without and (new is None or new.is_finished):
            self.changed()

    def _report_exhausted(self, node: Node) -> None:
        if node.metadata.uid in self._without:
            return
        self._without.add(node.metadata.uid)
        ranges = self._ranges
        message = (
            f"no range of Pod addresses is left: all {ranges.count} of /{ranges.node_prefix} in {ranges.cluster} are "
            "in use; delete Nodes that are gone for good, or start `kaji up` with another --cluster-cidr"
        )
        self._say(node, "CIDRNotAvailable", message)

    def _report_overlaps(self, node: Node) -> None:
        others = sorted(self._ranges.sharing(node.metadata.name))
        if others:
            has = ", ".join(node.spec.pod_cidrs or ())
            message = (
                f"its Pod range ({has}) overlaps that of {', '.join(others)}: delete one of these Nodes, and "
                "start it again without --pod-cidr, or with another"
            )
            self._say(node, "CIDRInUse", message)

    def _say(self, node: Node, reason: str, message: str) -> None:
        log.warning("node %s: %s", node.metadata.name, message)
        self.events.emit(About("Node", node.metadata.name, node.metadata.uid), "Warning", reason, message)
