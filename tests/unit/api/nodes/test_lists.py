"""Lists of nodes as tables: filters, sorting, pages, compression, and the stream of their changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx2
import pytest
from tests.helpers.callers.change_events import change_events
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import node, pod, run

from kajitori.api.streams import live_rows

CHANGES = "/v1/nodes/changes"
changes = partial(change_events, path=CHANGES)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "BATCH_SECONDS", 0.0)


async def listed(world: World, **params: Any) -> dict[str, Any]:
    response = await world.http.get("/v1/nodes", params={"fields": "summary"} | params)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page | {"names": [item["name"] for item in page["items"]]}


async def occupy(world: World, name: str, where: str) -> None:
    """Create a run with one member of eight GPUs on that node."""
    made = world.kubernetes.put("runs", run(name, owner="grace"))
    world.kubernetes.put("pods", pod(made, node=where, gpus=8))
    await world.caught_up()


async def test_a_table_names_state_amounts_and_holders(world: World) -> None:
    await occupy(world, "bert", "g1")
    page = await listed(world)
    g1 = next(item for item in page["items"] if item["name"] == "g1")
    assert (g1["state"], g1["gpuType"], g1["gpus"]) == ("ready", "h100", {"total": 8, "used": 8})
    assert (g1["holders"], g1["owner"]) == (["team/bert"], "grace")
    assert page["counts"]["total"] == len(page["items"]) == sum(page["counts"]["states"].values())


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"search": "BERT grace"}, ["g1"]),
        ({"gpuType": "h100"}, ["g1", "g2"]),
        ({"gpuType": "h100", "room": "true"}, ["g2"]),
        ({"gpuType": "h100", "sort": "-freeGpus"}, ["g2", "g1"]),
        ({"gpuType": "h100", "sort": "name", "offset": 1}, ["g2"]),
        ({"state": "cordoned"}, []),
        ({"labelSelector": "!kubernetes.io/os"}, None),
    ],
)
async def test_nodes_are_filtered_and_sorted(world: World, params: dict[str, Any], expected: list[str] | None) -> None:
    await occupy(world, "bert", "g1")
    found = (await listed(world, **params))["names"]
    assert found == expected if expected is not None else len(found) > 1


async def test_pages_of_nodes_continue(world: World) -> None:
    first = await listed(world, sort="name", limit=1)
    rest = await listed(world, sort="name", **{"continue": first["continue"]})
    assert first["names"] + rest["names"] == (await listed(world, sort="name"))["names"]
    refused = await world.http.get("/v1/nodes", params={"continue": first["continue"], "sort": "state"})
    assert refused.json()["faults"][0]["field"] == "continue"


async def test_fields_narrow_each_node(world: World) -> None:
    page = (await world.http.get("/v1/nodes", params={"fields": ["name", "taints"], "limit": 1})).json()
    assert [set(item) for item in page["items"]] == [{"name", "taints"}]
    assert page["continue"] and page["counts"]["total"] > 1


async def test_an_unchanged_table_is_not_sent_again(world: World) -> None:
    for number in range(20):
        world.kubernetes.put("nodes", node(f"more{number}"))
    await world.caught_up()
    first = await world.http.get("/v1/nodes", params={"fields": "summary"})
    assert first.headers["content-encoding"] == "gzip"
    headers = {"If-None-Match": first.headers["etag"]}
    again = await world.http.get("/v1/nodes", params={"fields": "summary"}, headers=headers)
    assert (again.status_code, again.content) == (304, b"")
    await occupy(world, "bert", "g1")
    changed = await world.http.get("/v1/nodes", params={"fields": "summary"}, headers=headers)
    assert changed.status_code == 200


async def test_a_stream_tells_only_the_nodes_that_changed(world: World, served: httpx2.AsyncClient) -> None:
    """It goes on after the list that it was read with."""
    version = (await listed(world))["version"]
    async with changes(served, since=version, items="false") as events:
        await occupy(world, "bert", "g1")
        kind, data = await events.next()
        assert (kind, [item["name"] for item in data["changed"]], data["added"]) == ("changes", ["g1"], [])
        world.kubernetes.remove("pods", "bert-1-0")
        kind, data = await events.next()
        assert [(item["name"], item["gpus"]["used"]) for item in data["changed"]] == [("g1", 0)]
        world.kubernetes.remove("nodes", "g2", "")
        kind, data = await events.next()
        assert data["removed"] == [{"name": "g2"}]


async def test_a_drained_node_says_who_and_why(world: World) -> None:
    """The answer also says whether the caller may change the node."""
    response = await world.http.post("/v1/nodes/g1/drain", json={"reason": "loud fan"})
    assert response.status_code == 200, response.text
    await world.caught_up()
    detail = (await world.http.get("/v1/nodes/g1")).json()
    assert (detail["why"], detail["changeable"]) == ("drained by ada: loud fan", True)
    (row,) = (await listed(world, state="draining"))["items"]
    assert (row["name"], row["why"]) == ("g1", "drained by ada: loud fan")
    refused = await world.http.post("/v1/nodes/g1/drain", json={"reason": 3, "why": ""})
    assert len(refused.json()["faults"]) == 2
