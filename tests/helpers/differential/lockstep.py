"""Runs a sequence against both servers, one operation after the other, with watches open, and compares the answers."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yaml
from tests.helpers.differential.normalise import Normaliser, differences
from tests.helpers.differential.operations import Memory, Operation

USER_AGENT = "differential/1"
_LAGGING = re.compile(r"limitranges|priorityclasses|namespaces/[^/]+(/finalize|/status)?$|/namespaces$|storageclasses")
"""Paths of objects that admission in a real server reads from a cache."""
_LAG_SECONDS = 0.12
_BOUND_SECONDS = 60.0
_QUIET_SECONDS = 0.15


@dataclass
class Server:
    """One API server, with the credentials of its administrator."""

    name: str
    url: str
    token: str
    session: aiohttp.ClientSession


@dataclass(frozen=True)
class Difference:
    """A difference between the two servers."""

    index: int
    operation: str
    lines: tuple[str, ...]
    ours: Any
    real: Any
    prefix: str
    """The value of `{p}`."""

    @property
    def signature(self) -> str:
        """The kind of the difference, which stays the same when the sequence is shortened."""
        verb = re.sub(r"\{p\}[-a-z]*|/[a-z]-[a-z]+|\?.*", "", self.operation.partition("  ")[0])
        return verb + " | " + " ; ".join(sorted({line.partition(": ")[0] for line in self.lines}))

    def __str__(self) -> str:
        return f"#{self.index} {self.operation}\n    " + "\n    ".join(line[:1500] for line in self.lines[:12])


@dataclass
class _Watch:
    operation: Operation
    task: asyncio.Task[None]
    answer: asyncio.Future[tuple[int, Any]]
    events: list[Any] = field(default_factory=list)
    grew: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _Side:
    server: Server
    memory: Memory
    normaliser: Normaliser = field(default_factory=Normaliser)
    watches: list[_Watch] = field(default_factory=list)

    async def perform(self, operation: Operation) -> Any:
        """Perform an operation and return the comparable answer."""
        if operation.watch:
            return await self._open(operation)
        request = self.memory.request(operation)
        headers = {"Authorization": f"Bearer {self.server.token}", "User-Agent": USER_AGENT, **request.headers}
        skipped = () if "Content-Type" in headers else ("Content-Type",)
        try:
            async with asyncio.timeout(_BOUND_SECONDS):
                async with self.server.session.request(
                    request.method,
                    self.server.url + request.path,
                    data=request.body,
                    headers=headers,
                    params=list(request.params),
                    skip_auto_headers=skipped,
                ) as response:
                    content = await response.read()
        except aiohttp.ServerDisconnectedError as error:
            raise ConnectionError(f"{self.server.name} ended the connection at {operation}") from error
        body = _parsed(content, response.content_type)
        self.memory.learn(operation, response.status, body)
        if ("dryRun", "All") in operation.params and isinstance(body, dict) and body.get("metadata"):
            # An object that was not stored has no version, although some endpoints of a real server show one.
            body["metadata"].pop("resourceVersion", None)
        return self.normaliser.answer(
            {
                "code": response.status,
                "type": response.content_type,
                "body": body,
            }
        )

    async def _open(self, operation: Operation) -> Any:
        answer: asyncio.Future[tuple[int, Any]] = asyncio.get_running_loop().create_future()
        watch = _Watch(operation, asyncio.create_task(asyncio.sleep(0)), answer)
        watch.task = asyncio.create_task(self._follow(operation, watch))
        async with asyncio.timeout(_BOUND_SECONDS):
            code, body = await answer
        if code == 200:
            self.watches.append(watch)
        return self.normaliser.answer({"code": code, "body": body})

    async def _follow(self, operation: Operation, watch: _Watch) -> None:
        request = self.memory.request(operation)
        headers = {"Authorization": f"Bearer {self.server.token}", "User-Agent": USER_AGENT, **request.headers}
        try:
            async with self.server.session.get(
                self.server.url + request.path, headers=headers, params=[*request.params, ("watch", "true")]
            ) as response:
                if response.status != 200:
                    watch.answer.set_result((response.status, _parsed(await response.read(), response.content_type)))
                    return
                watch.answer.set_result((200, None))
                rest = b""
                async for piece in response.content.iter_any():
                    *lines, rest = (rest + piece).split(b"\n")
                    watch.events += [json.loads(line) for line in lines if line.strip()]
                    watch.grew.set()
        except (aiohttp.ClientError, OSError) as error:
            if not watch.answer.done():
                watch.answer.set_exception(error)

    async def settle(self, watch: _Watch, fence: str) -> list[Any]:
        """Return a watch's comparable events, up to that of the fence (or until no more come)."""
        try:
            async with asyncio.timeout(_BOUND_SECONDS):
                while not any(fence and _name(one) == fence for one in watch.events) and not watch.task.done():
                    watch.grew.clear()
                    if fence:
                        await watch.grew.wait()
                    else:
                        await asyncio.wait_for(watch.grew.wait(), _QUIET_SECONDS)
        except TimeoutError:
            pass
        shown = []
        for event in watch.events:
            if event["type"] == "BOOKMARK":
                meta = event["object"].get("metadata", {})
                if (meta.get("annotations") or {}).get("k8s.io/initial-events-end"):
                    shown.append({"type": "BOOKMARK", "object": "end of the initial events"})
                continue
            shown.append(self.normaliser.answer(event))
        return shown

    async def close(self) -> None:
        for watch in self.watches:
            watch.task.cancel()
        await asyncio.gather(*(watch.task for watch in self.watches), return_exceptions=True)


