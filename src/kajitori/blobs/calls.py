"""The logs of calls of functions: each run has a log, and each entry of a log is a blob.

An entry is created under the next free number, and only one writer can create it. So several servers may append at
once. The blobs of a run are removed with it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from kajitori.blobs.stores.blobs import Blobs
from kajitori.core.calls.queue import CallQueue, Entry
from kajitori.errors import NotFound

PREFIX = "calls"
MAX_ENTRY_BYTES = 64 << 20
MAX_QUEUES = 256
"""Number of queues that are kept in memory. The log of any other queue is read again when it is needed."""
MAX_RECENT_BYTES = 32 << 20
"""Memory for payloads that were written or read last."""

_decoder = msgspec.msgpack.Decoder(Entry)


@dataclass
class _RunQueue:
    """The queue of a run's calls, as far as this server has read its log."""

    state: CallQueue = field(default_factory=CallQueue)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an entry was added, and then replaced by a new one."""


class CallLogs:
    """The logs of all runs' calls in a store of blobs."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._queues: OrderedDict[tuple[str, str], _RunQueue] = OrderedDict()
        self._recent: OrderedDict[str, list[bytes]] = OrderedDict()
        self._recent_bytes = 0

    async def state(self, namespace: str, run_uid: str) -> CallQueue:
        """Return the present state, which must not be changed. It is empty for a run without calls."""
        queue = self._queue_of(namespace, run_uid)
        async with queue.lock:
            await self._catch_up(queue, namespace, run_uid)
        return queue.state

    async def append(
        self, namespace: str, run_uid: str, build: Callable[[CallQueue], Entry | None]
    ) -> tuple[CallQueue, Entry | None]:
        """Append the entry that `build` makes of the present state, and return the new state with the entry.

        `build` returns None if nothing has to be appended. It is called again if another server has appended an entry
        meanwhile.
        """
        queue = self._queue_of(namespace, run_uid)
        async with queue.lock:
            while True:
                await self._catch_up(queue, namespace, run_uid)
                entry = build(queue.state)
                if entry is None:
                    return queue.state, None
                key = _blob_key(namespace, run_uid, queue.state.places)
                if await self._blobs.create(key, msgspec.msgpack.encode(entry)):
                    self._remember(key, entry.payloads)
                    self._apply(queue, entry)
                    return queue.state, entry

    async def wait_for_more(self, namespace: str, run_uid: str, places: int, seconds: float) -> None:
        """Wait until the log has more than this number of entries, at most for these seconds.

        This server does not notice entries of another server: the caller has to read the state again.
        """
        queue = self._queue_of(namespace, run_uid)
        if queue.state.places > places:
            return
        try:
            async with asyncio.timeout(seconds):
                await queue.changed.wait()
        except TimeoutError:
            pass

    async def entries(self, namespace: str, run_uid: str, after: int, limit_bytes: int) -> tuple[list[Entry], int]:
        """Return entries from the place `after` on, and the place behind the last one. If there are any, at least one
        is returned, even if it is larger than the limit."""
        await self.state(namespace, run_uid)
        queue, found, size, place = self._queue_of(namespace, run_uid), [], 0, after
        while place < queue.state.places and size < limit_bytes:
            entry = await self._read(_blob_key(namespace, run_uid, place))
            found.append(entry)
            size += sum(map(len, entry.payloads))
            place += 1
        return found, place

    async def arguments(self, namespace: str, run_uid: str, calls: list[int]) -> list[bytes]:
        """Return the arguments of these calls."""
        state, found = self._queue_of(namespace, run_uid).state, []
        for call in calls:
            place, position = state.place_of(call)
            found.append((await self._payloads_of(_blob_key(namespace, run_uid, place)))[position])
        return found

    def _queue_of(self, namespace: str, run_uid: str) -> _RunQueue:
        queue = self._queues.setdefault((namespace, run_uid), _RunQueue())
        self._queues.move_to_end((namespace, run_uid))
        if len(self._queues) > MAX_QUEUES:
            oldest = next(key for key, other in self._queues.items() if not other.lock.locked() or other is queue)
            if oldest != (namespace, run_uid):
                del self._queues[oldest]
        return queue

    async def _catch_up(self, queue: _RunQueue, namespace: str, run_uid: str) -> None:
        while True:
            try:
                entry = await self._read(_blob_key(namespace, run_uid, queue.state.places))
            except NotFound:
                return
            self._apply(queue, entry)

    def _apply(self, queue: _RunQueue, entry: Entry) -> None:
        queue.state.apply(queue.state.places, entry)
        queue.changed.set()
        queue.changed = asyncio.Event()

    async def _read(self, key: str) -> Entry:
        entry = _decoder.decode(await self._blobs.read(key, limit_bytes=MAX_ENTRY_BYTES))
        self._remember(key, entry.payloads)
        return entry

    async def _payloads_of(self, key: str) -> list[bytes]:
        found = self._recent.get(key)
        return found if found is not None else (await self._read(key)).payloads

    def _remember(self, key: str, payloads: list[bytes]) -> None:
        if key in self._recent:
            return
        self._recent[key] = payloads
        self._recent_bytes += sum(map(len, payloads))
        while self._recent_bytes > MAX_RECENT_BYTES and len(self._recent) > 1:
            _, dropped = self._recent.popitem(last=False)
            self._recent_bytes -= sum(map(len, dropped))


def _blob_key(namespace: str, run_uid: str, place: int) -> str:
    return f"{PREFIX}/{namespace}/{run_uid}/{place:08}"
