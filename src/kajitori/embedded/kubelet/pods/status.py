"""A Pod's status: built from the state of its containers, and reported to the API server if it has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kajitori.core.formats.times import format_time
from kajitori.embedded import names
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.containers.container import ContainerState
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.shim import main as shim
from kajitori.errors import Conflict, NotFound
from kajitori.kube import resources

IMAGE_ID = "process://this-machine"


@dataclass(frozen=True)
class ContainerView:
    """One container as the Pod's status shows it."""

    name: str
    attempt: int = -1
    container_id: str = ""
    image_id: str = IMAGE_ID
    state: ContainerState | None = None
    """State of the current attempt; None before the first."""
    previous: ContainerState | None = None
    previous_id: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    """Set with a `waiting_reason`, which replaces a state that has ended (CrashLoopBackOff)."""
    termination_message: str = ""
    ready: bool = False
    started: bool = False

    @property
    def peak_bytes(self) -> int:
        """The largest amount of memory that the current attempt or the one before used."""
        return max((state.peak_bytes for state in (self.state, self.previous) if state is not None), default=0)


class Reporter:
    """Writes one Pod's status to the API server if it has changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reported: dict[str, Any] | None = None

    def forget(self) -> None:
        """Write the next status even if it has not changed, because the API server may have lost the last one."""
        self._reported = None

    async def report(self, pod: Manifest, status: dict[str, Any]) -> Manifest | None:
        """Write the status. Return the Pod as the API server has it now; None if it has been deleted."""
        known_phase = (pod.get("status") or {}).get("phase")
        if status == self._reported and known_phase == status["phase"]:
            return pod
        name, namespace = pods.name_and_namespace(pod)
        patch = {"metadata": {"uid": pods.uid(pod)}, "status": status}
        try:
            answer = await self._cluster.patch(resources.PODS, name, patch, namespace, subresource="status")
        except NotFound:
            return None
        except Conflict:
            # Either another Pod has this name, or the server was too busy. Only in the first case this Pod is deleted.
            try:
                found = await self._cluster.get(resources.PODS, name, namespace)
            except NotFound:
                return None
            if pods.uid(found) != pods.uid(pod):
                return None
            raise
        self._reported = status
        return answer


def build_status(
    pod: Manifest,
    *,
    phase: str,
    containers: Mapping[str, ContainerView],
    initialized: bool,
    host_ip: str,
    pod_ip: str,
    started_at: float,
    now: datetime,
    reason: str = "",
    message: str = "",
) -> dict[str, Any]:
    """Return the whole status, as a patch. A condition keeps its transition time while its status stays the same."""
    mains = [containers[spec["name"]] for spec in pods.main_containers(pod)]
    known = {condition["type"]: condition for condition in (pod.get("status") or {}).get("conditions") or ()}
    conditions = _wanted_conditions(pod, phase, containers, initialized, known)
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": [_condition_document(known, condition, now, _time_text(started_at)) for condition in conditions],
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": _time_text(started_at),
        "containerStatuses": _container_statuses(pods.main_containers(pod), containers, phase),
        "reason": reason or None,
        "message": message or None,
    }
    if init_containers := pods.init_containers(pod):
        status["initContainerStatuses"] = _container_statuses(init_containers, containers, phase)
    peaks = ",".join(f"{view.name}={view.peak_bytes}" for view in mains if view.peak_bytes)
    if phase in pods.FINAL_PHASES and peaks:
        status["conditions"].append(_peak_condition(known, peaks, now))
    return status


class _Condition(NamedTuple):
    """A condition of the Pod as it should be now."""

    kind: str
    holds: bool
    reason: str = ""
    """Why it does not hold, with a message."""
    message: str = ""


def _wanted_conditions(
    pod: Manifest,
    phase: str,
    containers: Mapping[str, ContainerView],
    initialized: bool,
    known: Mapping[str, Mapping[str, Any]],
) -> list[_Condition]:
    """Return the conditions that the kubelet writes; `known` are the present ones."""
    final, done = phase in pods.FINAL_PHASES, phase == "Succeeded"
    unready = [spec["name"] for spec in pods.main_containers(pod) if not containers[spec["name"]].ready]
    uninitialized = [spec["name"] for spec in pods.init_containers(pod) if not containers[spec["name"]].ready]
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    gates_open = all((known.get(gate) or {}).get("status") == "True" for gate in gates)
    not_ready_reason = "PodCompleted" if done else "PodFailed" if final else "ContainersNotReady"
    not_ready_message = "" if final else f"containers with unready status: [{' '.join(unready)}]"
    return [
        _Condition("PodScheduled", holds=True),
        _Condition(
            "Initialized",
            initialized or done,
            "PodCompleted" if done else "" if initialized else "ContainersNotInitialized",
            "" if initialized or done else f"containers with incomplete status: [{' '.join(uninitialized)}]",
        ),
        _Condition("ContainersReady", not unready and not final, not_ready_reason, not_ready_message),
        _Condition(
            "Ready",
            not unready and gates_open and not final,
            not_ready_reason if unready or final else "ReadinessGatesNotReady",
            not_ready_message,
        ),
    ]


def rejected_status(pod: Manifest, reason: str, message: str, started_at: float) -> dict[str, Any]:
    """Return the status of a Pod that was rejected before any of its containers was started."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": _time_text(started_at),
    }


