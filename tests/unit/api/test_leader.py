"""The Web API reports when no controller is at work: no run starts then, whatever room there is."""

from __future__ import annotations

from typing import Any

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.cluster.platform.leader_watch import LeaderWatch

WORDS = "no controller has renewed its lease for 43 s; runs do not start or stop until one is back"


async def check_lease(world: World) -> None:
    assert isinstance(world.api.leader, LeaderWatch)
    await world.api.leader.look()


def renew(world: World, holder: str = "c1") -> None:
    lease = {"metadata": {"name": "kajitori-controller", "namespace": "kajitori"}, "spec": {"holderIdentity": holder}}
    world.kubernetes.put("leases", lease)


async def be_absent(world: World) -> None:
    """Let the leader renew its Lease once, 43 seconds ago."""
    renew(world)
    await check_lease(world)
    world.clock.now += 43
    await check_lease(world)


async def get(world: World, path: str) -> Any:
    response = await world.http.get(path)
    assert response.status_code == 200, response.text
    return response.json()


async def figure(world: World) -> str:
    text = (await world.http.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith("kajitori_controller_lease_age_seconds ")]
    return lines[0].split()[1] if lines else ""


async def test_a_lease_that_changes_means_a_working_controller(world: World) -> None:
    for _ in range(5):
        renew(world)
        await check_lease(world)
        world.clock.now += 15
    await check_lease(world)
    found = await get(world, "/v1/controller")
    assert found == {"leader": "c1", "ageSeconds": 15, "absent": False, "says": ""}
    assert await figure(world) == "15.0"
    assert "kajitori-notice" not in (await world.http.get("/v1/gpus")).headers


async def test_a_lease_that_does_not_change_is_reported_everywhere(world: World) -> None:
    """The queue, explanations, the version, readiness and metrics report it, and a header of every other answer."""
    world.kubernetes.put("runs", run("mine", resources={"gpu": 1}))
    await world.caught_up()
    assert "expectedAt" in (await get(world, "/v1/queue"))["items"][0]
    await be_absent(world)
    report = {"leader": "c1", "ageSeconds": 43, "absent": True, "says": WORDS}
    assert await get(world, "/v1/controller") == report
    queue = await get(world, "/v1/queue")
    assert queue["controller"] == report
    assert "expectedAt" not in queue["items"][0]
    explained = await get(world, "/v1/runs/team/mine/explain")
    assert explained["controller"] == report
    assert "expectedAt" not in explained
    assert (await get(world, "/v1/version"))["controller"] == report
    assert (await get(world, "/readyz"))["controller"] == report
    assert await figure(world) == "43.0"
    for path in ("/v1/gpus", "/v1/runs"):
        assert (await world.http.get(path)).headers["kajitori-notice"] == WORDS
    stopped = await world.http.post("/v1/runs/team/mine/stop", json={})
    assert stopped.headers["kajitori-notice"] == WORDS


async def test_a_missing_or_released_lease_means_no_controller_after_a_while(world: World) -> None:
    await check_lease(world)
    world.clock.now += 19
    await check_lease(world)
    assert not (await get(world, "/v1/controller"))["absent"]
    world.clock.now += 1
    await check_lease(world)
    assert (await get(world, "/v1/controller"))["absent"]
    renew(world, holder="")
    await check_lease(world)
    assert not (await get(world, "/v1/controller"))["absent"]
    world.clock.now += 20
    await check_lease(world)
    assert (await get(world, "/v1/controller"))["absent"]


async def test_a_lease_that_may_not_be_read_is_not_reported_as_absence(world: World) -> None:
    """The report has the reason instead."""
    assert await get(world, "/v1/controller") == {"leader": "", "ageSeconds": None, "absent": False, "says": ""}
    renew(world)
    await check_lease(world)
    world.kubernetes.denied.add(("server", "get", "leases", "*"))
    world.clock.now += 25
    await check_lease(world)
    assert (await get(world, "/v1/controller"))["ageSeconds"] == 0
    world.clock.now += 25
    await check_lease(world)
    found = await get(world, "/v1/controller")
    assert (found["ageSeconds"], found["absent"]) == (None, False)
    assert "may not get leases" in found["says"]
    assert await figure(world) == ""
