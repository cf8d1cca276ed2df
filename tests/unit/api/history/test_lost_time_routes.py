"""Where time went, through the Web API: one run, and sums by cause, team, owner and node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.unit.api.fake_kubernetes import run
from tests.unit.api.history.test_history_routes import NOON, recorded

from kajitori.api.answers.paging import time_text
from kajitori.core.usage.lost_time.slices import Kind, Mark
from kajitori.core.usage.records import RunState
from kajitori.history.store import History

if TYPE_CHECKING:
    from tests.unit.api.conftest import World


def broken(name: str, **more: Any) -> RunState:
    """Return a removed run of two members with 8 GPUs each that ran for ten minutes, until node g2 was lost."""
    state = recorded(name, **more)
    (segment,) = state.segments
    story = {"started": segment.since + 60, "ended": NOON - 10, "cause": "NodeLost", "culprit": "g2", "counts": 1}
    return msgspec.structs.replace(state, segments=(msgspec.structs.replace(segment, **story),))


async def test_a_run_is_reported_to_the_second(world: World, history: History) -> None:
    """Its categories are its whole time since it was submitted, its causes what each of them cost."""
    await history.record([broken("bert")])
    await history.record_marks([("uid-bert", Mark(1, Kind.SAVED, NOON - 230, NOON - 210))])
    found = (await world.http.get("/v1/runs/team/uid-bert/report")).json()
    seconds = {part["category"]: part["seconds"] for part in found["categories"] if part["seconds"]}
    whole = {"queued": 3000, "starting": 60, "productive": 310, "saving": 20, "lost": 200, "restarting": 10}
    assert seconds == whole
    assert sum(part["gpuSeconds"] for part in found["categories"]) == 600 * 16
    assert found["causes"] == [
        {"cause": "NodeLost", "times": 1, "gpuSeconds": 210 * 16, "memberSeconds": 210 * 2},
    ]
    assert found["ratio"] == pytest.approx(310 / 3600)
    assert (found["checkpoints"]["costSeconds"], found["checkpoints"]["betweenFailures"]) == (20, 530)
    assert found["checkpoints"]["times"] == [found["checkpoints"]["lastAt"]] == [time_text(NOON - 210)]
    assert "8.6% of its time was productive: 5m10s of 1h" in found["words"][0]
    assert "a checkpoint every 2m" in found["words"][1]


async def test_without_history_a_run_is_reported_from_its_status(world: World, history: History) -> None:
    """Sums of several runs need a history."""
    times = {"since": "2026-11-21T11:50:00Z", "started": "2026-11-21T11:51:00Z"}
    usage = {"first": 1, "open": [{"attempt": 1, "ranks": "0-1", "gpus": 8} | times]}
    status = {"phase": "Running", "attempts": 1, "usage": usage}
    world.kubernetes.put("runs", run("bert", replicas=2) | {"status": status})
    await world.caught_up()
    world.change("stores", history=None)
    found = (await world.http.get("/v1/runs/team/bert/report")).json()
    seconds = {part["category"]: part["gpuSeconds"] for part in found["categories"] if part["gpuSeconds"]}
    assert seconds == {"starting": 60 * 16, "productive": 540 * 16}
    assert (await world.http.get("/v1/report")).status_code == 501


async def test_a_report_sums_what_each_cause_cost(world: World, history: History) -> None:
    """By cause, team, owner and the node that failed; each with the same total."""
    await history.record([broken("bert"), recorded("old", namespace="else")])
    await history.record([broken("gpt", namespace="else", gpus=1)])
    day = {"since": "2026-11-21T00:00:00Z", "until": "2026-11-21T12:00:00Z"}

    async def rows(**params: str) -> list[tuple[str, int, int]]:
        answer = await world.http.get("/v1/report", params=day | params)
        assert answer.status_code == 200
        found = answer.json()
        assert found["total"]["memberSeconds"] == (1200 if params.get("namespace") == "team" else 3600)
        return [(row["key"], row["times"], row["memberSeconds"]) for row in found["items"]]

    assert await rows() == [("NodeLost", 2, 2 * 2 * 10)], "without a word about checkpoints the rest is unclear"
    assert await rows(by="team") == [("else", 1, 2400), ("team", 1, 1200)]
    assert await rows(by="owner", cluster="true") == [("else/ada", 1, 2400), ("team/ada", 1, 1200)]
    assert await rows(by="node") == [("g2", 2, 40)]
    assert await rows(by="team", namespace="team") == [("team", 1, 1200)]
    assert await rows(owner="ada") == await rows()
    assert (await world.http.get("/v1/report", params=day | {"owner": "eve"})).json()["items"] == []
    refused = await world.http.get("/v1/report", params={"owner": "ada", "by": "node"})
    assert (refused.status_code, refused.json()["faults"][0]["field"]) == (422, "owner")


async def test_a_team_sees_its_own_sums_and_not_the_clusters(world: World, history: History) -> None:
    await history.record([broken("bert"), broken("secret", namespace="else")])
    world.kubernetes.denied |= {("ada", "list", "runs", ""), ("ada", "list", "runs", "else")}
    own = (await world.http.get("/v1/report", params={"by": "team"})).json()
    assert [row["key"] for row in own["items"]] == ["team"]
    for params in ({"cluster": "true"}, {"by": "node"}, {"namespace": "else"}):
        assert (await world.http.get("/v1/report", params=params)).status_code == 403


async def test_a_report_that_ends_before_it_begins_is_refused(world: World, history: History) -> None:
    params = {"since": "2026-11-21T11:00:00Z", "until": "2026-11-20T11:00:00Z"}
    answer = await world.http.get("/v1/report", params=params)
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "since")
