"""Decides what a simulated kubelet does next with a Pod, from the Pod as the API server has it and the time.

Annotations on the Pod say how it behaves (`sim.kajitori.dev/…`):

| annotation | meaning |
|---|---|
| `duration: 30s` | the containers end this time after their start (or `200ms`); without it, when the Pod is deleted |
| `exit-code: "1"` | the containers end with this exit code; at once if there is no duration |
| `oom: "true"` | the containers end as if killed for memory: 137, OOMKilled |
| `oom: node` | the same, because their node ran out of memory: an Event SystemOOM says so |
| `evict: "true"` | the Pod is evicted for its node's memory; the message names containers above their request |
| `message: text` | the termination message of containers that end by themselves |
| `memory: 5Gi` | memory of each container while it runs |
| `start-delay: 5s` | time from when the kubelet sees the Pod until the containers run |
| `image-pull: fail` | the image can't be pulled: ErrImagePull, then ImagePullBackOff |
| `ignore-sigterm: "true"` | deletion takes the whole grace period, and ends with 137 |

All state is in the Pod's status, so that a restarted simulator starts nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kajitori.core.backoff import backoff_seconds
from kajitori.core.formats.quantities import QuantityError, format_memory, parse_duration_seconds, parse_memory_bytes
from kajitori.core.formats.times import format_time, parse_time
from kajitori.embedded.objects import Condition, Container, Pod

PREFIX = "sim.kajitori.dev/"
SIGTERM_EXIT, SIGKILL_EXIT = 143, 137
PULL_SECONDS = 2
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 10, 300
"""Pauses of a kubelet before it restarts a container that ended."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The annotations' contents. Times are in seconds; a duration of None means until the Pod is deleted."""

    duration_seconds: float | None = None
    exit_code: int = 0
    oom: bool = False
    node_out_of_memory: bool = False
    evicted: bool = False
    message: str = ""
    memory_bytes: int = 0
    start_delay_seconds: float = 0
    pull_fails: bool = False
    ignores_sigterm: bool = False

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Behaviour:
        """Read a Pod's annotations. Raises ValueError for one that can't be read."""
        values = {k.removeprefix(PREFIX): v for k, v in annotations.items() if k.startswith(PREFIX)}
        duration = _parsed_seconds("duration", values["duration"]) if "duration" in values else None
        oom = values.get("oom") in ("true", "node")
        evicted = values.get("evict") == "true"
        try:
            exit_code = SIGKILL_EXIT if oom or evicted else int(values.get("exit-code", "0"))
        except ValueError:
            raise ValueError(f"{PREFIX}exit-code is {values['exit-code']!r}, not a number") from None
        if duration is None and (oom or evicted or "exit-code" in values):
            duration = 0
        return cls(
            duration_seconds=duration,
            exit_code=exit_code,
            oom=oom,
            node_out_of_memory=values.get("oom") == "node",
            evicted=evicted,
            message=values.get("message", "") if not oom and not evicted else "",
            memory_bytes=_parsed_bytes("memory", values.get("memory", "0")),
            start_delay_seconds=_parsed_seconds("start-delay", values.get("start-delay", "0")),
            pull_fails=values.get("image-pull") == "fail",
            ignores_sigterm=values.get("ignore-sigterm") == "true",
        )


@dataclass(frozen=True, slots=True)
class Step:
    """The next action for a Pod: write a status, delete it for good, check again later; none if all are empty."""

    status: dict[str, Any] | None = None
    delete: bool = False
    wake_at: datetime | None = None
    system_oom: bool = False
    """Record before the status is written that the node ran out of memory."""


