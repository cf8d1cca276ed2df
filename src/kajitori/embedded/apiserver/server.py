"""The embedded Kubernetes API server: HTTPS in front of the store."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import logging
import ssl
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from kajitori.embedded.apiserver.access import roles as access_roles
from kajitori.embedded.apiserver.access.account_tokens import AccountTokens, ensure_key
from kajitori.embedded.apiserver.access.impersonation import impersonated
from kajitori.embedded.apiserver.auth import AllowKnown, Attributes, Authenticator, Authorizer, User
from kajitori.embedded.apiserver.certificates import Certificates
from kajitori.embedded.apiserver.discovery import groups as discovery
from kajitori.embedded.apiserver.discovery.openapi import OpenApi, empty_v2
from kajitori.embedded.apiserver.metrics import Metrics
from kajitori.embedded.apiserver.reads.watches import error_event
from kajitori.embedded.apiserver.registry import built_in
from kajitori.embedded.apiserver.requests.formats import Format, encode_json, negotiate
from kajitori.embedded.apiserver.requests.target import Target, find_target, is_built_in
from kajitori.embedded.apiserver.rest import Answer, Call, Rest, verb_of
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.subresources.kubelet import STREAMS, KubeletProxy
from kajitori.embedded.apiserver.upkeep.controllers import Controllers
from kajitori.embedded.apiserver.writes import automatic
from kajitori.embedded.apiserver.writes.objects import Caller, Objects
from kajitori.embedded.store import Event, Store

BODY_LIMIT_BYTES = 3 << 20
MAX_LINE_BYTES = 1 << 20
"""Longest first line of a request, as with kube-apiserver and kubelets: the words of an exec are in it."""
"""The same limit as in kube-apiserver."""
_GZIP_MIN_BYTES = 128 << 10
_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
_CLIENT_DISCONNECTED = 499
"""Status for the log if the client disconnected before the answer. It is never sent."""

_log = logging.getLogger(__name__)


class ApiServer:
    """A Kubernetes API server on a store.

    It uses TLS with the certificates' server key, and authenticates users by bearer token or client certificate.
    """

    def __init__(
        self,
        store: Store,
        *,
        certificates: Certificates,
        authenticator: Authenticator,
        host: str = "127.0.0.1",
        port: int = 0,
        controllers: bool = True,
        roles: bool = False,
        local_socket: Path | None = None,
    ) -> None:
        """With `controllers=False` another process does the work of a controller manager. With `roles`, roles decide
        what users may do; otherwise every known user may do everything. `local_socket` is a Unix socket at which the
        server also answers, without TLS."""
        self._store = store
        self._certificates = certificates
        self._authenticator = authenticator
        self._host = host
        self._port = port
        self._registry = built_in(roles=roles)
        self._objects = Objects(store, self._registry)
        self._objects.role_guard = access_roles.RoleAuthorizer(self._objects.view) if roles else None
        self._authorizer: Authorizer = self._objects.role_guard or AllowKnown()
        self._objects.let_policies_ask(self._authorizer)
        self._rest = Rest(self._objects, authenticator, self._authorizer)
        if roles:
            key = ensure_key(certificates.ca.with_name("service-account.key"))
            self._rest.account_tokens = AccountTokens(key, self._objects.view)
            authenticator.add_signed(self._rest.account_tokens)
        self._openapi = OpenApi(self._registry)
        self._controllers = Controllers(self._objects) if controllers else None
        self._proxy = KubeletProxy(self._objects, certificates)
        self._metrics = Metrics(store)
        self._runner: web.ServerRunner | None = None
        self._local_socket = local_socket
        self.local_socket = ""
        """The Unix socket on which the server listens, once started; empty if there is none."""
        self._documents: dict[tuple[int, str, bool], Any] = {}

    @property
    def url(self) -> str:
        """The URL it listens on, once started."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"https://{host}:{self._port}"

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self._port

    @property
    def ca_pem(self) -> str:
        """The CA certificate that clients trust."""
        return self._certificates.ca.read_text()

    @property
    def objects(self) -> Objects:
        """The objects that are served; for tests."""
        return self._objects

    async def start(self) -> None:
        """Create the objects that every cluster has, then listen.

        Raises:
            OSError: the address is taken or not ours.
        """
        for record in self._store.records(_DEFINITIONS):
            self._registry.add_definition(record.decode())
        self._store.listen(self._on_event)
        self._objects.carry_out(automatic.at_start(self._registry, self._objects.view, self.ca_pem))
        if self._objects.role_guard is not None:
            self._objects.carry_out(automatic.missing(self._registry, access_roles.default_objects()))
        await self._store.durable(self._store.revision)
        if self._controllers is not None:
            await self._controllers.start()
        server = web.Server(
            self._handle_request, access_log=None, handler_cancellation=True, max_line_size=MAX_LINE_BYTES
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls_context(), backlog=4096)
        try:
            await site.start()
            if self._local_socket is not None:
                await self._listen_locally(self._local_socket)
        except OSError:
            await self.stop()
            raise
        if not self._port:
            self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End all requests and watches. The store stays open."""
        if self._controllers is not None:
            await self._controllers.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self.local_socket:
            await asyncio.to_thread(Path(self.local_socket).unlink, missing_ok=True)
        await self._proxy.close()
        await self._authenticator.close()

    async def _listen_locally(self, path: Path) -> None:
        """Listen on the Unix socket. If that is impossible, `local_socket` stays empty."""
        assert self._runner is not None
        try:
            await web.UnixSite(self._runner, path, backlog=4096).start()
        except OSError as error:  # the path is too long for a socket, or its file system has none
            _log.info("clients on this machine use TLS: %s: %s", path, error)
        else:
            self.local_socket = str(path)

    def _tls_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self._certificates.ca))
        context.load_cert_chain(self._certificates.server, self._certificates.server_key)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _on_event(self, event: Event) -> None:
        if event.record.resource == _DEFINITIONS:
            if event.type == "DELETED":
                definition = event.record.decode()
                self._registry.remove_definition(definition)
                self._store.end_watches(f"{definition['spec']['group']}/{definition['spec']['names']['plural']}")
            else:
                self._registry.add_definition(event.record.decode())

    # --- one request -------------------------------------------------------------------------------------------------

    async def _handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        begun = time.perf_counter()
        labels = _Labels()
        code = 500
        try:
            response = await self._serve(request, labels)
            code = response.status
        except StatusError as error:
            code = error.code
            response = _status_response(request, error)
        except asyncio.CancelledError:
            code = _CLIENT_DISCONNECTED
            raise
        except ConnectionError:  # the client has disconnected
            code = _CLIENT_DISCONNECTED
            response = web.Response(status=_CLIENT_DISCONNECTED)
        except Exception as error:
            _log.exception("request failed: %s %s", request.method, request.path)
            response = _status_response(request, StatusError.internal(f"{type(error).__name__}; see the server's log"))
        finally:
            self._metrics.observe(labels.verb or request.method, labels.resource, code, time.perf_counter() - begun)
        return response

    async def _serve(self, request: web.BaseRequest, labels: _Labels) -> web.StreamResponse:
        headers = request.headers
        transport = request.transport
        peer = transport.get_extra_info("peercert") if transport is not None else None
        user = await self._authenticator.identify(headers.get("Authorization", ""), peer)
        if user is None:
            raise StatusError.unauthorized()
        user = impersonated(headers, user, self._authorizer)
        path = request.path
        target = find_target(self._registry, path) if path.startswith("/api") else None
        if target is None:
            refusal = self._authorizer.refusal(user, Attributes(request.method.lower(), path=path))
            if refusal:
                raise StatusError(403, "Forbidden", f"forbidden: {refusal}", {})
            return await self._answer_other_path(request, path)
        return await self._answer_resource(request, target, user, labels)

    async def _answer_resource(
        self, request: web.BaseRequest, target: Target, user: User, labels: _Labels
    ) -> web.StreamResponse:
        query, headers = request.query, request.headers
        resource = target.kind.resource
        verb = verb_of(request.method, target, query)
        labels.verb = verb.upper() or request.method
        labels.resource = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
        self._require_access(target, user, verb or request.method.lower())
        if target.subresource == "proxy":
            return await self._proxy.of_node(request, target)
        if target.subresource == "log" or target.subresource in STREAMS:
            return await self._proxy.serve(request, target)
        if not verb and target.kind.custom is not None and request.method in ("PUT", "PATCH"):
            raise StatusError.bad_request("name must be provided")
        if not verb:
            raise StatusError.method_not_allowed()
        agent = headers.get("User-Agent", "")
        answer = negotiate(headers.get("Accept", ""), query, agent)
        caller = Caller(user, manager=agent.partition("/")[0][:128] or "unknown")
        body = b"" if request.method == "GET" else await _read(request)
        content_type = headers.get("Content-Type", "")
        call = Call(request.method, target, query, body, content_type, answer, caller)
        if verb == "watch":
            return await self._watch(request, call)
        try:
            done = await self._rest.answer(verb, call)
        except StatusError as error:
            error.warnings = caller.warnings
            raise
        return await _respond(request, done, answer, caller.warnings)

    def _require_access(self, target: Target, user: User, verb: str) -> None:
        """Raise StatusError 403 if the user may not do this."""
        resource = target.kind.resource
        attributes = Attributes(
            verb,
            resource.group,
            resource.version,
            resource.plural,
            target.subresource,
            target.namespace,
            target.name,
        )
        refusal = self._authorizer.refusal(user, attributes)
        if target.subresource in STREAMS and verb == "get":
            # A WebSocket starts with a GET, but a user who may only read must not be able to run programs.
            refusal = refusal or self._authorizer.refusal(user, dataclasses.replace(attributes, verb="create"))
        if refusal:
            raise StatusError.forbidden(resource, target.name, refusal)

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        watch = self._rest.watch(call)
        stream = watch.stream()
        response = web.StreamResponse(
            headers={"Content-Type": call.answer.media_type, "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._metrics.watches.inc()
        try:
            async with contextlib.aclosing(stream):
                async for piece in stream:
                    await response.write(piece)
            await response.write_eof()
        except StatusError as error:
            await response.write(error_event(error))
        finally:
            self._metrics.watches.dec()
        return response

    # --- other paths than those of resources -------------------------------------------------------------------------

    async def _answer_other_path(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path in _HEALTH_PATHS or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return _plain_response("ok")
        if path == "/metrics":
            body, content_type = self._metrics.expose()
            return web.Response(body=body, headers={"Content-Type": content_type})
        if path.startswith("/openapi/"):
            return await self._open_api(request, path)
        accept = request.headers.get("Accept", "")
        aggregated = path in ("/api", "/apis") and discovery.wants_aggregated(accept)
        document = self._document(path.rstrip("/") or "/", aggregated, request)
        if document is None:
            parts = path.strip("/").split("/")
            if parts[0] == "api" or (parts[0] == "apis" and len(parts) > 1 and is_built_in(self._registry, parts[1])):
                raise StatusError.unknown_path()
            return _plain_response("404 page not found\n", 404)
        if request.method not in ("GET", "HEAD"):
            raise StatusError.method_not_allowed()
        if aggregated:
            return web.Response(body=encode_json(document), headers={"Content-Type": discovery.AGGREGATED_V2})
        answer = negotiate(accept, request.query, request.headers.get("User-Agent", ""))
        return await _respond(request, Answer(answer.write(document)), answer, [])

    def _document(self, path: str, aggregated: bool, request: web.BaseRequest) -> Any:
        key = (self._registry.generation, path, aggregated)
        if key not in self._documents:
            if len(self._documents) > 256:
                self._documents.clear()
            self._documents[key] = self._make_document(path, aggregated)
        return self._documents[key]

    def _make_document(self, path: str, aggregated: bool) -> Any:
        registry = self._registry
        parts = path.strip("/").split("/")
        match parts:
            case ["version"]:
                return discovery.version()
            case ["api"]:
                address = f"{self._host}:{self._port}"
                return (
                    discovery.aggregated(registry, core=True)
                    if aggregated
                    else discovery.api_versions(registry, address)
                )
            case ["apis"]:
                return discovery.aggregated(registry, core=False) if aggregated else discovery.api_groups(registry)
            case ["api", version]:
                return discovery.api_resources(registry, "", version)
            case ["apis", group]:
                return discovery.api_group(registry, group)
            case ["apis", group, version]:
                return discovery.api_resources(registry, group, version)
        return None

    async def _open_api(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        match path.strip("/").split("/"):
            case ["openapi", "v2"]:
                kind, empty = empty_v2(request.headers.get("Accept", ""))
                return web.Response(body=empty, headers={"Content-Type": kind})
            case ["openapi", "v3"]:
                body: bytes | None = self._openapi.v3_index()
            case ["openapi", "v3", *rest]:
                body = self._openapi.v3("/".join(rest))
            case _:
                body = None
        if body is None:
            return _plain_response("404 page not found\n", 404)
        return await _respond(request, Answer(body), Format(), [])


class _Labels:
    """Attributes of a request for the metrics; known only while it is served."""

    __slots__ = ("resource", "verb")

    def __init__(self) -> None:
        self.verb = ""
        self.resource = ""


async def _read(request: web.BaseRequest) -> bytes:
    """Return the body of a request.

    Raises:
        StatusError: 413.
    """
    length = request.content_length
    if length is not None and length > BODY_LIMIT_BYTES:
        raise StatusError.too_large(BODY_LIMIT_BYTES)
    content = request.content
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = await content.readany()
        if not piece:
            break
        size += len(piece)
        if size > BODY_LIMIT_BYTES:
            raise StatusError.too_large(BODY_LIMIT_BYTES)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _respond(request: web.BaseRequest, done: Answer, answer: Format, warnings: list[str]) -> web.Response:
    headers = {"Content-Type": answer.media_type, "Cache-Control": "no-cache, private"}
    body = done.body
    if len(body) >= _GZIP_MIN_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        body = await asyncio.to_thread(gzip.compress, body, 1)
        headers["Content-Encoding"] = "gzip"
        headers["Vary"] = "Accept-Encoding"
    response = web.Response(body=body, status=done.code, headers=headers)
    _add_warnings(response, warnings)
    return response


def _quoted_text(text: str) -> str:
    clean = "".join(character if character.isprintable() else " " for character in text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _status_response(request: web.BaseRequest, error: StatusError) -> web.Response:
    try:
        answer = negotiate(request.headers.get("Accept", ""), request.query, request.headers.get("User-Agent", ""))
    except StatusError:
        answer = Format()
    headers = {"Content-Type": answer.media_type, "Cache-Control": "no-cache, private", **error.headers}
    if error.code == 413:
        # The rest of the body is not read.
        headers["Connection"] = "close"
    response = web.Response(body=answer.write(error.body()), status=error.code, headers=headers)
    _add_warnings(response, error.warnings)
    return response


def _add_warnings(response: web.Response, warnings: list[str]) -> None:
    for warning in dict.fromkeys(warnings):
        response.headers.add("Warning", f"299 - {_quoted_text(warning)}")


def _plain_response(text: str, code: int = 200) -> web.Response:
    headers = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    return web.Response(body=text.encode(), status=code, headers=headers)
