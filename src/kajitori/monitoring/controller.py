"""Metrics of a controller. Every label has a fixed set of values, so no label names a run, a person or a node."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.monitoring import metrics

log = logging.getLogger(__name__)

LEADING = "kajitori_controller_leading"
TERMS = "kajitori_controller_terms_total"
STEP_SECONDS = "kajitori_controller_step_seconds"
QUEUE_WAIT_SECONDS = "kajitori_controller_queue_wait_seconds"
WAITING_RUNS = "kajitori_controller_waiting_runs"
ATTEMPTS = "kajitori_controller_attempts_total"
FAILURES = "kajitori_controller_failures_total"
RUNS_ENDED = "kajitori_controller_runs_ended_total"
PREEMPTIONS = "kajitori_controller_preemptions_total"
LOGS_WAITING = "kajitori_controller_logs_waiting"
LOGS_LOST = "kajitori_controller_logs_lost_total"
MESSAGES_WAITING = "kajitori_controller_messages_waiting"
MESSAGES = "kajitori_controller_messages_total"
WRITE_ERRORS = "kajitori_controller_write_errors_total"
HISTORY_WAITING = "kajitori_controller_history_waiting"
HISTORY_FAILURES = "kajitori_controller_history_failures_total"
REQUESTS_AT_A_TIME = "kajitori_controller_requests_at_a_time"
MIRROR_AGE_SECONDS = "kajitori_mirror_age_seconds"

_GAUGES = {
    LEADING: "Whether this process leads.",
    REQUESTS_AT_A_TIME: "Requests to the API server that may be in flight: fewer while it is slow.",
    MIRROR_AGE_SECONDS: "Age of the cluster state that this process acts on.",
    metrics.MIRROR_SYNCED: "Whether the cluster's state was read completely.",
    metrics.MIRROR_TROUBLED: "Whether a watch on the API server is broken now.",
    metrics.POLICY_FAULTS: "Faults in the policy file; the policy before it is then in force.",
}

MESSAGE_OUTCOMES = ("delivered", "failed", "given-up")

STEPS = ("full", "partial", "order", "promised", "schedule", "preempt", "provision", "explain", "reconcile")
"""Steps of the controller's work.

`full` is a cycle over the whole queue, `partial` one over its first runs. The steps of a full cycle are: `order`,
sorting the queue; `promised`, reserving nodes freed by preemptions for the runs that caused them; `schedule`, placing;
`preempt`, choosing runs to preempt; `provision`, asking autoscalers; `explain`, saying why the other runs wait.
`reconcile` is the decision about one run.
"""

_STEP_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WAIT_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400)


class ControllerMetrics:
    """Metrics of one controller process."""

    def __init__(self, registry: CollectorRegistry, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.registry = registry
        self._clock = clock
        self.terms = Counter(TERMS, "Times that this process became the leader.", registry=registry)
        self._step_seconds = Histogram(
            STEP_SECONDS, "Time that one step took.", ("step",), buckets=_STEP_BUCKETS, registry=registry
        )
        self._steps = {step: self._step_seconds.labels(step) for step in STEPS}
        self.waiting_runs = Gauge(WAITING_RUNS, "Runs that wait for nodes, as the leader sees it.", registry=registry)
        self.queue_wait_seconds = Histogram(
            QUEUE_WAIT_SECONDS,
            "Time from a run's submission, or its resumption, until its first attempt had nodes.",
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        self.attempts = Counter(ATTEMPTS, "Attempts that were given nodes.", registry=registry)
        self.failures = Counter(
            FAILURES,
            "Attempts that failed, by the reason in the run's status.",
            ("reason",),
            registry=registry,
        )
        self.runs_ended = Counter(RUNS_ENDED, "Runs that ended, by their phase.", ("phase",), registry=registry)
        self.preemptions = Counter(
            PREEMPTIONS,
            "Runs that were preempted, because another has a higher priority or a guarantee.",
            ("cause",),
            registry=registry,
        )
        self.logs_waiting = Gauge(
            LOGS_WAITING,
            "Ended members whose logs are being saved; their Pods stay until then.",
            registry=registry,
        )
        self.logs_lost = Counter(
            LOGS_LOST,
            "Logs of members that were lost, because a node or the store did not answer in time.",
            registry=registry,
        )
        self.history_waiting = Gauge(
            HISTORY_WAITING, "Runs with news that history was not told yet.", registry=registry
        )
        self.history_failures = Counter(
            HISTORY_FAILURES,
            "Times that history could not be told something; it is told again.",
            registry=registry,
        )
        self.messages_waiting = Gauge(
            MESSAGES_WAITING, "Messages to people and teams that are not delivered yet.", registry=registry
        )
        self.messages = Counter(
            MESSAGES,
            "Requests to services and webhooks that deliver messages, by outcome.",
            ("outcome",),
            registry=registry,
        )
        self.write_errors = Counter(
            WRITE_ERRORS,
            "Writes to the API server that failed for good, by HTTP method, resource and status (0: no answer).",
            ("method", "resource", "status"),
            registry=registry,
        )

        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Expose every series of the counters with the value 0 from the start. Otherwise Prometheus would see no
        increase at the first event of a kind."""
        for phase in Phase:
            if phase.is_final:
                self.runs_ended.labels(phase.value)
        for reason in Reason:
            if reason:
                self.failures.labels(reason.value)
        for outcome in MESSAGE_OUTCOMES:
            self.messages.labels(outcome)
        for cause in ("guarantee", "priority"):
            self.preemptions.labels(cause)

    @classmethod
    def unread(cls) -> ControllerMetrics:
        """Return unpublished metrics, for a controller in a process that serves none."""
        return cls(CollectorRegistry())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure one of STEPS."""
        began = self._clock()
        try:
            yield
        finally:
            self.note_step(name, self._clock() - began)

    def note_step(self, name: str, seconds: float) -> None:
        """Record the duration of one of STEPS."""
        self._steps[name].observe(seconds)
        log.debug("step %s took %.1f ms", name, seconds * 1000)

    def note_write_error(self, method: str, path: str, status: int) -> None:
        """Count a write that was refused, or has an unknown outcome."""
        self.write_errors.labels(method, resource_of(path), str(status)).inc()

    def add_gauge(self, name: str, value: Callable[[], float]) -> None:
        """Add one of the gauges that are computed when they are read."""
        Gauge(name, _GAUGES[name], registry=self.registry).set_function(value)

    def add_mirror_gauges(
        self, synced: Callable[[], bool], trouble: Callable[[], str], age: Callable[[], float]
    ) -> None:
        """Add the gauges that show how current the mirror is."""
        self.add_gauge(metrics.MIRROR_SYNCED, synced)
        self.add_gauge(metrics.MIRROR_TROUBLED, lambda: bool(trouble()))
        self.add_gauge(MIRROR_AGE_SECONDS, age)


def resource_of(path: str) -> str:
    """Return the resource in a path of the Kubernetes API, with its subresource: `pods`, `runs/status`."""
    parts = path.partition("?")[0].strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join((*parts[:1], *parts[2:3])) or "other"
