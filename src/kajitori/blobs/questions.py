"""Passes questions about nodes from one server to another through the store of blobs that they share.

Each agent waits for questions at one server. A process that asks stores its question under `telemetry-questions/ID`.
The server at which the node's agent waits stores the answer under `telemetry-answers/ID`, and the asker removes both.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from kajitori.blobs.stores.blobs import Blobs
from kajitori.core.telemetry.report import Answer, read_answer
from kajitori.errors import InvalidInput, KajitoriError, NotFound

QUESTIONS, ANSWERS = "telemetry-questions", "telemetry-answers"
LOOK_SECONDS = 0.4
"""Longest time between two looks for answers."""
AT_ONCE = 16
"""Largest number of requests to the store at the same time."""
MAX_ANSWER_BYTES = 256 << 20


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A question that is passed on to other servers."""

    node: str
    uids: tuple[str, ...]
    """UIDs of Pods on that node."""
    since: float = 0.0
    fresh: bool = False
    stacks: bool = False
    detail: str = ""
    """As in a Question."""


class Questions:
    """Asks questions through the store."""

    def __init__(self, blobs: Blobs, asker: str = "") -> None:
        """The ids of questions begin with `asker`, by which a server recognises its own questions."""
        self._blobs = blobs
        self._asker = asker or secrets.token_hex(4)

    async def ask(self, asked: Sequence[Asked], seconds: float) -> dict[int, Answer]:
        """Return the answers that arrive within this time, by the index of the question. Raises the store's errors."""
        batch = f"{self._asker}{secrets.token_hex(6)}"
        names = {f"{batch}.{number}": number for number in range(len(asked))}
        slots = asyncio.Semaphore(AT_ONCE)

        async def put(name: str, number: int) -> None:
            async with slots:
                await self._blobs.put(f"{QUESTIONS}/{name}", msgspec.msgpack.encode(asked[number]))

        found: dict[int, Answer] = {}
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(put(name, number) for name, number in names.items()))
                while len(found) < len(asked):
                    await asyncio.sleep(min(LOOK_SECONDS, self._blobs.look_seconds))
                    await self._collect(names, found)
        except TimeoutError:
            pass
        finally:
            keys = [f"{prefix}/{name}" for name in names for prefix in (QUESTIONS, ANSWERS)]
            with contextlib.suppress(KajitoriError):
                await asyncio.shield(self._blobs.delete(*keys))
        return found

    async def _collect(self, names: dict[str, int], found: dict[int, Answer]) -> None:
        there = []
        async with aclosing(self._blobs.under(ANSWERS)) as blobs:
            async for blob in blobs:
                name = blob.key.removeprefix(f"{ANSWERS}/")
                if names.get(name, -1) not in found and name in names:
                    there.append(name)
        for name in there:
            with contextlib.suppress(NotFound, InvalidInput):
                found[names[name]] = read_answer(
                    await self._blobs.read(f"{ANSWERS}/{name}", limit_bytes=MAX_ANSWER_BYTES)
                )
