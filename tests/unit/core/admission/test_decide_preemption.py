"""Findings about preemption in the answer to a submitted run."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.parsing import parse_spec


def findings_of(spec: dict[str, Any], policy: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the findings by code."""
    parsed = parse_spec({"image": "bert:3", "resources": {"memory": "1Gi"}, "grace": "1m"} | spec)
    decision = decide(parsed, parse_policy(policy or {}), Facts(), run=RunIdentity("bert", "vision"))
    return {finding.code: finding.message for finding in decision.findings}


def test_a_run_of_low_priority_has_a_finding_about_preemption() -> None:
    """It says after how long, what the program sees then, and what that means without a checkpoint."""
    said = "runs of higher priority may preempt it once it has run for 10m: its members get SIGTERM and 1m to "
    said += "write a checkpoint, and it goes back to the queue"
    assert findings_of({"priority": "low", "checkpoint": {"path": "/ckpt"}})["MayBePreempted"] == said
    anew = "; without a checkpoint (--checkpoint) it then starts from the beginning"
    assert findings_of({"priority": "low"})["MayBePreempted"] == said + anew
    assert findings_of({"priority": "low", "type": "service"})["MayBePreempted"] == said
    assert findings_of({}, {"defaults": {"priority": "low"}})["MayBePreempted"] == said + anew
    assert "MayBePreempted" not in findings_of({"priority": "normal"})
    assert "MayBePreempted" not in findings_of({"priority": "low"}, {"preemption": {"enabled": False}})


def test_interactive_runs_are_told_about_their_notice() -> None:
    """A notebook keeps its files; a terminal's program begins anew. A policy without a notice promises none."""
    told = "runs of higher priority may preempt it once it has run for 10m: its owner is told 10m before it is stopped"
    back = "and it goes back to the queue"
    notebook, terminal = {"type": "notebook", "priority": "low"}, {"stdin": True, "tty": True, "priority": "low"}
    assert findings_of(notebook)["MayBePreempted"] == f"{told}, its files are kept, {back}"
    anew = "; without a checkpoint (--checkpoint) it then starts from the beginning"
    assert findings_of(terminal)["MayBePreempted"] == f"{told}, {back}{anew}"
    assert "SIGTERM" in findings_of(notebook, {"notebooks": {"notice": "0s"}})["MayBePreempted"]


@pytest.mark.parametrize(
    ("guaranteed", "with_gpus", "without"),
    [
        ({"gpus": 8}, True, False),
        ({"cpu": 8}, False, True),
        ({"nodes": 1}, False, False),
        ({"gpus": 8, "cpu": 8}, True, True),
    ],
)
def test_guarantees_of_other_teams_are_a_finding_if_they_cover_the_run(
    guaranteed: dict[str, int], with_gpus: bool, without: bool
) -> None:
    policy = {"guarantees": [{"namespace": "speech"} | guaranteed]}
    gpus = {"resources": {"memory": "1Gi", "gpu": 1}}
    said = "that its own team is not guaranteed: its members get SIGTERM"
    assert (f"preempt it to get GPUs {said}" in findings_of(gpus, policy).get("MayGiveBack", "")) == with_gpus
    assert (f"preempt it to get nodes {said}" in findings_of({}, policy).get("MayGiveBack", "")) == without
    whole = {"resources": {"wholeNode": True}}
    assert ("MayGiveBack" in findings_of(whole, policy)) == ("nodes" in guaranteed)
    assert "MayGiveBack" not in findings_of(gpus)


def test_an_elastic_gang_has_a_finding_that_its_size_may_change() -> None:
    said = "it starts with as many members as fit, 2 to 8, and is restarted to grow or to shrink: "
    said += "members get SIGTERM and 1m to write a checkpoint"
    size = {"replicas": 8, "minReplicas": 2}
    assert findings_of(size | {"checkpoint": {"path": "/ckpt"}})["MayChangeSize"] == said
    assert (
        findings_of(size)["MayChangeSize"]
        == f"{said}; without a checkpoint (--checkpoint) it then starts from the beginning"
    )
    assert "MayChangeSize" not in findings_of({"replicas": 8})
