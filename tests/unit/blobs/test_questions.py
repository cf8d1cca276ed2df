"""Questions that are passed on through the store."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.blobs import questions
from kajitori.blobs.questions import ANSWERS, QUESTIONS, Asked, Questions
from kajitori.core.telemetry.hangs.stacks import MemberStacks
from kajitori.core.telemetry.report import Answer, encode


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "LOOK_SECONDS", 0.001)


async def keys(blobs: MemoryBlobs) -> list[str]:
    return [blob.key for prefix in (QUESTIONS, ANSWERS) for blob in [each async for each in blobs.under(prefix)]]


async def answer_all(blobs: MemoryBlobs, *nodes: str) -> None:
    """Answer as the server at which the agents of these nodes wait."""
    done: set[str] = set()
    while len(done) < len(nodes):
        for key in [blob.key async for blob in blobs.under(QUESTIONS)]:
            asked = msgspec.msgpack.decode(await blobs.read(key, limit_bytes=4096), type=Asked)
            if asked.node in nodes and key not in done:
                done.add(key)
                told = Answer(stacks=tuple(MemberStacks(uid, 1.0) for uid in asked.uids))
                await blobs.put(f"{ANSWERS}/{key.removeprefix(QUESTIONS + '/')}", encode(told))
        await asyncio.sleep(0)


async def test_many_questions_are_asked_at_once_and_nothing_is_left() -> None:
    blobs = MemoryBlobs()
    asked = [Asked(f"n{number}", (f"pod-{number}",), stacks=True) for number in range(40)]
    server = asyncio.create_task(answer_all(blobs, *(each.node for each in asked)))
    found = await Questions(blobs, "me").ask(asked, 10.0)
    await server
    assert {number: answer.stacks[0].uid for number, answer in found.items()} == {n: f"pod-{n}" for n in range(40)}
    assert await keys(blobs) == []


async def test_nodes_that_do_not_answer_cost_the_time_only_once() -> None:
    """What other nodes answered is returned."""
    blobs = MemoryBlobs()
    asked = [Asked("n0", ("pod-0",)), Asked("silent", ("pod-1",)), Asked("dead", ("pod-2",))]
    server = asyncio.create_task(answer_all(blobs, "n0"))
    found = await Questions(blobs).ask(asked, 0.1)
    await server
    assert list(found) == [0]
    assert await keys(blobs) == []


async def test_an_answer_that_is_none_is_left_out() -> None:
    blobs = MemoryBlobs()

    async def answer() -> None:
        names: list[str] = []
        for _ in range(1000):
            names = names or [blob.key async for blob in blobs.under(QUESTIONS)]
            await asyncio.sleep(0)
        await blobs.put(f"{ANSWERS}/{names[0].removeprefix(QUESTIONS + '/')}", b"?")

    server = asyncio.create_task(answer())
    assert await Questions(blobs).ask([Asked("n0", ("pod-0",))], 0.05) == {}
    await server
