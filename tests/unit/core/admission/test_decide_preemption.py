"""Findings about preemption in the answer to a submitted run."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.run import parse_spec


def told(spec: dict[str, Any], policy: dict[str, Any] | None = None) -> dict[str, str]:
    """Findings by code."""
    parsed = parse_spec({"image": "bert:3", "resources": {"memory": "1Gi"}, "grace": "1m"} | spec)
    decision = decide(parsed, parse_policy(policy or {}), Facts(), run=RunIdentity("bert", "vision"))
    return {finding.code: finding.message for finding in decision.findings}


def test_a_run_of_low_priority_is_told_that_it_may_be_preempted() -> None:
    """After how long, what its program sees then, and what it means without a checkpoint."""
    said = "runs of higher priority may preempt it once it has run for 10m: its members get SIGTERM and 1m to "
    said += "write a checkpoint, and it goes back to the queue"
    assert told({"priority": "low", "checkpoint": {"path": "/ckpt"}})["MayBePreempted"] == said
    anew = "; without a checkpoint (--checkpoint) it then starts from the beginning"
    assert told({"priority": "low"})["MayBePreempted"] == said + anew
    assert told({"priority": "low", "type": "service"})["MayBePreempted"] == said
    assert told({}, {"defaults": {"priority": "low"}})["MayBePreempted"] == said + anew
    assert "MayBePreempted" not in told({"priority": "normal"})
    assert "MayBePreempted" not in told({"priority": "low"}, {"preemption": {"enabled": False}})


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
    assert (f"preempt it to get GPUs {said}" in told(gpus, policy).get("MayGiveBack", "")) == with_gpus
    assert (f"preempt it to get nodes {said}" in told({}, policy).get("MayGiveBack", "")) == without
    whole = {"resources": {"wholeNode": True}}
    assert ("MayGiveBack" in told(whole, policy)) == ("nodes" in guaranteed)
    assert "MayGiveBack" not in told(gpus)


def test_an_elastic_gang_has_a_finding_that_its_size_may_change() -> None:
    said = "it starts with as many members as fit, 2 to 8, and is restarted to grow or to shrink: "
    said += "members get SIGTERM and 1m to write a checkpoint"
    size = {"replicas": 8, "minReplicas": 2}
    assert told(size | {"checkpoint": {"path": "/ckpt"}})["MayChangeSize"] == said
    assert (
        told(size)["MayChangeSize"] == f"{said}; without a checkpoint (--checkpoint) it then starts from the beginning"
    )
    assert "MayChangeSize" not in told({"replicas": 8})
