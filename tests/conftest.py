"""Fixtures that tests in several folders use, and which tests go to one worker together."""

from __future__ import annotations

import pytest
from tests.helpers.real_cluster import any_cluster, own_namespace, real_cluster, with_controller_manager, with_scheduler

__all__ = ["any_cluster", "own_namespace", "real_cluster", "with_controller_manager", "with_scheduler"]


LONGEST_FIRST = ("e2e/test_tutorial.py", "cluster/test_parts_alone.py", "e2e/", "cluster/")
"""So that no worker is left with a long test when the others have nothing to do any more."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A module's tests on a real API server share one: they go to one worker, where they are in no group already."""
    items.sort(key=lambda item: [not item.nodeid.startswith(f"tests/{place}") for place in LONGEST_FIRST])
    for item in items:
        if item.get_closest_marker("real") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
