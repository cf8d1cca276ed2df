"""What kubelets say of failed health checks."""

from __future__ import annotations

import pytest

from kajitori.core.spec.status_parts.health import output_of_check


@pytest.mark.parametrize(
    ("message", "output"),
    [
        ("Readiness probe failed: cat: /x: No such file", "cat: /x: No such file"),
        ("Startup probe failed: ", ""),
        ("Readiness probe failed: \0\0x\0\n", "x"),
        ('Readiness probe errored and resulted in unknown state: "sh": not found', '"sh": not found'),
        ("something else: x", "something else: x"),
    ],
)
def test_the_kubelets_own_words_are_no_output(message: str, output: str) -> None:
    assert output_of_check(message) == output
