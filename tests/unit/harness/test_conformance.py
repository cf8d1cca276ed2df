"""The choice of the tests that `make test` runs on both kinds of API server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from tests.harness.servers.conformance import MARK, beyond_conformance


class Item:
    """A test as pytest describes it."""

    def __init__(self, name: str, *, marks: tuple[str, ...] = (), **params: object) -> None:
        self.nodeid = f"{name}[{'-'.join(map(str, params.values()))}]" if params else name
        self.callspec = SimpleNamespace(params=params) if params else None
        self._marks = marks

    def get_closest_marker(self, name: str) -> str | None:
        """Return something if the test has the mark."""
        return name if name in self._marks else None


def item(name: str, *, marks: tuple[str, ...] = (), **params: object) -> pytest.Item:
    """Return a test with these parameters."""
    return cast(pytest.Item, Item(name, marks=marks, **params))


def test_the_real_half_of_a_test_without_the_mark_is_left_out() -> None:
    """With every further parameter; the half on the embedded server stays."""
    halves = [item("test_a", cluster=server, size=size) for server in ("embedded", "real") for size in (1, 2)]
    assert beyond_conformance(halves) == {halves[2], halves[3]}


def test_a_test_with_the_mark_stays_on_both() -> None:
    """It shows that both kinds of server behave alike."""
    assert not beyond_conformance([item("test_a", marks=(MARK,), cluster=server) for server in ("embedded", "real")])


def test_a_test_that_only_a_real_server_can_run_stays() -> None:
    """Also beside a test of the same module that runs on both, and without parameters."""
    both = [item("test_a", cluster=server) for server in ("embedded", "real")]
    assert beyond_conformance([*both, item("test_b", cluster="real"), item("test_c")]) == {both[1]}
