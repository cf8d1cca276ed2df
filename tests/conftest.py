"""Fixtures that tests in several folders use, and which tests go to one worker together."""

from __future__ import annotations

import pytest
from tests.helpers.platform import platform
from tests.helpers.real_cluster import any_cluster, own_namespace, real_cluster, with_controller_manager, with_scheduler
from tests.helpers.world import runs_server, world

__all__ = [
    "any_cluster",
    "own_namespace",
    "platform",
    "real_cluster",
    "runs_server",
    "with_controller_manager",
    "with_scheduler",
    "world",
]

LONGEST_FIRST = ("e2e/test_tutorial.py", "cluster/test_parts_alone.py", "e2e/", "cluster/")
"""So that no worker is left with a long test when the others have nothing to do any more."""

SHARED = {"platform": "platform", "real_cluster": "real", "runs_server": "runs", "world": "runs"}
"""Fixtures that start servers, of which one is enough for all tests; the group of those that share it."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a real API server go to one worker: all that use a shared fixture, else those of a module."""
    items.sort(key=lambda item: [not item.nodeid.startswith(f"tests/{place}") for place in LONGEST_FIRST])
    for item in items:
        if item.get_closest_marker("xdist_group"):
            continue
        used = getattr(item, "fixturenames", ())
        group = next((SHARED[name] for name in SHARED if name in used), item.path.stem)
        if item.get_closest_marker("real") or group == "platform":
            item.add_marker(pytest.mark.xdist_group(group))