def terminated(state: ContainerState, container_id: str, termination_message: str = "") -> dict[str, Any]:
    """Return the `terminated` part of a container's state."""
    if state.status == shim.FAILED:
        reason, message = "StartError", state.message
    elif state.lost:
        reason, message = "ContainerStatusUnknown", state.message
    elif state.oom_killed:
        reason, message = "OOMKilled", ""
    else:
        reason, message = ("Completed" if state.exit_code == 0 else "Error"), ""
    return {
        "exitCode": state.exit_code if state.exit_code is not None else 137,
        "reason": reason,
        "startedAt": _time_text(state.started_at or state.finished_at),
        "finishedAt": _time_text(state.finished_at),
        "containerID": container_id,
    } | ({"message": message or termination_message} if message or termination_message else {})


def _container_statuses(
    specs: Sequence[Manifest], containers: Mapping[str, ContainerView], phase: str
) -> list[dict[str, Any]]:
    return [_container_status(spec, containers[spec["name"]], phase) for spec in specs]


def _container_status(spec: Manifest, view: ContainerView, phase: str) -> dict[str, Any]:
    state, last = view.state, None
    if state is not None and state.running:
        shown: dict[str, Any] = {"running": {"startedAt": _time_text(state.started_at)}}
    elif state is not None and not view.waiting_reason:
        shown = {"terminated": terminated(state, view.container_id, view.termination_message)}
    else:
        reason = view.waiting_reason or "ContainerCreating"
        shown = {"waiting": {"reason": reason} | ({"message": view.waiting_message} if view.waiting_message else {})}
        if state is not None:
            last = terminated(state, view.container_id, view.termination_message)
    if last is None and view.previous is not None:
        last = terminated(view.previous, view.previous_id)
    running = "running" in shown
    return {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": view.image_id if view.attempt >= 0 else "",
        "containerID": view.container_id,
        "state": shown,
        "lastState": {"terminated": last} if last else {},
        "restartCount": max(0, view.attempt),
        "ready": view.ready,
        "started": running and view.started,
    }


def _condition_document(
    known: Mapping[str, Mapping[str, Any]],
    wanted: _Condition,
    now: datetime,
    taken_at: str | None,
) -> dict[str, Any]:
    """Return a condition. One that has not held yet does not hold since the kubelet took the Pod, however late the
    first report is: readers tell by this time whether a container was ready since its start."""
    kind, holds, reason, message = wanted
    status = "True" if holds else "False"
    old = known.get(kind) or {}
    same = old.get("status") == status and old.get("lastTransitionTime")
    changed_at = taken_at if taken_at and not old and not holds else format_time(now)
    keeps_reason = not holds or kind == "Initialized"
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": old["lastTransitionTime"] if same else changed_at,
        "lastProbeTime": None,
        "reason": reason if reason and keeps_reason else None,
        "message": message if message and not holds else None,
    }


def _peak_condition(known: Mapping[str, Mapping[str, Any]], peaks: str, now: datetime) -> dict[str, Any]:
    """Return the condition with the peak memory. It is part of the final status, so no reader has to ask in time."""
    old = known.get(names.CONDITION_MEMORY_PEAK) or {}
    return {
        "type": names.CONDITION_MEMORY_PEAK,
        "status": "True",
        "lastTransitionTime": old.get("lastTransitionTime") or format_time(now),
        "reason": "Counted",
        "message": peaks,
    }


def _time_text(seconds: float) -> str | None:
    return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds else None
