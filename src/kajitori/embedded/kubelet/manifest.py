"""Functions that read a Pod's manifest: its requests, its containers, its names.

A manifest is the plain JSON object: the kubelet has to understand nearly every field of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kajitori.core.formats.quantities import parse_cpu_millis, parse_memory_bytes
from kajitori.embedded import names

Manifest = dict[str, Any]

FINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Request:
    """Resources that a Pod requests from a node."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    ephemeral_bytes: int = 0

    def __add__(self, other: Request) -> Request:
        return Request(
            self.cpu_millis + other.cpu_millis,
            self.memory_bytes + other.memory_bytes,
            self.gpus + other.gpus,
            self.ephemeral_bytes + other.ephemeral_bytes,
        )

    def __or__(self, other: Request) -> Request:
        """Return the larger amount of both, resource by resource."""
        return Request(
            max(self.cpu_millis, other.cpu_millis),
            max(self.memory_bytes, other.memory_bytes),
            max(self.gpus, other.gpus),
            max(self.ephemeral_bytes, other.ephemeral_bytes),
        )


def uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


def version_number(pod: Mapping[str, Any]) -> int:
    """Return the resource version as a number: versions of one server grow. Return 0 if it is not a number, so no
    version is older than another."""
    version = str(pod["metadata"].get("resourceVersion") or "")
    return int(version) if version.isdigit() else 0


def key(pod: Mapping[str, Any]) -> str:
    """Return `namespace/name`, for messages."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def name_and_namespace(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Return (name, namespace), in the order of a request's arguments."""
    return pod["metadata"]["name"], pod["metadata"].get("namespace", "default")


def init_containers(pod: Mapping[str, Any]) -> list[Manifest]:
    return list(pod["spec"].get("initContainers") or ())


def main_containers(pod: Mapping[str, Any]) -> list[Manifest]:
    return list(pod["spec"].get("containers") or ())


def all_containers(pod: Mapping[str, Any]) -> Iterator[Manifest]:
    yield from init_containers(pod)
    yield from main_containers(pod)


def container(pod: Mapping[str, Any], name: str) -> Manifest | None:
    return next((spec for spec in all_containers(pod) if spec["name"] == name), None)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether an init container keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def restart_policy(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("restartPolicy") or "Always")


def is_being_deleted(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def grace_seconds(pod: Mapping[str, Any]) -> float:
    """Return the seconds between SIGTERM and SIGKILL: those of the deletion, else of the Pod's spec."""
    for value in (pod["metadata"].get("deletionGracePeriodSeconds"), pod["spec"].get("terminationGracePeriodSeconds")):
        if value is not None:
            return float(value)
    return 30.0


def hostname(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def is_final(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in FINAL_PHASES


def container_request(container: Mapping[str, Any]) -> Request:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    asked = limits | (resources.get("requests") or {})
    return _amounts_of(asked)


def container_limit(container: Mapping[str, Any]) -> Request:
    """Return the container's limits; a zero means no limit."""
    return _amounts_of((container.get("resources") or {}).get("limits") or {})


def pod_request(pod: Mapping[str, Any]) -> Request:
    """Return what the scheduler reserves: all containers together or the largest initialization step, plus the
    overhead.

    The formula is Kubernetes' `resourcehelper.PodRequests`: sidecars count with every container that starts after them.
    """
    sidecars = Request()
    largest_step = Request()
    for spec in init_containers(pod):
        if is_sidecar(spec):
            sidecars += container_request(spec)
            largest_step |= sidecars
        else:
            largest_step |= container_request(spec) + sidecars
    together = sidecars
    for spec in main_containers(pod):
        together += container_request(spec)
    overhead = _amounts_of(pod["spec"].get("overhead") or {})
    return (together | largest_step) + overhead


def priority(pod: Mapping[str, Any]) -> int:
    return int(pod["spec"].get("priority") or 0)


def qos_class(pod: Mapping[str, Any]) -> str:
    """Return Guaranteed, Burstable or BestEffort: from the Pod's status, else computed."""
    if stored := (pod.get("status") or {}).get("qosClass"):
        return str(stored)
    requests = [container_request(spec) for spec in all_containers(pod)]
    limits = [container_limit(spec) for spec in all_containers(pod)]
    if not any(request.cpu_millis or request.memory_bytes for request in requests):
        return "BestEffort"
    same = all(
        r.cpu_millis == x.cpu_millis > 0 and r.memory_bytes == x.memory_bytes > 0
        for r, x in zip(requests, limits, strict=True)
    )
    return "Guaranteed" if same else "Burstable"


def _amounts_of(resources: Mapping[str, Any]) -> Request:
    return Request(
        parse_cpu_millis(resources["cpu"]) if "cpu" in resources else 0,
        parse_memory_bytes(resources["memory"]) if "memory" in resources else 0,
        int(resources.get(names.GPU_RESOURCE, 0)),
        parse_memory_bytes(resources["ephemeral-storage"]) if "ephemeral-storage" in resources else 0,
    )
