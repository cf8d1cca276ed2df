"""GPUs of Pods as the kubelet assigned them, read from its pod-resources API.

The kubelet knows devices that no variable of a container shows: those of device plugins by their identifiers, and those
of dynamic resource allocation. Numbers of fields: k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kajitori.agent.telemetry.gpus.grpc_call import call
from kajitori.core.backoff import backoff_seconds
from kajitori.core.telemetry.protobuf import parts, text
from kajitori.errors import Unavailable, Unsupported

log = logging.getLogger(__name__)

SOCKET = Path("var/lib/kubelet/pod-resources/kubelet.sock")
LIST = "/v1.PodResourcesLister/List"
SECONDS = 1.0
"""Longest time for a call. Samples wait for it."""
PAUSE_SECONDS = 15.0
"""Pause after a call that failed. It is doubled with each failure, up to the longest."""
LONGEST_PAUSE_SECONDS = 600.0

_VENDORS = ("nvidia.com/", "amd.com/")
"""Prefixes of the resources that device plugins of GPUs offer. Others, such as rdma/hca, are no GPUs."""
_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f-]+")
_DEVICE = re.compile(r"gpu-\d+(?:-mig-[0-9a-z-]+|-\d+)?$")
"""The end of a CDI name: k8s.gpu.nvidia.com/claim=UID-gpu-0, or k8s.gpu.amd.com/gpu=UID-gpu-1-128."""

Assigned = Mapping[tuple[str, str], tuple[str, ...]]
"""Identifiers of GPUs by namespace and name of the Pod."""


class KubeletDevices:
    """The kubelet of this node. After a call that failed, it is asked again after a pause, which grows."""

    def __init__(self, socket: Path, clock: Callable[[], float] = time.monotonic, seconds: float = SECONDS) -> None:
        self._socket = socket
        self._clock = clock
        self._seconds = seconds
        self._failures = 0
        self._not_before = 0.0

    def assigned(self) -> Assigned | None:
        """Return the GPUs of all Pods; None if the kubelet does not answer now."""
        if self._clock() < self._not_before:
            return None
        try:
            found = parse_list(call(self._socket, LIST, b"", self._seconds))
        except FileNotFoundError:
            self._fail(f"there is no {self._socket}", logging.DEBUG)
            return None
        except (Unavailable, Unsupported, ValueError) as error:
            self._fail(str(error), logging.WARNING)
            return None
        if self._failures:
            log.info("%s answers again", self._socket)
        self._failures = 0
        return found

    def _fail(self, why: str, level: int) -> None:
        if not self._failures:
            log.log(level, "the kubelet does not say which GPUs Pods have; variables and processes do instead: %s", why)
        self._failures += 1
        self._not_before = self._clock() + backoff_seconds(self._failures, PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)


def parse_list(message: bytes) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the GPUs of each Pod in a ListPodResourcesResponse.

    A Pod that is listed twice is left out: its predecessor of the same name may not be gone yet. Raises ValueError if
    this is no such message.
    """
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    twice = set()
    for pod in parts(message, 1):
        key = text(pod, 2), text(pod, 1)
        if key in found:
            twice.add(key)
        gpus = (gpu for container in parts(pod, 3) for gpu in _gpus_of(container))
        found[key] = tuple(dict.fromkeys(gpus))
    return {key: gpus for key, gpus in found.items() if key not in twice}


def _gpus_of(container: bytes) -> Iterator[str]:
    """Yield the GPUs of a ContainerResources."""
    for devices in parts(container, 2):
        resource = text(devices, 1)
        for device in parts(devices, 2):
            gpu = gpu_of_plugin(resource, device.decode(errors="replace"))
            if gpu:
                yield gpu
    for claim in parts(container, 5):
        for device in parts(claim, 4):
            gpu = gpu_of_claim(text(device, 2), text(device, 4), [text(cdi, 1) for cdi in parts(device, 1)])
            if gpu:
                yield gpu


def gpu_of_plugin(resource: str, device: str) -> str:
    """Return the identifier of a device plugin's GPU; empty if the device is no GPU.

    NVIDIA's plugin writes UUIDs of GPUs and of MIG slices, with `::NUMBER` if a GPU is shared. GKE's writes nvidia0,
    nvidia0/gi3 for a slice, and nvidia0/vgpu3 or nvidia0/gi3/vgpu0 if it is shared. AMD's writes bus addresses.
    """
    if not resource.startswith(_VENDORS):
        return ""
    return re.sub(r"(::|/vgpu)\d+$", "", device)


def gpu_of_claim(driver: str, device: str, cdi_names: list[str]) -> str:
    """Return the identifier of a GPU of dynamic resource allocation; empty if the device is no GPU.

    Older kubelets name neither driver nor device, only the device for the container runtime (CDI).
    """
    if driver and driver not in _DRIVERS:
        return ""
    if device:
        return device
    for name in cdi_names:
        vendor, _, rest = name.partition("=")
        if "gpu" in vendor and (match := _UUID.search(rest) or _DEVICE.search(rest)):
            return match[0]
    return ""