def next_step(pod: Pod, now: datetime, address: str, host_address: str, refusal: tuple[str, str] | None) -> Step:
    """Return what the kubelet of the Pod's node does now.

    `address` is the Pod's own if it runs; `refusal` is reason and message if the node can't take a Pod that it has not
    started yet.
    """
    if pod.is_finished:
        return Step(delete=bool(pod.metadata.deletion_timestamp))
    writer = _Writer(pod, now, address, host_address)
    try:
        behaviour = Behaviour.of(pod.metadata.annotations or {})
    except ValueError as fault:
        return Step(writer.refused("InvalidSimulation", str(fault)))
    writer.termination_message = behaviour.message
    running = _running_since(pod)
    if bool(pod.metadata.deletion_timestamp):
        return _being_deleted(pod, behaviour, now, writer, running)
    if pod.status.start_time is None and refusal is not None:
        return Step(writer.refused(*refusal))
    deadline = _active_deadline(pod)
    if deadline is not None and now >= deadline:
        return Step(writer.deadline_exceeded(running))
    step = _run_on(pod, behaviour, now, writer, running) if running is not None else _start(pod, behaviour, now, writer)
    return replace(step, wake_at=min(filter(None, (step.wake_at, deadline)), default=None))


def _active_deadline(pod: Pod) -> datetime | None:
    """Return when the Pod's active deadline ends it; it is counted from the start time that its node wrote."""
    taken_up = parse_time(pod.status.start_time or "")
    seconds = pod.spec.active_deadline_seconds
    return taken_up + timedelta(seconds=seconds) if taken_up is not None and seconds is not None else None


def _start(pod: Pod, behaviour: Behaviour, now: datetime, writer: _Writer) -> Step:
    """Return the step of a Pod that does not run: starting, without an image, or between two restarts."""
    first_seen = parse_time(pod.status.start_time or "") or now
    if behaviour.pull_fails:
        backs_off_at = first_seen + timedelta(seconds=PULL_SECONDS)
        reason = "ErrImagePull" if now < backs_off_at else "ImagePullBackOff"
        status = None if _waits_for(pod, reason) else writer.waiting(reason, first_seen)
        return Step(status, wake_at=backs_off_at if now < backs_off_at else None)
    restarts, ended = _last_end(pod)
    if ended is not None:
        ready_at = ended + timedelta(seconds=_backoff_seconds(restarts))
        restarts += 1
    else:
        ready_at = first_seen + timedelta(seconds=behaviour.start_delay_seconds)
    if now < ready_at:
        reason = "CrashLoopBackOff" if ended else "ContainerCreating"
        return Step(None if _waits_for(pod, reason) else writer.waiting(reason, first_seen), wake_at=ready_at)
    duration = behaviour.duration_seconds
    ends_at = None if duration is None else now + timedelta(seconds=duration)
    return Step(writer.running(first_seen, restarts), wake_at=ends_at)


def _run_on(pod: Pod, behaviour: Behaviour, now: datetime, writer: _Writer, since: datetime) -> Step:
    if behaviour.duration_seconds is None:
        return Step()
    ends_at = since + timedelta(seconds=behaviour.duration_seconds)
    if now < ends_at:
        return Step(wake_at=ends_at)
    policy = pod.spec.restart_policy
    again = policy == "Always" or (policy == "OnFailure" and behaviour.exit_code != 0)
    reason = "OOMKilled" if behaviour.oom else ("Completed" if behaviour.exit_code == 0 else "Error")
    if behaviour.evicted:
        return Step(writer.evicted(behaviour.memory_bytes, since))
    if not again:
        return Step(writer.ended(behaviour.exit_code, reason, since), system_oom=behaviour.node_out_of_memory)
    restarts, _ = _last_end(pod)
    status = writer.backing_off(behaviour.exit_code, reason, since, restarts)
    return Step(status, wake_at=now + timedelta(seconds=_backoff_seconds(restarts)))


def _being_deleted(pod: Pod, behaviour: Behaviour, now: datetime, writer: _Writer, since: datetime | None) -> Step:
    if since is None:
        return Step(delete=True)
    killed_at = parse_time(pod.metadata.deletion_timestamp or "") or now
    if behaviour.ignores_sigterm:
        if now < killed_at:
            return Step(wake_at=killed_at)
        return Step(writer.ended(SIGKILL_EXIT, "Error", since))
    return Step(writer.ended(SIGTERM_EXIT, "Error", since))


