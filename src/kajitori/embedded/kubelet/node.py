"""This machine as a Node: its registration, its Lease, and its status, which is written when it changes and at
intervals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kajitori import __version__
from kajitori.core.formats.quantities import format_cpu, format_memory
from kajitori.core.formats.times import format_time, seconds_since
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
"""Features that this kubelet declares. kube-apiserver 1.36 and later then proxies exec as WebSocket (KEP-4006), not as
SPDY."""


class NodeStatus:
    """Registers the Node and reports its status. The kubelet sets `pressure`, `port` and `fingerprint`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._name = context.settings.node_name
        self.port = 0
        self.fingerprint = ""
        """Fingerprint of the kubelet server's certificate; empty if an authority signed it."""
        self.pressure = False
        self._changed = asyncio.Event()
        self._transitions: dict[str, tuple[str, str]] = {}
        self._uid = ""
        self.pod_cidrs: tuple[str, ...] = ()
        """The Pod address ranges of the Node in the API server's last answer."""
        self.ranges_changed = asyncio.Event()

    def changed(self) -> None:
        """Write the status soon, because something in it has changed."""
        self._changed.set()

    async def register(self) -> None:
        """Create or adopt the Node, and report its status. Raises KajitoriError if the API server refuses."""
        await self.create()
        await self.report()

    async def require_alone(self) -> None:
        """Check that no other kubelet serves this Node: two would both run its Pods.

        A Node with another certificate belongs to another kubelet, if that one still renews the lease. Raises
        AlreadyExists.
        """
        settings, cluster = self._context.settings, self._context.cluster
        try:
            node = await cluster.get(resources.NODES, self._name)
            if _fingerprint(node) == self.fingerprint:
                return
            first = await self._renewed_at()
        except (NotFound, Forbidden):  # nothing serves it, or this account may not see it
            return
        patience_seconds = 1.5 * settings.lease_interval_seconds
        age_seconds = seconds_since(first, datetime.now(UTC))
        until = time.monotonic() + patience_seconds
        while age_seconds is not None and age_seconds < patience_seconds and time.monotonic() < until:
            await asyncio.sleep(settings.lease_interval_seconds / 20)
            if await self._renewed_at() != first:
                hint = "choose another name: --name NAME; or stop the other kubelet, which may be that of kaji up"
                raise AlreadyExists(f"another kubelet serves node {self._name} already", hint=hint)

    async def _renewed_at(self) -> str:
        """Return when the lease of this Node was renewed. Raises NotFound if there is no lease."""
        lease = await self._context.cluster.get(resources.LEASES, self._name, LEASE_NAMESPACE)
        return str((lease.get("spec") or {}).get("renewTime") or "")

    async def create(self) -> None:
        """Create the Node, or adopt the existing one and keep its other labels, annotations, taints and Pod address
        ranges.

        Raises KajitoriError if the API server refuses, and InvalidInput if another node has the range of the settings.
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
            except InvalidInput:  # the cluster has given the Node a range meanwhile
                found = await cluster.get(resources.NODES, self._name)
                if not _pod_cidrs(found):
                    raise
        self._adopt(found)
        wanted = context.settings.pod_cidr
        if wanted and wanted not in self.pod_cidrs:
            message = "Node %s has the Pod range %s, which can't be changed: --pod-cidr %s is ignored"
            log.warning(message, self._name, ", ".join(self.pod_cidrs), wanted)

    async def _own_range(self) -> dict[str, Any]:
        """Return the spec fields of a Node that brings its own range. Raises InvalidInput if another node has the
        range."""
        own = self._context.settings.pod_cidr
        if not own:
            return {}
        try:
            nodes = await self._context.cluster.list_all(resources.NODES)
        except Forbidden:
            log.warning("this node may not list nodes: no check whether another node has the range %s as well", own)
            nodes = []
        for node in nodes:
            name = node["metadata"]["name"]
            if name != self._name and any(overlap(own, other) for other in _pod_cidrs(node)):
                has = ", ".join(_pod_cidrs(node))
                hint = "give each node a range of its own, or leave --pod-cidr out where the cluster gives them ranges"
                raise InvalidInput.one("--pod-cidr", f"node {name} has the Pod range {has}", value=own, hint=hint)
        return {"podCIDR": own, "podCIDRs": [own]}

    async def look(self) -> None:
        """Read this Node from the API server. Raises KajitoriError."""
        self._adopt(await self._context.cluster.get(resources.NODES, self._name))

    async def run(self) -> None:
        """Keep the status up to date for ever, even if the API server does not answer for a while."""
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
        """Renew the lease for ever. A cluster knows by it that this node is alive."""
        while True:
            with contextlib.suppress(KajitoriError):
                await self.renew()
            await asyncio.sleep(self._context.settings.lease_interval_seconds)

    async def renew(self) -> None:
        """Renew the lease once, and create it if there is none."""
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
            self.changed()  # An API server that was restored from a backup may have lost the Node as well.
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
        """Write the status, and the taints that follow from it. Raises KajitoriError."""
        status = self.status(ready=ready)
        if ready:
            status["images"] = await self._context.runtime.images()
        patch = {"status": status}
        answer = await self._context.cluster.patch(resources.NODES, self._name, patch, subresource="status")
        self._adopt(answer)
        if self._context.settings.manage_own_taints:
            await self._set_taints(answer, ready=ready and not self._context.network.waiting)

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
        """Return the current status. A condition keeps its transition time while its status stays the same."""
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
            # kube-apiserver prefers the host name, so it is listed only if it resolves.
            addresses.append({"type": "Hostname", "address": self._name})
        conditions = [
            self._condition(
                "MemoryPressure", "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", holds=self.pressure
            ),
            self._condition("DiskPressure", "KubeletHasDiskPressure", "KubeletHasNoDiskPressure", holds=False),
            self._condition("PIDPressure", "KubeletHasInsufficientPID", "KubeletHasSufficientPID", holds=False),
            self._ready_condition(ready),
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
                "containerRuntimeVersion": f"{self._context.runtime.scheme}://{self._context.runtime.version}",
                "kubeletVersion": f"v1.36.0-kajitori.{__version__}",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": machine.architecture,
            },
        }

    def _ready_condition(self, ready: bool) -> dict[str, str]:
        waiting = self._context.network.waiting
        condition = self._condition("Ready", "KubeletReady", "KubeletNotReady", holds=ready and not waiting)
        if condition["status"] == "True":
            message = "the process kubelet is posting ready status"
        else:
            message = f"container runtime network not ready: {waiting}" if waiting else ""
        return condition | {"message": message}

    def _condition(self, kind: str, yes: str, no: str, *, holds: bool) -> dict[str, str]:
        """Return a condition of the Node. Its reason is `yes` if it holds, else `no`."""
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
        for condition in (node.get("status") or {}).get("conditions") or ():
            since = condition.get("lastTransitionTime", "")
            self._transitions.setdefault(condition["type"], (condition["status"], since))

    async def _set_taints(self, node: Mapping[str, Any], *, ready: bool) -> None:
        """Set the `not-ready` and `memory-pressure` taints by the conditions, unless the Node has changed meanwhile."""
        taints = list((node.get("spec") or {}).get("taints") or ())
        wanted = [taint for taint in taints if taint["key"] not in (NOT_READY_TAINT, PRESSURE_TAINT)]
        if not ready:
            wanted.append({"key": NOT_READY_TAINT, "effect": "NoSchedule"})
        if self.pressure:
            wanted.append({"key": PRESSURE_TAINT, "effect": "NoSchedule"})
        if _keys_and_effects(wanted) == _keys_and_effects(taints):
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
            pass  # this cluster allows no kubelet to change taints: its node lifecycle controller does

    async def _register_again(self) -> None:
        try:
            await self.register()
        except KajitoriError as cause:
            log.warning("could not recreate Node %s, trying again: %s", self._name, cause)
            await asyncio.sleep(1.0)
            self._changed.set()

    async def _make_lease_namespace(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
        with contextlib.suppress(AlreadyExists):
            await self._context.cluster.create(resources.NAMESPACES, namespace)


def _keys_and_effects(taints: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in taints]


def _fingerprint(node: Mapping[str, Any]) -> str:
    return (node["metadata"].get("annotations") or {}).get(names.ANNOTATION_SERVING_CERTIFICATE) or ""


def _pod_cidrs(node: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple((node.get("spec") or {}).get("podCIDRs") or ())
