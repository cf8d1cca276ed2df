"""Servers that tests of several modules share.

A fixture of session scope would keep its server until the last test of the worker; one of module scope would start a
server per module. These live as long as the group of tests (`xdist_group`) that uses them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class SharedServers:
    """The running servers of this worker, by name. conftest.py reports which group is at work, and ends idle servers.

    Ask for a server in a fixture of module scope: servers end between modules only, when whatever the module built on
    them is gone.
    """

    def __init__(self) -> None:
        self.group = ""
        """The group of the test that is set up now; empty if it has none."""
        self._running: dict[str, tuple[str, Any, contextlib.ExitStack]] = {}

    def get(self, name: str, start: Callable[[], contextlib.AbstractContextManager[T]]) -> T:
        """Return the running server of that name, or start it for the group that is at work."""
        if name not in self._running:
            stack = contextlib.ExitStack()
            self._running[name] = (self.group, stack.enter_context(start()), stack)
        server: T = self._running[name][1]
        return server

    def end(self, name: str) -> None:
        """End the server of that name, if it runs."""
        if name in self._running:
            self._running.pop(name)[2].close()

    def end_idle(self, module: Path, next_module: Path | None, next_group: str) -> None:
        """After a test of `module`, end the servers that were started for another group than the next test's.

        Within a module every server stays: fixtures of module scope end when the module does, or when another parameter
        takes their place, and until then they use the server.
        """
        if next_module == module:
            return
        for name in [name for name, (group, *_) in self._running.items() if group != next_group]:
            self.end(name)

    def end_all(self) -> None:
        """End every server."""
        for name in list(self._running):
            self.end(name)


def spread(weights: Mapping[str, int], parts: int) -> dict[str, int]:
    """Return the part, from 0, to which each name belongs, so that the parts weigh about the same.

    The heaviest name that is left goes to the lightest part. Equal input gives equal output, in every worker.
    """
    loads = [0] * parts
    found = {}
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        found[name] = loads.index(min(loads))
        loads[found[name]] += weights[name]
    return found


SHARED_SERVERS = SharedServers()
"""The shared servers of this worker."""
