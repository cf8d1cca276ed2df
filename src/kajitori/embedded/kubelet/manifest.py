"""Reading a Pod's manifest: what it asks for, which containers it has, what it is called.

A Pod is the plain JSON object here: the kubelet has to understand nearly every field of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kajitori.core.words.quantities import parse_cpu_millis, parse_memory_bytes
from kajitori.embedded import names

Manifest = dict[str, Any]

FINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Request:
    """What a Pod asks of a node."""

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
        """The larger of both, resource by resource."""
        return Request(
            max(self.cpu_millis, other.cpu_millis),
            max(self.memory_bytes, other.memory_bytes),
            max(self.gpus, other.gpus),
            max(self.ephemeral_bytes, other.ephemeral_bytes),
        )


def uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


def key(pod: Mapping[str, Any]) -> str:
    """`namespace/name`, for messages."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def name_and_namespace(pod: Mapping[str, Any]) -> tuple[str, str]:
    """In the order in which requests name them."""
    return pod["metadata"]["name"], pod["metadata"].get("namespace", "default")


def init_containers(pod: Mapping[str, Any]) -> list[Manifest]:
    return list(pod["spec"].get("initContainers") or ())


def main_containers(pod: Mapping[str, Any]) -> list[Manifest]:
    return list(pod["spec"].get("containers") or ())


def all_containers(pod: Mapping[str, Any]) -> Iterator[Manifest]:
    yield from init_containers(pod)
    yield from main_containers(pod)


def container(pod: Mapping[str, Any], name: str) -> Manifest | None:
    return next((one for one in all_containers(pod) if one["name"] == name), None)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """An init container that keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def restart_policy(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("restartPolicy") or "Always")


def is_being_deleted(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def grace_seconds(pod: Mapping[str, Any]) -> float:
    """Between SIGTERM and SIGKILL: what the deletion said, else what the Pod asks for."""
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
    return _amounts(asked)


def container_limit(container: Mapping[str, Any]) -> Request:
    """A zero is no limit."""
    return _amounts((container.get("resources") or {}).get("limits") or {})


def pod_request(pod: Mapping[str, Any]) -> Request:
    """What the scheduler reserves: all containers together or the largest step of the initialization, and the overhead.

    Kubernetes' `resourcehelper.PodRequests`: sidecars count with everything that starts after them.
    """
    sidecars = Request()
    largest_step = Request()
    for one in init_containers(pod):
        if is_sidecar(one):
            sidecars += container_request(one)
            largest_step |= sidecars
        else:
            largest_step |= container_request(one) + sidecars
    together = sidecars
    for one in main_containers(pod):
        together += container_request(one)
    overhead = _amounts(pod["spec"].get("overhead") or {})
    return (together | largest_step) + overhead


def priority(pod: Mapping[str, Any]) -> int:
    return int(pod["spec"].get("priority") or 0)


def qos_class(pod: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort: as the API server said, else worked out."""
    said = (pod.get("status") or {}).get("qosClass")
    if said:
        return str(said)
    requests = [container_request(one) for one in all_containers(pod)]
    limits = [container_limit(one) for one in all_containers(pod)]
    if not any(one.cpu_millis or one.memory_bytes for one in requests):
        return "BestEffort"
    same = all(
        r.cpu_millis == x.cpu_millis > 0 and r.memory_bytes == x.memory_bytes > 0
        for r, x in zip(requests, limits, strict=True)
    )
    return "Guaranteed" if same else "Burstable"


def _amounts(resources: Mapping[str, Any]) -> Request:
    return Request(
        parse_cpu_millis(resources["cpu"]) if "cpu" in resources else 0,
        parse_memory_bytes(resources["memory"]) if "memory" in resources else 0,
        int(resources.get(names.GPU_RESOURCE, 0)),
        parse_memory_bytes(resources["ephemeral-storage"]) if "ephemeral-storage" in resources else 0,
    )
