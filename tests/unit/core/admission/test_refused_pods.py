"""Refusals of an API server, and their causes."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.refused_pods import (
    is_webhook_failure,
    may_be_limit_range,
    name_limit_ranges,
    reason_of_refusal,
)
from kajitori.core.spec.reasons import Reason


def limit_range(name: str, **limit: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **limit}]}}


RANGES = [
    limit_range("small", max={"memory": "512Mi"}),
    limit_range("large", min={"memory": "2Gi"}, maxLimitRequestRatio={"cpu": "2"}),
    limit_range("filling", default={"cpu": "500m"}, type="Container"),
    limit_range("whole", max={"memory": "1Gi"}, type="Pod"),
    {"metadata": {"name": "empty"}},
]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("maximum memory usage per Container is 512Mi, but limit is 1Gi", "small"),
        ("minimum memory usage per Container is 2Gi, but request is 1Gi", "large"),
        ("maximum memory usage per Pod is 1Gi, but limit is 2Gi", "whole"),
        ("cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000", "large"),
        ('requests: Invalid value: "1": must be less than or equal to cpu limit of 500m', "filling"),
        (
            "[maximum memory usage per Container is 512Mi, but limit is 1Gi, "
            "minimum memory usage per Container is 2Gi, but request is 1Gi]",
            "large, small",
        ),
    ],
)
def test_the_violated_limit_range_is_named(message: str, named: str) -> None:
    """The API server says what is wrong, but not the LimitRange's name."""
    assert may_be_limit_range(message)
    assert name_limit_ranges(message, RANGES) == f"{message} (LimitRange {named})"


def test_other_messages_are_unchanged() -> None:
    message = 'violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)'
    assert not may_be_limit_range(message)
    assert name_limit_ranges(message, RANGES) == message
    assert name_limit_ranges("maximum memory usage per Container is 1Gi", []).endswith("1Gi")


@pytest.mark.parametrize(
    "message",
    [
        "exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3",
        "failed quota: small: must specify limits.cpu for: main",
        "status unknown for quota: small, resources: pods",
    ],
)
def test_every_message_about_a_quota_has_the_reason_quota(message: str) -> None:
    assert reason_of_refusal(f'pods "x" is forbidden: {message}') is Reason.QUOTA


def test_a_refusal_or_failure_of_a_webhook_is_recognised() -> None:
    """It is distinguished from failures of the API server itself, which are temporary."""
    assert is_webhook_failure('admission webhook "no.example.com" denied the request: not today')
    timeout = 'Internal error occurred: failed calling webhook "no.example.com": context deadline exceeded'
    assert is_webhook_failure(timeout) and reason_of_refusal(timeout) is Reason.ADMISSION
    assert not is_webhook_failure("etcdserver: request timed out")
