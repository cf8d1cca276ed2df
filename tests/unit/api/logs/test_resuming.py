"""Readers that resume: with the attempt that they were reading, and without repeated lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod
from tests.unit.api.fake_programs import FakeLog
from tests.unit.api.logs.scene import PATH, at, put_member, put_run, read

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs


@pytest.mark.parametrize("params", [{}, {"allRanks": "true"}])
async def test_a_resumed_reader_goes_on_with_the_attempt_it_was_reading(
    world: World, served: httpx2.AsyncClient, tmp_path: Path, params: dict[str, str]
) -> None:
    """That attempt's Pod is gone, and another attempt has started and ended: the stored logs of both come before the
    newest."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world, attempt=4)
    uid = made["metadata"]["uid"]
    for attempt, lines_said in {1: ["old"], 2: ["seen", "last words"], 3: ["a short life"]}.items():
        content = "".join(
            f"{at(10 - attempt + number, line)}\n" for number, line in enumerate(lines_said)
        )  # clocks differ between nodes
        await kept.keep(MemberLogName("team", uid, attempt, 0), content.encode())
    last = FakeLog(at(1, "the fourth"))
    put_member(world, made, last, attempt=4)
    await world.caught_up()
    resumed: dict[str, Any] = {
        "follow": "true",
        "documents": "true",
        "fromAttempt": "2",
        "since": "2026-11-21T10:00:08.5Z",
    }
    async with served.stream("GET", PATH, params=resumed | params) as response:
        lines = response.aiter_lines()
        documents = [json.loads(await anext(lines)) for _ in range(3)]
        assert [(document["attempt"], document["line"]) for document in documents] == [
            (2, "last words"),
            (3, "a short life"),
            (4, "the fourth"),
        ]
        last.end()
        world.kubernetes.change("pods", "bert-4-0", status=pod(made, phase="Succeeded")["status"])
        world.kubernetes.change("runs", "bert", status={"phase": "Succeeded"})
        assert [line async for line in lines] == []


async def test_the_log_of_a_member_of_later_attempts_is_returned_once(
    world: World, served: httpx2.AsyncClient, tmp_path: Path
) -> None:
    """Members of sweeps start in any attempt. The Pod is deleted before its end was seen; the rest comes from the
    stored log, and so does an attempt that was missed."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world, attempt=20)
    uid = made["metadata"]["uid"]
    log = FakeLog(at(1, "a"))
    put_member(world, made, log, attempt=20)
    await world.caught_up()
    params = {"follow": "true", "fromAttempt": "1", "documents": "true"}
    async with served.stream("GET", PATH, params=params) as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["line"] == "a"
        log.end()  # as far as the server knows, the Pod is still running
        await kept.keep(MemberLogName("team", uid, 20, 0), f"{at(1, 'a')}\n{at(2, 'last words')}\n".encode())
        await kept.keep(MemberLogName("team", uid, 33, 0), f"{at(1, 'a short life')}\n".encode())
        world.kubernetes.remove("pods", "bert-20-0")
        world.kubernetes.change("runs", "bert", status=attempts(140, phase="Running"))
        put_member(world, made, FakeLog(at(1, "b")), attempt=140)
        documents = [json.loads(await anext(lines)) for _ in range(3)]
        assert [(document["attempt"], document["line"]) for document in documents] == [
            (20, "last words"),
            (33, "a short life"),
            (140, "b"),
        ]


@pytest.mark.parametrize(
    ("params", "expected"),
    [({"fromAttempt": 1, "since": "2026-11-21T10:00:01.5Z"}, ["last words", "b"]), ({}, ["a", "last words", "b"])],
)
async def test_the_stored_log_is_read_if_a_pod_is_deleted_meanwhile(
    world: World, served: httpx2.AsyncClient, tmp_path: Path, params: dict[str, Any], expected: list[str]
) -> None:
    """The server sees the Pod until it asks for its log. A reader that resumes and a new one get all lines."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world)
    uid = made["metadata"]["uid"]
    await kept.keep(MemberLogName("team", uid, 1, 0), f"{at(1, 'a')}\n{at(2, 'last words')}\n".encode())
    world.kubernetes.put("pods", pod(made, phase="Running"))
    await world.caught_up()

    async def deleted() -> None:
        world.kubernetes.remove("pods", "bert-1-0")
        await world.caught_up()

    world.kubernetes.before_no_log = deleted
    async with served.stream("GET", PATH, params={"follow": "true"} | params) as response:
        lines = response.aiter_lines()
        world.kubernetes.change("runs", "bert", status=attempts(2, phase="Running"))
        put_member(world, made, FakeLog(at(3, "b")), attempt=2)
        assert [await anext(lines) for _ in expected] == expected


async def test_a_resumed_reader_gets_the_end_of_an_ended_run(world: World, tmp_path: Path) -> None:
    """The run was restarted and stopped meanwhile, and all its Pods are gone."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    uid = put_run(world, attempt=2, phase="Stopped")["metadata"]["uid"]
    for attempt in (1, 2):
        await kept.keep(MemberLogName("team", uid, attempt, 0), f"{at(attempt, f'end of {attempt}')}\n".encode())
    await world.caught_up()
    assert await read(world.http, follow="true", fromAttempt=1) == "end of 1\nend of 2\n"
    assert await read(world.http, follow="true") == "end of 2\n"
