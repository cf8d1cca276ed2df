"""HTTP to one API server: credentials, TLS, proxies, retries, and typed errors."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kajitori.kube.clock import ServerClock
from kajitori.kube.connection.concurrency import ConcurrencyLimiter
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.connection.credentials import Credential, CredentialSource
from kajitori.kube.connection.failures import HandshakeRefused, translated_failures
from kajitori.kube.connection.joined import JoinedEnd
from kajitori.kube.connection.proxy import proxy_for
from kajitori.kube.connection.retry import RetryPolicy
from kajitori.kube.connection.upgrade import Upgraded
from kajitori.kube.errors import (
    ApiError,
    ConnectionFailed,
    UnsupportedError,
    error_from_answer,
    error_from_status,
    raise_for_status,
)

READ_BUFFER_BYTES = 1 << 21
"""Read buffer: a line of a watch is as long as an object."""

CONNECT_SECONDS = 10.0
HANDSHAKE_PAUSE_SECONDS, HANDSHAKE_SECONDS = 0.5, 10.0
"""Pause before a WebSocket is asked for again that an API server refused with 500 or more without telling why, and how
long it is. A node that has just started is reached some seconds later. A refused handshake starts no program."""

_Answer = TypeVar("_Answer")

Params = Mapping[str, str] | Sequence[tuple[str, str]]

OnWriteError = Callable[[str, str, int], None]
"""Called for a write that failed, with HTTP method, path, and status (0 for no answer)."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Inputs that tests replace: time, sleep and randomness."""

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """This machine's clock, which may be wrong."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


_READS = ("GET", "HEAD")


class Transport:
    """Requests, streams and WebSockets to one API server under one identity."""

    def __init__(
        self,
        config: KubeConfig,
        *,
        user_agent: str,
        limiter: ConcurrencyLimiter,
        retry: RetryPolicy,
        timeout_seconds: float,
        environment: Environment,
        write_permit: Callable[[], float] | None = None,
        on_write_error: OnWriteError | None = None,
        connections_of: Transport | None = None,
    ) -> None:
        """With `connections_of`, use the connections of another transport instead of own ones."""
        self.config = config
        self._connections_of = connections_of
        self._timeout_seconds = timeout_seconds
        self._write_permit = write_permit
        self._on_write_error = on_write_error
        self._credentials = CredentialSource(config)
        self._user_agent = user_agent
        self._limiter = limiter
        self._retry = retry
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, connect=CONNECT_SECONDS)
        self._environment = environment
        self.clock = ServerClock(own=environment.wall)
        self._proxy = proxy_for(config)
        self._http: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def open(self) -> aiohttp.ClientSession:
        """Return the session, which is created on first use, since it belongs to the running event loop."""
        if self._is_closed:
            raise ConnectionFailed("this client was closed", maybe_applied=False)
        if self._connections_of is not None:
            return await self._connections_of.open()
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=self._new_connector(),
                headers={"Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER_BYTES,
                auto_decompress=True,
                trust_env=False,  # otherwise aiohttp would send passwords of ~/.netrc
                trace_configs=[self._permission_trace()] if self._write_permit is not None else [],
            )
        return self._http

    def _new_connector(self) -> aiohttp.BaseConnector:
        """Return a connector that opens any number of connections; the limiter bounds them."""
        if self.config.local_socket:
            return aiohttp.UnixConnector(self.config.local_socket, limit=0)
        return aiohttp.TCPConnector(limit=0, ttl_dns_cache=30)

    def _permission_trace(self) -> aiohttp.TraceConfig:
        """Return a trace that asks for the permission to write again before each piece is sent. Otherwise a process
        that was stopped in between would send the write when it continues, although another one may lead by then."""

        async def ask(
            _session: aiohttp.ClientSession,
            _context: object,
            piece: aiohttp.TraceRequestHeadersSentParams | aiohttp.TraceRequestChunkSentParams,
        ) -> None:
            if self._write_permit is not None and piece.method not in _READS:
                self._write_permit()

        trace = aiohttp.TraceConfig()
        # This is called before the headers are sent: they leave with the first piece of the body.
        trace.on_request_headers_sent.append(ask)
        trace.on_request_chunk_sent.append(ask)
        return trace

    async def close(self) -> None:
        """Close the connections that are its own; no request is possible afterwards."""
        self._is_closed = True
        if self._http is not None:
            await self._http.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        idempotent: bool,
        kind: str = "",
    ) -> bytes:
        """Return the body of a successful answer. Failures are retried by the retry policy.

        Requests of the same `kind` are expected to take equally long; empty if that is unknown. Raises ApiError's
        subclasses and ConnectionFailed.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        began = self._environment.clock()
        tried = 0
        while True:
            tried += 1
            try:
                return await self._request_once(method, path, params, body, headers, kind)
            except (ApiError, ConnectionFailed) as error:
                pause = self._retry.pause(
                    error,
                    tried=tried,
                    elapsed_seconds=self._environment.clock() - began,
                    idempotent=idempotent,
                    chance=self._environment.chance(),
                )
                if pause is None:
                    if self._on_write_error is not None and method not in _READS:
                        self._on_write_error(method, path, error.status if isinstance(error, ApiError) else 0)
                    raise
            await self._environment.sleep(pause)

    async def _request_once(
        self, method: str, path: str, params: Params, body: bytes | None, headers: Mapping[str, str], kind: str
    ) -> bytes:
        http = await self.open()

        async def send(credential: Credential) -> bytes:
            async with self._limiter.slot(kind) as slot:
                with translated_failures(self.config):
                    async with http.request(
                        method,
                        self._full_url(path),
                        params=params,
                        data=body,
                        timeout=self._timeout_of(method),
                        **self._identity_arguments(credential, headers),
                    ) as response:
                        answer = await response.read()
                self.clock.note(response.headers.get("Date"))
                try:
                    raise_for_status(response.status, answer, response.headers)
                except ApiError as error:
                    slot.answered(error.status, error.retry_after_seconds)
                    raise
                slot.answered(response.status)
                return answer

        return await self._authenticated(send)

    async def _authenticated(self, send: Callable[[Credential], Awaitable[_Answer]]) -> _Answer:
        """Return what `send` returns with the current credential. If the server refuses that with 401 and the source
        can obtain another one, `send` is called once more."""
        credential = await self._credentials.get()
        try:
            return await send(credential)
        except (ApiError, HandshakeRefused) as error:
            if error.status != HTTPStatus.UNAUTHORIZED or not self._credentials.renewable:
                raise
        return await send(await self._credentials.get(refused=credential))

    def _timeout_of(self, method: str) -> aiohttp.ClientTimeout:
        """Return the timeout of a request. A write must be permitted, and ends with its permission at the latest."""
        if self._write_permit is None or method in _READS:
            return self._timeout
        left_seconds = self._write_permit()
        if left_seconds >= self._timeout_seconds:
            return self._timeout
        return aiohttp.ClientTimeout(total=left_seconds, connect=min(CONNECT_SECONDS, left_seconds))

    async def stream(
        self,
        path: str,
        *,
        params: Params,
        accept: str = "application/json",
        silence_seconds: float | None = None,
        buffer_bytes: int = READ_BUFFER_BYTES,
    ) -> aiohttp.ClientResponse:
        """Return a successful answer to GET. The caller reads its body, and closes it.

        If the server sends nothing for `silence_seconds`, reading fails with TimeoutError. At most `buffer_bytes` are
        read ahead of a slow reader.
        """
        http = await self.open()
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=silence_seconds)

        async def send(credential: Credential) -> aiohttp.ClientResponse:
            with translated_failures(self.config):
                response = await http.get(
                    self._full_url(path),
                    params=params,
                    timeout=timeout,
                    read_bufsize=buffer_bytes,
                    **self._identity_arguments(credential, {"Accept": accept}),
                )
                self.clock.note(response.headers.get("Date"))
                if response.status < HTTPStatus.BAD_REQUEST:
                    return response
                async with response:
                    answer = await response.read()
            raise error_from_answer(response.status, answer, response.headers)

        return await self._authenticated(send)

    async def websocket(self, path: str, *, params: Params, protocol: str) -> aiohttp.ClientWebSocketResponse:
        """Return an open WebSocket that speaks `protocol`; the caller closes it."""
        http = await self.open()
        url = self._full_url(path).extend_query(list(_parameter_pairs(params)))

        async def shake_hands(credential: Credential) -> aiohttp.ClientWebSocketResponse:
            with translated_failures(self.config):
                socket: aiohttp.ClientWebSocketResponse = await http.ws_connect(
                    url,
                    protocols=(protocol,),
                    max_msg_size=0,
                    heartbeat=None,
                    **self._identity_arguments(credential, {}),
                )
                return socket

        until = self._environment.clock() + HANDSHAKE_SECONDS
        while True:
            try:
                socket = await self._authenticated(shake_hands)
                break
            except HandshakeRefused as refusal:
                error = await self._refusal(path, params, refusal.status)
                if error is not None:
                    raise error from refusal
                if self._environment.clock() > until:
                    message = f"the API server reached no kubelet of the Pod's node (HTTP {refusal.status}); try again"
                    document = {"message": message}
                    raise error_from_status(document, status=refusal.status, retry_after_seconds=None) from refusal
            await self._environment.sleep(HANDSHAKE_PAUSE_SECONDS)
        if socket.protocol != protocol:
            await socket.close()
            raise ConnectionFailed(
                f"the API server at {self.config.server} does not speak {protocol}",
                hint="exec needs Kubernetes 1.30 or newer, port-forward 1.31",
                maybe_applied=False,
            )
        return socket

    async def _refusal(self, path: str, params: Params, status: int) -> ApiError | ConnectionFailed | None:
        """Return the server's own error after it refused a WebSocket with this status; None if it failed for a reason
        that it no longer tells.

        aiohttp drops the body of a refused handshake, so a plain request asks for it again.
        """
        try:
            (await self.stream(path, params=params)).close()
        except ApiError as error:
            if error.status == status:
                return error
        if status == HTTPStatus.NOT_IMPLEMENTED:
            return UnsupportedError(
                "the Pod's node gives no access to the Pod",
                status=status,
                reason="NotImplemented",
                hint="simulated nodes run no programs",
            )
        if status < HTTPStatus.BAD_REQUEST:
            return ConnectionFailed(f"the API server at {self.config.server} opened no WebSocket (HTTP {status})")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return None
        return error_from_answer(status, b"", {})

    async def upgrade(self, path: str, *, headers: Mapping[str, str], end: JoinedEnd) -> Upgraded:
        """Ask for an upgrade of the connection, and give the upgraded connection to `end`. The caller closes it.

        Raises ConnectionFailed if the server answers without upgrading.
        """
        http = await self.open()
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)

        async def send(credential: Credential) -> Upgraded:
            with translated_failures(self.config):
                response = await http.get(
                    self._full_url(path), timeout=timeout, **self._identity_arguments(credential, headers)
                )
                if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
                    return Upgraded(response, end)
                async with response:
                    answer = await response.read()
            raise_for_status(response.status, answer, response.headers)
            raise ConnectionFailed(f"the API server at {self.config.server} did not upgrade the connection")

        return await self._authenticated(send)

    def _full_url(self, path: str) -> URL:
        return URL(self.config.server + path, encoded=True)

    def _identity_arguments(self, credential: Credential, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments of every call to aiohttp: identity, TLS, proxy."""
        merged = CIMultiDict(headers)
        merged["User-Agent"] = self._user_agent
        merged.extend(credential.headers)
        options: dict[str, Any] = {"headers": merged}
        if credential.tls is not None:
            options["ssl"] = credential.tls
        if self.config.tls_server_name:
            options["server_hostname"] = self.config.tls_server_name
        if self._proxy:
            options["proxy"] = self._proxy
        return options


def _parameter_pairs(params: Params) -> Iterator[tuple[str, str]]:
    yield from params.items() if isinstance(params, Mapping) else params
