"""Decides whether this node admits a Pod: whether it fits, and whether this node supports everything it asks for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from kajitori.embedded import objects
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.adapter import Isolation
from kajitori.embedded.kubelet.manifest import Manifest, Request
from kajitori.embedded.kubelet.volumes.pod_volumes import SUPPORTED, kind_of
from kajitori.embedded.scheduler import fit


@dataclass(frozen=True)
class Refusal:
    """Why a Pod fails before any of its containers is started, as its status shows it."""

    reason: str
    message: str


def refusal(
    pod: Manifest,
    capacity: Request,
    used: Request,
    pod_count: int,
    max_pods: int,
    node: str,
    labels: Mapping[str, str],
    *,
    runs_images: bool = False,
) -> Refusal | None:
    """Return why the Pod may not run here, or None. Reasons and wording follow Kubernetes' kubelet (`OutOfcpu`,
    `NodeAffinity`)."""
    faults = list(unsupported(pod, runs_images=runs_images))
    if faults:
        what = "container engine's kubelet" if runs_images else "process kubelet runs plain processes and"
        return Refusal("Unsupported", f"the {what} can't give: {'; '.join(faults)}")
    demand = fit.demand_of(msgspec.convert(pod, objects.Pod))
    if not fit.matches_node(demand, node, labels):
        return Refusal(
            "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )
    if pod_count >= max_pods:
        return Refusal(
            "OutOfpods",
            f"Node didn't have enough resource: pods, requested: 1, used: {pod_count}, capacity: {max_pods}",
        )
    asked = pods.pod_request(pod)
    for resource, wanted, taken, total in (
        ("cpu", asked.cpu_millis, used.cpu_millis, capacity.cpu_millis),
        ("memory", asked.memory_bytes, used.memory_bytes, capacity.memory_bytes),
        ("nvidia.com/gpu", asked.gpus, used.gpus, capacity.gpus),
        ("ephemeral-storage", asked.ephemeral_bytes, used.ephemeral_bytes, capacity.ephemeral_bytes),
    ):
        if wanted and taken + wanted > total:
            return Refusal(f"OutOf{resource}", _too_little(resource, wanted, taken, total))
    return None


def isolation_refusal(isolation: Isolation, can_isolate: bool) -> Refusal | None:
    """Return why this node cannot restrict a Pod's network access as it must, or None."""
    if isolation is Isolation.GROUP:
        message = "can't isolate Pods that must still reach each other: only a single one can be without network here"
    elif isolation is Isolation.LOOPBACK and not can_isolate:
        message = (
            "can't isolate Pods on this node, because they use the machine's own network: start the node as root with "
            "--pod-network namespace, or leave out --network none"
        )
    else:
        return None
    return Refusal("Unsupported", f"the process kubelet {message}")


def _too_little(resource: str, requested: int, used: int, capacity: int) -> str:
    return f"Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"


def unsupported(pod: Manifest, *, runs_images: bool = False) -> Iterable[str]:
    """Yield each field of the Pod that this node does not support. Most are unsupported only by plain processes."""
    for volume in pod["spec"].get("volumes") or ():
        if kind_of(volume) not in SUPPORTED:
            yield f"volume {volume['name']!r} of kind {kind_of(volume)} (supported: {', '.join(SUPPORTED)})"
    if pod["spec"].get("resourceClaims"):
        yield "spec.resourceClaims"
    for container in pods.all_containers(pod):
        where = f"container {container['name']!r}"
        if container.get("volumeDevices"):
            yield f"{where}: volumeDevices"
        if not runs_images:
            yield from _unsupported_by_processes(pod, container, where)


def _unsupported_by_processes(pod: Manifest, container: Manifest, where: str) -> Iterable[str]:
    """Yield each field of a container's security context that a plain process cannot have."""
    root = os.geteuid() == 0
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield f"{where}: securityContext.privileged"
    if (context.get("capabilities") or {}).get("add") and not root:
        yield f"{where}: securityContext.capabilities.add (this kubelet is not root)"
    uid, gid = identity(pod, container)
    for field, wanted, own in (("runAsUser", uid, os.geteuid()), ("runAsGroup", gid, os.getegid())):
        if wanted is not None and wanted != own and not root:
            yield f"{where}: {field} {wanted} (this kubelet runs as {own} and is not root)"
    if effective(pod, container, "runAsNonRoot") and (os.geteuid() if uid is None else uid) == 0:
        yield f"{where}: runAsNonRoot, but it would run as root; give runAsUser"


def identity(pod: Manifest, container: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Return the user and group that the container asks for; None means the kubelet's own."""
    uid, gid = effective(pod, container, "runAsUser"), effective(pod, container, "runAsGroup")
    return (int(str(uid)) if uid is not None else None, int(str(gid)) if gid is not None else None)


def supplemental_groups(pod: Manifest) -> list[int]:
    """Return the further groups of the Pod's programs."""
    context = pod["spec"].get("securityContext") or {}
    own = [context["fsGroup"]] if context.get("fsGroup") is not None else []
    return [int(group) for group in (*(context.get("supplementalGroups") or ()), *own)]


def effective(pod: Manifest, container: Mapping[str, object], field: str) -> object:
    """Return a field of the security context: the container's, else the Pod's."""
    own = container.get("securityContext")
    if isinstance(own, Mapping) and own.get(field) is not None:
        return own[field]
    return (pod["spec"].get("securityContext") or {}).get(field)
