"""PodDisruptionBudgets: which members of a run may be evicted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.scenes.gangs import member

from kajitori.core.gang import MemberState
from kajitori.core.naming import names
from kajitori.core.pods.budgets import budget_spec
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemberCounts

BY_UID = {"matchLabels": {names.LABEL_RUN_UID: "u1"}}


def status(total: int, phase: Phase = Phase.RUNNING) -> RunStatus:
    return RunStatus(phase=phase, members=MemberCounts(total=total))


def test_no_member_of_a_gang_may_be_evicted() -> None:
    found = budget_spec("batch", "u1", status(4), [member(rank) for rank in range(4)])
    assert found == {"minAvailable": 4, "selector": BY_UID, "unhealthyPodEvictionPolicy": "AlwaysAllow"}


def test_only_members_on_cordoned_nodes_may_be_evicted() -> None:
    members = [member(rank, node_cordoned=rank in (1, 10)) for rank in range(12)]
    found = budget_spec("batch", "u1", status(12), members)
    assert found is not None
    (left_out,) = found["selector"]["matchExpressions"]
    assert left_out == {"key": names.LABEL_RANK, "operator": "NotIn", "values": ["1", "10"]}
    assert found["minAvailable"] == 10


def test_ended_members_on_cordoned_nodes_do_not_count() -> None:
    ended = member(1, node_cordoned=True, state=MemberState.SUCCEEDED)
    assert budget_spec("batch", "u1", status(2), [member(0), ended]) == budget_spec("batch", "u1", status(2), [])


def test_health_protects_nobody_less() -> None:
    """A member whose check fails is not ready. It is evicted only from a service that has others."""
    members = [member(rank) for rank in range(4)]
    for kind, total, evicts in (
        ("batch", 4, "IfHealthyBudget"),
        ("service", 1, "IfHealthyBudget"),
        ("service", 4, "AlwaysAllow"),
    ):
        found = budget_spec(kind, "u1", status(total), members[:total], has_health_check=True)  # type: ignore[arg-type]
        assert found is not None and found["unhealthyPodEvictionPolicy"] == evicts


@pytest.mark.parametrize("kind", ["batch", "service"])
def test_a_single_member_is_protected_until_its_node_is_cordoned(kind: Any) -> None:
    found = budget_spec(kind, "u1", status(1), [member(0)])
    assert found is not None and found["minAvailable"] == 1
    assert budget_spec(kind, "u1", status(1), [member(0, node_cordoned=True)]) is None


def test_members_of_a_service_may_be_evicted_one_at_a_time() -> None:
    found = budget_spec("service", "u1", status(3), [member(rank, node_cordoned=rank == 0) for rank in range(3)])
    assert found is not None
    assert (found["minAvailable"], found["selector"]) == (2, BY_UID)


@pytest.mark.parametrize(
    ("phase", "protected"),
    [
        (Phase.QUEUED, False),
        (Phase.STARTING, True),
        (Phase.RUNNING, True),
        (Phase.RESTARTING, True),
        (Phase.SUCCEEDED, False),
        (Phase.FAILED, False),
        (Phase.STOPPED, False),
    ],
)
def test_a_run_without_members_has_no_budget(phase: Phase, protected: bool) -> None:
    """Kubernetes would report it as a violated budget for ever."""
    assert (budget_spec("batch", "u1", status(2, phase), []) is not None) == protected
