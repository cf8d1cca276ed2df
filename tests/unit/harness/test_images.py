"""Wheels of installed packages, for images that are built without a registry."""

from __future__ import annotations

from tests.harness.platform.images import fitting_tag


def test_a_wheel_for_several_pythons_is_named_after_this_one() -> None:
    assert fitting_tag("Wheel-Version: 1.0\nTag: py2-none-any\nTag: py3-none-any\n") == "py3-none-any"
