"""Changing a run that waits or runs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.api.runs.changes.update import changes_in_words
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import parse_policy

STARTED = "2026-11-21T10:00:00Z"  # two hours before the time of the tests


async def put(world: World, phase: str = "Running", **spec: Any) -> None:
    status: dict[str, Any] = {"phase": phase, "attempts": 1, "startedAt": STARTED}
    if "array" in spec:
        status["sweep"] = {"total": 100}
    world.kubernetes.put("runs", run("bert", **spec) | {"status": status})
    await world.caught_up()


async def update(world: World, **body: Any) -> Any:
    return await world.http.patch("/v1/runs/team/bert", json=body)


def spec_of(world: World) -> dict[str, Any]:
    spec: dict[str, Any] = world.kubernetes.get("runs", "bert")["spec"]
    return spec


async def test_limits_and_priority_of_a_running_run_are_changed(world: World) -> None:
    """Amounts are stored in one form, null removes a field, and all other fields stay."""
    await put(world, timeLimit="3h", restarts=2, removeAfter="1h")
    answer = await update(world, timeLimit="168h", priority="low", removeAfter=None)
    assert answer.status_code == 200
    assert (answer.json()["spec"]["timeLimit"], answer.json()["spec"]["priority"]) == ("7d", "low")
    assert spec_of(world) == run("bert", timeLimit="7d", restarts=2, priority="low")["spec"]


async def test_a_repeated_change_has_no_further_effect(world: World) -> None:
    await put(world)
    await update(world, restarts=5)
    version = world.kubernetes.get("runs", "bert")["metadata"]["resourceVersion"]
    assert (await update(world, restarts=5)).status_code == 200
    assert world.kubernetes.get("runs", "bert")["metadata"]["resourceVersion"] == version


async def test_more_members_of_a_sweep_may_run_at_once(world: World) -> None:
    await put(world, array="0-99%4")
    answer = await update(world, array="0-99%64", timeLimit="1h")
    assert answer.status_code == 200, answer.text
    assert spec_of(world)["array"] == "0-99%64"


async def test_the_networks_of_a_running_run_are_changed(world: World) -> None:
    await put(world, networks=[{"name": "shop"}])
    answer = await update(world, networks=[{"name": "shop"}, {"name": "blog", "aliases": ["db"]}])
    assert answer.status_code == 200, answer.text
    assert [use["name"] for use in spec_of(world)["networks"]] == ["shop", "blog"]
    refused = await update(world, networks=[{"name": "shop", "aliases": ["my_db"]}])
    assert (refused.status_code, "networks[0].aliases[0]" in refused.text) == (422, True)
    assert changes_in_words({"networks": [{"name": "shop"}]}, {"networks": [{"name": "blog", "aliases": ["db"]}]}) == (
        "networks: shop to blog:db"
    )


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"timeLimit": "1h"}, "timeLimit", "bert has run for 2h already, so it would end at once"),
        ({"timeLimit": "soon"}, "timeLimit", ""),
        ({"image": "other:1"}, "image", ""),
        ({"array": "0-9"}, "spec.array", ""),
        ({}, "", "nothing is to be changed"),
    ],
)
async def test_a_change_that_cannot_be_made_names_its_field(
    world: World, body: dict[str, Any], field: str, words: str
) -> None:
    await put(world)
    before = spec_of(world)
    answer = await update(world, **body)
    assert answer.status_code == 422
    (fault,) = answer.json()["faults"]
    assert fault["field"] == field
    assert words in fault["message"]
    assert spec_of(world) == before


async def test_policy_limits_a_change_as_it_limits_a_new_run(world: World) -> None:
    policy = PolicyFile(None, without_file=parse_policy({"ceilings": {"run": {"timeLimit": "2d"}}}))
    world.change(cluster=ClusterView(world.mirror, policy))
    await put(world, timeLimit="3h")
    answer = await update(world, timeLimit="3d")
    assert answer.status_code == 422
    assert answer.json()["faults"][0]["field"] == "spec.timeLimit"
