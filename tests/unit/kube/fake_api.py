"""A small API server on loopback that serves one collection of Pods and fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Any

from aiohttp import web

from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.connection.retry import NO_RETRY, RetryPolicy
from kajitori.kube.connection.transport import Environment


class WatchFault(Enum):
    """A fault on all open watches."""

    END = "the server closes them, as it does after timeoutSeconds"
    BREAK = "the connections break in the middle of a line"
    EXPIRE = "the server forgot the resource version, and says so in an event"
    ERROR = "the server reports an internal error in an event"
    BOOKMARK = "not a fault: a bookmark"
    STALL = "nothing is sent any more, and the connection stays open"


class FakeApi:
    """A fake API server. `url` is set while it runs; `list_answers` and `watch_answers` are statuses to answer first
    (429 with Retry-After: 1)."""

    def __init__(self) -> None:
        self.url = ""
        self.pods: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 100
        self.oldest = 100
        """A watch from before this version is answered with 410."""
        self.list_answers: deque[int] = deque()
        self.watch_answers: deque[int] = deque()
        self.expire_continue = 0
        """Number of continue tokens that are still refused as expired."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._events: list[tuple[int, bytes]] = []
        self._watchers: dict[object, asyncio.Queue[bytes | WatchFault]] = {}
        self._poke = asyncio.Event()

    # ------------------------------------------------------------------------------------------ steps of the tests

    def put(self, name: str, namespace: str = "a", **changes: Any) -> dict[str, Any]:
        """Create or change a Pod; `changes` are merged into spec and status."""
        key = (namespace, name)
        old = self.pods.get(key)
        self.version += 1
        pod: dict[str, Any] = copy.deepcopy(old) if old else _new_pod(name, namespace, self.version)
        pod["metadata"]["resourceVersion"] = str(self.version)
        pod["metadata"]["labels"] |= changes.pop("labels", {})
        if changes.pop("leaving", False):
            pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
        if "owner" in changes:
            kind, uid = changes.pop("owner_kind", "Run"), changes.pop("owner")
            pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": "r", "uid": uid, "controller": True}]
        pod["status"]["phase"] = changes.pop("phase", pod["status"]["phase"])
        pod["spec"] |= changes
        self.pods[key] = pod
        self._emit("MODIFIED" if old else "ADDED", pod)
        return pod

    def remove(self, name: str, namespace: str = "a") -> None:
        """Delete a Pod if it exists."""
        pod = self.pods.pop((namespace, name), None)
        if pod is None:
            return
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self._emit("DELETED", pod)

    def forget_history(self) -> None:
        """Make earlier versions unwatchable, as etcd's compaction does."""
        self.oldest = self.version + 1
        self._events.clear()

    def restore(self, pods: dict[tuple[str, str], dict[str, Any]], version: int) -> None:
        """Return to the state of a version, as after a restored backup."""
        self.fail_watches(WatchFault.BREAK)
        self.pods, self.version = dict(pods), version
        self._events = [(number, line) for number, line in self._events if number <= version]

    def fail_watches(self, fault: WatchFault) -> None:
        """Cause a fault on every open watch."""
        for queue in self._watchers.values():
            queue.put_nowait(self._bookmark() if fault is WatchFault.BOOKMARK else fault)

    @property
    def open_watches(self) -> int:
        """Return the number of open watches."""
        return len(self._watchers)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition, which is about requests and open watches, holds."""
        await eventually(condition, self._poke)

    # ------------------------------------------------------------------------------------------ requests of clients

    def _emit(self, kind: str, pod: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **pod}}).encode() + b"\n"
        self._events.append((self.version, line))
        for queue in self._watchers.values():
            queue.put_nowait(line)

    def _bookmark(self) -> bytes:
        """Return a bookmark at the current version."""
        meta = {"resourceVersion": str(self.version), "creationTimestamp": None}
        bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": None}}
        return json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer GET of the collection."""
        self.requests.append((request.path, dict(request.query)))
        self._poke.set()
        if "watch" in request.query:
            return await self._watch(request)
        return self._list(request)

    def _list(self, request: web.Request) -> web.Response:
        if self.list_answers:
            return _failure(self.list_answers.popleft())
        token, limit = request.query.get("continue", ""), int(request.query.get("limit", 0))
        if token and self.expire_continue:
            self.expire_continue -= 1
            return _failure(410)
        keys = sorted(self.pods)
        start = int(token or 0)
        part = keys[start : start + limit] if limit else keys
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if limit and start + limit < len(keys):
            meta["continue"] = str(start + limit)
        items = [self.pods[key] for key in part]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if self.watch_answers:
            return _failure(self.watch_answers.popleft())
        since = int(request.query["resourceVersion"])
        if since + 1 < self.oldest:
            return _failure(410)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        queue: asyncio.Queue[bytes | WatchFault] = asyncio.Queue()
        for version, line in self._events:
            if version > since:
                queue.put_nowait(line)
        me = object()
        self._watchers[me] = queue
        try:
            await response.prepare(request)
            self._poke.set()
            while True:
                item = await queue.get()
                if isinstance(item, WatchFault):
                    await self._fail(item, request, response)
                    return response
                else:
                    await response.write(item[: len(item) // 2])  # a line comes in pieces
                    await response.write(item[len(item) // 2 :])
        finally:
            del self._watchers[me]

    async def _fail(self, fault: WatchFault, request: web.Request, response: web.StreamResponse) -> None:
        """Cause the fault that ends the watch."""
        match fault:
            case WatchFault.EXPIRE | WatchFault.ERROR:
                status = status_of(410 if fault is WatchFault.EXPIRE else 500)
                await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            case WatchFault.BREAK:
                await response.write(b'{"type":"MODIFIED","object":{"metadata":{"name":"ha')
                if request.transport is not None:
                    request.transport.abort()
            case WatchFault.STALL:
                await asyncio.Event().wait()


def status_of(code: int, message: str = "", reason: str = "") -> dict[str, Any]:
    """Return a Status object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message or f"injected {code}",
        "reason": reason or {410: "Expired", 429: "TooManyRequests", 500: "InternalError"}.get(code, ""),
        "code": code,
    }


def _failure(code: int) -> web.Response:
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(status_of(code), status=code, headers=headers)


def _new_pod(name: str, namespace: str, version: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}-{version}",
            "labels": {"app": name},
            "creationTimestamp": "2026-11-21T10:00:00Z",
        },
        "spec": {
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
        },
        "status": {"phase": "Pending"},
    }


@contextlib.asynccontextmanager
async def serving(app: web.Application, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve an aiohttp application on a free port of loopback; yield its URL."""
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def fake_api() -> AsyncIterator[FakeApi]:
    """Run a FakeApi."""
    api = FakeApi()
    app = web.Application()
    app.router.add_get("/api/v1/pods", api.handle)
    async with serving(app) as api.url:
        yield api


class Naps:
    """A sleep that returns at once and records its duration, and a clock that it moves."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.now = 1000.0
        self.poke = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Yield to the event loop once; the clock moves on."""
        self.taken.append(seconds)
        self.now += seconds
        self.poke.set()
        await asyncio.sleep(0)

    def environment(self, chance: float = 0.5) -> Environment:
        """Return a client's environment with this sleep and clock, and a constant random number."""
        return Environment(clock=lambda: self.now, sleep=self.sleep, chance=lambda: chance)


def client_of(url: str, naps: Naps | None = None, retry: RetryPolicy = NO_RETRY, **options: Any) -> KubeClient:
    """Return a client with pauses that take no time."""
    return KubeClient(KubeConfig(server=url), retry=retry, environment=(naps or Naps()).environment(), **options)


async def eventually(condition: Callable[[], bool], poke: asyncio.Event, seconds: float = 5.0) -> None:
    """Wait until the condition holds; it is checked each time `poke` is set. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            await poke.wait()
            poke.clear()
