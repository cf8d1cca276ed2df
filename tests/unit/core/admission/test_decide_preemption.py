"""What a run is told about preemption when it is submitted."""

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
    anew = "; without a checkpoint (--checkpoint) it begins anew then"
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
def test_where_teams_are_guaranteed_something_runs_that_want_the_same_are_told_that_they_may_give_it_back(
    guaranteed: dict[str, int], with_gpus: bool, without: bool
) -> None:
    policy = {"guarantees": [{"namespace": "speech"} | guaranteed]}
    gpus = {"resources": {"memory": "1Gi", "gpu": 1}}
    said = "that its team is not guaranteed it gives back to a team that is and wants them: its members get SIGTERM"
    assert told(gpus, policy).get("MayGiveBack", "").startswith(f"GPUs {said}") == with_gpus
    assert told({}, policy).get("MayGiveBack", "").startswith(f"nodes {said}") == without
    whole = {"resources": {"wholeNode": True}}
    assert ("MayGiveBack" in told(whole, policy)) == ("nodes" in guaranteed)
    assert "MayGiveBack" not in told(gpus)


def test_an_elastic_gang_is_told_that_it_may_be_started_again_with_another_size() -> None:
    said = (
        "it starts with what fits, 2 to 8 members, and is started again to grow or to shrink: members get SIGTERM and "
    )
    said += "1m to write a checkpoint"
    size = {"replicas": 8, "minReplicas": 2}
    assert told(size | {"checkpoint": {"path": "/ckpt"}})["MayChangeSize"] == said
    assert told(size)["MayChangeSize"] == f"{said}; without a checkpoint (--checkpoint) it begins anew each time"
    assert "MayChangeSize" not in told({"replicas": 8})
