"""The choice of tests that `make test` runs on a real API server too: they show that both kinds of server behave alike.

Most tests in tests/cluster exist on the embedded server and on a real one, where they cost four times as much processor
time. The mark `conformance` is for tests that touch what the two could do differently: admission, permissions, garbage
collection, scheduling, eviction, quotas, watches, streams to kubelets, or kubectl. The other tests only create, change,
list and watch objects, which these show; `make test-everywhere` runs them on both.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

MARK = "conformance"


def beyond_conformance(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests on a real server that also run on the embedded one and do not have the mark."""
    servers = {item: _parameters(item) for item in items}
    embedded = {_function(item) for item, found in servers.items() if "embedded" in found}
    return {
        item
        for item, found in servers.items()
        if "real" in found and _function(item) in embedded and not item.get_closest_marker(MARK)
    }


def _parameters(item: pytest.Item) -> set[object]:
    """Return the test's parameters that are texts."""
    callspec = getattr(item, "callspec", None)
    return {value for value in callspec.params.values() if isinstance(value, str)} if callspec else set()


def _function(item: pytest.Item) -> str:
    """Return the test's name without its parameters."""
    return item.nodeid.partition("[")[0]
