"""Memory of simulated Pods: what their annotation says, in the form of a kubelet's statistics."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kajitori.core.words.times import format_time
from kajitori.embedded.simulator.behaviour import Behaviour, SimPod, is_running


def summary(node: str, pods: Iterable[SimPod], now: datetime) -> dict[str, Any]:
    """Return the `/stats/summary` of a node. It leaves out Pods whose annotation does not say how much memory
    they use."""
    usages = [(pod, _memory_bytes(pod)) for pod in pods if is_running(pod)]
    return {"node": {"nodeName": node}, "pods": [_pod(pod, size, now) for pod, size in usages if size]}


def _memory_bytes(pod: SimPod) -> int:
    try:
        return Behaviour.of(pod.metadata.annotations or {}).memory_bytes
    except ValueError:
        return 0


def _pod(pod: SimPod, size_bytes: int, now: datetime) -> dict[str, Any]:
    meta = pod.metadata
    memory = {"time": format_time(now), "workingSetBytes": size_bytes}
    return {
        "podRef": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "memory": memory,
        "containers": [{"name": container.name, "memory": memory} for container in pod.spec.containers],
    }
