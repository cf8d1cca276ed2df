"""The controller and the node of `kaji up`'s own machine, as its Web API shows them."""

from __future__ import annotations

import asyncio
import contextlib

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.core.leadership import LeaderState
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.entrypoints.process import Part
from kajitori.kube.clock import steady_seconds

NODE_PATIENCE_SECONDS = 10.0


class OwnController:
    """The only controller of an embedded cluster. It needs no Lease, and counts as absent after a failure."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._works = False
        self._since = steady_seconds()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        self._works = True
        try:
            await self._part(stop)
        finally:
            self._works, self._since = False, steady_seconds()

    def state(self) -> LeaderState:
        """Return the controller's state for the Web API."""
        return LeaderState("kaji up", 0.0 if self._works else steady_seconds() - self._since)

    async def follow(self) -> None:
        """Do nothing, since there is no Lease to follow."""


class OwnNode:
    """This machine as a node: tracks whether it has been ready for runs since this process started."""

    def __init__(self, mirror: Mirror, kubelet: Kubelet) -> None:
        self._mirror = mirror
        self._registered = kubelet.registered
        self._name = kubelet.settings.node_name
        self._was_ready = False

    def awaited(self) -> str:
        """Return a text that says what the user has to wait for; empty once the node has been ready."""
        if not self._was_ready and self._registered.is_set():
            node = self._mirror.nodes.get(self._name)
            self._was_ready = node is not None and node.is_ready
        return "" if self._was_ready else f"this machine's node {self._name} is not ready for runs yet"

    async def wait(self) -> None:
        """Wait until the node is ready, at most `NODE_PATIENCE_SECONDS`.

        Otherwise users who start runs as soon as `kaji up` reports success would have to wait for this machine.
        """
        changed = asyncio.Event()
        unsubscribe = self._mirror.on_change(lambda *_: changed.set())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NODE_PATIENCE_SECONDS):
                    await self._registered.wait()
                    while self.awaited():
                        changed.clear()
                        await changed.wait()
        finally:
            unsubscribe()
