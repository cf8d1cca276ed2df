"""The Kubernetes client: a method for each verb of the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

import msgspec

from kajitori.kube.connection.concurrency import ConcurrencyLimiter
from kajitori.kube.connection.config import Credentials, Headers, KubeConfig
from kajitori.kube.connection.joined import JoinedEnd
from kajitori.kube.connection.retry import RetryPolicy
from kajitori.kube.connection.transport import Environment, OnWriteError, Params, Transport
from kajitori.kube.connection.upgrade import Upgraded
from kajitori.kube.decoding import Page, decode, decode_page
from kajitori.kube.errors import GoneError
from kajitori.kube.requests import PatchKind, delete_options, encode, given_params, segment, selectors
from kajitori.kube.resources import PODS, Resource
from kajitori.kube.spdy.ports import PORT_PROTOCOL
from kajitori.kube.streams import EXEC_PROTOCOL, ByteStream, ExecStream, PortStream

T = TypeVar("T")
Object = dict[str, Any]

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_PAGE_SIZE = 500
LOG_BUFFER_BYTES = 64 << 10
"""Read buffer of a log. It is small, since lines of logs are short and a server may follow thousands of logs."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Accept header for an answer with an object's metadata only."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects of a collection at one resource version."""

    items: list[T]
    resource_version: str


class KubeClient:
    """One API server under one identity; an async context manager that belongs to one event loop.

    Without a namespace, reading and writing one object of a namespaced kind uses the body's namespace or the
    configuration's, and a collection means all namespaces. Every method raises the errors of `kube.errors`.
    """

    def __init__(
        self,
        config: KubeConfig,
        *,
        user_agent: str = "kajitori",
        limiter: ConcurrencyLimiter | None = None,
        retry: RetryPolicy | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        environment: Environment | None = None,
        write_permit: Callable[[], float] | None = None,
        on_write_error: OnWriteError | None = None,
        connections_of: KubeClient | None = None,
    ) -> None:
        """Connect at the first request.

        `write_permit` is called before each write; it returns the seconds that the write may last, or raises if it is
        forbidden. `on_write_error` is called for each write that failed for good. With `connections_of`, this client
        uses the connections of another client of the same server.
        """
        self.config = config
        self.environment = environment or Environment()
        self.limiter = limiter or ConcurrencyLimiter(clock=self.environment.clock, sleep=self.environment.sleep)
        self._field_manager = user_agent.partition("/")[0]
        self._transport: Transport = Transport(
            config,
            user_agent=user_agent,
            limiter=self.limiter,
            retry=retry or RetryPolicy(),
            timeout_seconds=timeout_seconds,
            environment=self.environment,
            write_permit=write_permit,
            on_write_error=on_write_error,
            connections_of=connections_of._transport if connections_of is not None else None,
        )

    def as_bearer(self, token: str, *, user_agent: str) -> KubeClient:
        """Return a client of the same server with this token instead of this client's credentials.

        It uses this client's connections, costs microseconds to create, and ends with this client at the latest.
        """
        config = self.config.with_token(token)
        return KubeClient(config, user_agent=user_agent, environment=self.environment, connections_of=self)

    def with_headers(self, source: Callable[[], Awaitable[Headers]], *, user_agent: str) -> KubeClient:
        """Return a client of the same server that is identified by the headers of `source`, like `as_bearer`."""
        config = replace(self.config, credentials=Credentials(header_source=source), context="")
        return KubeClient(config, user_agent=user_agent, environment=self.environment, connections_of=self)

    def in_name_of(self, user: str, *groups: str) -> KubeClient:
        """Return a client of the same server that impersonates a user with these groups. It uses this client's
        connections."""
        credentials = replace(self.config.credentials, impersonate_user=user, impersonate_groups=groups)
        config = replace(self.config, credentials=credentials)
        return KubeClient(config, user_agent=self._field_manager, environment=self.environment, connections_of=self)

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, including those of open streams."""
        await self._transport.close()
        await asyncio.sleep(0)  # lets the transports close their connections before the loop may end

    def now(self) -> datetime:
        """Return the API server's time, which its answers contain; this machine's time before the first answer."""
        return self._transport.clock.now()

    async def set_clock(self) -> None:
        """Read the API server's time and use it, even after this machine was stopped for long."""
        self._transport.clock.accept_next()
        await self._transport.request("GET", "/version", idempotent=True)

    # ------------------------------------------------------------------------------------------ reading

    @overload
    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object: ...
    @overload
    async def get(self, resource: Resource, name: str, namespace: str | None = None, *, type: type[T]) -> T: ...

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, type: type[T] | None = None
    ) -> Object | T:
        """Return one object, as a dictionary or as `type`."""
        path = self._object_path(resource, name, namespace)
        answer = await self._transport.request("GET", path, idempotent=True, kind=f"get {resource.plural}")
        return decode(answer, type) if type is not None else decode(answer, dict)

    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = DEFAULT_PAGE_SIZE,
    ) -> Listing[Object]: ...
    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = DEFAULT_PAGE_SIZE,
        type: type[T],
    ) -> Listing[T]: ...

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = DEFAULT_PAGE_SIZE,
        type: type[Any] | None = None,
    ) -> Listing[Any]:
        """Return the whole collection, fetched page by page."""
        items: list[Any] = []
        version = ""
        pages = self.list_pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
            type=type or dict,
        )
        async for page in pages:
            if page.first:
                items.clear()  # the continue token has expired: the server sends all pages again
            items.extend(page.items)
            version = page.resource_version
        return Listing(items, version)

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = DEFAULT_PAGE_SIZE,
        type: type[T],
    ) -> AsyncGenerator[Page[T]]:
        """Yield the collection page by page. If a continue token expires, the whole collection comes again, with
        `page.first`."""
        path = self._collection_path(resource, namespace)
        params = selectors(label_selector, field_selector)
        token, limit, first = "", page_size, True
        while True:
            query = {**params, "limit": str(limit)} if limit else dict(params)
            if token:
                query["continue"] = token
            try:
                answer = await self._transport.request("GET", path, params=query, idempotent=True)
            except GoneError:
                if not token:
                    raise
                token, limit, first = "", 0, True
                continue
            page = decode_page(answer, type, first=first)
            del answer
            token, first = page.token, False
            yield page
            if not token:
                return

    async def watch_once(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
        silence_seconds: float,
    ) -> ByteStream:
        """Open one watch request: lines of JSON, one event each. `kube.watch` turns it into a watch without end."""
        params = {
            **selectors(label_selector, field_selector),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        path = self._collection_path(resource, namespace)
        response = await self._transport.stream(path, params=params, silence_seconds=silence_seconds)
        return ByteStream(self.config, response)

    # ------------------------------------------------------------------------------------------ writing

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any] | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Object:
        """Create an object. It is not retried if the connection broke after the request was sent, since the object may
        exist.

        A body in bytes is JSON and needs the namespace as an argument.
        """
        if namespace is None and not isinstance(body, bytes):
            namespace = (body.get("metadata") or {}).get("namespace")
        path = self._collection_path(resource, namespace or self.config.namespace)
        answer = await self._transport.request(
            "POST",
            path,
            params={"dryRun": "All"} if dry_run else {},
            body=encode(body),
            idempotent=dry_run,
            kind=f"create {resource.plural}",
        )
        return decode(answer, dict)

    async def replace(
        self, resource: Resource, body: Mapping[str, Any], *, subresource: str = "", metadata_only: bool = False
    ) -> Object:
        """Replace an object or a subresource. A resourceVersion in the body makes it a compare-and-swap.

        With `metadata_only` the answer contains only the metadata, which is also cheaper for the API server.
        """
        metadata = body["metadata"]
        path = self._object_path(resource, metadata["name"], metadata.get("namespace"), subresource)
        accept = METADATA_ONLY if metadata_only else "application/json"
        answer = await self._transport.request(
            "PUT", path, body=encode(body), accept=accept, idempotent=True, kind=f"replace {resource.plural}"
        )
        return decode(answer, dict)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Any],
        namespace: str | None = None,
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Change parts of an object. With `force`, server-side apply takes fields over from other managers. With
        `dry_run`, return the object that the API server would store."""
        needs_manager = field_manager or kind is PatchKind.APPLY
        manager = (field_manager or self._field_manager) if needs_manager else ""
        params = given_params({"fieldManager": manager, "force": force, "dryRun": "All" if dry_run else ""})
        answer = await self._transport.request(
            "PATCH",
            self._object_path(resource, name, namespace, subresource),
            params=params,
            body=msgspec.json.encode(patch),
            content_type=kind.value,
            idempotent=kind is not PatchKind.JSON,
            kind=f"patch {resource.plural}",
        )
        return decode(answer, dict)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Object:
        """Delete one object; return the object as it is deleted, or a Status.

        `propagation` is `Background`, `Foreground` or `Orphan`. Raises ConflictError if uid or version do not match.
        """
        options = delete_options(grace_seconds, propagation, uid, resource_version)
        path = self._object_path(resource, name, namespace)
        answer = await self._transport.request(
            "DELETE", path, body=options, idempotent=True, kind=f"delete {resource.plural}"
        )
        return decode(answer, dict)

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        label_selector: str,
        field_selector: str = "",
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete all objects that the selectors match. An empty label selector matches the whole namespace."""
        await self._transport.request(
            "DELETE",
            self._collection_path(resource, namespace),
            params=selectors(label_selector, field_selector),
            body=delete_options(grace_seconds, propagation, None, None),
            idempotent=True,
        )

    async def bind(self, pod_name: str, namespace: str, node: str) -> None:
        """Bind a Pod to a node, as a scheduler does. Raises ConflictError if it is bound already."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod_name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = self._object_path(PODS, pod_name, namespace, "binding")
        await self._transport.request("POST", path, body=encode(body), idempotent=False, kind="bind pods")

    # ------------------------------------------------------------------------------------------ streams

    async def open_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str,
        follow: bool = False,
        tail_lines: int | None = None,
        since_time: str = "",
        timestamps: bool = False,
        limit_bytes: int | None = None,
        stream: str = "",
    ) -> ByteStream:
        """Open a container's log; with `follow` the stream goes on until the log ends. Raises a refusal at once.

        `container` may be empty if the Pod has only one. `since_time` is an RFC 3339 time by the node's clock; an
        API server ignores fractions of a second. `stream` is Stdout or Stderr for the lines of one output stream. It
        excludes `tail_lines`, and an API server without the feature PodLogsQuerySplitStreams refuses it.
        """
        wanted: dict[str, str | int | None] = {"container": container, "tailLines": tail_lines}
        wanted |= {"limitBytes": limit_bytes, "sinceTime": since_time, "stream": stream}
        wanted |= {"follow": follow, "timestamps": timestamps}
        response = await self._transport.stream(
            self._object_path(PODS, pod, namespace, "log"),
            params=given_params(wanted),
            accept="*/*",
            buffer_bytes=LOG_BUFFER_BYTES,
        )
        return ByteStream(self.config, response)

    async def open_exec(
        self,
        namespace: str,
        pod: str,
        *,
        command: Sequence[str],
        container: str,
        stdin: bool = False,
        tty: bool = False,
    ) -> ExecStream:
        """Start a program in a container; `container` may be empty if the Pod has only one. With a terminal, standard
        error is part of standard output."""
        return await self._open_remote("exec", namespace, pod, command, container=container, stdin=stdin, tty=tty)

    async def open_attach(
        self, namespace: str, pod: str, *, container: str, stdin: bool = False, tty: bool = False
    ) -> ExecStream:
        """Attach to the program of a container. `stdin` needs a container with `stdin`; `tty` must be the container's.

        The stream shows that the program has ended, but not its exit code, which is in the Pod's status.
        """
        return await self._open_remote("attach", namespace, pod, [], container=container, stdin=stdin, tty=tty)

    async def _open_remote(
        self,
        subresource: str,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str,
        stdin: bool,
        tty: bool,
    ) -> ExecStream:
        params = [("command", part) for part in command]
        params += given_params({"container": container}).items()
        streams = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
        params += [(name, "true" if is_open else "false") for name, is_open in streams.items()]
        path = self._object_path(PODS, pod, namespace, subresource)
        return ExecStream(self.config, await self._transport.websocket(path, params=params, protocol=EXEC_PROTOCOL))

    async def open_port(self, namespace: str, pod: str, port: int) -> PortStream:
        """Open a connection to a port of a Pod, at `localhost` in its network. Raises a refusal of the server at once.
        If nothing listens on the port, the first read raises it."""
        path = self._object_path(PODS, pod, namespace, "portforward")
        socket = await self._transport.websocket(path, params=(), protocol=PORT_PROTOCOL)
        return await PortStream.over(self.config, socket, pod, port)

    async def open_port_tunnel(self, namespace: str, pod: str, headers: Mapping[str, str], end: JoinedEnd) -> Upgraded:
        """Ask with these headers for a WebSocket to a Pod's ports, and give the upgraded connection to `end`."""
        return await self._transport.upgrade(
            self._object_path(PODS, pod, namespace, "portforward"), headers=headers, end=end
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send any other request; return the body of the answer. `path` is sent unchanged. Of the headers, only Accept
        and Content-Type may be given."""
        given = {name.lower(): value for name, value in (headers or {}).items()}
        unknown = set(given) - {"accept", "content-type"}
        if unknown:
            raise ValueError(f"headers that can't be sent: {', '.join(sorted(unknown))}")
        return await self._transport.request(
            method,
            path,
            params=params or {},
            body=encode(body) if body is not None else None,
            accept=given.get("accept", "application/json"),
            content_type=given.get("content-type", "application/json"),
            idempotent=method in ("GET", "HEAD", "PUT", "DELETE"),
        )

    # ------------------------------------------------------------------------------------------ paths

    def _object_path(self, resource: Resource, name: str, namespace: str | None, subresource: str = "") -> str:
        if resource.namespaced:
            namespace = segment(namespace or self.config.namespace, "metadata.namespace")
        return resource.path(namespace, segment(name, "metadata.name"), subresource)

    def _collection_path(self, resource: Resource, namespace: str | None) -> str:
        return resource.path(segment(namespace, "metadata.namespace") if namespace is not None else None)
