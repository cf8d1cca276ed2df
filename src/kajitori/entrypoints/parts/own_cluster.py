"""The controller and the node of `kaji up`'s own machine, as its Web API shows them."""

from __future__ import annotations

import asyncio
import contextlib

from kajitori.api.serving.server import ApiServer
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.core.kubernetes.texts import http_url
from kajitori.core.leadership import LeaderState
from kajitori.core.spec.image_health import health_of_image
from kajitori.core.spec.parts import HealthCheck
from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.entrypoints.process import Part
from kajitori.errors import KajitoriError, Unavailable
from kajitori.kube.clock import steady_seconds

IMAGE_PATIENCE_SECONDS = 5.0
"""Longest time for which a submission waits for the engine's description of its image."""
NODE_PATIENCE_SECONDS = 10.0
ADDRESSES_PATIENCE_SECONDS = 30.0
"""Longest time to wait for the addresses of Pods, without which no run could start."""


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
        self._kubelet = kubelet
        self._registered = kubelet.registered
        self._name = kubelet.settings.node_name
        self._was_ready = False

    def awaited(self) -> str:
        """Return a text that says what the user has to wait for; empty once the node has been ready."""
        if not self._was_ready and self._registered.is_set():
            node = self._mirror.nodes.get(self._name)
            self._was_ready = node is not None and node.is_ready
        return "" if self._was_ready else f"this machine's node {self._name} is not ready for runs yet"

    @property
    def has_images(self) -> bool:
        """Whether a container engine runs the Pods of this machine."""
        return self._kubelet.engine is not None

    async def health_of_image(self, image: str) -> HealthCheck | None:
        """Return the health check of an image that the engine has; None if there is none, or no answer in time."""
        engine = self._kubelet.engine
        if engine is None:
            return None
        try:
            async with asyncio.timeout(IMAGE_PATIENCE_SECONDS):
                return health_of_image(await EngineClient(engine.socket, engine.api).image_health(image))
        except (KajitoriError, TimeoutError):
            return None

    @property
    def has_own_addresses(self) -> bool:
        """Whether each Pod of this machine has a network namespace and an address."""
        return self._kubelet.settings.pod_network == "namespace"

    def serve_pods(self, web: ApiServer) -> str:
        """Serve the Web API at the address at which Pods with network namespaces reach this machine; return its URL.
        Raises Unavailable if Pods get no addresses, once the node was waited for."""
        address, interface = self._kubelet.context.network.gateway()
        if not address:
            hint = "a line above says why; with a new --data folder, --cluster-cidr RANGE takes other addresses; "
            hint += "or leave out --pod-network namespace"
            raise Unavailable(f"Pods got no addresses within {ADDRESSES_PATIENCE_SECONDS:.0f} s", hint=hint)
        web.listen_at(address, interface)
        return http_url(address, web.port, tls=False)

    async def wait(self, seconds: float = NODE_PATIENCE_SECONDS) -> None:
        """Wait until the node is ready, for at most this time.

        Otherwise users who start runs as soon as `kaji up` reports success would have to wait for this machine.
        """
        changed = asyncio.Event()
        unsubscribe = self._mirror.on_change(lambda *_: changed.set())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._registered.wait()
                    while self.awaited():
                        changed.clear()
                        await changed.wait()
        finally:
            unsubscribe()
