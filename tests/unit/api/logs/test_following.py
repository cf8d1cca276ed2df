"""Logs that are followed: over restarts, lost nodes and broken connections, until the run ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod
from tests.unit.api.fake_programs import FakeLog
from tests.unit.api.logs.scene import PATH, at, put_member, put_run

from kajitori.api.logs import connection, source
from kajitori.api.requests.limits import MAX_LOGS
from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs


async def test_following_waits_for_the_start_and_goes_on_after_a_restart(
    world: World, served: httpx2.AsyncClient
) -> None:
    """It ends with the run; no line is repeated or lost."""
    made = put_run(world, phase="Starting")
    first, second = FakeLog(at(1, "hello")), FakeLog(at(9, "again"))
    put_member(world, made, first, phase="Pending")
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        put_member(world, made, first)
        assert await anext(lines) == "hello"
        first.print(at(2, "more"))
        assert await anext(lines) == "more"
        first.print(at(3, "last words"))
        first.end()
        world.kubernetes.change("pods", "bert-1-0", status=pod(made, phase="Failed")["status"])
        assert await anext(lines) == "last words"
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        world.kubernetes.remove("pods", "bert-1-0")
        put_member(world, made, second, attempt=2)
        assert await anext(lines) == "again"
        second.end()
        world.kubernetes.change("pods", "bert-2-0", status=pod(made, phase="Succeeded")["status"])
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert [line async for line in lines] == []


async def test_following_ends_as_soon_as_the_member_has_ended(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log ends a moment before its Pod is known to have ended. Each `kaji run` waited a quarter of a second for
    nothing after that."""
    monkeypatch.setattr(source, "FIRST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(source, "LONGEST_PAUSE_SECONDS", 3600.0)
    made = put_run(world)
    log = FakeLog(at(1, "hello"))
    put_member(world, made, log)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "hello"
        log.end()
        world.kubernetes.change("pods", "bert-1-0", metadata={"annotations": {"x": "y"}})  # it has not ended yet
        await world.caught_up()
        world.kubernetes.change("pods", "bert-1-0", status=pod(made, phase="Succeeded")["status"])
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert [line async for line in lines] == []


async def test_a_broken_connection_is_resumed_where_it_ended(world: World, served: httpx2.AsyncClient) -> None:
    """Two lines with the same timestamp are two lines."""
    made = put_run(world)
    log = FakeLog(at(1, "a"), at(1, "b"))
    put_member(world, made, log)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert [await anext(lines), await anext(lines)] == ["a", "b"]
        log.end()  # the connection ends, but the container does not
        log.print(at(1, "c"), at(2, "d"))
        assert [await anext(lines), await anext(lines)] == ["c", "d"]


async def test_the_next_attempt_is_read_from_its_start_though_no_end_was_seen(
    world: World, served: httpx2.AsyncClient
) -> None:
    """Lines of both attempts may have the same timestamp."""
    made = put_run(world)
    first = FakeLog(at(1, "a"))
    put_member(world, made, first)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "a"
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        put_member(world, made, FakeLog(at(1, "b"), at(0, "c")), attempt=2)
        await world.caught_up()
        first.end()
        assert [await anext(lines), await anext(lines)] == ["b", "c"]


async def test_after_the_loss_of_a_node_the_next_attempt_is_read(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection to a dead node does not end by itself; it is given up once the Pod is gone."""
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.05)
    made = put_run(world)
    put_member(world, made, FakeLog(at(1, "a")))
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "a"
        world.kubernetes.remove("pods", "bert-1-0")
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        put_member(world, made, FakeLog(at(2, "b")), attempt=2)
        assert await anext(lines) == "kaji: the end of the log of rank 0 in attempt 1 was lost with node n1"
        assert await anext(lines) == "b"


async def test_lines_lost_with_a_connection_come_from_the_stored_log(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So do lines of an attempt that started and ended while the connection was broken."""
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.05)
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world)
    put_member(world, made, FakeLog(at(1, "a")))
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "a"
        uid = made["metadata"]["uid"]
        await kept.keep(MemberLogName("team", uid, 1, 0), f"{at(1, 'a')}\n{at(2, 'last words')}\n".encode())
        await kept.keep(MemberLogName("team", uid, 2, 0), f"{at(3, 'a short life')}\n".encode())
        world.kubernetes.remove("pods", "bert-1-0")
        world.kubernetes.change("runs", "bert", status=attempts(3, phase="Running"))
        put_member(world, made, FakeLog(at(4, "the third")), attempt=3)
        assert [await anext(lines) for _ in range(3)] == ["last words", "a short life", "the third"]


async def test_following_several_members_ends_with_the_run(world: World, served: httpx2.AsyncClient) -> None:
    """A member that prints nothing does not delay the others."""
    made = put_run(world, replicas=3)
    logs = [FakeLog(), FakeLog(at(1, "one")), FakeLog()]
    for rank, log in enumerate(logs):
        put_member(world, made, log, rank=rank)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"allRanks": "true", "follow": "true"}) as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["line"] == "one"
        logs[2].print(at(2, "two"))
        assert json.loads(await anext(lines)) | {"time": ""} == {"rank": 2, "attempt": 1, "time": "", "line": "two"}
        for rank, log in enumerate(logs):
            log.end()
            world.kubernetes.change("pods", f"bert-1-{rank}", status=pod(made, phase="Succeeded")["status"])
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert [line async for line in lines] == []


async def test_a_disconnected_reader_frees_all_its_resources(world: World, served: httpx2.AsyncClient) -> None:
    """The connections to the API server are closed, and the slots are free."""
    made = put_run(world, replicas=2)
    logs = [FakeLog(at(1, "a")), FakeLog(at(1, "b"))]
    for rank, log in enumerate(logs):
        put_member(world, made, log, rank=rank)
    await world.caught_up()
    async with served.stream("GET", PATH, params={"allRanks": "true", "follow": "true"}) as response:
        await anext(response.aiter_lines())
        assert [log.open for log in logs] == [1, 1]
    async with asyncio.timeout(60):
        for log in logs:
            await log.left.wait()
    assert world.api.callers.logs.free == MAX_LOGS
