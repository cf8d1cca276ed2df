"""Fixtures that tests in several folders use, and which tests go to one worker together."""

from __future__ import annotations

import pytest
from tests.helpers.real_cluster import any_cluster, own_namespace, real_cluster, with_controller_manager, with_scheduler

__all__ = ["any_cluster", "own_namespace", "real_cluster", "with_controller_manager", "with_scheduler"]


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A module's tests on a real API server share one: they go to one worker, where they are in no group already."""
    for item in items:
        if item.get_closest_marker("real") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
