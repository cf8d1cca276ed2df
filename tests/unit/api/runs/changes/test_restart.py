"""Restarting a run: one change of its spec, which the controller carries out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run


async def put(world: World, phase: str = "Running", done: int = 0, **spec: Any) -> None:
    """`done`: the number of starts on which the controller has acted."""
    status = {"phase": phase, "attempts": 1, "resumes": done}
    world.kubernetes.put("runs", run("bert", **spec) | {"status": status})
    await world.caught_up()


async def ask(world: World, what: str = "restart", **body: Any) -> Any:
    return await world.http.post(f"/v1/runs/team/bert/{what}", json=body)


def spec_of(world: World) -> dict[str, Any]:
    spec: dict[str, Any] = world.kubernetes.get("runs", "bert")["spec"]
    return spec


async def test_a_restart_is_a_counter_that_is_ahead_of_the_status(world: World) -> None:
    """A second request before the run has ended changes nothing, except for a shorter grace period."""
    await put(world, grace="1m", done=3)
    answer = await ask(world)
    assert (answer.status_code, answer.json()["graceSeconds"]) == (200, 60), answer.text
    assert (spec_of(world)["resumes"], spec_of(world)["stopped"]) == (4, False)
    version = world.kubernetes.get("runs", "bert")["metadata"]["resourceVersion"]
    assert (await ask(world)).status_code == 200
    assert world.kubernetes.get("runs", "bert")["metadata"]["resourceVersion"] == version
    assert (await ask(world, grace="5s")).json()["graceSeconds"] == 5
    assert (spec_of(world)["resumes"], spec_of(world)["stopGrace"]) == (4, "5s")


async def test_a_restart_of_an_ended_run_queues_it_again(world: World) -> None:
    await put(world, "Failed", stopped=True, stopGrace="0s")
    assert (await ask(world, grace="5s")).status_code == 200
    assert {"resumes": 1, "stopped": False}.items() <= spec_of(world).items()
    assert "stopGrace" not in spec_of(world)


async def test_a_stop_takes_a_restart_back(world: World) -> None:
    await put(world)
    await ask(world)
    await ask(world, "stop")
    assert spec_of(world)["stopped"] is True
    await ask(world)
    assert (spec_of(world)["stopped"], spec_of(world)["resumes"]) == (False, 2)


@pytest.mark.parametrize("what", ["stop", "park", "delete"])
async def test_the_grace_of_a_restart_does_not_count_for_a_later_end(world: World, what: str) -> None:
    await put(world, done=1, resumes=1, stopGrace="0s")
    seen = await (world.http.delete("/v1/runs/team/bert") if what == "delete" else ask(world, what))
    assert seen.is_success, seen.text
    patches = [method for method, path, _ in world.kubernetes.requests if path.endswith("/runs/bert")]
    assert "PATCH" in patches
    if what != "delete":
        assert "stopGrace" not in spec_of(world)


async def test_a_run_that_is_being_deleted_is_not_restarted(world: World) -> None:
    made = run("bert") | {"status": {"phase": "Running"}}
    made["metadata"] |= {"deletionTimestamp": "2026-11-21T11:59:00Z", "finalizers": ["kajitori.dev/run"]}
    world.kubernetes.put("runs", made)
    await world.caught_up()
    assert (await ask(world)).status_code == 409
