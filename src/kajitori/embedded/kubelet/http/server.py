"""The kubelet's own HTTPS API: logs, exec, attach, port-forward, statistics. The API server is its client."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from aiohttp import web

from kajitori.embedded.kubelet.adapter import Isolation
from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.execution import Remote, RemoteAttachment, RemoteCommand, Send, flag
from kajitori.embedded.kubelet.containers.logs import STDERR, STDOUT, LogOptions, read_log
from kajitori.embedded.kubelet.http import resource_metrics
from kajitori.embedded.kubelet.http.authentication import AccessCheck
from kajitori.embedded.kubelet.http.port_forward import PodPorts, serve_port_forward
from kajitori.embedded.kubelet.http.remote import Wanted, serve_remote
from kajitori.embedded.kubelet.http.tls import server_context, trust_clients
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.pods.worker import PodWorker
from kajitori.errors import Forbidden, InvalidInput, KajitoriError, NotFound, Unavailable
from kajitori.kube import resources

log = logging.getLogger(__name__)

AUTHENTICATION, AUTHENTICATION_NAMESPACE = "extension-apiserver-authentication", "kube-system"
"""The ConfigMap in which an API server publishes the authority of its client certificates."""

MAX_LINE_BYTES = 1 << 20
"""Longest first line of a request, as with other kubelets: the words of an exec are in it."""
HUNG_UP = 499
"""Status that web servers log if the client disconnected before the answer. It is not defined by HTTP."""

ALL_STREAMS = "All"
_LOG_STREAMS = {ALL_STREAMS: "", "Stdout": STDOUT, "Stderr": STDERR}
"""Values of the parameter `stream` of a log, and the stream's name in the log."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServedNode(Protocol):
    """The part of the kubelet that the server needs."""

    context: Context
    workers: dict[str, PodWorker]

    def find(self, namespace: str, name: str) -> PodWorker | None: ...

    async def until_gone(self, uid: str) -> None: ...

    def summary(self) -> dict[str, object]: ...

    def resources(self) -> bytes: ...


