"""Decides which EndpointSlices a Service should have: a function of the Service, the Pods and the existing slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kajitori.embedded.objects import ContainerPort, Pod, is_true, no_metadata
from kajitori.kube.metadata import ObjectMeta

LABEL_SERVICE = "kubernetes.io/service-name"
LABEL_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGED_BY = "endpointslice-controller.kajitori.dev"
LABEL_HEADLESS = "service.kubernetes.io/headless"
MAX_ENDPOINTS = 100


class ServicePort(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(msgspec.Struct, rename="camel"):
    selector: dict[str, str] | None = None
    ports: list[ServicePort] | None = None
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    type: str = "ClusterIP"
    publish_not_ready_addresses: bool = False


class Service(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class Slice(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    address_type: str = "IPv4"
    endpoints: list[dict[str, Any]] | None = None
    ports: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A slice to create (no `old`), to replace, or to delete (no `body`)."""

    name: str
    old: Slice | None = None
    body: dict[str, Any] | None = None


def changes(service: Service | None, pods: Iterable[Pod], slices: Iterable[Slice]) -> list[Change]:
    """Return the writes that bring the slices of a Service up to date.

    An endpoint stays in its slice, so that one Pod's change rewrites one slice. Services without a selector manage
    their own slices; `service` is None if it was deleted.
    """
    existing = sorted(slices, key=lambda s: s.metadata.name)
    if service is None or not service.spec.selector or service.spec.type == "ExternalName":
        return [Change(s.metadata.name, s) for s in existing]
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    group_ports: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for pod in sorted(pods, key=lambda p: p.metadata.name):
        if not _is_selected(pod, service):
            continue
        family = "IPv6" if ":" in pod.status.pod_ip else "IPv4"
        ports = _endpoint_ports(service, pod)
        group = _port_group(family, ports)
        group_ports[group] = (family, ports)
        groups.setdefault(group, {})[pod.metadata.uid] = _endpoint_of(service, pod)
    if not groups:  # one empty slice shows that there are no endpoints
        first = existing[0] if existing else Slice(ports=_endpoint_ports(service, Pod()))
        group = _port_group(first.address_type, first.ports or [])
        group_ports[group] = (first.address_type, first.ports or [])
        groups[group] = {}

    kept: dict[str, list[Slice]] = {}
    for s in existing:
        kept.setdefault(_port_group(s.address_type, s.ports or []), []).append(s)
    written: list[Change] = []
    taken = {s.metadata.name for s in existing}
    for group, wanted in groups.items():
        family, ports = group_ports[group]
        written += _fill_slices(service, family, ports, wanted, kept.pop(group, []), taken)
    leftovers = [s for group in kept.values() for s in group]
    return written + [Change(s.metadata.name, s) for s in leftovers]


def _fill_slices(
    service: Service,
    family: str,
    ports: list[dict[str, Any]],
    wanted: Mapping[str, dict[str, Any]],
    kept: list[Slice],
    taken: set[str],
) -> list[Change]:
    """Return changes to the slices of one group of ports, so that together they hold the wanted endpoints."""
    missing = dict(wanted)
    contents: list[tuple[Slice, list[dict[str, Any]]]] = []
    for s in kept:
        staying = []
        for endpoint in s.endpoints or ():
            uid = (endpoint.get("targetRef") or {}).get("uid", "")
            if uid in missing:
                staying.append(missing.pop(uid))
        contents.append((s, staying))
    arriving = list(missing.values())
    for _, staying in sorted(contents, key=lambda c: -len(c[1])):
        room = MAX_ENDPOINTS - len(staying)
        staying += arriving[:room]
        arriving = arriving[room:]
    written = []
    for i, (s, staying) in enumerate(contents):
        if not staying and (wanted or i > 0):
            written.append(Change(s.metadata.name, s))
        elif staying != (s.endpoints or []) or not _is_labelled(s, service):
            written.append(Change(s.metadata.name, s, _slice_body(service, s.metadata.name, family, ports, staying)))
    while arriving or (not wanted and not contents):
        name = next(n for i in range(len(taken) + 1) if (n := f"{service.metadata.name}-{i}") not in taken)
        taken.add(name)
        written.append(Change(name, None, _slice_body(service, name, family, ports, arriving[:MAX_ENDPOINTS])))
        arriving = arriving[MAX_ENDPOINTS:]
        if not wanted:
            break
    return written


def _slice_body(
    service: Service, name: str, family: str, ports: list[dict[str, Any]], endpoints: list[dict[str, Any]]
) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": service.metadata.name,
        "uid": service.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": service.metadata.namespace,
            "labels": _slice_labels(service),
            "ownerReferences": [owner],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": ports,
    }


def _slice_labels(service: Service) -> dict[str, str]:
    labels = {LABEL_SERVICE: service.metadata.name, LABEL_MANAGED_BY: MANAGED_BY}
    if service.spec.cluster_ip == "None":
        labels[LABEL_HEADLESS] = ""
    return labels


def _is_labelled(s: Slice, service: Service) -> bool:
    labels = s.metadata.labels or {}
    return all(labels.get(key) == value for key, value in _slice_labels(service).items())


def _is_selected(pod: Pod, service: Service) -> bool:
    labels = pod.metadata.labels or {}
    selector = service.spec.selector or {}
    return (
        bool(pod.status.pod_ip)
        and not pod.is_finished
        and pod.metadata.namespace == service.metadata.namespace
        and all(labels.get(key) == value for key, value in selector.items())
    )


def _endpoint_of(service: Service, pod: Pod) -> dict[str, Any]:
    serving = is_true(pod.status.conditions, "Ready")
    terminating = bool(pod.metadata.deletion_timestamp)
    endpoint: dict[str, Any] = {
        "addresses": [pod.status.pod_ip],
        "conditions": {
            "ready": service.spec.publish_not_ready_addresses or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "nodeName": pod.spec.node_name,
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    }
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        endpoint["hostname"] = pod.spec.hostname
    return endpoint


def _endpoint_ports(service: Service, pod: Pod) -> list[dict[str, Any]]:
    """Return the Service's ports for this Pod: a port that a container names may differ among Pods."""
    ports = []
    for port in service.spec.ports or ():
        number: int | None
        if isinstance(port.target_port, str) and not port.target_port.isdigit():
            number = _named_port(pod, port.target_port, port.protocol)
            if number is None:
                continue
        else:
            number = int(port.target_port or 0) or port.port
        resolved: dict[str, Any] = {"name": port.name, "port": number, "protocol": port.protocol}
        if port.app_protocol:
            resolved["appProtocol"] = port.app_protocol
        ports.append(resolved)
    return ports


def _named_port(pod: Pod, name: str, protocol: str) -> int | None:
    declared: list[ContainerPort] = [p for c in pod.spec.containers for p in c.ports or ()]
    return next((p.container_port for p in declared if p.name == name and p.protocol == protocol), None)


def _port_group(family: str, ports: Iterable[Mapping[str, Any]]) -> str:
    keys = sorted(
        (p.get("name") or "", p.get("port") or 0, p.get("protocol") or "TCP", p.get("appProtocol") or "") for p in ports
    )
    return f"{family} {keys}"
