"""The asynchronous client: the synchronous one in worker threads.

Requests of the standard library block, and a second HTTP stack would have faults of its own. A thread per request costs
50 µs, which no call of the Web API notices. Waiting is done in the event loop, so a cancelled task leaves no thread
behind; a cancelled stream drops its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, Unpack

from kajitori.client.client import LONGEST_PAUSE_SECONDS, Client, Run, pauses_of_waiting
from kajitori.client.models import (
    CommandOutput,
    Event,
    Explanation,
    Member,
    NodeSeries,
    Outlook,
    Result,
    RunProperties,
    RunState,
    Series,
    SignalledProgram,
)
from kajitori.client.phases import PhaseReporter
from kajitori.client.streams import GIVE_UP_SECONDS
from kajitori.client.submit.keywords import RunOptions
from kajitori.errors import Unavailable

T = TypeVar("T")

QUEUED_ITEMS = 1000
"""Items of a stream that are read before the caller takes them."""


class AsyncRun(RunProperties):
    """A run. `state` is the server's last answer about it; `refresh` and `wait` renew it. Arguments are those of
    `Run`."""

    def __init__(self, client: AsyncClient, state: RunState) -> None:
        self._client = client
        self.state = state

    async def refresh(self) -> Self:
        self.state = await self._client.state_of(self)
        return self

    async def wait(self, timeout: float | None = None, *, progress: bool | Callable[[str], None] = False) -> Self:
        self.state = (await self._client.wait(self, timeout, progress=progress)).state
        return self

    def logs(
        self, *, follow: bool = False, rank: int | None = None, tail: int | None = None, since: str = ""
    ) -> AsyncIterator[str]:
        return self._client.logs(self, follow=follow, rank=rank, tail=tail, since=since)

    async def members(self) -> Sequence[Member]:
        return await self._client.members(self)

    async def metrics(self, *names: str, since: str = "1h") -> Sequence[Series]:
        return await self._client.metrics(self, *names, since=since)

    async def results(self, *, states: Sequence[str] = (), best: bool = False, by: str = "") -> Sequence[Result]:
        return await self._client.results(self, states=states, best=best, by=by)

    def events(self, *, follow: bool = False) -> AsyncIterator[Event]:
        return self._client.events(self, follow=follow)

    async def explain(self) -> Explanation:
        return await self._client.explain(self)

    async def exec(self, command: str | Sequence[str], *, rank: int = 0) -> CommandOutput:
        return await self._client.exec(self, command, rank=rank)

    async def stop(self, grace: str | None = None) -> Self:
        self.state = (await self._client.stop(self, grace)).state
        return self

    async def kill(self) -> Self:
        self.state = (await self._client.kill(self)).state
        return self

    async def signal(self, signal: str | int, *, ranks: Iterable[int] = ()) -> Sequence[SignalledProgram]:
        return await self._client.signal(self, signal, ranks=ranks)

    async def resume(self) -> Self:
        self.state = (await self._client.resume(self)).state
        return self

    async def update(self, **changes: str | int) -> Self:
        self.state = (await self._client.update(self, **changes)).state
        return self

    async def remove(self, *, force: bool = False, checkpoint: bool = False) -> None:
        await self._client.remove(self, force=force, checkpoint=checkpoint)


class AsyncClient:
    """The client for asyncio: the methods and errors of `Client`, to be awaited."""

    def __init__(
        self, server: str | None = None, context: str | None = None, namespace: str | None = None, **more: Any
    ) -> None:
        """Choose the server; arguments and errors as for `Client`."""
        self._client = Client(server, context, namespace, **more)

    @classmethod
    def of(cls, client: Client) -> Self:
        """Return a client on the connections of another one."""
        made = cls.__new__(cls)
        made._client = client
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()

    async def run(
        self, image: str | None = None, command: str | Sequence[str] = (), **options: Unpack[RunOptions]
    ) -> AsyncRun:
        return AsyncRun(self, await asyncio.to_thread(self._client.submit, image, command, options))

    async def what_if(
        self, image: str | None = None, command: str | Sequence[str] = (), **options: Unpack[RunOptions]
    ) -> Outlook:
        return await asyncio.to_thread(self._client.what_if, image, command, **options)

    async def get(self, name: str) -> AsyncRun:
        return AsyncRun(self, (await asyncio.to_thread(self._client.get, name)).state)

    async def list(self, **filters: Any) -> Sequence[AsyncRun]:
        return [AsyncRun(self, run.state) for run in await asyncio.to_thread(self._client.list, **filters)]

    async def state_of(self, run: AsyncRun | str) -> RunState:
        return await asyncio.to_thread(self._client.state_of, self._as_sync_run(run))

    async def wait(
        self,
        run: AsyncRun | str,
        timeout: float | None = None,
        *,
        progress: bool | Callable[[str], None] = False,
    ) -> AsyncRun:
        """Wait until a run has ended and return it. Raises TimeoutError after `timeout` seconds, NotFound if the run is
        deleted, and Unavailable if the server is away for two minutes. `progress` is as for `Client.wait`."""
        found = await self.get(run) if isinstance(run, str) else run
        tell = PhaseReporter(progress)
        until = None if timeout is None else time.monotonic() + timeout
        pauses, away_since = pauses_of_waiting(), None
        while True:
            try:
                found.state = await self.state_of(found)
                away_since = None
            except Unavailable:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > GIVE_UP_SECONDS:
                    raise
            tell.show(found.state)
            if found.is_final:
                return found
            left = LONGEST_PAUSE_SECONDS if until is None else until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{found.name} is still {found.phase} after {timeout:g} s")
            await asyncio.sleep(min(pauses.next_seconds(), left))

    def logs(
        self,
        run: AsyncRun | str,
        *,
        follow: bool = False,
        rank: int | None = None,
        tail: int | None = None,
        since: str = "",
    ) -> AsyncIterator[str]:
        target = self._as_sync_run(run)
        return _read_in_thread(lambda: self._client.logs(target, follow=follow, rank=rank, tail=tail, since=since))

    async def members(self, run: AsyncRun | str) -> Sequence[Member]:
        return await asyncio.to_thread(self._client.members, self._as_sync_run(run))

    async def metrics(self, run: AsyncRun | str, *names: str, since: str = "1h") -> Sequence[Series]:
        return await asyncio.to_thread(self._client.metrics, self._as_sync_run(run), *names, since=since)

    async def node_metrics(self, node: str, *names: str, since: str = "1h") -> Sequence[NodeSeries]:
        return await asyncio.to_thread(self._client.node_metrics, node, *names, since=since)

    async def results(
        self, run: AsyncRun | str, *, states: Sequence[str] = (), best: bool = False, by: str = ""
    ) -> Sequence[Result]:
        return await asyncio.to_thread(self._client.results, self._as_sync_run(run), states=states, best=best, by=by)

    def events(self, run: AsyncRun | str, *, follow: bool = False) -> AsyncIterator[Event]:
        target = self._as_sync_run(run)
        return _read_in_thread(lambda: self._client.events(target, follow=follow))

    async def explain(self, run: AsyncRun | str) -> Explanation:
        return await asyncio.to_thread(self._client.explain, self._as_sync_run(run))

    async def exec(self, run: AsyncRun | str, command: str | Sequence[str], *, rank: int = 0) -> CommandOutput:
        return await asyncio.to_thread(self._client.exec, self._as_sync_run(run), command, rank=rank)

    async def stop(self, run: AsyncRun | str, grace: str | None = None) -> AsyncRun:
        return AsyncRun(self, (await asyncio.to_thread(self._client.stop, self._as_sync_run(run), grace)).state)

    async def kill(self, run: AsyncRun | str) -> AsyncRun:
        return AsyncRun(self, (await asyncio.to_thread(self._client.kill, self._as_sync_run(run))).state)

    async def signal(
        self, run: AsyncRun | str, signal: str | int, *, ranks: Iterable[int] = ()
    ) -> Sequence[SignalledProgram]:
        return await asyncio.to_thread(self._client.signal, self._as_sync_run(run), signal, ranks=ranks)

    async def resume(self, run: AsyncRun | str) -> AsyncRun:
        return AsyncRun(self, (await asyncio.to_thread(self._client.resume, self._as_sync_run(run))).state)

    async def update(self, run: AsyncRun | str, **changes: str | int) -> AsyncRun:
        return AsyncRun(self, (await asyncio.to_thread(self._client.update, self._as_sync_run(run), **changes)).state)

    async def remove(self, run: AsyncRun | str, *, force: bool = False, checkpoint: bool = False) -> None:
        await asyncio.to_thread(self._client.remove, self._as_sync_run(run), force=force, checkpoint=checkpoint)

    def _as_sync_run(self, run: AsyncRun | str) -> Run | str:
        return run if isinstance(run, str) else Run(self._client, run.state)


_END = object()


async def _read_in_thread(opened: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """Yield what a blocking iterator yields, read by a thread of its own. The thread ends with the stream, or when the
    next item arrives after the caller has left."""
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[Any] = asyncio.Queue()
    room = threading.Semaphore(QUEUED_ITEMS)
    left = threading.Event()

    def read() -> None:
        last: Any = _END
        try:
            for item in opened():
                room.acquire()
                if left.is_set():
                    return
                loop.call_soon_threadsafe(items.put_nowait, item)
        except Exception as error:
            last = error
        with contextlib.suppress(RuntimeError):  # the event loop has ended meanwhile
            loop.call_soon_threadsafe(items.put_nowait, (_END, last))

    threading.Thread(target=read, name="stream", daemon=True).start()
    try:
        while True:
            item = await items.get()
            if isinstance(item, tuple) and len(item) == 2 and item[0] is _END:
                if isinstance(item[1], Exception):
                    raise item[1]
                return
            room.release()
            yield item
    finally:
        left.set()
        room.release()
