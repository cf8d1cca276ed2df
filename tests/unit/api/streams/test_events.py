"""Events of a run and its members."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
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


ALL = "/v1/events"


def put_story(world: World) -> None:
    """Two runs, one of them gone, and others' Pods of which one is called like a member."""
    world.kubernetes.put("runs", run("bert", phase="Running"))
    for each in (
        event("queued", "Run", "bert", 1),
        event("started", "Pod", "bert-1-0", 3),
        event("gone", "Run", "gpt", 2),
        event("killed", "Pod", "gpt-4-7", 4),
        event("stranger", "Pod", "web-1-0", 4),
        event("node", "Node", "n1", 5),
        event("elsewhere", "Run", "bert", 5) | {"metadata": {"name": "elsewhere", "namespace": "other"}},
    ):
        world.kubernetes.put("events", each)


async def test_events_of_all_runs_of_a_namespace_newest_first_and_by_the_page(world: World) -> None:
    """Of runs that are gone, too; not of what only looks like a member."""
    put_story(world)
    await world.caught_up()
    page = (await world.http.get(ALL)).json()
    assert [each["reason"] for each in page["items"]] == ["Killed", "Started", "Gone", "Queued"]
    assert "continue" not in page
    first = (await world.http.get(ALL, params={"namespace": "team", "limit": 3})).json()
    world.kubernetes.put("events", event("later", "Run", "bert", 9))
    await world.caught_up()
    rest = (await world.http.get(ALL, params={"limit": 3, "continue": first["continue"]})).json()
    assert [each["reason"] for each in (*first["items"], *rest["items"])] == ["Killed", "Started", "Gone", "Queued"]
    assert "continue" not in rest
    other = (await world.http.get(ALL, params={"namespace": "other"})).json()
    assert [each["reason"] for each in other["items"]] == ["Elsewhere"]


async def test_events_of_one_second_keep_the_order_in_which_they_were_written(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Running"))
    for name in ("zeta", "alpha", "mid"):
        world.kubernetes.put("events", event(name, "Run", "bert", 1))
    found = [json.loads(line)["reason"] for line in (await world.http.get(PATH)).text.splitlines()]
    assert found == ["Zeta", "Alpha", "Mid"]


@pytest.mark.parametrize("path", [ALL, f"{ALL}/watch"])
async def test_who_may_not_list_runs_may_not_read_their_events(world: World, path: str) -> None:
    world.kubernetes.denied |= {("ada", "list", "runs", "team"), ("ada", "list", "runs", "")}
    response = await world.http.get(path)
    assert response.status_code == 403
    assert "may not list runs" in response.json()["detail"]
    assert (await world.http.get(path, params={"limit": 5000})).status_code == 422


async def test_events_of_all_runs_as_they_happen(world: World, served: httpx2.AsyncClient) -> None:
    """The last ones first, then new ones and those that count up; it does not end with any run."""
    put_story(world)
    await world.caught_up()
    async with served.stream("GET", f"{ALL}/watch", params={"limit": 2}) as response:
        lines = response.aiter_lines()
        assert [json.loads(await anext(lines))["reason"] for _ in range(2)] == ["Started", "Killed"]
        world.kubernetes.put("events", event("stranger", "Pod", "web-1-0", 6))
        world.kubernetes.put("events", event("queued", "Run", "bert", 7) | {"count": 7})
        assert json.loads(await anext(lines))["count"] == 7
        world.kubernetes.change("runs", "bert", status={"phase": "Failed"})
        world.kubernetes.put("events", event("died", "Run", "bert", 8))
        world.kubernetes.put("events", event("new", "Run", "t5", 8))
        assert [json.loads(await anext(lines))["reason"] for _ in range(2)] == ["Died", "New"]