class _Writer:
    """Writes statuses as a kubelet does."""

    def __init__(self, pod: Pod, now: datetime, address: str, host_address: str) -> None:
        self.pod, self.now, self.moment = pod, now, format_time(now)
        self.address, self.host_address = address, host_address
        self.termination_message = ""

    def waiting(self, reason: str, first_seen: datetime) -> dict[str, Any]:
        started = reason != "ContainerCreating"
        message = "simulated: the image can't be pulled" if "Pull" in reason else ""
        state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        return self._pod_status(
            "Pending" if self.pod.status.phase == "Pending" else "Running",
            state,
            first_seen,
            ready=False,
            started=started,
        )

    def running(self, first_seen: datetime, restarts: int) -> dict[str, Any]:
        return self._pod_status(
            "Running", {"running": {"startedAt": self.moment}}, first_seen, ready=True, restarts=restarts
        )

    def backing_off(self, exit_code: int, reason: str, since: datetime, restarts: int) -> dict[str, Any]:
        """Return the status of containers that ended and will be restarted."""
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off before the next start"}}
        last = self._terminated_state(exit_code, reason, since)
        first_seen = parse_time(self.pod.status.start_time or "") or self.now
        return self._pod_status("Running", state, first_seen, ready=False, restarts=restarts, last=last)

    def ended(self, exit_code: int, reason: str, since: datetime) -> dict[str, Any]:
        phase = "Succeeded" if exit_code == 0 else "Failed"
        first_seen = parse_time(self.pod.status.start_time or "") or self.now
        restarts, _ = _last_end(self.pod)
        state = self._terminated_state(exit_code, reason, since)
        return self._pod_status(phase, state, first_seen, ready=False, restarts=restarts)

    def evicted(self, used_bytes: int, since: datetime) -> dict[str, Any]:
        """Return the status of an eviction; its message names only containers above their request, as a
        kubelet's does."""
        status = self.ended(SIGKILL_EXIT, "Error", since)
        above = "".join(
            f"Container {container.name} was using {format_memory(used_bytes)}, request is "
            f"{format_memory(_request_bytes(container))}, has larger consumption of memory. "
            for container in self.pod.spec.containers
            if used_bytes > _request_bytes(container)
        )
        message = f"The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. {above}"
        target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
        status["conditions"].append(target | {"lastTransitionTime": self.moment})
        return status | {"reason": "Evicted", "message": message}

    def deadline_exceeded(self, since: datetime | None) -> dict[str, Any]:
        expired = {
            "reason": "DeadlineExceeded",
            "message": "Pod was active on the node longer than the specified deadline",
        }
        return (self.ended(SIGTERM_EXIT, "Error", since) if since is not None else self.refused("", "")) | expired

    def refused(self, reason: str, message: str) -> dict[str, Any]:
        return {
            "phase": "Failed",
            "reason": reason,
            "message": message,
            "startTime": self.pod.status.start_time or self.moment,
        }

    def _terminated_state(self, exit_code: int, reason: str, since: datetime) -> dict[str, Any]:
        terminated = {"startedAt": format_time(since), "finishedAt": self.moment}
        if self.termination_message and exit_code not in (SIGTERM_EXIT, SIGKILL_EXIT):
            terminated["message"] = self.termination_message
        return {"terminated": {"exitCode": exit_code, "reason": reason, **terminated}}

    def _pod_status(
        self,
        phase: str,
        state: dict[str, Any],
        first_seen: datetime,
        *,
        ready: bool,
        restarts: int | None = None,
        last: dict[str, Any] | None = None,
        started: bool = True,
    ) -> dict[str, Any]:
        spec = self.pod.spec
        before = {c.get("name"): c for c in self.pod.status.container_statuses or ()}
        status: dict[str, Any] = {
            "phase": phase,
            "startTime": format_time(first_seen),
            "hostIP": self.host_address,
            "hostIPs": [{"ip": self.host_address}],
            "conditions": self._pod_conditions(phase, ready=ready, started=started),
            "containerStatuses": [
                self._container_status(c, before.get(c.name, {}), state, restarts, last, ready=ready)
                for c in spec.containers
            ],
        }
        if self.address:
            status["podIP"] = self.address
            status["podIPs"] = [{"ip": self.address}]
        if spec.init_containers:
            status["initContainerStatuses"] = [
                self._init_container(c, state, first_seen, started=started) for c in spec.init_containers
            ]
        return status

    def _container_status(
        self,
        container: Container,
        before: dict[str, Any],
        state: dict[str, Any],
        restarts: int | None,
        last: dict[str, Any] | None,
        *,
        ready: bool,
    ) -> dict[str, Any]:
        has_run = "waiting" not in state
        return {
            "name": container.name,
            "image": container.image,
            "imageID": f"simulated://{container.image}" if has_run else "",
            "containerID": f"simulated://{self.pod.metadata.uid}/{container.name}" if has_run else "",
            "ready": ready,
            "started": ready,
            "restartCount": before.get("restartCount", 0) if restarts is None else restarts,
            "state": state,
            "lastState": last if last is not None else before.get("lastState", {}),
        }

    def _init_container(
        self, container: Container, state: dict[str, Any], first_seen: datetime, *, started: bool
    ) -> dict[str, Any]:
        if container.restart_policy == "Always":
            return self._container_status(container, {}, state, 0, None, ready="running" in state)
        done = {
            "terminated": {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": format_time(first_seen),
                "finishedAt": self.moment,
            }
        }
        waiting = {"waiting": {"reason": "PodInitializing"}}
        return self._container_status(container, {}, done if started else waiting, 0, None, ready=started)

    def _pod_conditions(self, phase: str, *, ready: bool, started: bool) -> list[dict[str, Any]]:
        """Return the kubelet's conditions, for a strategic merge that keeps those of other writers.

        A transition time moves only with the status.
        """
        old = {c.type: c for c in self.pod.status.conditions or ()}
        reason = "" if ready else {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
        conditions = []
        for kind in _KUBELET_CONDITIONS:
            is_readiness = kind in ("Ready", "ContainersReady")
            value = ready if is_readiness else (started or kind != "Initialized")
            before = old.get(kind, Condition(type=kind))
            written: dict[str, Any] = {"type": kind, "status": "True" if value else "False"}
            kept = before.last_transition_time if before.status == written["status"] else None
            written["lastTransitionTime"] = kept or self.moment
            if is_readiness and reason:
                written["reason"] = reason
            elif before.reason:
                written["reason"] = None
            conditions.append(written)
        return conditions


_KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def _parsed_seconds(name: str, text: str) -> float:
    if match := re.fullmatch(r"(\d{1,9})ms", text, re.ASCII):
        return int(match[1]) / 1000
    try:
        return parse_duration_seconds(text)
    except QuantityError as fault:
        raise ValueError(f"{PREFIX}{name}: {fault.message}") from None


def _parsed_bytes(name: str, text: str) -> int:
    try:
        return parse_memory_bytes(text)
    except QuantityError as fault:
        raise ValueError(f"{PREFIX}{name}: {fault.message}") from None


def _request_bytes(container: Container) -> int:
    resources = container.resources
    asked = {**((resources and resources.limits) or {}), **((resources and resources.requests) or {})}
    return parse_memory_bytes(str(asked.get("memory", 0)))


def is_running(pod: Pod) -> bool:
    """Return whether its containers run, by its status on the API server."""
    return _running_since(pod) is not None


def _running_since(pod: Pod) -> datetime | None:
    for container in pod.status.container_statuses or ():
        running = (container.get("state") or {}).get("running")
        if running:
            return parse_time(running.get("startedAt", ""))
    return None


def _last_end(pod: Pod) -> tuple[int, datetime | None]:
    """Return how often the containers were restarted, and when they last ended; None if they never did."""
    for container in pod.status.container_statuses or ():
        ended = (container.get("lastState") or {}).get("terminated") or {}
        return container.get("restartCount", 0), parse_time(ended.get("finishedAt", ""))
    return 0, None


def _waits_for(pod: Pod, reason: str) -> bool:
    statuses = pod.status.container_statuses
    return bool(statuses) and all(
        ((c.get("state") or {}).get("waiting") or {}).get("reason") == reason for c in statuses or ()
    )


def _backoff_seconds(restarts: int) -> int:
    """Return the pause before a restart: none before the first, then doubling from ten seconds to five minutes."""
    return round(backoff_seconds(restarts, FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)) if restarts else 0
