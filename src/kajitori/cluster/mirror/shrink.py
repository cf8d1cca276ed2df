"""Makes mirrored objects small: equal values are shared, and unused ones dropped.

A changed object shares all unchanged parts with its previous state, so that a comparison by identity shows what
changed. Interned strings die with their last user, so nothing here grows with the number of objects seen.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import Protocol

from msgspec.structs import force_setattr

from kajitori.cluster.objects import (
    Condition,
    Container,
    ContainerStatus,
    Node,
    Pod,
    PodSpec,
    Probe,
    ResourceRequirements,
)
from kajitori.cluster.run_object import RunObject
from kajitori.core.naming import names
from kajitori.kube.device_objects import Attribute, Capacity, ResourceSlice
from kajitori.kube.metadata import ObjectMeta, OwnerReference


class HasMeta(Protocol):
    """Any object of the API."""

    @property
    def metadata(self) -> ObjectMeta: ...


_POD_CONDITIONS = frozenset({"PodScheduled", "Ready", "DisruptionTarget", names.CONDITION_MEMORY_PEAK})
_WITH_TIMES = frozenset({names.CONDITION_MEMORY_PEAK})
_WITH_TIMES_OF_CHECKED = _WITH_TIMES | {"Ready"}
"""Conditions whose times are kept. The time of readiness is that of health in members of runs with a health check."""
_OURS = f"{names.GROUP}/"
_EMPTY: dict[str, str] = {}
_OWN_ATTRIBUTES = frozenset({"uuid", "parentUUID", "pciBusID", "pciAddr", "index", "minor", "cardIndex", "renderIndex"})
"""Attributes that tell a device from others of its type. A DeviceClass that selects by them matches nothing here."""


def shrink_pod(pod: Pod, old: Pod | None) -> None:
    """Keep only Kajitori's annotations of a Pod, and the conditions that matter for its run."""
    if pod.owner_run_uid:  # the signature would only repeat the owner
        pod.metadata.annotations.pop(names.ANNOTATION_SIGNATURE, None)
    _shrink_meta(pod.metadata, old.metadata if old is not None else None)
    if old is not None and pod.spec == old.spec:
        force_setattr(pod, "spec", old.spec)
    else:
        _shrink_pod_spec(pod.spec)
    status = pod.status
    force_setattr(status, "phase", intern(status.phase))
    force_setattr(status, "host_ip", intern(status.host_ip))
    if len(status.pod_ips) == 1:
        force_setattr(status, "pod_ips", ())  # the same as `pod_ip`
    is_checked = pod.has_readiness_probe and bool(pod.owner_run_uid)
    with_times = _WITH_TIMES_OF_CHECKED if is_checked else _WITH_TIMES
    conditions = [
        c if c.type in with_times else _condition(c.type, c.status, c.reason, c.message)
        for c in status.conditions
        if c.type in _POD_CONDITIONS
    ]
    force_setattr(status, "conditions", tuple(conditions))
    if old is not None and status.container_statuses == old.status.container_statuses:
        force_setattr(status, "container_statuses", old.status.container_statuses)
    else:
        for container in status.container_statuses:
            _shrink_status(container)
    for container in status.init_container_statuses:
        _shrink_status(container)


def shrink_node(node: Node, old: Node | None) -> None:
    """Share a Node's strings with all other nodes."""
    _shrink_meta(node.metadata, old.metadata if old is not None else None)
    status = node.status
    force_setattr(status, "allocatable", _share_quantities(status.allocatable))
    force_setattr(status, "capacity", _share_quantities(status.capacity))
    for condition in status.conditions:
        for name in ("type", "status", "reason", "message"):
            force_setattr(condition, name, intern(getattr(condition, name)))
    for address in status.addresses:
        force_setattr(address, "type", intern(address.type))


def shrink_run(run: RunObject, old: RunObject | None) -> None:
    """Copy a Run's spec, so that it does not keep the whole answer in memory."""
    force_setattr(run, "spec", run.spec.copy())


