"""Events of a run and its members."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import Object, run

PATH = "/v1/runs/team/bert/events"


def event(name: str, kind: str, about: str, second: int, **more: Any) -> Object:
    moment = f"2026-11-21T11:00:{second:02d}Z"
    return {
        "metadata": {"name": name, "namespace": "team"},
        "involvedObject": {"kind": kind, "name": about, "namespace": "team", **more},
        "type": "Normal",
        "reason": name.title(),
        "message": f"about {about}",
        "count": 1,
        "lastTimestamp": moment,
    }


async def test_events_of_the_run_and_its_pods_oldest_first(world: World) -> None:
    """Not those of runs with a similar name, of an earlier run of that name, or of anything else."""
    made = world.kubernetes.put("runs", run("bert", phase="Running"))

    def put(each: Object) -> None:
        world.kubernetes.put("events", each)

    put(event("started", "Pod", "bert-1-0", 5))
    put(event("queued", "Run", "bert", 1, uid=made["metadata"]["uid"]))
    put(event("stale", "Run", "bert", 2, uid="an earlier one"))
    put(event("similar", "Pod", "bert-2-1-0", 3))
    put(event("stranger", "Node", "n1", 4))
    old = event("before", "Pod", "bert-1-0", 0)
    put(old | {"lastTimestamp": "2026-11-20T00:00:00Z"})
    await world.caught_up()
    response = await world.http.get(PATH)
    found = [json.loads(line) for line in response.text.splitlines()]
    assert [(each["reason"], each["object"]) for each in found] == [("Queued", "Run/bert"), ("Started", "Pod/bert-1-0")]
    assert found[0]["time"] == "2026-11-21T11:00:01Z"


async def test_following_events_ends_with_the_run(world: World, served: httpx2.AsyncClient) -> None:
    """New ones are told as they come, one that counts up is told again, and the last words are heard."""
    world.kubernetes.put("runs", run("bert", phase="Running"))
    world.kubernetes.put("events", event("queued", "Run", "bert", 1))
    await world.caught_up()
    async with served.stream("GET", PATH, params={"follow": "true"}) as response:
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["reason"] == "Queued"
        world.kubernetes.put("events", event("queued", "Run", "bert", 2) | {"count": 7})
        assert json.loads(await anext(lines))["count"] == 7
        world.kubernetes.change("runs", "bert", status={"phase": "Failed"})
        world.kubernetes.put("events", event("died", "Run", "bert", 3))
        assert [json.loads(line)["reason"] async for line in lines] == ["Died"]


async def test_one_watch_per_namespace_however_many_look(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Running"))
    await world.caught_up()
    for _ in range(5):
        assert (await world.http.get(PATH)).status_code == 200
    lists = [path for _, path, _ in world.kubernetes.requests if path.endswith("/events")]
    assert len(lists) == 1