def _name(event: Any) -> str:
    return str((event["object"].get("metadata") or {}).get("name", ""))


def _parsed(content: bytes, content_type: str) -> Any:
    if content_type.endswith("json") and content:
        return json.loads(content)
    if content_type.endswith("yaml"):
        return yaml.load(content, yaml.BaseLoader)
    return content.decode(errors="replace")


@asynccontextmanager
async def connection(name: str, url: str, token: str, trust: ssl.SSLContext) -> AsyncIterator[Server]:
    """Connect to a server with this token."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trust, limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        yield Server(name, url, token, session)


_counter = itertools.count()


class Pair:
    """The embedded server and the real one."""

    def __init__(self, ours: Server, real: Server) -> None:
        self._ours, self._real = ours, real

    async def everywhere(self, operation: Operation) -> None:
        """Perform an operation on both servers, which must succeed or have succeeded."""
        for server in (self._ours, self._real):
            answer = await _Side(server, Memory("none")).perform(operation)
            if answer["code"] not in (200, 201, 409):
                raise RuntimeError(f"{server.name}: {answer}")

    async def until_served(self, path: str) -> None:
        """Wait until both servers list a path."""
        for server in (self._ours, self._real):
            async with asyncio.timeout(_BOUND_SECONDS):
                asked = Operation("GET", path)
                while (await _Side(server, Memory("none")).perform(asked))["code"] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(_LAG_SECONDS)

    async def really(
        self, operations: Sequence[Operation], fences: Sequence[Operation], *, prefix: str, index: int, watched: str
    ) -> Any:
        """Return the real server's answer to an operation of a sequence (see `replay`)."""
        return await replay(self._real, operations, fences, prefix=prefix, index=index, watched=watched)

    async def run(
        self,
        operations: Sequence[Operation],
        fences: Sequence[Operation],
    ) -> list[Difference]:
        """Return the first difference, or none; all that differ for watches. `fences` create one object in each watched
        collection: when its event arrives, all earlier ones have."""
        prefix = f"d{next(_counter):x}"
        sides = _Side(self._ours, Memory(prefix)), _Side(self._real, Memory(prefix))
        try:
            for index, operation in enumerate(operations):
                answers = await asyncio.gather(*(side.perform(operation) for side in sides))
                lines = differences(*answers)
                if lines:
                    return [Difference(index, str(operation), tuple(lines), answers[0], answers[1], prefix)]
                if operation.method != "GET" and _LAGGING.search(operation.path):
                    await asyncio.sleep(_LAG_SECONDS)
            return await self._compare_watches(sides, fences, len(operations))
        finally:
            await asyncio.gather(*(side.close() for side in sides))

    async def _compare_watches(
        self, sides: tuple[_Side, _Side], fences: Sequence[Operation], index: int
    ) -> list[Difference]:
        if not sides[0].watches:
            return []
        fenced = {}
        watched = {watch.operation.path for watch in sides[0].watches}
        for fence in fences:
            if fence.path in watched:
                answers = await asyncio.gather(*(side.perform(fence) for side in sides))
                if answers[0]["code"] == 201 and not differences(*answers):
                    fenced[fence.path] = str(fence.body["metadata"]["name"]).replace("{p}", sides[0].memory.prefix)
        found = []
        for one, other in zip(sides[0].watches, sides[1].watches, strict=True):
            until = fenced.get(one.operation.path, "") if _is_plain(one.operation) else ""
            events = [await side.settle(watch, until) for side, watch in ((sides[0], one), (sides[1], other))]
            lines = (
                differences(events[0], events[1], "events") if len(events[0]) == len(events[1]) else _by_event(*events)
            )
            if lines:
                found.append(
                    Difference(index, str(one.operation), tuple(lines), events[0], events[1], sides[0].memory.prefix)
                )
        return found


