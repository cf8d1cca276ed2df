"""The progress of an installation's parts, read from their Deployments, DaemonSet and Pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kajitori.install.parts.objects import Object

WORKLOADS = ("Deployment", "DaemonSet")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one part: the number of Pods that are ready in the present version, and why others are not."""

    name: str
    ready: int
    wanted: int
    is_done: bool
    trouble: str = ""

    def __str__(self) -> str:
        count = f"{self.name} {self.ready}/{self.wanted}"
        return f"{count} ({self.trouble})" if self.trouble else count


def progress(workload: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> Progress:
    """Return the progress of a Deployment or DaemonSet."""
    status, spec = workload.get("status") or {}, workload["spec"]
    is_seen = status.get("observedGeneration", 0) >= workload["metadata"].get("generation", 1)
    if workload["kind"] == "DaemonSet":
        wanted = status.get("desiredNumberScheduled", 0)
        updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
        leftover = 0
    else:
        wanted = spec.get("replicas", 1)
        updated, ready = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
        leftover = status.get("replicas", 0) - updated
    is_done = is_seen and updated == ready == wanted and not leftover
    counted = min(updated, ready) if is_seen else 0
    troubles = [*_failed_conditions(status), *_pod_troubles(pods)] if not is_done else []
    name = workload["metadata"]["name"].removeprefix("kajitori-")
    return Progress(name, counted, wanted, is_done, troubles[0] if troubles else "")


def _failed_conditions(status: Mapping[str, Any]) -> Iterator[str]:
    for condition in status.get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            yield str(condition.get("message", ""))


def _pod_troubles(pods: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for pod in pods:
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            state: Object = container.get("state") or {}
            waiting = state.get("waiting") or {}
            if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                yield f"{waiting['reason']}: {waiting.get('message') or container['image']}"
            elif "terminated" in state:
                yield f"it ended with {state['terminated'].get('exitCode')}; kubectl logs {pod['metadata']['name']}"
        for condition in status.get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                yield f"no node takes it: {condition.get('message', '')}"
