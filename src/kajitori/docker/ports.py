"""Published ports: listeners on this machine that lead to ports of containers.

A program on `kaji up` has this machine's network, and listens on its port here itself. If the published number is the
same (`-p 8080:8080`), a listener would take the port away from the program, and is not needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed

from kajitori.client.members.streams import PortConnection, connected
from kajitori.core.spec.reasons import Phase
from kajitori.docker.platform import Platform
from kajitori.docker.translation.container import Container
from kajitori.errors import InvalidInput, KajitoriError, Unavailable

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
CHUNK_BYTES = 64 * 1024

Bindings = dict[str, list[dict[str, str]]]


@dataclass
class _Published:
    """The open ports of one container."""

    bindings: Bindings = field(default_factory=dict)
    servers: list[asyncio.Server] = field(default_factory=list)
    undecided: list[tuple[str, int]] = field(default_factory=list)
    """Addresses and ports that the program may open itself. That is known once it has an address."""


class PublishedPorts:
    """The ports of containers that are open on this machine while the containers are active."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._open: dict[str, _Published] = {}

    def of(self, container: Container) -> Bindings | None:
        """Return the open ports of a container, with the numbers on this machine; None if none is open."""
        published = self._open.get(container.uid)
        return published.bindings if published is not None else None

    async def open(self, container: Container) -> None:
        """Listen on the ports that the container publishes. Raises Unavailable if one is taken.

        A port that the program may open itself is left to `settle`, once the container runs.
        """
        wanted: Mapping[str, Any] = container.host_config.get("PortBindings") or {}
        if not wanted or container.uid in self._open:
            return
        published = self._open[container.uid] = _Published()
        try:
            for name, bindings in wanted.items():
                port = int(name.partition("/")[0])
                for binding in bindings or [{}]:
                    await self._publish(container, published, name, port, binding)
            await self.settle(container)
        except BaseException:
            self.close(container)
            raise

    async def settle(self, container: Container) -> None:
        """Listen on the ports that were left open if a container that runs has another address than this machine.
        Raises Unavailable if one is taken."""
        published = self._open.get(container.uid)
        if published is None or not published.undecided or container.phase is not Phase.RUNNING:
            return
        members = await self._platform.members(container)
        address = next((str(one["address"]) for one in members if one["rank"] == container.rank), "")
        if not address:
            return
        undecided, published.undecided = published.undecided, []
        for host, port in undecided if not is_here(address) else ():
            try:
                await self._listen(container, published, host, port, port)
            except OSError as error:
                raise _taken(host, str(port), str(error.strerror)) from error

    async def _publish(
        self, container: Container, published: _Published, name: str, port: int, binding: Mapping[str, str]
    ) -> None:
        host = binding.get("HostIp") or LOOPBACK
        text, why = str(binding.get("HostPort") or "0"), ""
        for number in _numbers(text):
            may_be_its_own = number == port and self._platform.target.is_local
            try:
                bound = await self._listen(container, published, host, number, port, only_try=may_be_its_own)
            except OSError as error:
                if not (may_be_its_own and container.phase is Phase.RUNNING):  # else its own program may have it
                    why = str(error.strerror)
                    continue
                bound = number
            if may_be_its_own:
                published.undecided.append((host, port))
            published.bindings.setdefault(name, []).append({"HostIp": host, "HostPort": str(bound)})
            return
        raise _taken(host, text, why)

    async def _listen(
        self, container: Container, published: _Published, host: str, number: int, port: int, *, only_try: bool = False
    ) -> int:
        """Open a port of this machine that leads to one of the container, and return its number. Raises OSError."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._forward(container, port, reader, writer)

        server = await asyncio.start_server(serve, host, number)
        bound = int(server.sockets[0].getsockname()[1])
        if only_try:
            server.close()
        else:
            published.servers.append(server)
        return bound

    async def _forward(
        self, container: Container, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass one connection on until both directions have ended."""
        try:
            target = await self._platform.signed_in()
            async with connected(target, container.view, port, container.rank) as connection:
                sending = asyncio.create_task(_send(reader, connection))
                try:
                    while data := await connection.read():
                        writer.write(data)
                        await writer.drain()
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
        except (KajitoriError, ConnectionError, ConnectionClosed) as error:
            log.info("port %s of %s: %s", port, container.name, error)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def close(self, container: Container) -> None:
        """Close the ports of a container that has ended."""
        published = self._open.pop(container.uid, None)
        for server in published.servers if published is not None else ():
            server.close()

    def close_all(self) -> None:
        for published in self._open.values():
            for server in published.servers:
                server.close()
        self._open.clear()


def is_here(address: str) -> bool:
    """Whether an address is one of this machine's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _taken(host: str, text: str, why: str) -> Unavailable:
    hint = "publish another port, or -p CONTAINER_PORT for a free one"
    return Unavailable(f"port {host}:{text} can't be opened here: {why}", hint=hint)


def _numbers(text: str) -> range:
    """Return the ports of which one is to be opened: `8080`, or `8080-8099` for the first that is free.

    Raises InvalidInput for a text that names none.
    """
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not (first.isdigit() and last.isdigit() and int(first) <= int(last) <= LAST_PORT):
        hint = "write a port such as -p 8080:80, or a range such as -p 8080-8099:80"
        raise InvalidInput.one("--publish", "is neither a port nor a range of ports", value=text, hint=hint)
    return range(int(first), int(last) + 1)


async def _send(reader: asyncio.StreamReader, connection: PortConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        while data := await reader.read(CHUNK_BYTES):
            await connection.write(data)
        await connection.end_writing()
