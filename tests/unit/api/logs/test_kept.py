"""Stored logs of members whose Pods are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import pod
from tests.unit.api.fake_programs import FakeLog
from tests.unit.api.logs.scene import PATH, at, put_member, put_run, read

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs


@pytest.fixture
async def kept(world: World, tmp_path: Path) -> KeptLogs:
    """Stored logs of attempt 1, whose Pods are gone, of a run in its second attempt."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world, attempt=2, phase="Running", replicas=4)
    put_member(world, made, FakeLog(at(30, "second life")), attempt=2)
    text = "".join(f"{at(second, f'line {second}')}\n" for second in range(1, 6))
    for rank in (0, 2):
        name = MemberLogName("team", made["metadata"]["uid"], 1, rank)
        await kept.keep(name, text.replace("line", f"rank {rank}, line").encode())
    await world.caught_up()
    return kept


async def test_stored_logs_are_read_like_other_logs(world: World, kept: KeptLogs) -> None:
    assert await read(world.http) == "second life\n"
    assert (await read(world.http, attempt=1)).splitlines() == [f"rank 0, line {number}" for number in range(1, 6)]
    assert await read(world.http, attempt=1, rank=2, tail=1) == "rank 2, line 5\n"
    assert await read(world.http, attempt=1, tail=0) == ""
    assert (await read(world.http, attempt=1, since="2026-11-21T10:00:04Z")).startswith("rank 0, line 4\n")
    assert await read(world.http, attempt=1, tail=1, timestamps="true") == at(5, "rank 0, line 5") + "\n"
    assert await read(world.http, attempt=1, tail=1, follow="true") == "rank 0, line 5\n"


async def test_all_lines_of_stored_logs_count_as_stdout(world: World, kept: KeptLogs) -> None:
    assert len((await read(world.http, attempt=1, stream="stdout")).splitlines()) == 5
    assert await read(world.http, attempt=1, stream="stderr") == ""


async def test_stored_logs_of_several_members_are_merged(world: World, kept: KeptLogs) -> None:
    """Members without a stored log are left out."""
    response = await world.http.get(PATH, params={"attempt": 1, "allRanks": "true", "tail": 1})
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [(line["rank"], line["attempt"], line["line"]) for line in lines] == [
        (0, 1, "rank 0, line 5"),
        (2, 1, "rank 2, line 5"),
    ]


async def test_stored_logs_are_listed_once_for_all_members(
    world: World, kept: KeptLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only logs that exist are read."""
    calls: list[str] = []

    def counted(name: str) -> None:
        real = getattr(kept, name)

        def call(*args: Any) -> Any:
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(kept, name, call)

    counted("of_run")
    counted("read")
    await world.http.get(PATH, params={"attempt": 1, "allRanks": "true"})
    assert sorted(calls) == ["of_run", "read", "read"]


async def test_a_missing_log_is_answered_with_the_stored_ones(world: World, kept: KeptLogs) -> None:
    response = await world.http.get(PATH, params={"attempt": 1, "rank": 1})
    assert response.status_code == 404
    assert response.json()["hint"] == "attempt 1 has stored logs of these ranks: 0,2"
    response = await world.http.get(PATH, params={"attempt": 7})
    assert response.status_code == 422
    assert response.json()["faults"][0]["hint"] == "name one of 1 to 2"


async def test_stored_logs_need_the_right_to_read_logs_of_pods(world: World, kept: KeptLogs) -> None:
    world.kubernetes.denied.add(("ada", "get", "pods/log", "team"))
    response = await world.http.get(PATH, params={"attempt": 1})
    assert response.status_code == 403
    assert "pods/log" in response.json()["detail"]


async def test_the_stored_log_is_read_if_the_pod_was_deleted_before_its_log_was_asked_for(
    world: World, tmp_path: Path
) -> None:
    """Pods of a sweep's ended members are deleted while others run; the server sees that a moment later."""
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    made = put_run(world)
    await kept.keep(MemberLogName("team", made["metadata"]["uid"], 1, 0), f"{at(1, 'last words')}\n".encode())
    world.kubernetes.put("pods", pod(made, phase="Running"))
    await world.caught_up()

    async def deleted() -> None:
        world.kubernetes.before_no_log = None
        world.kubernetes.remove("pods", "bert-1-0")
        await world.caught_up()

    world.kubernetes.before_no_log = deleted
    assert await read(world.http) == "last words\n"
