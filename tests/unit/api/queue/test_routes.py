"""The queue in the Web API: order, figures, and when each run is expected to start."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import node, pod, run

from kajitori.core.formats.times import format_time
from kajitori.core.spec.status_parts.attempts import template_text

REQUESTS = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "8"}
TEMPLATE = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"requests": REQUESTS}}]}}
WANTS: dict[str, Any] = {"resources": {"gpu": 8, "gpuType": "h100", "memory": "1Gi"}}


def ago(minutes: float) -> str:
    return format_time(NOW - timedelta(minutes=minutes))


def ahead(minutes: float) -> str:
    return ago(-minutes)


async def get(world: World, path: str) -> Any:
    response = await world.http.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def runs(world: World, name: str, node: str, *, since: str, **spec: Any) -> None:
    """Create a run with one member of eight GPUs on that node."""
    attempt = {"number": 1, "nodes": node, "created": True, "template": template_text(TEMPLATE), "startedAt": since}
    status = {"phase": "Running", "attempts": 1, "attempt": attempt, "startedAt": since, "members": {"total": 1}}
    made = world.kubernetes.put("runs", run(name, owner="grace", **WANTS, **spec) | {"status": status})
    world.kubernetes.put("pods", pod(made, node=node, gpus=8))


def waits(world: World, name: str, *, since: str, **spec: Any) -> None:
    queued = {"phase": "Queued", "reason": "WaitingForGPU", "queuedAt": since}
    world.kubernetes.put("runs", run(name, **WANTS, **spec) | {"status": queued})


async def test_the_queue_lists_waiting_runs_in_order_with_their_figures(world: World) -> None:
    """`explain` and the queue agree about each run."""
    runs(world, "now", "g1", since=ago(10), timeLimit="1h")
    waits(world, "long", since=ago(30), timeLimit="3h")
    waits(world, "large", since=ago(60), timeLimit="1h", replicas=2)
    await world.caught_up()
    queue = await get(world, "/v1/queue")
    assert (queue["order"], queue["formula"]) == ("length", "")
    large, long = queue["items"]
    assert (large["name"], large["namespace"], large["owner"]) == ("large", "team", "ada")
    assert (large["members"], large["gpus"], large["gpuType"]) == (2, 16, "h100")
    assert large["place"] | {"boundSeconds": 0} == {
        "position": 1,
        "of": 2,
        "waitedSeconds": 3600,
        "expectedSeconds": 3600,
        "shortestSeconds": 0,
        "expectedFrom": "limit",
        "expectedRuns": 0,
        "orderSeconds": 3600,
        "expectedSure": True,
        "size": 1.0,
        "userShare": 0.0,
        "teamShare": pytest.approx(0.5 * (1 - 0.5 ** (600 / 604_800))),
        "score": pytest.approx(1.0, rel=0.01),
        "overdue": False,
        "boundSeconds": 0,
    }
    assert large["kept"] == {"nodes": "g[1-2]", "expectedAt": ahead(50)}
    assert (large["expectedAt"], large["behind"]) == (ahead(50), [])
    assert (long["behind"], long["expectedAt"]) == (["team/large"], ahead(110))
    assert "kept" not in long
    for item in (large, long):
        explained = await get(world, f"/v1/runs/team/{item['name']}/explain")
        for field in ("place", "behind", "kept", "expectedAt"):
            assert explained.get(field) == item.get(field)
    assert (await get(world, "/v1/runs/team/long/explain"))["reason"] == "WaitingItsTurn"


async def test_a_run_that_waits_for_a_service_has_no_expected_start(world: World) -> None:
    runs(world, "now", "g1", since=ago(10), type="service")
    waits(world, "large", since=ago(60), replicas=2)
    await world.caught_up()
    (large,) = (await get(world, "/v1/queue"))["items"]
    assert not {"kept", "expectedAt"} & large.keys()
    assert large["place"]["expectedFrom"] == "unknown"


async def test_no_start_is_predicted_from_an_assumed_run_time(world: World) -> None:
    """The first run has a reservation nevertheless."""
    runs(world, "now", "g1", since=ago(10))
    runs(world, "limited", "g2", since=ago(10), timeLimit="1h")
    waits(world, "large", since=ago(60), timeLimit="1h", replicas=2, priority="high")
    waits(world, "long", since=ago(30), timeLimit="9h")
    await world.caught_up()
    large, long = (await get(world, "/v1/queue"))["items"]
    assert (large["kept"], "expectedAt" in large, "expectedAt" in long) == ({"nodes": "g[1-2]"}, False, False)
    explained = await get(world, "/v1/runs/team/large/explain")
    assert (explained["kept"], "expectedAt" in explained) == ({"nodes": "g[1-2]"}, False)


async def test_a_start_before_an_assumed_end_is_predicted(world: World) -> None:
    runs(world, "now", "g1", since=ago(10))
    runs(world, "limited", "g2", since=ago(10), timeLimit="1h")
    waits(world, "small", since=ago(60), timeLimit="1h")
    waits(world, "large", since=ago(30), timeLimit="1h", replicas=2)
    await world.caught_up()
    small, large = (await get(world, "/v1/queue"))["items"]
    assert small["expectedAt"] == small["kept"]["expectedAt"] == ahead(50)
    assert "expectedAt" not in large


async def test_a_start_that_no_assumed_end_changes_is_predicted(world: World) -> None:
    """Whatever the length of the run on the other nodes: the queue then tells the same time as `explain`."""
    world.kubernetes.put("nodes", node("a1", gpus=8, gpu_type="a100"))
    runs(world, "elsewhere", "a1", since=ago(10))  # six hours are assumed
    runs(world, "limited", "g1", since=ago(10), timeLimit="9h")
    runs(world, "longer", "g2", since=ago(10), timeLimit="100h")
    waits(world, "small", since=ago(60), timeLimit="1h")
    waits(world, "next", since=ago(30))
    waits(world, "last", since=ago(20), timeLimit="30h")
    await world.caught_up()
    found = {item["name"]: item for item in (await get(world, "/v1/queue"))["items"]}
    assert found["small"]["expectedAt"] == found["small"]["kept"]["expectedAt"] == ahead(530)
    explained = await get(world, "/v1/runs/team/small/explain")
    assert explained["expectedAt"] == ahead(530)
    assert found["next"]["expectedAt"] == ahead(590)
    assert "expectedAt" not in found["last"]  # it waits for the end of "next"


async def test_members_of_a_sweep_without_a_limit_have_no_expected_end(world: World) -> None:
    attempt = {"number": 1, "nodes": "g[1-2]", "ranks": "0-1", "created": True}
    attempt |= {"template": template_text(TEMPLATE), "startedAt": ago(10), "launcher": "sweep"}
    status = {"phase": "Running", "attempts": 1, "attempt": attempt, "startedAt": ago(10), "sweep": {}}
    made = world.kubernetes.put("runs", run("grid", **WANTS, array="0-3") | {"status": status})
    for rank in (0, 1):
        world.kubernetes.put("pods", pod(made, rank=rank, node=f"g{rank + 1}", gpus=8))
    await world.caught_up()
    explained = await get(world, "/v1/runs/team/grid/explain")
    assert {blocker["kind"] for blocker in explained["toFree"]} == {"member"}
    assert ([blocker["until"] for blocker in explained["toFree"]], "expectedAt" in explained) == ([""], False)


async def test_the_expected_run_time_comes_with_its_source(world: World) -> None:
    """It is known for waiting, running and ended runs."""
    runs(world, "now", "g1", since=ago(10), timeLimit="1h")
    waits(world, "large", since=ago(60), replicas=2)
    runs(world, "web", "g2", since=ago(10), type="service")
    await world.caught_up()
    assert await get(world, "/v1/runs/team/now/expected") == {
        "seconds": 3000,
        "shortestSeconds": 0,
        "expectedFrom": "limit",
        "runs": 0,
        "sure": True,
        "goesOn": True,
        "endsAt": ahead(50),
    }
    large = await get(world, "/v1/runs/team/large/expected")
    assert (large["seconds"], large["expectedFrom"], large["sure"]) == (21_600, "unknown", False)
    assert not large["goesOn"] and "endsAt" not in large
    assert (await get(world, "/v1/runs/team/web/expected"))["expectedFrom"] == "endless"
    assert (await world.http.get("/v1/runs/team/none/expected")).status_code == 404


async def test_an_empty_queue_is_an_empty_list(world: World) -> None:
    found = await get(world, "/v1/queue")
    assert (found["order"], found["formula"], found["items"]) == ("length", "", [])


async def test_an_expected_start_beyond_the_year_9999_is_cut_to_it(world: World) -> None:
    """Otherwise one user with many very long limits could hide the whole queue from everyone."""
    runs(world, "now", "g[1-2]", since=ago(10), timeLimit="24000d", replicas=2)
    for number in range(130):
        waits(world, f"r{number}", since=ago(130 - number), timeLimit="24000d", replicas=2)
    await world.caught_up()
    items = (await get(world, "/v1/queue"))["items"]
    assert (len(items), items[-1]["expectedAt"]) == (130, "9999-12-31T00:00:00Z")


async def test_a_run_that_waits_for_others_is_expected_after_their_ends_and_its_own_wait(world: World) -> None:
    """The chain is followed. The queue lists such runs without a place; they delay no other run."""
    runs(world, "prepare", "g1", since=ago(10), timeLimit="1h")
    waiting = {"phase": "Queued", "reason": "WaitingForRun", "queuedAt": ago(5)}
    for name, other, size in (("train", "prepare", 2), ("evaluate", "train", 1), ("other", "nosuch", 1)):
        spec = {**WANTS, "timeLimit": "3h", "replicas": size, "after": [{"run": other}]}
        world.kubernetes.put("runs", run(name, **spec) | {"status": waiting})
    await world.caught_up()
    train = await get(world, "/v1/runs/team/train/explain")
    assert (train["reason"], train["message"]) == ("WaitingForRun", "waits for prepare (Running) to succeed")
    assert train["after"] == [
        {"run": "prepare", "condition": "succeeded", "phase": "Running", "met": False, "endsAt": ahead(50)}
    ]
    assert train["expectedAt"] == ahead(50)
    assert (await get(world, "/v1/runs/team/evaluate/explain"))["expectedAt"] == ahead(50 + 180)
    assert "expectedAt" not in await get(world, "/v1/runs/team/other/explain")
    queue = await get(world, "/v1/queue")
    assert queue["items"] == []
    assert [(found["name"], found["after"]) for found in queue["dependents"]] == [
        ("evaluate", [{"run": "train", "condition": "succeeded"}]),
        ("other", [{"run": "nosuch", "condition": "succeeded"}]),
        ("train", [{"run": "prepare", "condition": "succeeded"}]),
    ]
    params = {"fields": "summary", "state": "dependent", "search": "nosuch"}
    (row,) = (await world.http.get("/v1/queue", params=params)).json()["items"]
    assert (row["name"], row["state"], row["position"], row["gpus"]) == ("other", "dependent", 0, 8)
    params = {"fields": "summary", "state": "dependent"}
    rows = (await world.http.get("/v1/queue", params=params)).json()["items"]
    assert {row["name"]: row["startsAt"] for row in rows} == {
        "train": ahead(50),
        "evaluate": ahead(50 + 180),
        "other": "",
    }


async def test_when_a_run_will_be_healthy_is_not_known(world: World) -> None:
    """Its expected end says nothing about that."""
    runs(world, "db", "g1", since=ago(10), timeLimit="1h", health={"command": "true"})
    spec = {**WANTS, "timeLimit": "3h", "after": [{"run": "db", "condition": "healthy"}]}
    waiting = {"phase": "Queued", "reason": "WaitingForRun", "queuedAt": ago(5)}
    world.kubernetes.put("runs", run("web", **spec) | {"status": waiting})
    await world.caught_up()
    web = await get(world, "/v1/runs/team/web/explain")
    assert web["message"] == "waits for db (Running, not healthy) to be healthy"
    assert "expectedAt" not in web and "endsAt" not in web["after"][0]
    params = {"fields": "summary", "state": "dependent"}
    (row,) = (await world.http.get("/v1/queue", params=params)).json()["items"]
    assert row["startsAt"] == ""


async def test_what_if_knows_when_a_run_would_start_after_another(world: World) -> None:
    runs(world, "prepare", "g1", since=ago(10), timeLimit="1h")
    await world.caught_up()
    body = {"spec": {"image": "bert:3", "after": [{"run": "prepare"}]}}
    found = (await world.http.post("/v1/what-if", json=body)).json()
    assert (found["starts"], found["start"]["reason"]) == (False, "WaitingForRun")
    assert found["start"]["expectedAt"] == ahead(50)
