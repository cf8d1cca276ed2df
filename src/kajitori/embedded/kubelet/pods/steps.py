"""Decides what a Pod's containers need next, from their observed state alone: no clock, no processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kajitori.core.backoff import backoff_seconds
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.manifest import Manifest

SET_BACK_SECONDS = 60.0
"""A container that ended this long in the future shows that the clock was set back since then."""


@dataclass(frozen=True)
class Observed:
    """The observed state of one container. `attempt` is -1 before its first start, then counts from 0."""

    attempt: int = -1
    running: bool = False
    exit_code: int | None = None
    """Exit code of the last attempt, once it has ended or could not be started."""
    started_at: float = 0.0
    finished_at: float = 0.0
    restarts_in_a_row: int = 0
    """Restarts since an attempt last ran long enough to reset the back-off."""
    started: bool = True
    """Whether its startup probe has succeeded, or it has none."""


@dataclass(frozen=True)
class RestartBackoff:
    """Pauses between restarts of a container that keeps ending."""

    initial_seconds: float = 10.0
    max_seconds: float = 300.0
    reset_seconds: float = 600.0

    def delay_seconds(self, restarts_in_a_row: int) -> float:
        """Return the pause before the next restart: none before the first, then 10 s, doubling."""
        if restarts_in_a_row <= 0:
            return 0.0
        return backoff_seconds(restarts_in_a_row, self.initial_seconds, self.max_seconds)

    def next_restarts_in_a_row(self, container: Observed) -> int:
        """Return the number of restarts in a row that the next restart makes."""
        ran_seconds = container.finished_at - container.started_at if container.started_at else 0.0
        return 1 if ran_seconds >= self.reset_seconds else container.restarts_in_a_row + 1


@dataclass
class Steps:
    """Containers to start and to stop now. Decide again at `wake_at` (seconds since 1970); `backing_off` holds the
    whole pause in seconds of each container that waits for its restart."""

    start: list[str] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    backing_off: dict[str, float] = field(default_factory=dict)
    phase: str = "Pending"
    initialized: bool = False
    wake_at: float | None = None


def next_steps(pod: Manifest, containers: Mapping[str, Observed], backoff: RestartBackoff, now: float) -> Steps:
    """Decide the next steps: init containers in order, then the others; restarts by policy, with back-off; the phase.

    The rules are those of Kubernetes' kubelet (`computePodActions` and `getPhase`).
    """
    steps = Steps()
    policy = pods.restart_policy(pod)
    mains = [(spec["name"], containers[spec["name"]]) for spec in pods.main_containers(pod)]
    sidecars = [spec["name"] for spec in pods.init_containers(pod) if pods.is_sidecar(spec)]
    steps.initialized = any(observed.attempt >= 0 for _, observed in mains)
    failed_to_initialize = False
    if not steps.initialized:
        steps.initialized, failed_to_initialize = _initialization_steps(pod, containers, policy, backoff, steps, now)
    else:
        for name in sidecars:
            if not containers[name].running:
                _start_again(name, containers[name], backoff, steps, now)

    if failed_to_initialize:
        steps.phase = "Failed"
    elif steps.initialized:
        for name, observed in mains:
            if observed.attempt < 0:
                steps.start.append(name)
            elif not observed.running and _is_restarted(policy, observed.exit_code):
                _start_again(name, observed, backoff, steps, now)
        steps.phase = _phase_of(mains, policy)
    if steps.phase in pods.FINAL_PHASES:
        steps.start = []
        steps.backing_off = {}
        steps.wake_at = None
        steps.stop = [name for name in sidecars if containers[name].running]
        if steps.stop:
            steps.phase = "Running"
    return steps


def _initialization_steps(
    pod: Manifest, containers: Mapping[str, Observed], policy: str, backoff: RestartBackoff, steps: Steps, now: float
) -> tuple[bool, bool]:
    """Add the steps of the initialization; return (all done, failed for good)."""
    for spec in pods.init_containers(pod):
        name = spec["name"]
        observed = containers[name]
        if pods.is_sidecar(spec):
            if not observed.running:
                _start_again(name, observed, backoff, steps, now)
                return False, False
            if not observed.started:
                return False, False
            continue
        if observed.attempt < 0:
            steps.start.append(name)
            return False, False
        if observed.running:
            return False, False
        if observed.exit_code != 0:
            if policy == "Never":
                return False, True
            _start_again(name, observed, backoff, steps, now)
            return False, False
    return True, False


def _start_again(name: str, observed: Observed, backoff: RestartBackoff, steps: Steps, now: float) -> None:
    restarts = 0 if backoff.next_restarts_in_a_row(observed) == 1 else observed.restarts_in_a_row
    ready_at = observed.finished_at + backoff.delay_seconds(restarts) if observed.attempt >= 0 else now
    if ready_at <= now or observed.finished_at > now + SET_BACK_SECONDS:
        steps.start.append(name)
    else:
        steps.backing_off[name] = backoff.delay_seconds(restarts)
        steps.wake_at = ready_at if steps.wake_at is None else min(steps.wake_at, ready_at)


def _is_restarted(policy: str, exit_code: int | None) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _phase_of(mains: list[tuple[str, Observed]], policy: str) -> str:
    if any(observed.attempt < 0 for _, observed in mains):
        return "Pending"
    if any(observed.running or _is_restarted(policy, observed.exit_code) for _, observed in mains):
        return "Running"
    return "Succeeded" if all(observed.exit_code == 0 for _, observed in mains) else "Failed"
