"""Fixtures for all tests, and the distribution of tests to workers.

A group of tests (`xdist_group`) runs in one worker, because its tests share servers, which are in tests/harness.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator

import hypothesis
import pytest
from tests.harness.collecting import one_folder_at_a_time
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
from tests.harness.memory_folder import make_memory_folder
from tests.harness.servers.conformance import beyond_conformance
from tests.harness.servers.identity_provider import identity_provider
from tests.harness.servers.shared_servers import SHARED_SERVERS, spread
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

# Without deadlines, because machines are busy. `make explore` tries other examples each time, and three times as many.
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.register_profile("kajitori", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("kajitori")

os.environ.setdefault("GOGC", "400")
"""kube-apiserver, etcd and kubectl collect garbage less often. That saves a tenth of their processor time, and takes
100 MiB more memory."""

os.environ.setdefault("GOMAXPROCS", "1")
"""Each of them uses one core. Many workers share few cores, and looking for work on idle ones takes another tenth."""

UNIT = "tests/unit/"

RUNS_GROUPS = ("runs", "runs-2")
"""Groups of the tests of runs on a real API server. They would take longer than all other tests if they were one group,
so that there are two, with a server and about half of the test functions each."""

LONGEST_FIRST = (
    *RUNS_GROUPS,
    *("e2e-tutorial", "parts-alone", "browser", "browser-2", "local_cluster", "people", "e2e-ordinary-user", "e2e-up"),
    *("e2e-following", "generated-calls", "e2e-wheel"),
    *("differential", "test_bad_apiserver", "real", "embedded/kubelet/network/test_pod_networks", "test_bad_input"),
    *("blobs/stores/test_blobs", "embedded/apiserver/test_kinds_properties", "member/test_netbench"),
    *("embedded/kubelet/pods/test_worker", "cli/test_completion", "cli/test_signals"),
)
"""Groups that start first, so that none of them is still running in one worker when the others are done."""

GROUPS_OF_FIXTURES = {
    "identity_provider": "people",
    "local_cluster": "local_cluster",
    "real_server": "real",
    "real_control_plane": "runs",
    "cluster": "runs",
    "web": "runs",
}
"""Fixtures whose servers are shared, and the group of the tests that share them."""

MODULE_FIXTURE = "web"
"""Fixture that each module starts once, also on an embedded server: the tests of a module are a group."""

TIMEOUT_SECONDS = 600
"""Time limit of a test with clusters and processes; unit tests have the one in pyproject.toml."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of single tests."""
    what = "make this many new random calls of each operation of the Web API, also with the real API server"
    parser.addoption("--generated-calls", type=int, default=0, metavar="NUMBER", help=what)
    what = "of the tests on both kinds of API server, run only those with the mark `conformance` on the real one"
    parser.addoption("--conformance", action="store_true", help=what)


def pytest_configure(config: pytest.Config) -> None:
    """Put the arguments in order. Let the workers make temporary files in memory; tests without workers leave theirs
    on the disk, to look at."""
    config.args[:] = one_folder_at_a_time(config.args)
    if not config.getoption("numprocesses", None) or "TMPDIR" in os.environ:
        return
    folder = make_memory_folder()
    if folder is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: there is none, and looking for it takes a fifth of the time.

    Tests look for it less often than by default, which takes an eighth of their time; so it takes half of that.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests out, assign tests to groups, and put the longest groups first and unit tests last."""
    if config.getoption("conformance") and (left_out := beyond_conformance(items)):
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    groups = {item: _group(item) for item in items}
    _spread_runs(groups)
    items.sort(key=lambda item: _place(groups[item], item.nodeid))
    for item, group in groups.items():
        if not item.nodeid.startswith(UNIT) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))
        if group and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the group for which servers are started."""
    SHARED_SERVERS.group = _marked(item)


@pytest.hookimpl(trylast=True)  # after the teardown of the module's fixtures, which may still use the servers
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End servers after the last module of their group. An idle server takes memory and processor time."""
    next_module, next_group = (nextitem.path, _marked(nextitem)) if nextitem else (None, "")
    SHARED_SERVERS.end_idle(item.path, next_module, next_group)


@pytest.hookimpl(trylast=True)  # after the teardown of the remaining fixtures
def pytest_sessionfinish() -> None:
    """End the servers of a session that was interrupted."""
    SHARED_SERVERS.end_all()


def _marked(item: pytest.Item) -> str:
    """Return the test's group; empty if it has none."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def _group(item: pytest.Item) -> str:
    """Return the group for a test: that of its mark, of the server that it shares, or of its module.

    A test without a group goes to any worker. The unit tests of a module are a group, because xdist takes quadratic
    time to distribute thousands of tests one by one.
    """
    if marked := _marked(item):
        return marked
    used = getattr(item, "fixturenames", ())
    if item.get_closest_marker("real") or {"local_cluster", "identity_provider"}.intersection(used):
        return next((group for name, group in GROUPS_OF_FIXTURES.items() if name in used), item.path.stem)
    if item.nodeid.startswith(UNIT):
        return item.nodeid.partition("::")[0].removeprefix(UNIT).removesuffix(".py")
    return item.path.stem if MODULE_FIXTURE in used else ""


def _spread_runs(groups: dict[pytest.Item, str]) -> None:
    """Distribute the modules of tests of runs to RUNS_GROUPS; tests with a mark keep their group."""
    movable = [item for item, group in groups.items() if group == RUNS_GROUPS[0] and not _marked(item)]
    functions: dict[str, set[str]] = {}
    for item in movable:
        functions.setdefault(item.path.stem, set()).add(item.name.partition("[")[0])
    parts = spread({module: len(tests) for module, tests in functions.items()}, len(RUNS_GROUPS))
    for item in movable:
        groups[item] = RUNS_GROUPS[parts[item.path.stem]]


def _place(group: str, nodeid: str) -> tuple[int, bool, bool]:
    """Return the sort key of a test: long groups, other groups, tests without a group, unit tests."""
    first = LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)
    return first, nodeid.startswith(UNIT), not group
