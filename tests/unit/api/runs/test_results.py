"""The table of a sweep's results, from status, Pods and store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs
from kajitori.core.gang.sweeps.results import MemberResult

KEPT = MemberResult(index=1, state="Succeeded", attempt=1, exit_code=0, node="n1", result={"loss": 0.5})


async def put_sweep(world: World, **status: Any) -> dict[str, Any]:
    """Create members 0 to 5: 1 succeeded, 2 failed, 3 is running, and 4 has to start again."""
    sweep = {"succeeded": "1", "failed": "2", "again": "4", "restarts": {"2": "2", "1": "3-4"}}
    note = {"rank": 2, "reason": "ProgramFailed", "message": "exit code 7", "exitCode": 7, "attempt": 4}
    more = {"phase": "Running", "attempts": 5, "sweep": sweep, "notable": [note]} | status
    made = world.kubernetes.put("runs", run("grid", array="0-5%3") | {"status": attempts(5) | more})
    world.kubernetes.put("pods", pod(made, rank=3, attempt=2))
    world.kubernetes.put("pods", pod(made, rank=4, attempt=2))
    await world.caught_up()
    return made


async def table(world: World, **params: Any) -> dict[str, Any]:
    response = await world.http.get("/v1/runs/team/grid/results", params=params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_every_member_of_a_sweep_has_a_row(world: World, tmp_path: Path) -> None:
    made = await put_sweep(world)
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    await kept.results.keep("team", made["metadata"]["uid"], KEPT)
    answer = await table(world)
    rows = {row["index"]: row for row in answer["items"]}
    assert [rows[i]["state"] for i in range(6)] == ["Waiting", "Succeeded", "Failed", "Running", "Waiting", "Waiting"]
    assert rows[1]["result"] == {"loss": 0.5}
    assert (rows[2]["exitCode"], rows[2]["restarts"], rows[2]["message"]) == (7, 2, "exit code 7")
    assert (rows[3]["node"], rows[3]["restarts"]) == ("n1", 1)
    assert "incomplete" not in answer


async def test_rows_come_in_pages_and_can_be_filtered_by_state(world: World) -> None:
    await put_sweep(world)
    first = await table(world, limit=4)
    assert [row["index"] for row in first["items"]] == [0, 1, 2, 3]
    rest = await table(world, limit=4, **{"continue": first["continue"]})
    assert [row["index"] for row in rest["items"]] == [4, 5]
    assert "continue" not in rest
    some = await table(world, state=["Failed", "Running"])
    assert [row["index"] for row in some["items"]] == [2, 3]


async def test_results_are_marked_incomplete_without_a_store(world: World) -> None:
    """The members' states are known nevertheless."""
    await put_sweep(world)
    world.change("stores", logs=None)
    answer = await table(world)
    assert answer["incomplete"]
    assert [row["state"] for row in answer["items"]][1:3] == ["Succeeded", "Failed"]


async def test_members_that_never_ran_are_marked_when_the_sweep_ended(world: World) -> None:
    await put_sweep(world, phase="Stopped")
    states = [row["state"] for row in (await table(world))["items"]]
    assert states == ["NotRun", "Succeeded", "Failed", "Running", "NotRun", "NotRun"]


@pytest.fixture
async def tuned(world: World, tmp_path: Path) -> World:
    """A world with an ended sweep whose members have results, and one that failed with the best of all."""
    ended = {"phase": "Failed", "sweep": {"succeeded": "0-3,5", "failed": "4"}, "resumes": 1}
    made = world.kubernetes.put("runs", run("grid", array="0-5") | {"status": attempts(1) | ended})
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    for index, loss in enumerate([0.5, 0.25, None, 0.25, 0.01, "nan"]):
        result = {"lr": index, "train_loss": 9 - index, "val_loss": loss}
        state = "Failed" if index == 4 else "Succeeded"
        await kept.results.keep("team", made["metadata"]["uid"], MemberResult(index=index, state=state, result=result))
    await world.caught_up()
    return world


async def test_the_best_members_come_first(tuned: World) -> None:
    """By the value on validation data, if the caller names none; failed members and those without it are left out."""
    found = await table(tuned, best="true", limit=2)
    assert [row["index"] for row in found["items"]] == [1, 3]
    assert (found["by"], found["order"], found["names"]) == ("val_loss", "lowest", ["lr", "train_loss", "val_loss"])
    rest = await table(tuned, best="true", limit=2, **{"continue": found["continue"]})
    assert [row["index"] for row in rest["items"]] == [0]
    assert "continue" not in rest
    named = await table(tuned, best="true", by="lr", order="highest")
    assert [row["index"] for row in named["items"]] == [5, 3, 2, 1, 0]


async def test_faults_in_the_order_of_the_best_are_named(tuned: World) -> None:
    async def refused(**params: Any) -> list[tuple[str, str]]:
        answer = await tuned.http.get("/v1/runs/team/grid/results", params=params)
        assert answer.status_code == 422
        return [(fault["field"], fault.get("hint") or fault["message"]) for fault in answer.json()["faults"]]

    assert await refused(by="lr", order="lowest") == [("by", "add best=true"), ("order", "add best=true")]
    assert [field for field, _ in await refused(best="true", state="Failed")] == ["state"]
    assert await refused(best="true", by="val_los") == [("by", "did you mean val_loss?")]


async def test_a_run_that_is_no_sweep_has_no_results(world: World) -> None:
    world.kubernetes.put("runs", run("bert", replicas=2))
    await world.caught_up()
    response = await world.http.get("/v1/runs/team/bert/results")
    assert response.status_code == 422
    assert "is not a sweep" in response.text


async def test_logs_of_a_sweeps_members_are_read_by_index(world: World, tmp_path: Path) -> None:
    """A stored log is that of the attempt in which the member started last."""
    made = await put_sweep(world)
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    world.change("stores", logs=kept)
    for attempt in (1, 4):
        name = MemberLogName("team", made["metadata"]["uid"], attempt, 2)
        await kept.keep(name, f"2026-11-21T10:00:00.000000000Z attempt {attempt}\n".encode())
    response = await world.http.get("/v1/runs/team/grid/logs", params={"rank": 2})
    assert (response.status_code, response.text) == (200, "attempt 4\n")
    gone = await world.http.get("/v1/runs/team/grid/logs", params={"rank": 1})
    assert gone.status_code == 404
    assert "kaji results grid" in gone.text
    unknown = await world.http.get("/v1/runs/team/grid/logs", params={"rank": 9})
    assert unknown.status_code == 422
    assert "its indices are 0-5" in unknown.text