class KubeletServer:
    """Serves logs, exec, attach, port-forward and statistics of one node's Pods over HTTPS."""

    def __init__(self, kubelet: ServedNode) -> None:
        self._kubelet = kubelet
        self._settings, self._cluster = kubelet.context.settings, kubelet.context.cluster
        self._access = AccessCheck(self._cluster, self._settings.server, self._settings.node_name)
        self._runner: web.AppRunner | None = None
        self._tls: ssl.SSLContext
        self.fingerprint = ""
        """Fingerprint of the certificate once the server runs, if the certificate is self-signed."""

    async def start(self) -> int:
        """Start to listen, and return the port."""
        settings, address = self._settings, self._kubelet.context.address
        app = web.Application(middlewares=[_answer_errors])
        app.router.add_get("/healthz", _answer_health)
        app.router.add_get("/pods", self._guarded_handler(self._answer_pods, "get", "proxy"))
        app.router.add_get("/stats/summary", self._guarded_handler(self._answer_stats, "get", "stats"))
        app.router.add_get("/metrics/resource", self._guarded_handler(self._answer_resource_metrics, "get", "metrics"))
        log = self._guarded_handler(self._log, "get", "proxy")
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", log)
        for name, of, handler in (
            ("exec", "/{container}", self._serve_exec),
            ("attach", "/{container}", self._attach),
            ("portForward", "", self._port_forward),
        ):
            guarded = self._guarded_handler(handler, "create", "proxy")
            for path in (f"/{name}/{{namespace}}/{{pod}}{of}", f"/{name}/{{namespace}}/{{pod}}/{{uid}}{of}"):
                app.router.add_route("GET", path, guarded)
                app.router.add_route("POST", path, guarded)
        # Streams end when their containers do, not when the kubelet is asked to stop.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, max_line_size=MAX_LINE_BYTES)
        await self._runner.setup()
        self._tls, self.fingerprint = server_context(settings.server, settings.root_dir, settings.node_name, address)
        site = web.TCPSite(
            self._runner, settings.server.address or address, settings.server.port, ssl_context=self._tls
        )
        await site.start()
        return int(self._runner.addresses[0][1])

    async def trust_api_server(self) -> None:
        """If the settings name no authority, trust that of the API server's clients, if the API server publishes it and
        this node may read it. Raises Unavailable."""
        if self._settings.server.client_ca is not None:
            return
        try:
            told = await self._cluster.get(resources.CONFIG_MAPS, AUTHENTICATION, AUTHENTICATION_NAMESPACE)
        except (NotFound, Forbidden):
            return
        authority = (told.get("data") or {}).get("client-ca-file")
        if not authority:
            return
        try:
            trust_clients(self._tls, authority)
        except ssl.SSLError as error:
            log.warning("ConfigMap %s names no authority: %s", AUTHENTICATION, error)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _guarded_handler(self, handler: Handler, verb: str, subresource: str) -> Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            await self._access.check(request, verb, subresource)
            return await handler(request)

        return guarded

    # The paths

    async def _answer_pods(self, request: web.Request) -> web.Response:
        items = [worker.pod for worker in self._kubelet.workers.values()]
        return web.json_response({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})

    async def _answer_stats(self, request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(self._kubelet.summary))

    async def _answer_resource_metrics(self, request: web.Request) -> web.Response:
        body = await asyncio.to_thread(self._kubelet.resources)
        return web.Response(body=body, headers={"Content-Type": resource_metrics.CONTENT_TYPE})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        worker, slot = self._find(request)
        attempt = slot.attempt
        previous = flag(request.query, "previous")
        if previous:
            attempt -= 1
        if attempt < 0:
            what = "previous terminated container" if previous else "container"
            raise InvalidInput.one("", f"{what} {slot.name!r} in pod {request.match_info['pod']!r} not found")
        container = None if previous else slot.container
        options = _log_options(request)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        path = worker.folders.log(slot.name, attempt)
        pieces = read_log(path, options, lambda: container is None or container.ended.is_set())
        async with aclosing(
            pieces
        ):  # a generator that is not exhausted keeps its lock against rotation until it is closed
            async for piece in pieces:
                await response.write(piece)
        await response.write_eof()
        return response

    async def _serve_exec(self, request: web.Request) -> web.StreamResponse:
        container, _ = self._running_container(request)
        argv = request.query.getall("command", [])
        if not argv:
            raise InvalidInput.one("command", "you must specify at least 1 command")

        def make(wanted: Wanted, send: Send) -> Remote:
            return RemoteCommand(container, argv, stdin=wanted.stdin, stderr=wanted.stderr, tty=wanted.tty, send=send)

        return await serve_remote(request, make)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        container, spec = self._running_container(request)

        def make(wanted: Wanted, send: Send) -> Remote:
            return RemoteAttachment(
                container,
                once=bool(spec.get("stdinOnce")),
                stdin=wanted.stdin and bool(spec.get("stdin")),
                stderr=wanted.stderr,
                tty=bool(spec.get("tty")),
                send=send,
            )

        return await serve_remote(request, make)

    def _running_container(self, request: web.Request) -> tuple[Container, Mapping[str, Any]]:
        """Return the requested container and its spec. Raises NotFound unless it runs."""
        _, slot = self._find(request)
        if slot.container is None or not slot.running:
            raise NotFound(f"container {slot.name!r} is not running")
        return slot.container, slot.spec

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        worker = self._find_pod(request)
        running = [slot.container for slot in worker.slots.values() if slot.running and slot.container is not None]
        if not running:
            raise NotFound(f'pod "{request.match_info["pod"]}" does not run: no container of it does')
        context, namespace = self._kubelet.context, ""
        if context.adapter.isolation(worker.pod) is Isolation.LOOPBACK:
            namespace = await context.network.isolate(worker.uid)
        elif not worker.pod["spec"].get("hostNetwork"):
            namespace = context.network.namespace(worker.uid)

        async def until_gone() -> None:
            await self._kubelet.until_gone(worker.uid)

        process = running[0].state.pid if running[0].engine is not None else 0
        ports = PodPorts(request.match_info["pod"], worker.uid, namespace, until_gone, process)
        return await serve_port_forward(request, ports)

    def _find_pod(self, request: web.Request) -> PodWorker:
        info = request.match_info
        worker = self._kubelet.find(info["namespace"], info["pod"])
        if worker is None or ("uid" in info and info["uid"] != worker.uid):
            raise NotFound(f'pod "{info["pod"]}" does not exist on this node')
        return worker

    def _find(self, request: web.Request) -> tuple[PodWorker, Slot]:
        info = request.match_info
        worker = self._find_pod(request)
        slot = worker.slots.get(info["container"])
        if slot is None:
            raise NotFound(f'container "{info["container"]}" not found in pod "{info["pod"]}"')
        if not worker.is_adopted:  # otherwise an existing log would be reported as missing
            raise Unavailable(f'this kubelet has just started and does not know the containers of "{info["pod"]}" yet')
        return worker, slot


def _log_options(request: web.Request) -> LogOptions:
    query = request.query

    def number(name: str) -> int | None:
        text = query.get(name)
        if text is None:
            return None
        if not text.isdigit():
            raise InvalidInput.one(name, "must be a number that is not negative", value=text)
        return int(text)

    stream = query.get("stream", ALL_STREAMS)
    if stream not in _LOG_STREAMS:
        raise InvalidInput.one("stream", f"must be one of {', '.join(_LOG_STREAMS)}", value=stream)
    since = ""
    seconds = number("sinceSeconds")
    if seconds is not None:
        since = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    elif query.get("sinceTime"):
        try:
            moment = datetime.fromisoformat(query["sinceTime"]).astimezone(UTC)
        except ValueError:
            raise InvalidInput.one("sinceTime", "is not an RFC 3339 time", value=query["sinceTime"]) from None
        since = moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    return LogOptions(
        follow=flag(query, "follow"),
        tail_lines=number("tailLines"),
        since=since,
        timestamps=flag(query, "timestamps"),
        limit_bytes=number("limitBytes"),
        stream=_LOG_STREAMS[stream],
    )


async def _answer_health(request: web.Request) -> web.Response:
    return web.Response(text="ok")


@web.middleware
async def _answer_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        return await handler(request)  # type: ignore[no-any-return]
    except KajitoriError as error:
        status = 400 if isinstance(error, InvalidInput) else error.http_status
        return web.Response(status=status, text=f"{error.message}\n")
    except ConnectionError:
        return web.Response(status=HUNG_UP)  # the client is gone, so this is never sent
