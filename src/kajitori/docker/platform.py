"""The Web API as the bridge uses it: asynchronous, with the user's own sign-in."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote

import aiohttp

from kajitori import __version__
from kajitori.client.connection import Response
from kajitori.client.streams import GIVE_UP_SECONDS
from kajitori.client.target import Target
from kajitori.client.web_api import error_of
from kajitori.codepack.packing import Pack
from kajitori.codepack.uploading import Ask, Reply, upload
from kajitori.core.backoff import Backoff
from kajitori.docker.translation.container import Container, container_id, split_rank
from kajitori.errors import Busy, Conflict, Forbidden, InvalidInput, NotFound, Unavailable, WrongState

ANSWER_SECONDS = 60.0
SETTLING_SECONDS = 15.0
"""Time for which a new run may be unknown to its controller before a start is given up."""
GONE_SECONDS = 120.0
"""Time that a run's members may take to end before a deletion is reported as slow."""
IDLE_SECONDS = 2.0
"""Time for which a connection is kept for the next call. Servers and proxies close idle connections, and a call that is
sent at that moment fails."""
TRIES = 3
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
"""Pauses between two looks at a run that is to change, which become longer each time."""

Params = Mapping[str, Any]


class Patience:
    """Pauses between attempts to go on with a stream, until the server was away for `GIVE_UP_SECONDS`."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._since = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether the last attempt failed."""
        return self._backoff.failures > 0

    @property
    def is_over(self) -> bool:
        """Whether the server has been away for too long."""
        return self.has_failed and time.monotonic() - self._since > GIVE_UP_SECONDS

    async def failed(self, error: Unavailable) -> None:
        """Wait before the next attempt. Raises `error` if the server was away for too long."""
        self._since = self._since if self.has_failed else time.monotonic()
        if self.is_over:
            raise error
        await asyncio.sleep(self._backoff.next_seconds())

    def worked(self) -> None:
        """Note that the stream delivers again."""
        self._backoff.reset()


