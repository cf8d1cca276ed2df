"""Logs of calls: several servers append to one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.blobs.calls import CallLogs
from kajitori.blobs.results import KeptResults
from kajitori.core.calls.queue import CallQueue, Entry, Outcome, Worker


def adding(*payloads: bytes) -> Entry:
    return Entry(token="t", added=len(payloads), payloads=list(payloads))


async def test_servers_that_append_at_once_lose_nothing() -> None:
    """Each call is taken once, whichever server a worker asks."""
    blobs = MemoryBlobs(random.Random(1))
    servers = [CallLogs(blobs) for _ in range(3)]
    await servers[0].append("team", "uid", lambda _: adding(*(b"%d" % call for call in range(30))))

    def taking(worker: Worker) -> Callable[[CallQueue], Entry | None]:
        def build(state: CallQueue) -> Entry | None:
            taken, _ = state.work_for(worker, 5, (), lambda _: True)
            return Entry(worker=worker, taken=taken) if taken else None

        return build

    async def work(rank: int) -> list[int]:
        found: list[int] = []
        for _ in range(3):
            _, entry = await servers[rank % 3].append("team", "uid", taking(Worker(rank, 1, "x")))
            found = entry.taken if entry is not None else found
        return found

    held = await asyncio.gather(*(work(rank) for rank in range(5)))
    numbers = [call for calls in held for call in calls]
    assert len(numbers) == len(set(numbers))
    assert await servers[1].arguments("team", "uid", [0, 29]) == [b"0", b"29"]


async def test_entries_are_read_from_any_place_on() -> None:
    logs = CallLogs(MemoryBlobs())
    await logs.append("team", "uid", lambda _: adding(b"x" * 10))
    outcome = Entry(worker=Worker(0, 1, "a"), outcomes=[Outcome(0, "value")], payloads=[b"r"])
    await logs.append("team", "uid", lambda _: outcome)
    entries, following = await logs.entries("team", "uid", 0, limit_bytes=1)
    assert (len(entries), following) == (1, 1)
    entries, following = await logs.entries("team", "uid", 1, limit_bytes=1)
    assert (entries[0].payloads, following) == ([b"r"], 2)


async def test_calls_are_removed_with_their_run() -> None:
    blobs = MemoryBlobs()
    kept = KeptResults(blobs)
    await kept.calls.append("team", "uid", lambda _: adding(b"x"))
    await kept.forget("team", "uid")
    assert not blobs.held
