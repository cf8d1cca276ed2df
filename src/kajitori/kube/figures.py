"""How much memory members hold, as kubelets count it.

The metrics API (metrics.k8s.io, where a metrics-server serves it) tells it of all members at once: one request whatever
the number of nodes, and no right but to read it. Else each node's kubelet is asked through the API server's proxy for
what it serves under `/stats/summary`. Both tell the working set of a moment; what a program held between two looks
nobody saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kajitori.core.words import names
from kajitori.core.words.quantities import parse_memory_bytes
from kajitori.errors import Unavailable
from kajitori.kube.client import KubeClient

METRICS_PATH = "/apis/metrics.k8s.io/v1beta1/pods"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """What the program of one member held."""

    namespace: str
    pod: str
    used_bytes: int
    at: str
    """When it was counted: RFC 3339."""
    uid: str = ""
    """Of the Pod, where it is told."""
    peak_bytes: int = 0
    """The most that its kubelet saw, where it is one of ours."""


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _Meta(_Wire):
    name: str
    namespace: str = ""


class _Usage(_Wire):
    memory: str = "0"


class _MeteredContainer(_Wire):
    name: str
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _PodMetrics(_Wire):
    metadata: _Meta
    timestamp: str = ""
    containers: list[_MeteredContainer] = []


class _PodMetricsList(_Wire):
    items: list[_PodMetrics] = []


class _Reference(_Wire):
    name: str
    namespace: str
    uid: str = ""


class _Memory(_Wire):
    time: str = ""
    working_set_bytes: int = 0
    peak_bytes: int = 0
    """Of our own kubelet: the most that it saw."""


class _Container(_Wire):
    name: str
    memory: _Memory | None = None


class _Pod(_Wire):
    pod_ref: _Reference
    containers: list[_Container] = []


class _Summary(_Wire):
    pods: list[_Pod] = []


async def of_all_members(client: KubeClient) -> list[Figure]:
    """What the metrics API says of all members of runs. Raises NotFound where no such API is served."""
    selector = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
    body = await client.request("GET", METRICS_PATH, params={"labelSelector": selector})
    return [
        Figure(pod.metadata.namespace, pod.metadata.name, _bytes(container.usage.memory), pod.timestamp)
        for pod in _read(body, _PodMetricsList).items
        for container in pod.containers
        if container.name == names.MEMBER_CONTAINER
    ]


async def of_node(client: KubeClient, node: str) -> list[Figure]:
    """What the kubelet of a node says of the Pods there. Needs the right to `get` on `nodes/proxy`."""
    path = f"/api/v1/nodes/{node}/proxy/stats/summary"
    body = await client.request("GET", path, params={"only_cpu_and_memory": "true"})
    return [
        Figure(
            pod.pod_ref.namespace,
            pod.pod_ref.name,
            container.memory.working_set_bytes,
            container.memory.time,
            pod.pod_ref.uid,
            container.memory.peak_bytes,
        )
        for pod in _read(body, _Summary).pods
        for container in pod.containers
        if container.name == names.MEMBER_CONTAINER and container.memory is not None
    ]


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"figures that cannot be understood: {error}") from error


def _bytes(quantity: Any) -> int:
    try:
        return parse_memory_bytes(quantity)
    except ValueError:
        return 0