async def replay(
    server: Server,
    operations: Sequence[Operation],
    fences: Sequence[Operation],
    *,
    prefix: str,
    index: int,
    watched: str,
) -> Any:
    """Return one server's comparable answer to an operation of a sequence, or (at its end) the events of a watch."""
    side = _Side(server, Memory(prefix))
    try:
        answer: Any = None
        for operation in operations[: index + 1]:
            answer = await side.perform(operation)
        if not watched:
            return answer
        watch = next(one for one in side.watches if str(one.operation) == watched)
        fenced = {}
        for fence in fences:
            if fence.path in {one.operation.path for one in side.watches}:
                await side.perform(fence)
                fenced[fence.path] = str(fence.body["metadata"]["name"]).replace("{p}", prefix)
        until = fenced.get(watch.operation.path, "") if _is_plain(watch.operation) else ""
        return await side.settle(watch, until)
    finally:
        await side.close()


def _is_plain(operation: Operation) -> bool:
    """Return whether a watch sees everything that its sequence creates."""
    selects = any(name in ("fieldSelector", "labelSelector") for name, _ in operation.params)
    return not selects or ("labelSelector", "sea={p}") in operation.params


def _by_event(ours: list[Any], real: list[Any]) -> list[str]:
    for index, (one, other) in enumerate(itertools.zip_longest(ours, real)):
        if one != other:
            return [
                f"events: {len(ours)}, really {len(real)}; first difference is #{index}: {_brief(one)}, "
                f"really {_brief(other)}"
            ]
    return []


def _brief(event: Any) -> str:
    return "nothing" if event is None else f"{event['type']} {json.dumps(event['object'])[:600]}"


async def smallest(
    pair: Pair,
    operations: Sequence[Operation],
    fences: Sequence[Operation],
    difference: Difference,
    tries: int = 80,
) -> tuple[list[Operation], Difference]:
    """Return the sequence without operations that the difference does not need."""
    kept = list(operations[: difference.index + 1])
    size = max(1, len(kept) // 2)
    while size and tries:
        start, shrank = 0, False
        while start < len(kept) and tries:
            attempt = kept[:start] + kept[start + size :]
            tries -= 1
            found = await pair.run(attempt, fences)
            if found and found[0].signature == difference.signature:
                kept, difference, shrank = attempt, found[0], True
            else:
                start += size
        size = size if shrank and size == 1 and tries else size // 2
    return kept, difference
