"""Explanations of runs that preempt others, and of runs that may not have the freed nodes."""

from __future__ import annotations

from typing import Any

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import Object, attempts, pod, run

WANTS: dict[str, Any] = {"resources": {"gpu": 8, "gpuType": "h100"}}


async def given_way(world: World, *, told: bool) -> None:
    """Two nodes: somebody of high priority has one, and a low run gives up the other for an urgent one."""
    held = world.kubernetes.put("runs", run("held", priority="high") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(held, node="g1", gpus=8))
    queued = {"phase": "Queued", "queuedAt": "2026-11-21T11:05:00Z"}
    urgent = world.kubernetes.put("runs", run("urgent", priority="high", owner="ada", **WANTS) | {"status": queued})
    asked = {"by": "team/urgent", "uid": urgent["metadata"]["uid"], "since": "2026-11-21T11:59:50Z"}
    said = attempts(1, phase="Restarting" if told else "Running", reason="Preempted", preemption=asked)
    low = world.kubernetes.put("runs", run("low", priority="low", owner="grace") | {"status": said})
    member: Object = pod(low, node="g2", gpus=8)
    if told:
        member["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:25Z"
    world.kubernetes.put("pods", member)
    await world.caught_up()


async def explain(world: World, name: str) -> dict[str, Any]:
    answer = await world.http.get(f"/v1/runs/team/{name}/explain")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_run_says_whom_it_asks_and_when_the_nodes_are_free(world: World) -> None:
    """By the grace that members have left once they were told, before that by all of it."""
    await given_way(world, told=True)
    message = (await explain(world, "urgent"))["message"]
    assert message.startswith("preempts team/low (low, of grace); its nodes are free by 12:00:25 UTC; needs 8")


async def test_before_they_are_told_all_of_their_grace_counts(world: World) -> None:
    await given_way(world, told=False)
    message = (await explain(world, "urgent"))["message"]
    assert message.startswith("preempts team/low (low, of grace); its nodes are free by 12:00:20 UTC; needs 8")


async def another_waits(world: World) -> None:
    """For as much, and longer."""
    queued = {"phase": "Queued", "queuedAt": "2026-11-21T10:00:00Z"}
    world.kubernetes.put("runs", run("other", priority="high", **WANTS) | {"status": queued})
    await world.caught_up()


async def test_what_comes_free_for_one_is_nothing_for_another(world: World) -> None:
    """Though it would be there before: all that is left to wait for is who holds the other node."""
    await given_way(world, told=True)
    await another_waits(world)
    found = await explain(world, "other")
    assert "asks" not in found["message"]
    assert [(each["kind"], each["name"]) for each in found["toFree"]] == [("run", "team/held")]


async def test_what_comes_free_for_a_run_is_its_own_though_another_stands_before_it(world: World) -> None:
    """So it waits for nothing but that."""
    await given_way(world, told=True)
    await another_waits(world)
    found = await explain(world, "urgent")
    assert found["place"]["position"] == 2
    assert [(each["kind"], each["name"]) for each in found["toFree"]] == [("run", "team/low")]


async def test_a_preempted_run_names_its_preemptor(world: World) -> None:
    held = world.kubernetes.put("runs", run("held", priority="high") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(held, node="g1", gpus=8))
    asked = {"by": "team/held", "uid": held["metadata"]["uid"], "who": "team/held (high, of ada)"}
    said = {"phase": "Queued", "queuedAt": "2026-11-21T10:00:00Z", "preemption": asked}
    world.kubernetes.put("runs", run("low", priority="low", **WANTS) | {"status": said})
    await world.caught_up()
    assert (await explain(world, "low"))["message"].startswith("preempted by team/held (high, of ada); ")
