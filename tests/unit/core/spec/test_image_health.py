"""Health checks of images."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.spec.image_health import health_of_image


@pytest.mark.parametrize(
    ("check", "health"),
    [
        ({"Test": ["CMD-SHELL", "test -e /x"]}, {"command": "test -e /x"}),
        (
            {"Test": ["CMD", "a", "b"], "Interval": 1_500_000_000, "Timeout": 0, "StartPeriod": 10**9, "Retries": 2},
            {"command": ["a", "b"], "interval": "2s", "startPeriod": "1s", "retries": 2},
        ),
        ({"Test": ["NONE"]}, None),
        ({"Test": ["CMD"]}, None),
        ({"Test": ["CMD", "a"], "Retries": 10**9}, None),
        ({"Interval": 10**9}, None),
        ({}, None),
    ],
)
def test_the_check_of_an_image_becomes_that_of_a_run(check: dict[str, Any], health: dict[str, Any] | None) -> None:
    """Kubelets know whole seconds, and 0 stands for the default. One that no run may have is no check."""
    made = health_of_image(check)
    assert (made.model_dump(mode="json", exclude_defaults=True) if made is not None else None) == health
