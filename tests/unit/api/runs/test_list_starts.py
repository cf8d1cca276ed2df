"""Lists of runs with the expected starts of waiting ones: their order, and the stream of what moves them."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx2
import pytest
from tests.helpers.callers.change_events import change_events
from tests.unit.api.conftest import World
from tests.unit.api.queue.test_routes import ago, ahead, runs, waits

from kajitori.api.streams import live_rows, queue_rows

changes = partial(change_events, path="/v1/runs/changes")


@pytest.fixture
async def queued(world: World) -> World:
    """A run on one of two nodes, one that waits for both, one behind that, and one whose start is not known."""
    runs(world, "now", "g1", since=ago(10), timeLimit="1h")
    waits(world, "long", since=ago(30), timeLimit="3h")
    waits(world, "large", since=ago(60), timeLimit="1h", replicas=2)
    waits(world, "never", since=ago(20), timeLimit="1h", replicas=9)
    await world.caught_up()
    return world


async def listed(world: World, **params: Any) -> dict[str, Any]:
    response = await world.http.get("/v1/runs", params={"fields": "summary"} | params)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page | {"names": [item["name"] for item in page["items"]]}


@pytest.mark.parametrize(
    ("sort", "expected"),
    [("startsAt", ["large", "long", "never", "now"]), ("-startsAt", ["long", "large", "never", "now"])],
)
async def test_runs_are_sorted_by_their_expected_start(queued: World, sort: str, expected: list[str]) -> None:
    """Also in pages. Runs that do not wait, and those whose start is not known, come last in both directions."""
    page = await listed(queued, sort=sort)
    assert page["names"] == expected
    starts = {item["name"]: item["startsAt"] for item in page["items"]}
    assert starts == {"large": ahead(50), "long": ahead(110), "never": "", "now": ""}
    for size in (1, 2, 3):
        first = await listed(queued, sort=sort, limit=size)
        rest = await listed(queued, sort=sort, **{"continue": first["continue"]})
        assert first["names"] + rest["names"] == expected


async def test_only_those_who_ask_get_expected_starts(queued: World) -> None:
    """They are worked out for the whole queue, which takes time."""
    assert all("startsAt" not in item for item in (await listed(queued))["items"])
    assert queued.api.tables.queue.view is None, "the queue is not worked out"
    assert all("startsAt" in item for item in (await listed(queued, starts=True))["items"])


async def test_a_change_of_the_queue_moves_runs(
    queued: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream tells the new starts of runs that did not change themselves, and continues after a list."""
    monkeypatch.setattr(live_rows, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(queue_rows, "SHORTEST_SECONDS", 0.0)
    monkeypatch.setattr(queue_rows, "SHARE", 1e6)  # a list is never older than the cluster
    version = (await listed(queued, sort="startsAt"))["version"]
    async with changes(served, starts="true", since=version) as events:
        queued.kubernetes.change("runs", "large", status={"phase": "Stopped"})
        moved: dict[str, Any] = {}
        while "long" not in moved:
            kind, data = await events.next()
            assert kind == "changes", "the list's version is the stream's"
            moved |= {row["name"]: row["startsAt"] for row in data["changed"]}
        assert moved["long"] not in ("", ahead(110)), "it does not wait for the other one any more"
        assert moved["large"] == ""
    assert (await listed(queued, sort="startsAt"))["names"] == ["long", "large", "never", "now"]