def shrink_slice(published: ResourceSlice, old: ResourceSlice | None) -> None:
    """Drop the attributes in which all devices differ, and share the others with all devices that have the same."""
    _shrink_meta(published.metadata, old.metadata if old is not None else None)
    for device in published.spec.devices:
        kept = (
            (intern(name), value)
            for name, value in device.attributes.items()
            if name not in _OWN_ATTRIBUTES and "/" not in name
        )
        force_setattr(device, "attributes", _attributes_of(tuple(kept)))
        force_setattr(device, "capacity", _capacity_of(tuple(device.capacity.items())))


def shrink_meta(obj: HasMeta, old: HasMeta | None) -> None:
    """Share the strings of any other object's metadata."""
    _shrink_meta(obj.metadata, old.metadata if old is not None else None)


def _shrink_meta(meta: ObjectMeta, old: ObjectMeta | None) -> None:
    force_setattr(meta, "namespace", intern(meta.namespace))
    annotations = {name: value for name, value in meta.annotations.items() if name.startswith(_OURS)} or _EMPTY
    if old is not None and annotations == old.annotations:
        annotations = old.annotations
    force_setattr(meta, "annotations", annotations)
    if old is not None:
        for name in ("name", "uid", "creation_timestamp"):
            force_setattr(meta, name, getattr(old, name))
        if meta.labels == old.labels:
            force_setattr(meta, "labels", old.labels)
        if meta.owner_references == old.owner_references:
            force_setattr(meta, "owner_references", old.owner_references)
            return
    else:
        force_setattr(meta, "creation_timestamp", intern(meta.creation_timestamp))
    labels = meta.labels
    if labels:
        for label, value in labels.items():
            labels[label] = intern(value)
    else:
        force_setattr(meta, "labels", _EMPTY)
    if meta.owner_references:
        owners = tuple([_owner(o.kind, o.name, o.uid, o.controller) for o in meta.owner_references])
        force_setattr(meta, "owner_references", owners)


def _shrink_pod_spec(spec: PodSpec) -> None:
    force_setattr(spec, "node_name", intern(spec.node_name))
    force_setattr(spec, "scheduler_name", intern(spec.scheduler_name))
    force_setattr(spec, "containers", tuple([_container(c) for c in spec.containers]))
    if spec.init_containers:
        force_setattr(spec, "init_containers", tuple([_container(c) for c in spec.init_containers]))
    if not spec.overhead:
        force_setattr(spec, "overhead", _EMPTY)


def _share_quantities(quantities: dict[str, str]) -> dict[str, str]:
    return _quantities_of(tuple(quantities.items()))


def _container(container: Container) -> Container:
    resources = container.resources
    return _shared_container(
        container.name,
        tuple(resources.requests.items()),
        tuple(resources.limits.items()),
        container.restart_policy,
        container.readiness_probe is not None,
    )


def _shrink_status(status: ContainerStatus) -> None:
    force_setattr(status, "name", intern(status.name))
    state = status.state
    if state.running is not None:
        force_setattr(state.running, "started_at", intern(state.running.started_at))


_Pairs = tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def _attributes_of(pairs: tuple[tuple[str, Attribute], ...]) -> dict[str, Attribute]:
    return dict(pairs)


@lru_cache(maxsize=4096)
def _capacity_of(pairs: tuple[tuple[str, Capacity], ...]) -> dict[str, Capacity]:
    return dict(pairs)


@lru_cache(maxsize=16384)
def _quantities_of(pairs: _Pairs) -> dict[str, str]:
    return dict(pairs)


@lru_cache(maxsize=16384)
def _shared_container(
    name: str, requests: _Pairs, limits: _Pairs, restart_policy: str, has_readiness_probe: bool
) -> Container:
    resources = ResourceRequirements(requests=_quantities_of(requests), limits=_quantities_of(limits))
    probe = Probe() if has_readiness_probe else None
    return Container(name=name, resources=resources, restart_policy=restart_policy, readiness_probe=probe)


@lru_cache(maxsize=4096)
def _condition(type: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=type, status=status, reason=reason, message=message)


@lru_cache(maxsize=16384)
def _owner(kind: str, name: str, uid: str, controller: bool) -> OwnerReference:
    return OwnerReference(kind=kind, name=name, uid=uid, controller=controller)
