"""Events of a run and its members."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run
from tests.unit.api.fake_programs import Object

from kajitori.api.runs import events

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


async def test_events_of_a_run_and_its_pods_are_listed_oldest_first(world: World) -> None:
    """Events of runs with a similar name, of an earlier run with this name, and of other objects are left out."""
    made = world.kubernetes.put("runs", run("bert", phase="Running"))

    def put(item: Object) -> None:
        world.kubernetes.put("events", item)

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
    assert [(item["reason"], item["object"]) for item in found] == [("Queued", "Run/bert"), ("Started", "Pod/bert-1-0")]
    assert found[0]["time"] == "2026-11-21T11:00:01Z"


async def test_following_events_ends_with_the_run(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New Events are sent as they come, one with a higher count is sent again, and the last ones are sent before the
    end."""
    monkeypatch.setattr(events, "LAST_EVENTS_SECONDS", 0.5)
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


async def test_all_readers_of_a_namespace_share_one_watch(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Running"))
    await world.caught_up()
    for _ in range(5):
        assert (await world.http.get(PATH)).status_code == 200
    lists = [path for _, path, _ in world.kubernetes.requests if path.endswith("/events")]
    assert len(lists) == 1


ALL = "/v1/events"


def put_story(world: World) -> None:
    """Store Events of two runs, one of which is gone, and of other Pods, one of which is named like a member."""
    world.kubernetes.put("runs", run("bert", phase="Running"))
    for stored in (
        event("queued", "Run", "bert", 1),
        event("started", "Pod", "bert-1-0", 3),
        event("gone", "Run", "gpt", 2),
        event("killed", "Pod", "gpt-4-7", 4),
        event("stranger", "Pod", "web-1-0", 4),
        event("node", "Node", "n1", 5),
        event("elsewhere", "Run", "bert", 5) | {"metadata": {"name": "elsewhere", "namespace": "other"}},
    ):
        world.kubernetes.put("events", stored)


async def test_events_of_a_namespaces_runs_are_listed_newest_first(world: World) -> None:
    """Events of deleted runs are included; those of Pods that only look like members are not. The list comes in
    pages."""
    put_story(world)
    await world.caught_up()
    page = (await world.http.get(ALL)).json()
    assert [item["reason"] for item in page["items"]] == ["Killed", "Started", "Gone", "Queued"]
    assert "continue" not in page
    first = (await world.http.get(ALL, params={"namespace": "team", "limit": 3})).json()
    world.kubernetes.put("events", event("later", "Run", "bert", 9))
    await world.caught_up()
    rest = (await world.http.get(ALL, params={"limit": 3, "continue": first["continue"]})).json()
    assert [item["reason"] for item in (*first["items"], *rest["items"])] == ["Killed", "Started", "Gone", "Queued"]
    assert "continue" not in rest
    other = (await world.http.get(ALL, params={"namespace": "other"})).json()
    assert [item["reason"] for item in other["items"]] == ["Elsewhere"]


async def test_events_of_all_namespaces_are_one_list(world: World) -> None:
    """It covers the namespaces in which the caller may list runs. The server filters and pages."""
    put_story(world)
    world.kubernetes.put("runs", run("bert", namespace="other"))
    world.kubernetes.put("runs", run("spy", namespace="secret"))
    hidden = event("hidden", "Run", "spy", 6) | {"metadata": {"name": "hidden", "namespace": "secret"}}
    world.kubernetes.put("events", hidden)
    world.kubernetes.put("events", event("failed", "Run", "bert", 7) | {"type": "Warning", "message": "no image"})
    world.kubernetes.denied |= {("ada", "list", "runs", "secret"), ("ada", "list", "runs", "")}
    await world.caught_up()

    async def found(**params: str) -> list[str]:
        reasons, token = list[str](), ""
        while True:
            page = (await world.http.get(ALL, params={"everywhere": "true", "continue": token, **params})).json()
            reasons += [f"{item['namespace']}/{item['reason']}" for item in page["items"]]
            if not (token := page.get("continue", "")):
                return reasons

    all_of_them = ["team/Failed", "other/Elsewhere", "team/Killed", "team/Started", "team/Gone", "team/Queued"]
    assert await found() == await found(limit="2") == all_of_them
    assert await found(warnings="true") == await found(search="IMAGE run/bert") == ["team/Failed"]
    assert await found(search="other elsewhere", limit="1") == ["other/Elsewhere"]
    assert await found(namespace="other") == ["other/Elsewhere"]
    world.kubernetes.denied |= {("ada", "list", "runs", "*")}
    world.clock.now += 3600
    assert (await world.http.get(ALL, params={"everywhere": "true"})).status_code == 403


async def test_a_list_of_all_namespaces_says_how_many_it_leaves_out(world: World) -> None:
    """It has at most 64. Namespaces that have nothing to do with the caller count only if the caller sees them all."""
    for number in range(70):
        world.kubernetes.put("runs", run("bert", namespace=f"b{number:02}", owner="bob"))
    await world.caught_up()

    async def left_out() -> int:
        world.clock.now += 3600
        found: int = (await world.http.get(ALL, params={"everywhere": "true"})).json().get("leftOut", 0)
        return found

    assert await left_out() == 70 + 1 - 64
    world.kubernetes.denied |= {("ada", "list", "runs", "")}
    assert await left_out() == 0
    for number in range(70):
        world.kubernetes.put("runs", run("vit", namespace=f"b{number:02}", owner="ada"))
    await world.caught_up()
    assert await left_out() == 70 + 1 - 64


async def test_events_of_one_second_are_listed_in_order_of_creation(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Running"))
    for name in ("zeta", "alpha", "mid"):
        world.kubernetes.put("events", event(name, "Run", "bert", 1))
    found = [json.loads(line)["reason"] for line in (await world.http.get(PATH)).text.splitlines()]
    assert found == ["Zeta", "Alpha", "Mid"]


@pytest.mark.parametrize("path", [ALL, f"{ALL}/watch"])
async def test_events_need_the_right_to_list_runs(world: World, path: str) -> None:
    world.kubernetes.denied |= {("ada", "list", "runs", "team"), ("ada", "list", "runs", "")}
    response = await world.http.get(path)
    assert response.status_code == 403
    assert "may not list runs" in response.json()["detail"]
    assert (await world.http.get(path, params={"limit": 5000})).status_code == 422


async def test_watching_events_of_all_runs_does_not_end_with_a_run(world: World, served: httpx2.AsyncClient) -> None:
    """The last Events come first, then new ones and those with a higher count."""
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
