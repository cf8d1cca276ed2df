"""What a Pod's containers need next, decided from what is known of them: the kubelet's heart, without clock or
process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.manifest import Manifest


@dataclass(frozen=True)
class Observed:
    """One container as it is. `attempt` is -1 before its first start, then counts from 0."""

    attempt: int = -1
    running: bool = False
    exit_code: int | None = None
    """Of the last attempt, once it ended (or could not be started)."""
    started_at: float = 0.0
    finished_at: float = 0.0
    restarts_in_a_row: int = 0
    """Restarts since it last ran long enough to start over."""
    started: bool = True
    """Its startup probe has succeeded, or it has none."""


@dataclass(frozen=True)
class Backoff:
    initial_seconds: float = 10.0
    max_seconds: float = 300.0
    reset_seconds: float = 600.0

    def delay_seconds(self, restarts_in_a_row: int) -> float:
        """The pause before the next restart: none before the first, then 10 s, doubling."""
        if restarts_in_a_row <= 0:
            return 0.0
        return float(min(self.initial_seconds * 2 ** min(restarts_in_a_row - 1, 30), self.max_seconds))

    def next_row(self, container: Observed) -> int:
        """How many restarts in a row the coming one makes."""
        ran_seconds = container.finished_at - container.started_at if container.started_at else 0.0
        return 1 if ran_seconds >= self.reset_seconds else container.restarts_in_a_row + 1


@dataclass
class Steps:
    """`start` now; look again at `wake_at` (seconds since 1970); `backing_off` says how long who still waits; stop
    `stop`.
    """

    start: list[str] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    backing_off: dict[str, float] = field(default_factory=dict)
    phase: str = "Pending"
    initialized: bool = False
    wake_at: float | None = None


def next_steps(pod: Manifest, containers: Mapping[str, Observed], backoff: Backoff, now: float) -> Steps:
    """Init containers in order, then all the others; restarts by policy, with back-off; the Pod's phase.

    The rules are those of Kubernetes' kubelet (`computePodActions` and `getPhase`).
    """
    steps = Steps()
    policy = pods.restart_policy(pod)
    mains = [(one["name"], containers[one["name"]]) for one in pods.main_containers(pod)]
    sidecars = [one["name"] for one in pods.init_containers(pod) if pods.is_sidecar(one)]
    steps.initialized = any(one.attempt >= 0 for _, one in mains)
    failed_to_initialize = False
    if not steps.initialized:
        steps.initialized, failed_to_initialize = _initialize(pod, containers, policy, backoff, steps, now)
    else:
        for name in sidecars:
            if not containers[name].running:
                _start_again(name, containers[name], backoff, steps, now)

    if failed_to_initialize:
        steps.phase = "Failed"
    elif steps.initialized:
        for name, one in mains:
            if one.attempt < 0:
                steps.start.append(name)
            elif not one.running and _restarts(policy, one.exit_code):
                _start_again(name, one, backoff, steps, now)
        steps.phase = _phase(mains, policy)
    if steps.phase in pods.FINAL_PHASES:
        steps.start = []
        steps.backing_off = {}
        steps.wake_at = None
        steps.stop = [name for name in sidecars if containers[name].running]
        if steps.stop:
            steps.phase = "Running"
    return steps


def _initialize(
    pod: Manifest, containers: Mapping[str, Observed], policy: str, backoff: Backoff, steps: Steps, now: float
) -> tuple[bool, bool]:
    """(all done, failed for good)."""
    for spec in pods.init_containers(pod):
        name = spec["name"]
        one = containers[name]
        if pods.is_sidecar(spec):
            if not one.running:
                _start_again(name, one, backoff, steps, now)
                return False, False
            if not one.started:
                return False, False
            continue
        if one.attempt < 0:
            steps.start.append(name)
            return False, False
        if one.running:
            return False, False
        if one.exit_code != 0:
            if policy == "Never":
                return False, True
            _start_again(name, one, backoff, steps, now)
            return False, False
    return True, False


def _start_again(name: str, one: Observed, backoff: Backoff, steps: Steps, now: float) -> None:
    row = 0 if backoff.next_row(one) == 1 else one.restarts_in_a_row
    ready_at = one.finished_at + backoff.delay_seconds(row) if one.attempt >= 0 else now
    if ready_at <= now:
        steps.start.append(name)
    else:
        steps.backing_off[name] = backoff.delay_seconds(row)
        steps.wake_at = ready_at if steps.wake_at is None else min(steps.wake_at, ready_at)


def _restarts(policy: str, exit_code: int | None) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _phase(mains: list[tuple[str, Observed]], policy: str) -> str:
    if any(one.attempt < 0 for _, one in mains):
        return "Pending"
    if any(one.running or _restarts(policy, one.exit_code) for _, one in mains):
        return "Running"
    return "Succeeded" if all(one.exit_code == 0 for _, one in mains) else "Failed"
