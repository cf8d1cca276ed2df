"""Fixtures that tests in several folders use, and which tests go to one worker together."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator

import hypothesis
import pytest
from tests.harness.fixtures import (
    cluster,
    kube_server,
    local_cluster,
    own_namespace,
    real_control_plane,
    real_server,
    with_controller_manager,
    with_scheduler,
)
from tests.harness.identity_provider import identity_provider
from tests.harness.shared_servers import SHARED_SERVERS, spread
from tests.helpers.files import changes_count_at_once

__all__ = [
    "changes_count_at_once",
    "cluster",
    "identity_provider",
    "kube_server",
    "local_cluster",
    "own_namespace",
    "real_control_plane",
    "real_server",
    "with_controller_manager",
    "with_scheduler",
]

hypothesis.settings.register_profile(
    "explore", deadline=None, print_blob=True
)  # `make explore`: other examples each time
hypothesis.settings.register_profile("kajitori", deadline=None, derandomize=True, max_examples=50)
"""Machines are busy: no test is timed. The same examples each time: half as many as `make explore` tries of others."""
hypothesis.settings.load_profile("kajitori")

os.environ.setdefault("GOGC", "400")
"""kube-apiserver, etcd and kubectl live shortly here: they look for garbage less often, which is a tenth of their time,
and take some 100 MiB more."""

os.environ.setdefault("GOMAXPROCS", "1")
"""They and four workers share few cores: looking for work on the others is another tenth."""

UNIT = "tests/unit/"

RUNS_GROUPS = ("runs", "runs-2")
"""Tests of runs on a real API server take longer than one worker has, so two workers have such a server each. Each gets
about half of the test functions."""

LONGEST_FIRST = (
    *RUNS_GROUPS,
    *("e2e-tutorial", "parts-alone", "local_cluster", "e2e-ordinary-user", "e2e-up"),
    *("differential", "test_bad_apiserver", "real", "embedded/kubelet/network/test_pod_networks", "test_bad_input"),
    *("blobs/test_blobs", "embedded/apiserver/test_kinds_properties"),
)
"""Groups that begin first, so that no worker is left with a long one when the others have nothing to do any more."""

SHARED = {
    "local_cluster": "local_cluster",
    "real_server": "real",
    "real_control_plane": "runs",
    "cluster": "runs",
    "web": "runs",
}
"""Fixtures that start servers, of which one is enough for all tests; the group of those that share it."""

PATIENCE_SECONDS = 600
"""What a test with whole clusters and processes may take on a machine that does much else."""

OF_A_MODULE = "web"
"""A fixture of which each module has one, on the embedded server too."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is made meanwhile is garbage: to look for it takes a fifth of the time, in each worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each group of tests goes to one worker, the longest groups first, unit tests last; those that start servers have
    time to wait for them."""
    groups = {item: _group(item) for item in items}
    _spread_runs(groups)
    items.sort(key=lambda item: _place(groups[item], item.nodeid))
    for item, group in groups.items():
        if not item.nodeid.startswith(UNIT) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))
        if group and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note for which group servers start."""
    SHARED_SERVERS.group = _marked(item)


@pytest.hookimpl(trylast=True)  # when the fixtures of the module are gone, which may use the servers to the last
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End servers with the last module of the group that shares them, not with the last test of all: an idle server
    still takes memory and processor time."""
    next_module, next_group = (nextitem.path, _marked(nextitem)) if nextitem else (None, "")
    SHARED_SERVERS.end_idle(item.path, next_module, next_group)


@pytest.hookimpl(trylast=True)  # when the remaining fixtures are gone
def pytest_sessionfinish() -> None:
    """End the servers of a session that was cut short."""
    SHARED_SERVERS.end_all()


def _marked(item: pytest.Item) -> str:
    """The group that goes to one worker, where it has one."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def _group(item: pytest.Item) -> str:
    """Which tests share servers: those with a mark, those on the same real API server, those on a module's own. Unit
    tests of a module go together, too: to hand out thousands one by one takes time that grows with their square."""
    if marked := _marked(item):
        return marked
    used = getattr(item, "fixturenames", ())
    if item.get_closest_marker("real") or "local_cluster" in used:
        return next((SHARED[name] for name in SHARED if name in used), item.path.stem)
    if item.nodeid.startswith(UNIT):
        return item.nodeid.partition("::")[0].removeprefix(UNIT).removesuffix(".py")
    return item.path.stem if OF_A_MODULE in used else ""


def _spread_runs(groups: dict[pytest.Item, str]) -> None:
    """Spread the modules of "runs" over its servers; tests with a mark stay where the mark says."""
    movable = [item for item, group in groups.items() if group == RUNS_GROUPS[0] and not _marked(item)]
    functions: dict[str, set[str]] = {}
    for item in movable:
        functions.setdefault(item.path.stem, set()).add(item.name.partition("[")[0])
    parts = spread({module: len(tests) for module, tests in functions.items()}, len(RUNS_GROUPS))
    for item in movable:
        groups[item] = RUNS_GROUPS[parts[item.path.stem]]


def _place(group: str, nodeid: str) -> tuple[int, bool, bool]:
    first = LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)
    return first, nodeid.startswith(UNIT), not group
