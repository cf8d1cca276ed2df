"""Explanations of runs that preempt others, and of runs that may not have the freed nodes."""

from __future__ import annotations

from typing import Any

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.fake_programs import Object

WANTS: dict[str, Any] = {"resources": {"gpu": 8, "gpuType": "h100"}}


async def preempted_run(world: World, *, members_told: bool) -> None:
    """Fill two nodes: a run of high priority keeps one, and a run of low priority is preempted on the other."""
    held = world.kubernetes.put("runs", run("held", priority="high") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(held, node="g1", gpus=8))
    queued = {"phase": "Queued", "queuedAt": "2026-11-21T11:05:00Z"}
    urgent = world.kubernetes.put("runs", run("urgent", priority="high", owner="ada", **WANTS) | {"status": queued})
    preemption = {"by": "team/urgent", "uid": urgent["metadata"]["uid"], "since": "2026-11-21T11:59:50Z"}
    status = attempts(1, phase="Restarting" if members_told else "Running", reason="Preempted", preemption=preemption)
    low = world.kubernetes.put("runs", run("low", priority="low", owner="grace") | {"status": status})
    member: Object = pod(low, node="g2", gpus=8)
    if members_told:
        member["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:25Z"
    world.kubernetes.put("pods", member)
    await world.caught_up()


async def explain(world: World, name: str) -> dict[str, Any]:
    answer = await world.http.get(f"/v1/runs/team/{name}/explain")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_preemptor_names_its_victim_and_when_the_nodes_are_free(world: World) -> None:
    """The time is the deletion time of the victim's Pods."""
    await preempted_run(world, members_told=True)
    message = (await explain(world, "urgent"))["message"]
    assert message.startswith("preempts team/low (low, of grace); its nodes are free by 12:00:25 UTC; needs 8")


async def test_before_victims_are_told_to_end_their_whole_grace_counts(world: World) -> None:
    await preempted_run(world, members_told=False)
    message = (await explain(world, "urgent"))["message"]
    assert message.startswith("preempts team/low (low, of grace); its nodes are free by 12:00:20 UTC; needs 8")


async def add_older_waiting_run(world: World) -> None:
    """Add another waiting run with the same request that has waited longer."""
    queued = {"phase": "Queued", "queuedAt": "2026-11-21T10:00:00Z"}
    world.kubernetes.put("runs", run("other", priority="high", **WANTS) | {"status": queued})
    await world.caught_up()


async def test_nodes_freed_for_one_run_are_not_free_for_another(world: World) -> None:
    """The other run comes first in the queue, but still waits for the run on the other node."""
    await preempted_run(world, members_told=True)
    await add_older_waiting_run(world)
    found = await explain(world, "other")
    assert "preempts" not in found["message"]
    assert [(blocker["kind"], blocker["name"]) for blocker in found["toFree"]] == [("run", "team/held")]


async def test_nodes_freed_for_a_run_are_its_own_behind_another_run(world: World) -> None:
    """It waits for nothing else."""
    await preempted_run(world, members_told=True)
    await add_older_waiting_run(world)
    found = await explain(world, "urgent")
    assert found["place"]["position"] == 2
    assert [(blocker["kind"], blocker["name"]) for blocker in found["toFree"]] == [("run", "team/low")]


async def test_a_preempted_run_names_its_preemptor(world: World) -> None:
    held = world.kubernetes.put("runs", run("held", priority="high") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(held, node="g1", gpus=8))
    preemption = {"by": "team/held", "uid": held["metadata"]["uid"], "who": "team/held (high, of ada)"}
    status = {"phase": "Queued", "queuedAt": "2026-11-21T10:00:00Z", "preemption": preemption}
    world.kubernetes.put("runs", run("low", priority="low", **WANTS) | {"status": status})
    await world.caught_up()
    assert (await explain(world, "low"))["message"].startswith("preempted by team/held (high, of ada); ")
