"""The status of a PodDisruptionBudget, as a function of the budget, its Pods and the time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kajitori.core.formats.times import format_time, parse_time
from kajitori.embedded.controllers.node_health import is_ready
from kajitori.embedded.objects import Condition, LabelSelector, Pod, condition, no_metadata
from kajitori.kube.metadata import ObjectMeta

DISRUPTED_POD_SECONDS = 120
"""Time for which an evicted Pod that still exists counts as gone (`DeletionTimeout` of the disruption controller)."""


class BudgetSpec(msgspec.Struct, rename="camel"):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    disrupted_pods: dict[str, str | None] | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: list[Condition] | None = None


class Budget(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta = msgspec.field(default_factory=no_metadata)
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


def status(budget: Budget, pods: Sequence[Pod], now: datetime, expected_pods: int | None = None) -> dict[str, Any]:
    """Return the status that the budget should have.

    `pods` are the Pods that its selector matches. `expected_pods` is the number of Pods that their owners want; None
    stands for the number of existing Pods.
    """
    disrupted = _still_evicted(budget, pods, now)
    living = [p for p in pods if not p.is_finished]
    healthy = sum(
        is_ready(p) and not p.metadata.deletion_timestamp and p.metadata.name not in disrupted for p in living
    )
    if isinstance(budget.spec.min_available, int):
        expected = len(pods)  # as in Kubernetes, the number that the owners want does not count here
    else:
        expected = len(living) if expected_pods is None else expected_pods
    desired = desired_healthy(budget.spec, expected)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    state = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    before = condition(budget.status.conditions, "DisruptionAllowed")
    kept = before.last_transition_time if before is not None and before.status == state[0] else None
    return {
        "observedGeneration": budget.metadata.generation,
        "disruptedPods": disrupted or None,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": state[0],
                "reason": state[1],
                "message": "",
                "observedGeneration": budget.metadata.generation,
                "lastTransitionTime": kept or format_time(now),
            }
        ],
    }


def desired_healthy(spec: BudgetSpec, expected_pods: int) -> int:
    """Return how many Pods have to be healthy. Percentages are rounded up, for both kinds of limit, as in
    Kubernetes."""
    if spec.max_unavailable is not None:
        return max(0, expected_pods - _scaled_value(spec.max_unavailable, expected_pods))
    if spec.min_available is not None:
        return _scaled_value(spec.min_available, expected_pods)
    return max(0, expected_pods - 1)


def is_same(budget: Budget, wanted: dict[str, Any]) -> bool:
    """Return whether the budget already has this status."""
    s = budget.status
    return (
        s.observed_generation == wanted["observedGeneration"]
        and (s.disrupted_pods or None) == wanted["disruptedPods"]
        and s.disruptions_allowed == wanted["disruptionsAllowed"]
        and s.current_healthy == wanted["currentHealthy"]
        and s.desired_healthy == wanted["desiredHealthy"]
        and s.expected_pods == wanted["expectedPods"]
        and bool(s.conditions)
    )


def _still_evicted(budget: Budget, pods: Sequence[Pod], now: datetime) -> dict[str, str | None]:
    """Return the evicted Pods that still exist without a deletion time; after DISRUPTED_POD_SECONDS they count
    again."""
    present = {p.metadata.name for p in pods if not p.metadata.deletion_timestamp}
    evicted: dict[str, str | None] = {}
    for name, evicted_at in (budget.status.disrupted_pods or {}).items():
        moment = parse_time(evicted_at or "")
        if name in present and moment is not None and now < moment + timedelta(seconds=DISRUPTED_POD_SECONDS):
            evicted[name] = evicted_at
    return evicted


def _scaled_value(value: int | str, total: int) -> int:
    if isinstance(value, int):
        return value
    percent = value.removesuffix("%")
    if not percent.isdigit():
        return total
    return -(-int(percent) * total // 100)
