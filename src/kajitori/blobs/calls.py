"""The logs of calls: one blob per entry, created at the next free place, so several servers may append at once.

The blobs belong to their run and are removed with it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from kajitori.blobs.blobs import Blobs
from kajitori.core.calls.queue import CallQueue, Entry
from kajitori.errors import NotFound

PREFIX = "calls"
MAX_ENTRY_BYTES = 64 << 20
MAX_QUEUES = 256
"""Number of queues that are kept in memory. Any other queue is read from its log again."""
MAX_RECENT_BYTES = 32 << 20
"""Memory for payloads that were written or read last."""

_decoder = msgspec.msgpack.Decoder(Entry)


@dataclass
class _Known:
    """A queue as far as this server has read its log."""

    state: CallQueue = field(default_factory=CallQueue)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class CallLogs:
    """The logs of all runs' calls in a store of blobs."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._recent: OrderedDict[str, list[bytes]] = OrderedDict()
        self._recent_bytes = 0

    async def state(self, namespace: str, run_uid: str) -> CallQueue:
        """Return the present state, which must not be changed. It is empty for a run without calls."""
        known = self._queue(namespace, run_uid)
        async with known.lock:
            await self._catch_up(known, namespace, run_uid)
        return known.state

    async def append(
        self, namespace: str, run_uid: str, build: Callable[[CallQueue], Entry | None]
    ) -> tuple[CallQueue, Entry | None]:
        """Append the entry that `build` makes of the present state, and return the new state with the entry.

        `build` is called again if another server was faster, and returns None if nothing is to be appended.
        """
        known = self._queue(namespace, run_uid)
        async with known.lock:
            while True:
                await self._catch_up(known, namespace, run_uid)
                entry = build(known.state)
                if entry is None:
                    return known.state, None
                key = _key(namespace, run_uid, known.state.places)
                if await self._blobs.create(key, msgspec.msgpack.encode(entry)):
                    self._remember(key, entry.payloads)
                    self._apply(known, entry)
                    return known.state, entry

    async def news(self, namespace: str, run_uid: str, places: int, seconds: float) -> None:
        """Wait until the log has more than this number of entries, at most this long. An entry of another server is
        noticed by the next look of the caller."""
        known = self._queue(namespace, run_uid)
        if known.state.places > places:
            return
        try:
            async with asyncio.timeout(seconds):
                await known.news.wait()
        except TimeoutError:
            pass

    async def entries(self, namespace: str, run_uid: str, after: int, limit_bytes: int) -> tuple[list[Entry], int]:
        """Return entries from the place `after` on, and the place behind them. At least one if there is one."""
        await self.state(namespace, run_uid)
        known, found, size, place = self._queue(namespace, run_uid), [], 0, after
        while place < known.state.places and size < limit_bytes:
            entry = await self._read(_key(namespace, run_uid, place))
            found.append(entry)
            size += sum(map(len, entry.payloads))
            place += 1
        return found, place

    async def arguments(self, namespace: str, run_uid: str, calls: list[int]) -> list[bytes]:
        """Return the arguments of added calls."""
        state, found = self._queue(namespace, run_uid).state, []
        for call in calls:
            place, position = state.place_of(call)
            found.append((await self._payloads(_key(namespace, run_uid, place)))[position])
        return found

    def _queue(self, namespace: str, run_uid: str) -> _Known:
        known = self._known.setdefault((namespace, run_uid), _Known())
        self._known.move_to_end((namespace, run_uid))
        if len(self._known) > MAX_QUEUES:
            oldest = next(key for key, queue in self._known.items() if not queue.lock.locked() or queue is known)
            if oldest != (namespace, run_uid):
                del self._known[oldest]
        return known

    async def _catch_up(self, known: _Known, namespace: str, run_uid: str) -> None:
        while True:
            try:
                entry = await self._read(_key(namespace, run_uid, known.state.places))
            except NotFound:
                return
            self._apply(known, entry)

    def _apply(self, known: _Known, entry: Entry) -> None:
        known.state.apply(known.state.places, entry)
        known.news.set()
        known.news = asyncio.Event()

    async def _read(self, key: str) -> Entry:
        entry = _decoder.decode(await self._blobs.read(key, limit_bytes=MAX_ENTRY_BYTES))
        self._remember(key, entry.payloads)
        return entry

    async def _payloads(self, key: str) -> list[bytes]:
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


def _key(namespace: str, run_uid: str, place: int) -> str:
    return f"{PREFIX}/{namespace}/{run_uid}/{place:08}"
