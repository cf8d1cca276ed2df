"""The queue as a table: waiting and running runs with expected times, filters, and the stream of changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx2
import pytest
from tests.helpers.callers.change_events import change_events
from tests.unit.api.conftest import World
from tests.unit.api.queue.test_routes import ago, ahead, get, runs, waits

from kajitori.api.streams import live_rows, queue_rows

CHANGES = "/v1/queue/changes"
changes = partial(change_events, path=CHANGES)
BOTH = ["waiting", "running"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "BATCH_SECONDS", 0.0)


@pytest.fixture
async def queued(world: World) -> World:
    """A run with a time limit on one of two nodes, one that waits for both, and one behind that."""
    runs(world, "now", "g1", since=ago(10), timeLimit="1h")
    waits(world, "long", since=ago(30), timeLimit="3h")
    waits(world, "large", since=ago(60), timeLimit="1h", replicas=2)
    await world.caught_up()
    return world


async def table(world: World, **params: Any) -> dict[str, Any]:
    response = await world.http.get("/v1/queue", params={"fields": "summary"} | params)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page | {"names": [item["name"] for item in page["items"]]}


async def test_a_timeline_has_runs_reservations_and_expected_times(queued: World) -> None:
    page = await table(queued, state=BOTH, sort="startsAt")
    assert page["names"] == ["now", "large", "long"]
    now, large, long = page["items"]
    assert (now["state"], now["nodes"], now["startsAt"], now["endsAt"]) == ("running", "g1", ago(10), ahead(50))
    assert (large["state"], large["nodes"], large["startsAt"]) == ("waiting", "g[1-2]", ahead(50))
    assert (large["endsAt"], large["expectedSeconds"], large["position"]) == (ahead(110), 3600, 1)
    assert (long["nodes"], long["behind"], long["startsAt"]) == ("", ["team/large"], ahead(110))
    assert page["counts"] == {"total": 3, "states": {"waiting": 2, "running": 1}}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["large", "long"]),
        ({"owner": "@me", "sort": "name"}, ["large", "long"]),
        ({"owner": "grace", "state": "running"}, ["now"]),
        ({"search": "G[1-2] LARGE"}, ["large"]),
        ({"limit": 1}, ["large"]),
        ({"sort": "-gpus", "offset": 1}, ["long"]),
        ({"gpuType": "a100"}, []),
    ],
)
async def test_the_queue_is_filtered_and_sorted(queued: World, params: dict[str, Any], expected: list[str]) -> None:
    assert (await table(queued, **params))["names"] == expected


async def test_pages_of_the_queue_continue_with_chosen_fields(queued: World) -> None:
    first = await get(queued, "/v1/queue?limit=1&fields=name&fields=expectedAt")
    assert first["items"] == [{"name": "large", "expectedAt": ahead(50)}]
    rest = await get(queued, f"/v1/queue?fields=name&continue={first['continue']}")
    assert (rest["items"], "continue" in rest) == ([{"name": "long"}], False)


async def test_a_service_on_a_node_has_no_end(world: World) -> None:
    runs(world, "now", "g1", since=ago(10), type="service")
    await world.caught_up()
    (now,) = (await table(world, state="running"))["items"]
    assert (now["nodes"], now["endsAt"], now["expectedSeconds"], now["sure"]) == ("g1", "", 0, False)


async def test_a_stream_of_the_queue_tells_what_changes(
    queued: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are worked out again because the cluster has changed, once for all streams."""
    monkeypatch.setattr(queue_rows, "SHORTEST_SECONDS", 0.0)
    async with changes(served, state=BOTH) as events, changes(served, state=BOTH) as others:
        kind, data = await events.next()
        assert (kind, sorted(item["name"] for item in data["items"])) == ("snapshot", ["large", "long", "now"])
        assert (await others.next())[0] == "snapshot"
        queued.kubernetes.change("runs", "long", status={"phase": "Stopped"})
        kind, data = await events.next()
        assert (kind, data["removed"]) == ("changes", [{"namespace": "team", "name": "long"}])
        assert (await others.next())[1]["counts"]["total"] == 2
    async with changes(served, last_id=events.last_id, state=BOTH) as events:
        queued.kubernetes.change("runs", "large", status={"phase": "Stopped"})
        assert [key["name"] for key in (await events.next())[1]["removed"]] == ["large"]
