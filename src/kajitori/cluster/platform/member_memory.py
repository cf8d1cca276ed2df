"""Reads how much memory members use, as kubelets count it.

The metrics API (metrics.k8s.io, if a metrics-server serves it) returns all members with one request, whatever the
number of nodes, and needs no other right than to read it. Otherwise each node's kubelet is asked through the API
server's proxy for `/stats/summary`. Both return the working set of a moment and miss what happened between two
readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kajitori.core.formats.quantities import parse_memory_bytes
from kajitori.core.naming import names
from kajitori.errors import Unavailable
from kajitori.kube.client import KubeClient

METRICS_PATH = "/apis/metrics.k8s.io/v1beta1/pods"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The memory use of one member's program."""

    namespace: str
    pod: str
    used_bytes: int
    at: str
    """Time of the reading, in RFC 3339."""
    uid: str = ""
    """UID of the Pod, if known."""
    peak_bytes: int = 0
    """The largest use that the kubelet saw; only Kajitori's own kubelets report it."""


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
    """Only in the answer of Kajitori's own kubelet: the largest use that it saw."""


class _Container(_Wire):
    name: str
    memory: _Memory | None = None


class _Pod(_Wire):
    pod_ref: _Reference
    containers: list[_Container] = []


class _Summary(_Wire):
    pods: list[_Pod] = []


async def read_all_members(client: KubeClient) -> list[MemoryReading]:
    """Return the readings of the metrics API for all members of runs. Raises NotFound if no such API is served."""
    selector = names.MANAGED
    body = await client.request("GET", METRICS_PATH, params={"labelSelector": selector})
    return [
        MemoryReading(pod.metadata.namespace, pod.metadata.name, _parse_bytes(container.usage.memory), pod.timestamp)
        for pod in _decode(body, _PodMetricsList).items
        for container in pod.containers
        if container.name == names.MEMBER_CONTAINER
    ]


async def read_node(client: KubeClient, node: str) -> list[MemoryReading]:
    """Return the readings of a node's kubelet for the Pods there. Needs the right to `get` `nodes/proxy`."""
    path = f"/api/v1/nodes/{node}/proxy/stats/summary"
    body = await client.request("GET", path, params={"only_cpu_and_memory": "true"})
    return [
        MemoryReading(
            pod.pod_ref.namespace,
            pod.pod_ref.name,
            container.memory.working_set_bytes,
            container.memory.time,
            pod.pod_ref.uid,
            container.memory.peak_bytes,
        )
        for pod in _decode(body, _Summary).pods
        for container in pod.containers
        if container.name == names.MEMBER_CONTAINER and container.memory is not None
    ]


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the memory readings can't be decoded: {error}") from error


def _parse_bytes(quantity: Any) -> int:
    try:
        return parse_memory_bytes(quantity)
    except ValueError:
        return 0
