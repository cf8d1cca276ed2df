"""Traffic over time and forecasts of addresses over the Web API."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import node
from tests.unit.api.traffic.test_routes import report, send_report

from kajitori.api.traffic.recorder import RECORD_SECONDS, SETTLE_SECONDS, NetworkRecorder, address_pools
from kajitori.configuration.networks_file import NetworksFile
from kajitori.core.traffic.history import DAY

BEGAN = NOW.timestamp()


async def recorded(world: World) -> NetworkRecorder:
    """Return the recorder of a server that has begun to record, and has seen 500 more bytes an hour later."""
    history = world.api.stores.history
    assert history is not None
    recorder = NetworkRecorder(history, BEGAN)
    traffic = world.api.traffic.keeper.traffic
    await send_report(world, report(size=1000))
    await recorder.record_traffic(traffic, BEGAN + 10, kept=False)  # it does not know yet which agents there are
    await recorder.record_traffic(traffic, BEGAN + SETTLE_SECONDS, kept=False)
    await send_report(world, report(size=1500))
    await recorder.record_traffic(traffic, BEGAN + SETTLE_SECONDS + RECORD_SECONDS, kept=False)
    await send_report(world, report(size=1700))
    await recorder.record_traffic(traffic, BEGAN + 2 * 3600, kept=False)
    world.change(now=lambda: NOW + timedelta(hours=2, minutes=5))
    return recorder


def sent(item: dict[str, Any]) -> dict[str, int]:
    return {found["name"]: found["sent"] for found in item["classes"]}


async def test_traffic_is_known_by_hour_and_by_whom_it_was(world: World) -> None:
    """What was counted before the server began to record is in none of its hours."""
    await recorded(world)
    view = (await world.http.get("/v1/traffic/history")).json()
    assert [sent(item)["internet"] for item in view["items"]] == [700]
    told = [point["classes"] for point in view["points"] if point["classes"]]
    assert [found[0]["sent"] for found in told] == [500, 200]
    assert (view["intervalSeconds"], view["orderClass"], len(view["points"])) == (3600, "internet", 7 * 24 + 1)
    for by, name in (("namespace", "team"), ("user", "ada")):
        (item,) = (await world.http.get("/v1/traffic/history", params={"by": by})).json()["items"]
        assert (item["name"], sent(item)) == (name, {"internet": 700, "storage": 0})


async def test_runs_are_shown_to_those_who_may_list_them(world: World) -> None:
    await recorded(world)
    params = {"by": "run", "name": "team/bert"}
    view = (await world.http.get("/v1/traffic/history", params=params)).json()
    assert [(item["namespace"], item["name"], item["user"]) for item in view["items"]] == [("team", "bert", "ada")]
    assert [point["classes"][0]["sent"] for point in view["points"] if point["classes"]] == [500, 200]
    world.kubernetes.denied |= {("eve", "list", "runs", namespace) for namespace in ("", "team")}
    eve = {"Authorization": "Bearer eve"}
    hidden = (await world.http.get("/v1/traffic/history", params=params, headers=eve)).json()
    assert (hidden["items"], hidden["hidden"]) == ([], 1)
    assert not any(point["classes"] for point in hidden["points"])
    assert (await world.http.get("/v1/traffic/history", params={"namespace": "team"})).status_code == 422
    late = (NOW + timedelta(days=1)).isoformat()
    assert (await world.http.get("/v1/traffic/history", params={"since": late})).status_code == 422


async def test_a_new_server_goes_on_from_the_last_record(world: World) -> None:
    """It counts nothing twice, and nothing of what happened before history."""
    await recorded(world)
    assert world.api.stores.history is not None
    other = NetworkRecorder(world.api.stores.history, BEGAN + 3 * 3600)
    await send_report(world, report(size=1750))
    await other.record_traffic(world.api.traffic.keeper.traffic, BEGAN + 3 * 3600 + 1, kept=True)
    await other.tidy(BEGAN + 30 * DAY)
    world.change(now=lambda: NOW + timedelta(hours=3, minutes=5))
    (item,) = (await world.http.get("/v1/traffic/history")).json()["items"]
    assert sent(item)["internet"] == 750


async def test_the_date_at_which_addresses_run_out_is_told(world: World, tmp_path: Path) -> None:
    file = tmp_path / "networks.yaml"
    file.write_text("clusters: [{name: here, nodes: [10.0.0.0/24], pods: [10.48.0.0/16]}]")
    world.change("traffic", networks=NetworksFile(file))
    for name, number in (("g1", 1), ("g2", 2)):
        made = node(name)
        made["spec"]["podCIDR"] = f"10.48.{number}.0/24"
        world.kubernetes.put("nodes", made)
    await world.caught_up()
    pools = {pool.name: pool for pool in await address_pools(world.api)}
    assert pools["pods 10.48.0.0/16"].used == 2
    (found,) = [item for item in await forecasts(world) if item["kind"] == "pods"]
    assert (found["state"], found["used"], found["capacity"]) == ("too little history", 2, 256)
    history, today = world.api.stores.history, int(BEGAN) // DAY
    assert history is not None
    for age in range(1, 20):
        pool = pools["pods 10.48.0.0/16"]
        used = type(pool)(pool.kind, pool.cidr, pool.cluster, 56 - 2 * age, pool.capacity, pool.unit)
        await history.record_address_use([used], today - age)
    pool = pools["pods 10.48.0.0/16"]
    await history.record_address_use([type(pool)("pods", pool.cidr, "here", 56, 256, pool.unit)], today)
    (found,) = [item for item in await forecasts(world) if item["kind"] == "pods"]
    assert (found["state"], found["perDay"], found["daysKnown"]) == ("runs out", 2.0, 20)
    assert found["at"][:10] == (NOW + timedelta(days=100)).date().isoformat()


async def forecasts(world: World) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await world.http.get("/v1/networks/forecast")).json()["items"]
    return items
