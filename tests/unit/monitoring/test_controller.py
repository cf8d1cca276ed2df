"""The controller's metrics and probes."""

from __future__ import annotations

import re

import httpx2
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.errors import Unavailable
from kajitori.monitoring.controller import (
    LEADING,
    MESSAGE_OUTCOMES,
    REQUESTS_AT_A_TIME,
    STEPS,
    ControllerMetrics,
    resource_of,
)
from kajitori.monitoring.metrics import POLICY_FAULTS
from kajitori.monitoring.probes import ProbeServer

CLOSED = {
    "step": set(STEPS),
    "reason": {reason.value for reason in Reason} | {"unknown"},
    "phase": {phase.value for phase in Phase},
    "cause": {"priority", "guarantee"},
    "outcome": set(MESSAGE_OUTCOMES),
    "method": {"POST", "PUT", "PATCH", "DELETE"},
    "resource": {"runs/status"},
    "status": {"409"},
    "le": None,
}
"""Allowed values of a label; None for numbers that are fixed in the code."""


def all_of_it() -> ControllerMetrics:
    """Return the metrics of a controller that has measured everything once."""
    metrics = ControllerMetrics(CollectorRegistry(), clock=iter(range(100)).__next__)
    for step in STEPS:
        with metrics.step(step):
            pass
    metrics.add_mirror_gauges(lambda: True, lambda: "pods: broken", lambda: 3.5)
    metrics.add_gauge(LEADING, lambda: True)
    metrics.add_gauge(REQUESTS_AT_A_TIME, lambda: 8)
    metrics.add_gauge(POLICY_FAULTS, lambda: 0)
    metrics.queue_wait_seconds.observe(70)
    metrics.failures.labels(Reason.NODE_LOST.value).inc()
    metrics.runs_ended.labels(Phase.SUCCEEDED.value).inc()
    metrics.preemptions.labels("priority").inc()
    metrics.note_write_error("PUT", "/apis/kajitori.dev/v1alpha1/namespaces/vision/runs/bert/status", 409)
    return metrics


def test_labels_have_closed_sets_of_values() -> None:
    """So that a cluster of any size, with any names of runs, costs Prometheus the same."""
    text = generate_latest(all_of_it().registry).decode()
    assert "bert" not in text
    for name, value in re.findall(r'(\w+)="([^"]*)"', text):
        allowed = CLOSED[name]
        assert allowed is None or value in allowed, (name, value)


def test_measured_values_appear_under_their_metric_names() -> None:
    text = generate_latest(all_of_it().registry).decode()
    for line in (
        "kajitori_controller_leading 1.0",
        'kajitori_controller_step_seconds_count{step="schedule"} 1.0',
        'kajitori_controller_queue_wait_seconds_bucket{le="300.0"} 1.0',
        'kajitori_controller_failures_total{reason="NodeLost"} 1.0',
        'kajitori_controller_runs_ended_total{phase="Succeeded"} 1.0',
        'kajitori_controller_preemptions_total{cause="priority"} 1.0',
        'kajitori_controller_write_errors_total{method="PUT",resource="runs/status",status="409"} 1.0',
        "kajitori_controller_attempts_total 0.0",
        "kajitori_controller_terms_total 0.0",
        "kajitori_controller_waiting_runs 0.0",
        "kajitori_mirror_age_seconds 3.5",
        "kajitori_mirror_troubled 1.0",
    ):
        assert line in text.splitlines(), line


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/namespaces/vision/pods", "pods"),
        ("/api/v1/namespaces/vision/pods/bert-1-0/binding", "pods/binding"),
        ("/api/v1/nodes/n1", "nodes"),
        ("/api/v1/namespaces/kajitori", "namespaces"),
        ("/apis/kajitori.dev/v1alpha1/namespaces/vision/runs/bert/status", "runs/status"),
        ("/apis/coordination.k8s.io/v1/namespaces/kajitori/leases/kajitori-controller", "leases"),
        ("/version", "other"),
    ],
)
def test_a_path_is_counted_by_its_resource(path: str, resource: str) -> None:
    assert resource_of(path) == resource


async def test_probes_and_metrics_are_served() -> None:
    """Healthy as long as it answers; ready unless something keeps it from leading."""
    wrong = ""
    registry = all_of_it().registry
    async with ProbeServer(registry, host="127.0.0.1", port=0, ready=lambda: wrong) as server:
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as http:
            assert (await http.get("/healthz")).text == "ok\n"
            assert (await http.get("/readyz")).status_code == 200
            assert "kajitori_controller_leading 1.0" in (await http.get("/metrics")).text
            wrong = "it sees the cluster as it was 12 s ago"
            answer = await http.get("/readyz")
            assert (answer.status_code, answer.text) == (503, wrong + "\n")
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/v1/runs")).status_code == 404
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(Unavailable, match=str(port)):
            async with ProbeServer(registry, host="127.0.0.1", port=port, ready=str):
                pass
