"""The status of a PodDisruptionBudget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kajitori.embedded.controllers.budgets import Budget, is_same, status
from kajitori.embedded.objects import LabelSelector, Pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def budget(disrupted: dict[str, str] | None = None, **spec: Any) -> Budget:
    document = {"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": {"disruptedPods": disrupted}}
    return msgspec.convert(document, Budget)


def pods(ready: int, unready: int = 0, deleting: int = 0, finished: int = 0) -> list[Pod]:
    kinds = ["True"] * ready + ["False"] * unready + ["deleting"] * deleting + ["finished"] * finished
    made = []
    for i, kind in enumerate(kinds):
        document = {
            "metadata": {"name": f"p{i}", "deletionTimestamp": "2026" if kind == "deleting" else ""},
            "status": {
                "phase": "Succeeded" if kind == "finished" else "Running",
                "conditions": [{"type": "Ready", "status": "False" if kind == "False" else "True"}],
            },
        }
        made.append(msgspec.convert(document, Pod))
    return made


@pytest.mark.parametrize(
    ("spec", "given", "desired", "healthy", "allowed"),
    [
        ({"minAvailable": 2}, pods(3), 2, 3, 1),
        ({"minAvailable": 2}, pods(1, unready=1), 2, 1, 0),
        ({"minAvailable": "50%"}, pods(3), 2, 3, 1),
        ({"maxUnavailable": 1}, pods(3, unready=1), 3, 3, 0),
        ({"maxUnavailable": "50%"}, pods(4), 2, 4, 2),
        ({"maxUnavailable": 0}, pods(4), 4, 4, 0),
        ({"maxUnavailable": 1}, pods(2, deleting=1), 2, 2, 0),
        ({"maxUnavailable": 1}, pods(2, finished=3), 1, 2, 1),
        ({"minAvailable": 0}, pods(0), 0, 0, 0),
    ],
)
def test_allowed_disruptions(spec: dict[str, Any], given: list[Pod], desired: int, healthy: int, allowed: int) -> None:
    """A Pod that is being deleted or not ready is not healthy; a finished one does not count."""
    found = status(budget(**spec), given, NOW)
    assert (found["desiredHealthy"], found["currentHealthy"], found["disruptionsAllowed"]) == (
        desired,
        healthy,
        allowed,
    )
    assert found["observedGeneration"] == 3
    assert found["conditions"][0]["status"] == ("True" if allowed else "False")


def test_the_owners_replicas_count_if_they_are_known() -> None:
    """With two of three Pods, none may be evicted."""
    assert status(budget(maxUnavailable=1), pods(2), NOW, expected_pods=3)["disruptionsAllowed"] == 0


def test_an_absolute_minimum_ignores_the_owners_replicas() -> None:
    """The existing Pods are the expected ones, as in the real disruption controller."""
    found = status(budget(minAvailable=1), pods(2), NOW, expected_pods=5)
    assert (found["expectedPods"], found["disruptionsAllowed"]) == (2, 1)


def test_an_evicted_pod_counts_as_gone_for_up_to_two_minutes() -> None:
    """Two evictions in a row must not both find the same Pod healthy."""
    evicted = budget({"p0": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"}, minAvailable=1)
    soon = status(evicted, pods(2), NOW + timedelta(seconds=60))
    assert soon["currentHealthy"] == 1
    assert list(soon["disruptedPods"]) == ["p0"]
    late = status(evicted, pods(2), NOW + timedelta(seconds=121))
    assert late["currentHealthy"] == 2
    assert late["disruptedPods"] is None


def test_an_unchanged_status_is_not_written_again() -> None:
    given = budget(minAvailable=1)
    wanted = status(given, pods(2), NOW)
    assert not is_same(given, wanted)
    written = msgspec.convert({"metadata": {"name": "b", "generation": 3}, "status": wanted}, Budget)
    assert is_same(written, wanted)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "In", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["1"]}]}, False),
    ],
)
def test_label_selectors(selector: dict[str, Any], matches: bool) -> None:
    """All requirements have to hold; an empty selector matches everything."""
    assert msgspec.convert(selector, LabelSelector).matches({"a": "1"}) is matches
