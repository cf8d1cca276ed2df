"""`/metrics/resource`: the document that a metrics-server reads from each node, with the metric names of Kubernetes'
kubelet.

A metrics-server leaves out a Pod if one of its containers has used no processor time or no memory yet, and takes the
time of the scrape for a series without a time. So the document has only running containers, each with the time of its
reading.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kajitori.embedded.kubelet.http.stats import container_cpu_seconds, container_usage_bytes
from kajitori.embedded.kubelet.pods.worker import PodWorker

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_CONTAINER_LABELS = ("container", "pod", "namespace")
_POD_LABELS = ("pod", "namespace")


def exposition(workers: Iterable[PodWorker], node_memory_bytes: int) -> bytes:
    """Return the document; `node_memory_bytes` is the machine's memory in use. Blocks while the kernel counts pages."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(list(_metric_families(workers, node_memory_bytes))))
    return generate_latest(registry)


class _Snapshot(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _metric_families(workers: Iterable[PodWorker], node_memory_bytes: int) -> Iterator[Metric]:
    node_cpu = _cpu_counter("node_cpu", "by the node")
    node_cpu.add_metric((), _node_cpu_seconds(), timestamp=time.time())
    node_memory = _memory_gauge("node", "of the node")
    node_memory.add_metric((), node_memory_bytes, timestamp=time.time())
    started = GaugeMetricFamily(
        "container_start_time_seconds",
        "[STABLE] Start time of the container since unix epoch in seconds",
        labels=_CONTAINER_LABELS,
    )
    cpu, memory = (
        _cpu_counter("container_cpu", "by the container", _CONTAINER_LABELS),
        _memory_gauge("container", "of the container", _CONTAINER_LABELS),
    )
    pod_cpu, pod_memory = (
        _cpu_counter("pod_cpu", "by the pod", _POD_LABELS),
        _memory_gauge("pod", "of the pod", _POD_LABELS),
    )
    for worker in workers:
        running = [slot for slot in worker.slots.values() if slot.running and slot.state and slot.state.running]
        if not running:
            continue
        metadata = worker.pod["metadata"]
        pod = (metadata["name"], metadata.get("namespace", "default"))
        cpu_seconds, memory_bytes = 0.0, 0
        for slot in running:
            labels = (slot.name, *pod)
            seconds, used, now = container_cpu_seconds(slot), container_usage_bytes(slot), time.time()
            cpu_seconds, memory_bytes = cpu_seconds + seconds, memory_bytes + used
            started.add_metric(labels, slot.state.started_at if slot.state else 0.0)
            cpu.add_metric(labels, seconds, timestamp=now)
            memory.add_metric(labels, used, timestamp=now)
        pod_cpu.add_metric(pod, cpu_seconds, timestamp=time.time())
        pod_memory.add_metric(pod, memory_bytes, timestamp=time.time())
    yield from (cpu, memory, started, node_cpu, node_memory, pod_cpu, pod_memory)
    failed = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise"
    yield GaugeMetricFamily("resource_scrape_error", failed, value=0)


def _cpu_counter(prefix: str, consumer: str, labels: tuple[str, ...] = ()) -> CounterMetricFamily:
    description = f"[STABLE] Cumulative cpu time consumed {consumer} in core-seconds"
    return CounterMetricFamily(f"{prefix}_usage_seconds", description, labels=labels)


def _memory_gauge(prefix: str, owner: str, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
    description = f"[STABLE] Current working set {owner} in bytes"
    return GaugeMetricFamily(f"{prefix}_memory_working_set_bytes", description, labels=labels)


def _node_cpu_seconds() -> float:
    times = psutil.cpu_times()  # `user` includes the time of guests
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
