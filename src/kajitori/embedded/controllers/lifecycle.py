"""The node life cycle of the embedded cluster: marks silent nodes, taints nodes, and evicts Pods from them.

It does what kube-controller-manager's node life cycle, taint eviction and Pod garbage collection do, with their
messages. The functions of `embedded.controllers.node_health` decide; this module calls them once a second and writes
the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import partial

from kajitori import errors
from kajitori.core.formats.times import format_time
from kajitori.embedded.controllers import node_health
from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.controllers.informer import Key
from kajitori.embedded.objects import Lease, Node, Pod, Taint, condition
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import LEASES, NODES, PODS

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
QUARANTINE_SECONDS = 40.0
"""Time for which a node must be gone before its Pods are collected."""
INTERVAL_SECONDS = 1.0
LATE_SECONDS = 5.0
"""If a pass is later than this, this process was suspended, and the nodes were not silent."""
CONCURRENT_WRITES = 32

Step = Callable[[], Awaitable[None]]
"""A write that is still to be started, so that cancelling it leaves nothing behind."""


class NodeLifecycle(Controller):
    """Judges nodes by the changes of their signs of life, measured by its own clock.

    late_seconds: returns the time by which signs of life may be late because this process, which sends some of them, is
    busy.
    """

    name = "node-controller"
    interval_seconds = INTERVAL_SECONDS

    def __init__(
        self,
        client: KubeClient,
        cache: Cache | None = None,
        *,
        grace_seconds: float = node_health.GRACE_SECONDS,
        quarantine_seconds: float = QUARANTINE_SECONDS,
        late_seconds: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, cache, clock=clock)
        self._monotonic = monotonic
        self._quarantine_seconds = quarantine_seconds
        self._late_seconds = late_seconds
        self._signs_of_life = node_health.SignsOfLife(grace_seconds)
        self._nodes = self.cache.informer(NODES, Node)
        self._leases = self.cache.informer(LEASES, Lease)
        self._pods = self.cache.informer(PODS, Pod)
        self._pods.listen(self._see_pod)
        self._nodes.listen(self._see_node)
        self._pods_of: defaultdict[str, dict[Key, Pod]] = defaultdict(dict)
        self._tainted: dict[str, Node] = {}
        """Nodes in the state in which their taints were found to be right."""
        self._taint_seen_at: dict[tuple[str, str, str], datetime] = {}
        self._gone_since: dict[str, float] = {}
        self._last_pass_at: float | None = None
        self._limit = asyncio.Semaphore(CONCURRENT_WRITES)

    async def reconcile(self) -> None:
        """Judge all nodes once."""
        now, moment = self._monotonic(), self.clock()
        slept = 0.0 if self._last_pass_at is None else now - self._last_pass_at - INTERVAL_SECONDS
        if slept > LATE_SECONDS:
            self._signs_of_life.extend_grace(slept)
        late_seconds = self._late_seconds()
        self._last_pass_at = now
        nodes = {name: node for (_, name), node in self._nodes.items.items()}
        self._signs_of_life.keep_only(nodes)
        work: list[Step] = []
        for name, node in nodes.items():
            lease = self._leases.items.get((LEASE_NAMESPACE, name))
            if not self._signs_of_life.observe(node, lease, now, late_seconds) and (
                written := node_health.silent_conditions(node, moment)
            ):
                work.append(partial(self._declare_silent, node, written))
            if self._tainted.get(name) is not node:
                work.append(partial(self._update_taints, node, moment))
            if not node_health.is_node_ready(node):
                work += [
                    partial(self._mark_not_ready, pod, moment)
                    for pod in self._pods_on(name)
                    if node_health.is_ready(pod)
                ]
            work += [partial(self._evict, pod, moment) for pod in self._due_pods(node, moment)]
        work += [partial(self._collect, pod, moment) for pod in self._orphaned_pods(nodes, now)]
        await self._run_steps(work)

    async def _declare_silent(self, node: Node, written: list[dict[str, object]]) -> None:
        name = node.metadata.name
        log.warning("node %s does not answer", name)
        await self.client.patch(
            NODES, name, {"status": {"conditions": written}}, kind=PatchKind.STRATEGIC, subresource="status"
        )
        about = About("Node", name, node.metadata.uid)
        self.events.emit(about, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")

    async def _update_taints(self, node: Node, moment: datetime) -> None:
        wanted = node_health.wanted_taints(node, moment)
        if wanted is not None:
            taints = [taint.document() for taint in wanted]
            meta = {"resourceVersion": node.metadata.resource_version}
            await self.client.patch(NODES, node.metadata.name, {"metadata": meta, "spec": {"taints": taints or None}})
        self._tainted[node.metadata.name] = node

    async def _mark_not_ready(self, pod: Pod, moment: datetime) -> None:
        ready = {
            "type": "Ready",
            "status": "False",
            "reason": "NodeNotReady",
            "message": f"node {pod.spec.node_name} does not answer",
            "lastTransitionTime": format_time(moment),
        }
        await self._patch_status(pod, {"conditions": [ready]})

    def _due_pods(self, node: Node, moment: datetime) -> Iterable[Pod]:
        taints = [t for t in node.spec.taints or () if t.effect == "NoExecute"]
        if not taints:
            return

        def seen_at(taint: Taint) -> datetime:
            return self._taint_seen_at.setdefault((node.metadata.name, taint.key, taint.value), moment)

        for pod in self._pods_on(node.metadata.name):
            if not pod.metadata.deletion_timestamp and not pod.is_finished:
                due = node_health.eviction_time(pod, taints, seen_at)
                if due is not None and due <= moment:
                    yield pod

    async def _evict(self, pod: Pod, moment: datetime) -> None:
        namespace, name = pod.key
        if condition(pod.status.conditions, "DisruptionTarget") is None:
            message = "Taint manager: deleting due to NoExecute taint"
            target = node_health.disruption_target("DeletionByTaintManager", message, moment)
            await self._patch_status(pod, {"conditions": [target]})
        await self.client.delete(PODS, name, namespace, uid=pod.metadata.uid)
        self.events.pod(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")

    def _orphaned_pods(self, nodes: dict[str, Node], now: float) -> list[Pod]:
        found = node_health.orphans(self._pods.items.values(), nodes)
        gone = {pod.spec.node_name for pod in found if pod.spec.node_name and pod.spec.node_name not in nodes}
        self._gone_since = {name: self._gone_since.get(name, now) for name in gone}
        return [p for p in found if now - self._gone_since.get(p.spec.node_name, -math.inf) >= self._quarantine_seconds]

    async def _collect(self, pod: Pod, moment: datetime) -> None:
        """Delete a Pod that has no kubelet any more."""
        namespace, name = pod.key
        node_name = pod.spec.node_name
        if node_name and (("", node_name) not in self._nodes.items):
            with contextlib.suppress(errors.NotFound):
                await self.client.get(NODES, node_name)
                return  # the Node was created again, and the watch has not shown it yet
        if node_name and not pod.is_finished:
            target = node_health.disruption_target("DeletionByPodGC", "PodGC: node no longer exists", moment)
            await self._patch_status(pod, {"phase": "Failed", "conditions": [target]})
        await self.client.delete(PODS, name, namespace, grace_seconds=0, uid=pod.metadata.uid)
        log.info("pod %s/%s collected: its node has no kubelet any more", namespace, name)

    async def _patch_status(self, pod: Pod, status: dict[str, object]) -> None:
        namespace, name = pod.key
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self.client.patch(PODS, name, patch, namespace, kind=PatchKind.STRATEGIC, subresource="status")

    async def _run_steps(self, work: Iterable[Step]) -> None:
        """Run all steps, several at a time; the next pass repeats what failed."""

        async def one(step: Step) -> None:
            async with self._limit:
                try:
                    await step()
                except (errors.NotFound, errors.Conflict) as cause:
                    log.debug("overtaken by another change: %s", cause)
                except errors.KajitoriError as cause:
                    log.warning("node life cycle: %s; trying again", cause)

        await asyncio.gather(*(one(step) for step in work))

    def _pods_on(self, name: str) -> Iterable[Pod]:
        return self._pods_of[name].values() if name in self._pods_of else ()

    def _see_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            there = self._pods_of[old.spec.node_name]
            there.pop(key, None)
            if not there:
                del self._pods_of[old.spec.node_name]
        if new is not None:
            self._pods_of[new.spec.node_name][key] = new

    def _see_node(self, key: Key, _old: Node | None, new: Node | None) -> None:
        if new is None:
            self._tainted.pop(key[1], None)
            self._taint_seen_at = {k: v for k, v in self._taint_seen_at.items() if k[0] != key[1]}
        elif node_health.wanted_taints(new, self.clock()) is not None:
            self.changed()  # a node that became ready or was cordoned does not wait for the next pass
