"""One request and its answer, passed between a browser and a program: bodies in both directions as they come, and
WebSockets as bytes after their handshake."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import h11
from starlette.types import Receive, Scope, Send

from kajitori.api.programs.connections import TUNNEL, BrokenAnswer, Connection, Connections, Duplex, PortOfPod, Tunnel
from kajitori.api.proxy.websockets import pass_bytes
from kajitori.core.proxy.headers import Forwarding, to_browser, to_program
from kajitori.errors import KajitoriError

SWITCHING = 101
LAST_STATUS = 599
"""Largest status of an answer (RFC 9110, section 15)."""

Head = h11.Response | h11.InformationalResponse


class Exchange:
    """A request that is passed on to a program."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        target: bytes,
        forwarding: Forwarding,
        place: PortOfPod,
        open_stream: Callable[[], Awaitable[Duplex]],
    ) -> None:
        """`target` is path and query as the program gets them."""
        self.began = False
        """Whether the caller got the head of an answer."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._target = target
        self._forwarding = forwarding
        self._place = place
        self._open_stream = open_stream
        self._tunnel: Tunnel | None = scope.get("extensions", {}).get(TUNNEL)
        self._has_body = _has_body(scope)
        self._gone = asyncio.get_running_loop().create_future()

    async def carry(self, connections: Connections, revoked: asyncio.Future[KajitoriError]) -> None:
        """Pass the request and its answer, until both have ended, the caller hangs up, or `revoked` is done.

        Raises KajitoriError if the program can't be reached; if `began` is false, nothing was answered then.
        """
        async with connections.turn(self._place):
            work = asyncio.create_task(self._work(connections))
            try:
                ends: set[asyncio.Future[Any]] = {work, self._gone, revoked}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not work.done():
                    work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                if self._tunnel is not None and self.began:  # else the answer is to say why
                    self._tunnel.close()
        if not work.cancelled():
            work.result()

    async def _work(self, connections: Connections) -> None:
        connection = await connections.take(
            self._place, self._open_stream, fresh=self._has_body or self._tunnel is not None
        )
        sending: asyncio.Task[None] | None = None
        try:
            try:
                sending, head = await self._ask(connection)
            except KajitoriError:
                if not connection.was_used:
                    raise
                await connection.aclose()  # the program closed the kept connection meanwhile
                connection = await connections.take(self._place, self._open_stream, fresh=True)
                sending, head = await self._ask(connection)
            if head.status_code == SWITCHING and self._tunnel is not None:
                await self._pass_bytes(connection, self._tunnel, head)
            else:
                await self._answer(connection, head)
                await _ended(sending)
                await connections.give_back(self._place, connection)
                return
        except BaseException:
            await _ended(sending)
            await connection.aclose()
            raise
        await _ended(sending)
        await connection.aclose()

    async def _ask(self, connection: Connection) -> tuple[asyncio.Task[None], Head]:
        """Send the request; return the task that sends its body and notices a caller that hangs up, and the head of
        the answer."""
        headers = to_program(self._scope["headers"], self._forwarding, upgrade=self._tunnel is not None)
        if any(name == b"transfer-encoding" for name, _ in self._scope["headers"]):
            headers = [(name, value) for name, value in headers if name != b"content-length"]
            headers.append((b"transfer-encoding", b"chunked"))
        if not any(name == b"host" for name, _ in headers):  # HTTP/1.0
            headers.insert(0, (b"host", b"localhost"))
        await connection.send_head(self._scope["method"].encode(), self._target, headers)
        if not self._has_body:
            await connection.end_body()
        sending = asyncio.create_task(self._send_body(connection))
        try:
            return sending, await connection.read_head()
        except BaseException:
            await _ended(sending)
            raise

    async def _send_body(self, connection: Connection) -> None:
        """Pass the request's body, then wait for the caller to hang up. A program may stop reading, and answer."""
        is_open = self._has_body
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                if not self._gone.done():
                    self._gone.set_result(None)
                return
            if not is_open:
                continue
            try:
                if message.get("body"):
                    await connection.send_body(message["body"])
                if not message.get("more_body", False):
                    is_open = False
                    await connection.end_body()
            except (KajitoriError, OSError):
                is_open = False

    async def _answer(self, connection: Connection, head: Head) -> None:
        if head.status_code > LAST_STATUS:
            raise BrokenAnswer(f"the program's answer has the status {head.status_code}, which HTTP does not know")
        headers = [(name.lower(), value) for name, value in head.headers]
        if any(name == b"transfer-encoding" for name, _ in headers):
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        self.began = True
        sent = to_browser(headers, self._forwarding)
        await self._send({"type": "http.response.start", "status": head.status_code, "headers": sent})
        async for part in connection.body():
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _pass_bytes(self, connection: Connection, tunnel: Tunnel, head: Head) -> None:
        headers = [(name.lower(), value) for name, value in head.headers]
        self.began = True
        await tunnel.accept(to_browser(headers, self._forwarding, upgrade=True))
        await pass_bytes(tunnel, connection.stream, connection.trailing)


async def _ended(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )
