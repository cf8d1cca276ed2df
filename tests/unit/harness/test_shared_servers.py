"""The lifetime of servers that tests of several modules share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.harness.servers.shared_servers import SharedServers, spread


def server(name: str, running: list[str]) -> Callable[[], contextlib.AbstractContextManager[str]]:
    """Return a fake server that is in `running` from its start to its end."""

    @contextlib.contextmanager
    def start() -> Iterator[str]:
        running.append(name)
        yield name
        running.remove(name)

    return start


RUNS, SWEEPS, TOUR = (Path(f"test_{name}.py") for name in ("runs", "sweeps", "tour"))


def test_a_server_runs_once_and_ends_with_its_group() -> None:
    """Later modules of the group get the same server; the first module of another group ends it."""
    running: list[str] = []
    servers = SharedServers()
    servers.group = "runs"
    assert servers.get("api", server("api", running)) == servers.get("api", server("api", running)) == "api"
    servers.end_idle(RUNS, SWEEPS, "runs")
    assert running == ["api"]
    servers.end_idle(SWEEPS, TOUR, "platform")
    assert not running


def test_a_server_stays_until_the_module_that_uses_it_has_ended() -> None:
    """The next test of the module belongs to another group, but fixtures of the module may still use the server."""
    running: list[str] = []
    servers = SharedServers()
    servers.group = "runs"
    servers.get("api", server("api", running))
    servers.end_idle(RUNS, RUNS, "")
    assert running == ["api"]
    servers.end_idle(RUNS, None, "")
    assert not running


def test_an_ended_server_starts_again_on_request() -> None:
    """No fixture gets a server that has ended."""
    running: list[str] = []
    servers = SharedServers()
    for _ in range(2):
        servers.get("api", server("api", running))
        assert running == ["api"]
        servers.end("api")
        assert not running
    servers.get("api", server("api", running))
    servers.end_all()
    assert not running


def test_weights_are_spread_evenly_and_the_same_in_every_worker() -> None:
    """A heavy name is alone, and the order of the names changes nothing."""
    weights = {"b": 3, "a": 8, "d": 2, "c": 3}
    assert spread(weights, 2) == {"a": 0, "b": 1, "c": 1, "d": 1}
    assert spread(dict(reversed(weights.items())), 2) == spread(weights, 2)
    assert spread({"b": 1, "a": 1, "c": 1}, 2) == {"a": 0, "b": 1, "c": 0}
