"""This machine as a Node: registered, kept alive by a lease, its status written when it changes and now and then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kajitori import __version__
from kajitori.core.words.quantities import format_cpu, format_memory
from kajitori.core.words.times import format_time
from kajitori.embedded import names
from kajitori.embedded.kubelet.machine.detection import resolves_to_here
from kajitori.embedded.kubelet.network.pod_networks import overlap
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.errors import AlreadyExists, Conflict, Forbidden, InvalidInput, KajitoriError, NotFound
from kajitori.kube import resources

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
PRESSURE_TAINT = "node.kubernetes.io/memory-pressure"
DECLARED_FEATURES = ("ExtendWebSocketsToKubelet",)
"""kube-apiserver 1.36 and later then passes exec on as WebSocket (KEP-4006) instead of SPDY."""


class NodeStatus:
    """Registers the Node and reports on it. `pressure`, `port` and `fingerprint` are set by those who know."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._name = context.settings.node_name
        self.port = 0
        self.fingerprint = ""
        """Of the certificate that the kubelet's own server shows, if nobody else signed it."""
        self.pressure = False
        self._changed = asyncio.Event()
        self._transitions: dict[str, tuple[str, str]] = {}
        self._uid = ""
        self.pod_cidrs: tuple[str, ...] = ()
        """The ranges of Pod addresses that the Node has, as the API server said last."""
        self.ranges_changed = asyncio.Event()

    def changed(self) -> None:
        """Something that stands in the status is different now."""
        self._changed.set()

    async def register(self) -> None:
        """Creates or adopts the Node, and reports on it. Raises KajitoriError where the API server refuses."""
        await self.create()
        await self.report()

    async def create(self) -> None:
        """Creates the Node, or adopts one of this name: its foreign labels, annotations and taints stay, and its ranges
        of Pod addresses.

        Raises KajitoriError where the API server refuses; InvalidInput where another node has the settings' range.
        """
        context, cluster = self._context, self._context.cluster
        labels = self.labels()
        spec: dict[str, Any] = {"taints": [dict(taint) for taint in context.settings.taints]}
        annotations = {names.ANNOTATION_SERVING_CERTIFICATE: self.fingerprint} if self.fingerprint else {}
        meta = {"name": self._name, "labels": labels, "annotations": annotations}
        own: dict[str, Any] = {
            "labels": labels,
            "annotations": annotations or {names.ANNOTATION_SERVING_CERTIFICATE: None},
        }
        try:
            found = await cluster.patch(resources.NODES, self._name, {"metadata": own})
        except NotFound:
            spec |= await self._own_range()
            node = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec}
            try:
                found = await cluster.create(resources.NODES, node)
            except AlreadyExists:
                found = await cluster.patch(resources.NODES, self._name, {"metadata": own})
        if not _pod_cidrs(found) and (own_range := await self._own_range()):
            try:
                found = await cluster.patch(resources.NODES, self._name, {"spec": own_range})
            except InvalidInput:  # the cluster gives ranges, and was quicker
                found = await cluster.get(resources.NODES, self._name)
                if not _pod_cidrs(found):
                    raise
        self._adopt(found)
        wanted = context.settings.pod_cidr
        if wanted and wanted not in self.pod_cidrs:
            said = "Node %s has %s for its Pods, which can't be changed: --pod-cidr %s is for a Node that has none"
            log.warning(said, self._name, ", ".join(self.pod_cidrs), wanted)

    async def _own_range(self) -> dict[str, Any]:
        """What stands in the spec of a Node that brings its own range; nobody else may have it."""
        own = self._context.settings.pod_cidr
        if not own:
            return {}
        try:
            nodes = await self._context.cluster.list_all(resources.NODES)
        except Forbidden:
            log.warning("this node may not see others: whether one has %s for its Pods, too, nobody looked", own)
            nodes = []
        for node in nodes:
            name = node["metadata"]["name"]
            if name != self._name and any(overlap(own, other) for other in _pod_cidrs(node)):
                has = ", ".join(_pod_cidrs(node))
                hint = "give each node a range of its own, or leave --pod-cidr out where the cluster gives them ranges"
                raise InvalidInput.one("--pod-cidr", f"node {name} has {has} for its Pods", value=own, hint=hint)
        return {"podCIDR": own, "podCIDRs": [own]}

    async def look(self) -> None:
        """What the API server has of this Node. Raises KajitoriError."""
        self._adopt(await self._context.cluster.get(resources.NODES, self._name))

    async def run(self) -> None:
        """Keeps the status up to date, for ever; outlives an API server that is away."""
        settings = self._context.settings
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(settings.status_interval_seconds):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await self.report()
            except NotFound:
                await self._register_again()
            except KajitoriError:
                await asyncio.sleep(1.0)
                self._changed.set()

    async def run_lease(self) -> None:
        """Renews the lease, for ever: how a cluster tells that this node lives."""
        while True:
            with contextlib.suppress(KajitoriError):
                await self.renew()
            await asyncio.sleep(self._context.settings.lease_interval_seconds)

    async def renew(self) -> None:
        """One renewal; makes the lease where there is none."""
        cluster = self._context.cluster
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": int(self._context.settings.lease_seconds),
            "renewTime": now,
        }
        try:
            await cluster.patch(resources.LEASES, self._name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            self.changed()  # the Node may be gone, too, where an API server was given a backup's data
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
                "spec": spec,
            }
            try:
                await cluster.create(resources.LEASES, lease, LEASE_NAMESPACE)
            except NotFound:
                await self._make_lease_namespace()
                await cluster.create(resources.LEASES, lease, LEASE_NAMESPACE)

    async def report(self, *, ready: bool = True) -> None:
        """Writes the status, and the taints that follow from it. Raises KajitoriError."""
        status = self.status(ready=ready)
        patch = {"status": status}
        answer = await self._context.cluster.patch(resources.NODES, self._name, patch, subresource="status")
        self._adopt(answer)
        if self._context.settings.manage_own_taints:
            await self._set_taints(answer, ready and not self._context.network.waiting)

    def labels(self) -> dict[str, str]:
        machine = self._context.machine
        labels = {
            "kubernetes.io/hostname": self._name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": machine.architecture,
        }
        if products := [gpu.product for gpu in machine.gpus if gpu.product]:
            labels[GPU_PRODUCT_LABEL] = products[0]
        return labels | dict(self._context.settings.labels)

    def status(self, *, ready: bool = True) -> dict[str, Any]:
        """The status as it is now. Conditions keep their transition time while they stay the same."""
        context, machine = self._context, self._context.machine
        capacity = context.capacity
        amounts = {
            "cpu": format_cpu(capacity.cpu_millis),
            "memory": format_memory(capacity.memory_bytes),
            "ephemeral-storage": format_memory(capacity.ephemeral_bytes),
            "pods": str(context.settings.max_pods),
        }
        if capacity.gpus:
            amounts[names.GPU_RESOURCE] = str(capacity.gpus)
        addresses = [{"type": "InternalIP", "address": context.address}]
        if resolves_to_here(self._name, context.address):
            # kube-apiserver prefers the host name: it must not be led to a name that nobody knows.
            addresses.append({"type": "Hostname", "address": self._name})
        conditions = [
            self._condition(
                "MemoryPressure", self.pressure, "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory"
            ),
            self._condition("DiskPressure", False, "KubeletHasDiskPressure", "KubeletHasNoDiskPressure"),
            self._condition("PIDPressure", False, "KubeletHasInsufficientPID", "KubeletHasSufficientPID"),
            self._ready(ready),
        ]
        return {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": addresses,
            "conditions": conditions,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            "declaredFeatures": list(DECLARED_FEATURES),
            "nodeInfo": {
                "machineID": machine.machine_id,
                "systemUUID": machine.machine_id,
                "bootID": machine.boot_id,
                "kernelVersion": machine.kernel,
                "osImage": machine.os_image,
                "containerRuntimeVersion": f"process://{__version__}",
                "kubeletVersion": f"v1.36.0-kajitori.{__version__}",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": machine.architecture,
            },
        }

    def _ready(self, ready: bool) -> dict[str, str]:
        waiting = self._context.network.waiting
        condition = self._condition("Ready", ready and not waiting, "KubeletReady", "KubeletNotReady")
        if condition["status"] == "True":
            said = "the process kubelet is posting ready status"
        else:
            said = f"container runtime network not ready: {waiting}" if waiting else ""
        return condition | {"message": said}

    def _condition(self, kind: str, holds: bool, yes: str, no: str) -> dict[str, str]:
        now = format_time(datetime.now(UTC))
        status = "True" if holds else "False"
        if self._transitions.get(kind, ("", ""))[0] != status:
            self._transitions[kind] = (status, now)
        return {
            "type": kind,
            "status": status,
            "reason": yes if holds else no,
            "message": "",
            "lastHeartbeatTime": now,
            "lastTransitionTime": self._transitions[kind][1],
        }

    def _adopt(self, node: Mapping[str, Any]) -> None:
        self._uid = str(node["metadata"].get("uid", ""))
        self._context.node_labels = dict(node["metadata"].get("labels") or {})
        if (ranges := _pod_cidrs(node)) != self.pod_cidrs:
            self.pod_cidrs = ranges
            self.ranges_changed.set()
        for one in (node.get("status") or {}).get("conditions") or ():
            self._transitions.setdefault(one["type"], (one["status"], one.get("lastTransitionTime", "")))

    async def _set_taints(self, node: Mapping[str, Any], ready: bool) -> None:
        """`not-ready` and `memory-pressure` follow the conditions. By compare-and-swap: other taints are others'."""
        taints = list((node.get("spec") or {}).get("taints") or ())
        wanted = [taint for taint in taints if taint["key"] not in (NOT_READY_TAINT, PRESSURE_TAINT)]
        if not ready:
            wanted.append({"key": NOT_READY_TAINT, "effect": "NoSchedule"})
        if self.pressure:
            wanted.append({"key": PRESSURE_TAINT, "effect": "NoSchedule"})
        if [(one["key"], one["effect"]) for one in wanted] == [(one["key"], one["effect"]) for one in taints]:
            return
        patch = {
            "metadata": {"resourceVersion": node["metadata"].get("resourceVersion")},
            "spec": {"taints": wanted},
        }
        try:
            await self._context.cluster.patch(resources.NODES, self._name, patch)
        except Conflict:
            self._changed.set()
        except Forbidden:
            pass  # this cluster lets no kubelet touch taints: its node lifecycle controller sees the conditions

    async def _register_again(self) -> None:
        try:
            await self.register()
        except KajitoriError as cause:
            log.warning("Node %s could not be made again, trying on: %s", self._name, cause)
            await asyncio.sleep(1.0)
            self._changed.set()

    async def _make_lease_namespace(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
        with contextlib.suppress(AlreadyExists):
            await self._context.cluster.create(resources.NAMESPACES, namespace)


def _pod_cidrs(node: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple((node.get("spec") or {}).get("podCIDRs") or ())
