"""Whether the server is ready, and its metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run
from tests.unit.api.steps import get, hold


async def test_the_server_is_ready_only_while_the_api_server_answers(world: World) -> None:
    """It is alive all the time."""
    assert (await world.http.get("/readyz")).json()["status"] == "ok"
    world.kubernetes.failing = True
    assert (await world.http.get("/readyz")).status_code == 503
    assert (await world.http.get("/healthz")).status_code == 200


async def test_readiness_checks_share_requests_to_the_api_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readiness needs no credentials, so a flood of checks must not become a flood on the API server."""
    asked, request = [], world.api.client.request

    async def answered_late(*args: Any, **options: Any) -> bytes:
        asked.append(args)
        await asyncio.sleep(0)
        world.clock.now += 0.01
        return await request(*args, **options)

    monkeypatch.setattr(world.api.client, "request", answered_late)
    answers = await asyncio.gather(*(world.http.get("/readyz") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(asked) == 1
    world.clock.now += 2.0
    await world.http.get("/readyz")
    assert len(asked) == 2


async def test_the_server_is_not_ready_before_its_dependencies_are(world: World) -> None:
    """In `kaji up` it waits for the node of the user's machine."""
    awaited = ["the node laptop is not ready for runs yet"]
    world.change("process", awaited=lambda: "".join(awaited))
    answer = await world.http.get("/readyz")
    assert (answer.status_code, answer.json()["detail"]) == (503, awaited[0])
    awaited.clear()
    assert (await world.http.get("/readyz")).status_code == 200


async def test_a_refusal_of_the_servers_own_credentials_is_not_the_callers(world: World) -> None:
    """If they have expired, the answer is 503, never a 401, which would make users log in again."""
    world.kubernetes.put("runs", run("bert", phase="Running"))
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/bert")).status_code == 200
    world.kubernetes.unknown_tokens.add("server")
    for path in ("/readyz", "/v1/runs/team/bert/events"):
        answer = await world.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "Unavailable"), path
        assert "this server" in answer.json()["detail"]
        assert "www-authenticate" not in answer.headers


async def test_metrics_follow_the_cluster_and_name_no_run_or_user(world: World) -> None:
    await hold(world, "bert", owner="ada", node="g1", gpus=6)
    await world.caught_up()
    await world.http.get("/v1/runs/team/bert")
    text = (await world.http.get("/metrics")).text
    assert 'kajitori_runs{phase="Running"} 1.0' in text
    assert 'kajitori_gpus{state="used",type="h100"} 6.0' in text
    assert 'kajitori_nodes{state="ready"} 3.0' in text
    assert "kajitori_mirror_synced 1.0" in text
    assert (
        'kajitori_api_request_seconds_count{method="GET",route="/v1/runs/{namespace}/{name}",status="200"} 1.0' in text
    )
    assert "bert" not in text
    assert "ada" not in text


async def test_the_lag_of_the_mirror_is_measured(world: World) -> None:
    await world.http.post("/v1/runs", json={"spec": {"image": "bert:3"}})
    await world.caught_up()
    assert "kajitori_mirror_lag_seconds_count 1.0" in (await world.http.get("/metrics")).text


async def test_idle_gpus_are_counted_by_type_and_holder(world: World) -> None:
    await hold(world, "nb", owner="ada", node="g1", gpus=4)
    idle = {"since": "2026-11-21T09:00:00Z", "attempt": 1, "gpus": 4, "gpuType": "h100", "fewest": 4, "most": 4}
    stored = world.kubernetes.objects["runs", "team", "nb"]
    world.kubernetes.put("runs", stored | {"status": stored["status"] | {"phase": "Running", "idle": idle}})
    await world.caught_up()
    assert 'kajitori_gpus_idle{type="h100"} 4.0' in (await world.http.get("/metrics")).text
    board = await get(world, "/v1/gpus")
    assert [(row["type"], row["used"], row["idle"]) for row in board["types"] if row["used"]] == [("h100", 4, 4)]
    assert [(user["owner"], user["gpus"], user["idle"]) for user in board["users"]] == [("ada", 4, 4)]


async def test_runs_without_progress_are_counted_by_verdict(world: World) -> None:
    """A suspicion that an older version left in an ended run does not count."""
    since = {"since": "2026-11-21T09:00:00Z", "attempt": 1}
    for name, phase, verdict in (
        ("a", "Running", "suspected"),
        ("b", "Running", "stuck"),
        ("c", "Running", "stuck"),
        ("d", "Failed", "stuck"),
    ):
        await hold(world, name, owner="ada", node="g1", gpus=1)
        stored = world.kubernetes.objects["runs", "team", name]
        status = stored["status"] | {"phase": phase, "stuck": since | {"verdict": verdict}}
        world.kubernetes.put("runs", stored | {"status": status})
    await world.caught_up()
    text = (await world.http.get("/metrics")).text
    assert 'kajitori_runs_stuck{verdict="suspected"} 1.0' in text
    assert 'kajitori_runs_stuck{verdict="stuck"} 2.0' in text


async def test_runs_with_a_health_check_are_counted_by_health(world: World) -> None:
    """The health that an ended run had does not count."""
    for name, phase, health in (("a", "Running", "unhealthy"), ("b", "Running", "healthy"), ("c", "Failed", "healthy")):
        await hold(world, name, owner="ada", node="g1", gpus=1)
        stored = world.kubernetes.objects["runs", "team", name]
        world.kubernetes.put(
            "runs", stored | {"status": stored["status"] | {"phase": phase, "health": {"status": health}}}
        )
    await world.caught_up()
    text = (await world.http.get("/metrics")).text
    for health, count in (("unhealthy", 1), ("healthy", 1), ("starting", 0)):
        assert f'kajitori_runs_checked{{health="{health}"}} {count}.0' in text
