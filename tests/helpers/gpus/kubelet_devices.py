"""The kubelet's pod-resources API by the official gRPC library, with messages by its published definition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_STRING, _INT64, _UINT64, _MESSAGE = 9, 3, 4, 11
"""Types of fields in descriptor.proto."""
_ONE, _MANY = 1, 3
"""Labels of fields there."""
_MESSAGES: dict[str, list[tuple[str, int, int, int, str]]] = {
    "CDIDevice": [("name", 1, _ONE, _STRING, "")],
    "ClaimResource": [
        ("cdi_devices", 1, _MANY, _MESSAGE, "CDIDevice"),
        ("driver_name", 2, _ONE, _STRING, ""),
        ("pool_name", 3, _ONE, _STRING, ""),
        ("device_name", 4, _ONE, _STRING, ""),
        ("share_id", 5, _ONE, _STRING, ""),
    ],
    "DynamicResource": [
        ("claim_name", 2, _ONE, _STRING, ""),
        ("claim_namespace", 3, _ONE, _STRING, ""),
        ("claim_resources", 4, _MANY, _MESSAGE, "ClaimResource"),
    ],
    "NUMANode": [("ID", 1, _ONE, _INT64, "")],
    "TopologyInfo": [("nodes", 1, _MANY, _MESSAGE, "NUMANode")],
    "ContainerDevices": [
        ("resource_name", 1, _ONE, _STRING, ""),
        ("device_ids", 2, _MANY, _STRING, ""),
        ("topology", 3, _ONE, _MESSAGE, "TopologyInfo"),
    ],
    "ContainerMemory": [
        ("memory_type", 1, _ONE, _STRING, ""),
        ("size", 2, _ONE, _UINT64, ""),
        ("topology", 3, _ONE, _MESSAGE, "TopologyInfo"),
    ],
    "ContainerResources": [
        ("name", 1, _ONE, _STRING, ""),
        ("devices", 2, _MANY, _MESSAGE, "ContainerDevices"),
        ("cpu_ids", 3, _MANY, _INT64, ""),
        ("memory", 4, _MANY, _MESSAGE, "ContainerMemory"),
        ("dynamic_resources", 5, _MANY, _MESSAGE, "DynamicResource"),
    ],
    "PodResources": [
        ("name", 1, _ONE, _STRING, ""),
        ("namespace", 2, _ONE, _STRING, ""),
        ("containers", 3, _MANY, _MESSAGE, "ContainerResources"),
        ("cpu_ids", 4, _MANY, _INT64, ""),
        ("memory", 5, _MANY, _MESSAGE, "ContainerMemory"),
    ],
    "ListPodResourcesResponse": [("pod_resources", 1, _MANY, _MESSAGE, "PodResources")],
}
"""Fields of k8s.io/kubelet/pkg/apis/podresources/v1/api.proto: name, number, label, type, message."""


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="api.proto", package="v1", syntax="proto3")
    for name, fields in _MESSAGES.items():
        made = file.message_type.add(name=name)
        for field, number, label, kind, message in fields:
            added = made.field.add(name=field, number=number, label=label, type=kind)
            if message:
                added.type_name = f".v1.{message}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in _MESSAGES}


CLASSES = _classes()


def answer(*pods: dict[str, Any]) -> bytes:
    """Return a ListPodResourcesResponse with these PodResources."""
    return bytes(CLASSES["ListPodResourcesResponse"](pod_resources=list(pods)).SerializeToString())


def plugin(resource: str, *devices: str) -> dict[str, Any]:
    """Return a container with devices of a device plugin, on NUMA node 1 and with processors of its own."""
    given = {"resource_name": resource, "device_ids": devices, "topology": {"nodes": [{"ID": 1}]}}
    return {
        "name": "main",
        "devices": [given],
        "cpu_ids": [2, 3, 300],
        "memory": [{"memory_type": "m", "size": 1 << 40}],
    }


def claim(driver: str, *devices: str, cdi: str = "") -> dict[str, Any]:
    """Return a container with devices of a claim; with `cdi` alone as older kubelets name them."""
    resources: list[dict[str, Any]] = [
        {
            "driver_name": driver,
            "pool_name": "n1",
            "device_name": device,
            "cdi_devices": [{"name": f"x/claim={device}"}],
        }
        for device in devices
    ]
    resources += [{"cdi_devices": [{"name": cdi}]}] if cdi else []
    claimed = {"claim_name": "gpus-x7", "claim_namespace": "team", "claim_resources": resources}
    return {"name": "main", "dynamic_resources": [claimed]}


def pod(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """Return the PodResources of a Pod of the namespace `team`."""
    return {"name": name, "namespace": "team", "containers": containers}


class Kubelet:
    """The answers of the server. A test changes them."""

    def __init__(self) -> None:
        self.answer: Callable[[], bytes] = answer
        self.calls = 0
        self.service = "v1.PodResourcesLister"
        self.released = threading.Event()

    def hangs(self) -> bytes:
        """Answer nothing until the server ends."""
        self.released.wait(10)
        return b""


@contextmanager
def serving(socket: Path, kubelet: Kubelet) -> Iterator[None]:
    """Serve the API on a socket while the context lasts."""

    def listed(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        kubelet.calls += 1
        return kubelet.answer()

    method = grpc.unary_unary_rpc_method_handler(listed)  # without serializers it takes and returns bytes
    handler = grpc.method_handlers_generic_handler(kubelet.service, {"List": method})
    socket.parent.mkdir(parents=True, exist_ok=True)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        kubelet.released.set()
        server.stop(0).wait()
