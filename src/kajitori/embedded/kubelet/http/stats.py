"""Resource usage of Pods: memory now and at its peak for eviction and `/stats/summary`, processor time for
`/metrics/resource`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from kajitori.core.formats.times import format_time
from kajitori.embedded.kubelet.eviction import ContainerUse
from kajitori.embedded.kubelet.manifest import container_request
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.pods.worker import PodWorker
from kajitori.embedded.kubelet.shim import tree


def container_usage_bytes(slot: Slot) -> int:
    """Return the memory of the container's processes: from its control group, else the sum of their proportional
    shares."""
    if slot.container is None or not slot.running:
        return 0
    group = slot.container.memory_cgroup()
    return group.usage_bytes() if group is not None else tree.memory_bytes(slot.container.pids())


def container_cpu_seconds(slot: Slot) -> float:
    """Return the processor time of the container since its start, in seconds."""
    return slot.container.cpu_seconds() if slot.container is not None and slot.running else 0.0


class Statistics:
    """Keeps the memory peaks of containers for which the kernel keeps none."""

    def __init__(self) -> None:
        self._peaks: dict[tuple[str, str], int] = {}

    def container_uses(self, worker: PodWorker) -> tuple[ContainerUse, ...]:
        """Return each container's usage. Blocks while the kernel counts pages."""
        uses = []
        for slot in worker.slots.values():
            used = container_usage_bytes(slot)
            key = (worker.uid, slot.name)
            self._peaks[key] = max(self._peaks.get(key, 0), used)
            uses.append(ContainerUse(slot.name, used, container_request(slot.spec).memory_bytes))
        return tuple(uses)

    def peak_bytes(self, worker: PodWorker, slot: Slot) -> int:
        """Return the container's largest usage seen so far; it is exact once the container has ended."""
        ended = slot.state.peak_bytes if slot.state else 0
        return max(ended, self._peaks.get((worker.uid, slot.name), 0))

    def forget(self, uid: str) -> None:
        self._peaks = {key: peak for key, peak in self._peaks.items() if key[0] != uid}

    def summary(self, node_name: str, workers: Iterable[PodWorker], node_bytes: int, available: int) -> dict[str, Any]:
        """Return the `/stats/summary` document, as far as this kubelet knows it; `peakBytes` is not in Kubernetes'
        document."""
        now = format_time(datetime.now(UTC))
        shown = []
        for worker in workers:
            if not worker.active:
                continue
            uses = self.container_uses(worker)
            metadata = worker.pod["metadata"]
            shown.append(
                {
                    "podRef": {
                        "name": metadata["name"],
                        "namespace": metadata.get("namespace", "default"),
                        "uid": worker.uid,
                    },
                    "memory": {"time": now, "workingSetBytes": sum(use.usage_bytes for use in uses)},
                    "containers": [
                        {
                            "name": use.name,
                            "memory": {
                                "time": now,
                                "workingSetBytes": use.usage_bytes,
                                "peakBytes": self.peak_bytes(worker, worker.slots[use.name]),
                            },
                        }
                        for use in uses
                    ],
                }
            )
        memory = {"time": now, "availableBytes": available, "workingSetBytes": max(0, node_bytes - available)}
        return {"node": {"nodeName": node_name, "memory": memory}, "pods": shown}