class Platform:
    """Calls of the Web API in one namespace. Use it as an asynchronous context manager."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.namespace = target.namespace
        self._session: aiohttp.ClientSession | None = None
        self._places: dict[str, tuple[str, str]] = {}
        """Namespace and name of runs by container id, as they were listed before."""
        self._ids: dict[str, str] = {}
        """Ids of containers that were renamed, by the UID of their run."""

    async def __aenter__(self) -> Platform:
        tls = self.target.tls() if self.target.url.startswith("https") else True
        connector = aiohttp.TCPConnector(limit=0, ssl=tls, keepalive_timeout=IDLE_SECONDS)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=15)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=not self.target.is_local, read_bufsize=1 << 20
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    # Containers

    async def find(self, reference: str) -> Container:
        """Return the container that a name, an id or the beginning of an id means; `NAME.3` means rank 3.

        Raises NotFound, and InvalidInput for the beginning of several ids.
        """
        container = await self._find(reference)
        if container is not None:
            return container
        name, rank = split_rank(reference)
        container = await self._find(name) if rank is not None else None
        if container is None or rank is None:
            raise NotFound(f"No such container: {reference}")
        if rank >= container.replicas and "array" not in container.spec:
            raise NotFound(f"No such container: {reference}; {name} has ranks 0 to {container.replicas - 1}")
        return Container(container.view, rank, is_member=True)

    async def _find(self, reference: str) -> Container | None:
        """Return the container that a reference without a rank means; None if there is none."""
        place = self._places.get(reference)
        if place is not None:
            container = await self._at(*place)
            if container is not None and container.id == reference:
                return container
        containers = await self.containers()
        named = [one for one in containers if one.name == reference.removeprefix("/")]
        named = named or [one for one in containers if one.run == reference.removeprefix("/")]
        matching = named or [one for one in containers if one.id.startswith(reference.lower())]
        if len(matching) > 1:
            raise InvalidInput.one("", f"multiple IDs found with provided prefix: {reference}")
        return matching[0] if matching else None

    async def _at(self, namespace: str, name: str) -> Container | None:
        """Return the container of the run with this name; None if there is none."""
        try:
            view = await self.get(_path(namespace, name))
        except NotFound:
            return None
        return Container(view) if view["name"] == name else None

    async def containers(self, *, active: bool = False) -> list[Container]:
        """Return the user's own runs of the namespace as containers, newest first."""
        params: dict[str, Any] = {"owner": "@me", "limit": 500}
        params |= {"namespace": self.namespace} if self.namespace else {}
        params |= {"active": "true"} if active else {}
        containers: list[Container] = []
        while True:
            page = await self.get("/v1/runs", params)
            containers += [Container(view) for view in page["items"]]
            if not page.get("continue"):
                break
            params["continue"] = page["continue"]
        self._remember_ids(containers)
        return containers

    def id_of(self, uid: str) -> str:
        """Return the id of the container of a run."""
        return self._ids.get(uid) or container_id(uid)

    def _remember_ids(self, containers: list[Container]) -> None:
        self._places |= {one.id: (one.view["namespace"], one.run) for one in containers}
        self._ids |= {one.uid: one.id for one in containers if "Id" in one.notes}

    async def create(self, body: Mapping[str, Any]) -> Container:
        """Create a run, and return its container."""
        container = Container(await self.post("/v1/runs", body))
        self._remember_ids([container])
        return container

    async def refreshed(self, container: Container) -> Container:
        """Return the run as it is now. Raises NotFound if it was deleted, also if another has its name.

        A server may not know yet that the run was started: it is asked again, for a few seconds.
        """
        until = time.monotonic() + SETTLING_SECONDS
        while True:
            view = await self.get(run_path(container))
            if view["uid"] != container.uid:
                raise NotFound(f"No such container: {container.name}")
            current = Container(view, container.rank)
            if current.resumes >= container.resumes or time.monotonic() > until:
                return current
            await asyncio.sleep(FIRST_PAUSE_SECONDS)

    async def start(self, container: Container) -> Container:
        """Start a run that was created, or again one that has ended."""
        backoff, until = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), time.monotonic() + SETTLING_SECONDS
        while True:
            try:
                return Container(await self.post(run_path(container, "/resume")), container.rank)
            except (WrongState, Conflict):  # the controller may not have seen it yet
                container = await self.refreshed(container)
                if container.is_active and not container.spec.get("stopped"):
                    return container
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(backoff.next_seconds())

    async def restart(self, container: Container, grace: str | None) -> Container:
        """Ask the cluster to stop a run and to start it again once it has ended; `grace` is None for the run's own."""
        return await self._asked_to_end(container, "/restart", grace, lambda run: run.resumes > container.resumes)

    async def stop(self, container: Container, grace: str | None) -> Container:
        """Ask the cluster to end a run; `grace` is None for the run's own."""
        return await self._asked_to_end(container, "/stop", grace, lambda run: not run.is_active)

    async def _asked_to_end(
        self, container: Container, action: str, grace: str | None, is_done: Callable[[Container], bool]
    ) -> Container:
        """Send a request that ends a run, again if it breaks off: as long as the run has not ended, the server does
        nothing for a second one. Once it has, `is_done` tells that the request was obeyed."""
        body, patience = {"grace": grace} if grace is not None else None, Patience()
        while True:
            try:
                return Container(await self.post(run_path(container, action), body), container.rank)
            except Busy:
                raise
            except Unavailable as error:
                await patience.failed(error)
            with suppress(Unavailable):
                latest = await self.refreshed(container)
                if is_done(latest):
                    return latest

    async def seen_by_controller(self, container: Container) -> None:
        """Wait until the controller has seen that a run was asked to start."""
        for _ in range(round(SETTLING_SECONDS / FIRST_PAUSE_SECONDS)):
            if not (await self.refreshed(container)).is_starting_again:
                return
            await asyncio.sleep(FIRST_PAUSE_SECONDS)

    async def delete(self, container: Container, *, at_once: bool, checkpoint: bool = False) -> None:
        """Delete a run and wait until its name is free."""
        params = {"grace": "0s"} if at_once else {}
        params |= {"checkpoint": "true"} if checkpoint and container.spec.get("checkpoint") else {}
        await self.call("DELETE", run_path(container), params=params, uid=container.uid)
        backoff, until = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), time.monotonic() + GONE_SECONDS
        while time.monotonic() < until:
            try:
                await self.refreshed(container)
            except NotFound:
                return
            await asyncio.sleep(backoff.next_seconds())
        raise Unavailable(f"{container.name} is being deleted, and its members have not ended yet")

    async def changes(self, container: Container) -> AsyncGenerator[Container]:
        """Yield the run now and at each change until it has ended. It ends early if the run is deleted.

        A server that is away for less than two minutes does not matter. Then the present state may be yielded again.
        """
        patience = Patience()
        while True:
            try:
                async with aclosing(self.documents(run_path(container, "/watch"))) as views:
                    async for view in views:
                        patience.worked()
                        if view["uid"] != container.uid:
                            return
                        latest = Container(view, container.rank)
                        if latest.resumes >= container.resumes:  # else the server does not know the start yet
                            container = latest
                            yield container
            except Unavailable as error:
                await patience.failed(error)
                continue
            except NotFound:
                if patience.has_failed:
                    return  # it was deleted while the server was away
                raise
            if not container.is_active:
                return
            await asyncio.sleep(FIRST_PAUSE_SECONDS)  # the run is starting again, and its controller has not seen it
            try:
                container = await self.refreshed(container)
            except NotFound:
                return

    async def members(self, container: Container) -> list[dict[str, Any]]:
        """Return the members that have a Pod, at most the first 500."""
        try:
            answer = await self.get(run_path(container, "/members"), {"limit": 500})
        except NotFound:
            return []
        items: list[dict[str, Any]] = answer["items"]
        return items

    async def events(self, container: Container) -> list[dict[str, Any]]:
        """Return the events of the run and its Pods, the newest first; none if the user may not read them."""
        try:
            async with aclosing(self.documents(run_path(container, "/events"))) as events:
                return [event async for event in events][::-1]
        except (Forbidden, NotFound):
            return []

    # The wire

    async def get(self, path: str, params: Params | None = None) -> Any:
        return await self.call("GET", path, params=params)

    async def post(self, path: str, body: object = None, params: Params | None = None) -> Any:
        return await self.call("POST", path, params=params, body=body)

    async def call(
        self, method: str, path: str, *, params: Params | None = None, body: object = None, uid: str = ""
    ) -> Any:
        """Return the JSON of an answer. Raises the Web API's own error, and Unavailable if it does not answer.

        With the `uid` of a run, nothing is done if another run has its name by now, which raises NotFound.
        """
        tries = TRIES if method == "GET" else 1
        for left in range(tries - 1, -1, -1):
            try:
                return await self._call_once(method, path, params, body, uid)
            except Unavailable as error:
                if not left or isinstance(error, Busy):
                    raise
                await asyncio.sleep(FIRST_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    async def _call_once(self, method: str, path: str, params: Params | None, body: object, uid: str) -> Any:
        opened = self._opened(method, path, params, body, uid=uid)
        try:
            async with asyncio.timeout(ANSWER_SECONDS), opened as response:
                text = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error
        return self._decoded(text) if text else None

    async def upload(self, pack: Pack) -> None:
        """Upload an archive unless the server has it. Raises TooLarge."""
        conversation = upload(pack, self.namespace)
        try:
            ask = next(conversation)
            while True:
                ask = conversation.send(await self._exchange(ask))
        except StopIteration:
            return

    async def _exchange(self, ask: Ask) -> Reply:
        try:
            async with self._opened(ask.method, ask.path, ask.params, data=ask, expects=ask.expects) as response:
                reply = Reply(response.status, await response.read())
        except aiohttp.ClientError as error:
            raise self._unreachable(error) from error
        if reply.status < 300:
            self._decoded(reply.body)  # raises Unavailable for the page of a proxy
        return reply

    async def documents(self, path: str, params: Params | None = None) -> AsyncGenerator[dict[str, Any]]:
        """Yield the documents of a stream of newline-delimited JSON."""
        rest = b""
        async with aclosing(self.chunks(path, params)) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield self._decoded(line)

    async def chunks(self, path: str, params: Params | None = None) -> AsyncGenerator[bytes]:
        """Yield the bytes of an answer as they arrive. Raises Unavailable if it breaks."""
        async with self._opened("GET", path, params, None) as response:
            try:
                async for chunk in response.content.iter_any():
                    yield chunk
            except aiohttp.ClientError as error:
                raise Unavailable(f"the connection to {self.target.url} broke: {error}") from error

    @asynccontextmanager
    async def _opened(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: object = None,
        *,
        data: Ask | None = None,
        expects: Collection[int] = (),
        uid: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer to a request with a body in JSON, or with the bytes of `data`. Raises the error that it is,
        unless its status is among those that the caller `expects`."""
        headers = self._headers | ({"Content-Type": data.media_type} if data is not None and data.body else {})
        headers |= {"If-Match": f'"{uid}"'} if uid else {}
        for is_last in (False, True):
            try:
                response = await self._open_session.request(
                    method,
                    self.target.url + path,
                    params=_pairs(params),
                    json=body,
                    data=data.body if data is not None and data.body else None,
                    headers=headers,
                    allow_redirects=False,
                )
            except (aiohttp.ClientError, OSError) as error:
                raise self._unreachable(error) from error
            async with response:
                if response.status == 401 and self.target.signed_in is not None and not is_last:
                    self.target = await asyncio.to_thread(self.target.renewed)
                    headers |= self._headers
                    continue
                if response.status >= 300 and response.status not in expects:
                    raise error_of(Response.of(response.status, await response.read()))
                yield response
                return

    async def signed_in(self) -> Target:
        """Return the server with a token that it accepts now, for connections that do not renew one themselves."""
        if self.target.signed_in is not None:
            await self.get("/v1/version")
        return self.target

    @property
    def _open_session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.target.token}", "User-Agent": f"kaji-docker/{__version__}"}

    def _decoded(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            hint = "check the address of the server and the proxies before it"
            raise Unavailable(f"{self.target.url} answers, but not as a Kajitori server does", hint=hint) from error

    def _unreachable(self, error: Exception) -> Unavailable:
        text = str(error) or type(error).__name__
        return Unavailable(f"{self.target.url} can't be reached: {text}", hint=self.target.way_out)


def run_path(container: Container, rest: str = "") -> str:
    """Return the path of a container's run in the Web API, followed by `rest`."""
    return _path(str(container.view["namespace"]), container.run) + rest


def _path(namespace: str, name: str) -> str:
    return f"/v1/runs/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _pairs(params: Params | None) -> list[tuple[str, str]]:
    pairs = []
    for key, value in (params or {}).items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(key, str(one)) for one in values if one is not None]
    return pairs
