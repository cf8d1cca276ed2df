"""`/metrics/resource`: what a metrics-server asks each node for, in the words of Kubernetes' kubelet.

It leaves out a Pod of which one container has computed nothing yet or holds nothing, and reads times of its own where a
series has none; so only containers that run are told, each with the moment at which it was looked at.
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
_OF_CONTAINER = ("container", "pod", "namespace")
_OF_POD = ("pod", "namespace")


def exposition(workers: Iterable[PodWorker], node_memory_bytes: int) -> bytes:
    """The document; `node_memory_bytes` is what the machine could not give away. Blocks while pages are counted."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Looked(list(_families(workers, node_memory_bytes))))
    return generate_latest(registry)


class _Looked(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _families(workers: Iterable[PodWorker], node_memory_bytes: int) -> Iterator[Metric]:
    node_cpu = _counter("node_cpu", "by the node")
    node_cpu.add_metric((), _node_cpu_seconds(), timestamp=time.time())
    node_memory = _gauge("node", "of the node")
    node_memory.add_metric((), node_memory_bytes, timestamp=time.time())
    started = GaugeMetricFamily(
        "container_start_time_seconds",
        "[STABLE] Start time of the container since unix epoch in seconds",
        labels=_OF_CONTAINER,
    )
    cpu, memory = (
        _counter("container_cpu", "by the container", _OF_CONTAINER),
        _gauge("container", "of the container", _OF_CONTAINER),
    )
    pod_cpu, pod_memory = _counter("pod_cpu", "by the pod", _OF_POD), _gauge("pod", "of the pod", _OF_POD)
    for worker in workers:
        running = [slot for slot in worker.slots.values() if slot.running and slot.state and slot.state.running]
        if not running:
            continue
        metadata = worker.pod["metadata"]
        pod = (metadata["name"], metadata.get("namespace", "default"))
        computed, held = 0.0, 0
        for slot in running:
            labels = (slot.name, *pod)
            seconds, used, now = container_cpu_seconds(slot), container_usage_bytes(slot), time.time()
            computed, held = computed + seconds, held + used
            started.add_metric(labels, slot.state.started_at if slot.state else 0.0)
            cpu.add_metric(labels, seconds, timestamp=now)
            memory.add_metric(labels, used, timestamp=now)
        pod_cpu.add_metric(pod, computed, timestamp=time.time())
        pod_memory.add_metric(pod, held, timestamp=time.time())
    yield from (cpu, memory, started, node_cpu, node_memory, pod_cpu, pod_memory)
    failed = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise"
    yield GaugeMetricFamily("resource_scrape_error", failed, value=0)


def _counter(of: str, by: str, labels: tuple[str, ...] = ()) -> CounterMetricFamily:
    what = f"[STABLE] Cumulative cpu time consumed {by} in core-seconds"
    return CounterMetricFamily(f"{of}_usage_seconds", what, labels=labels)


def _gauge(of: str, whose: str, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
    what = f"[STABLE] Current working set {whose} in bytes"
    return GaugeMetricFamily(f"{of}_memory_working_set_bytes", what, labels=labels)


def _node_cpu_seconds() -> float:
    times = psutil.cpu_times()  # `user` has guests' time in it
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
