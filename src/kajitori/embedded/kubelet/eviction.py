"""Eviction under the machine's memory pressure, by the rules of Kubernetes' kubelet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kajitori.core.formats.quantities import format_memory
from kajitori.embedded.kubelet.settings import EvictionThresholds


@dataclass(frozen=True)
class ContainerUse:
    """A running container's memory use and request."""

    name: str
    usage_bytes: int
    request_bytes: int


@dataclass(frozen=True)
class Candidate:
    """A running Pod and its memory use."""

    uid: str
    containers: tuple[ContainerUse, ...]
    request_bytes: int
    priority: int = 0

    @property
    def usage_bytes(self) -> int:
        return sum(container.usage_bytes for container in self.containers)

    @property
    def above_request_bytes(self) -> int:
        return self.usage_bytes - self.request_bytes


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Order Pods for eviction: those above their request first, then by lower priority, then by the excess over the
    request.

    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#pod-selection-for-kubelet-eviction
    """
    return sorted(candidates, key=lambda pod: (pod.above_request_bytes <= 0, pod.priority, -pod.above_request_bytes))


def message(candidate: Candidate, available_bytes: int, threshold_bytes: int) -> str:
    """Return the message of Kubernetes' kubelet, which names only containers above their request."""
    above = "".join(
        f"Container {container.name} was using {format_memory(container.usage_bytes)}, "
        f"request is {format_memory(container.request_bytes)}, has larger consumption of memory. "
        for container in candidate.containers
        if container.usage_bytes > container.request_bytes
    )
    return (
        f"The node was low on resource: memory. Threshold quantity: {format_memory(threshold_bytes)}, "
        f"available: {format_memory(available_bytes)}. {above}"
    )


class Pressure:
    """Tracks whether the machine is short of memory: at once when it is, and for a while afterwards."""

    def __init__(self, thresholds: EvictionThresholds) -> None:
        self._thresholds = thresholds
        self._last_seen: float | None = None

    def observe(self, available_bytes: int, now: float) -> bool:
        """Note the available memory. Return whether a Pod has to be evicted now."""
        if available_bytes < self._thresholds.memory_available_bytes:
            self._last_seen = now
            return True
        return False

    def holds(self, now: float) -> bool:
        """Return whether memory was short within `pressure_seconds` before `now`, on the clock that `observe` was
        called with."""
        return self._last_seen is not None and now - self._last_seen < self._thresholds.pressure_seconds


def available_memory_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return MemAvailable: the memory that programs can still get without swapping."""
    for line in meminfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise ValueError(f"{meminfo} names no MemAvailable")
