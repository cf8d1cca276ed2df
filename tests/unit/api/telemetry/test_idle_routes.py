"""Idle GPUs over the Web API: who is told, and what the answers change."""

from __future__ import annotations

from array import array
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import pod, run
from tests.unit.api.test_openapi import assert_fits

from kajitori.api.app import openapi_document
from kajitori.api.requests.middleware import OWN_NOTICE
from kajitori.core.formats.times import format_time
from kajitori.core.telemetry.quantities import GPU, MEMBER
from kajitori.core.telemetry.report import Answer, Series

NOTEBOOK = "/v1/runs/team/nb"


def at(hours: float) -> str:
    return format_time(NOW + timedelta(hours=hours))


async def notebook(world: World, name: str = "nb", *, phase: str = "Running", **idle: Any) -> None:
    found = {"since": at(-3), "attempt": 1, "gpus": 8, "gpuType": "h100", "fewest": 8, "most": 8, "askedAt": at(-1)}
    made = run(name, ports=[8888]) | {"status": {"phase": phase, "attempts": 1, "idle": found | idle}}
    stored = world.kubernetes.put("runs", made)
    world.kubernetes.put("pods", pod(stored, rank=0, node="g1"))
    await world.caught_up()


async def test_idle_runs_are_listed_with_their_evidence_and_cost(world: World) -> None:
    await notebook(world)
    await notebook(world, "pipeline", fewest=1, most=4, askedAt="")
    listed = await world.http.get("/v1/idle")
    assert listed.status_code == 200
    assert_fits(openapi_document(), {"$ref": "#/components/schemas/IdleList"}, listed.json(), "/v1/idle")
    first, second = listed.json()["items"]
    assert (first["run"], first["use"], first["answer"], first["gpuHours"]) == ("nb", "notebook", "asked", 24)
    assert "at most 0 % utilisation" in first["says"]
    assert (second["run"], second["answer"], second["gpuHours"]) == ("pipeline", "unsure", 3)
    mine = await world.http.get("/v1/idle", params={"owner": "somebody-else"})
    assert mine.json()["items"] == []


async def test_every_answer_to_the_owner_carries_the_question(world: World) -> None:
    name = (await world.http.get("/v1/whoami")).json()["user"]
    assert OWN_NOTICE not in (await world.http.get("/v1/version")).headers
    await notebook(world)
    owner = world.mirror.runs["team", "nb"].owner
    words = world.api.runs.idle.words(owner)
    assert words == f"nb holds 8 h100 GPUs, idle since {at(-3)}: kaji keep nb --until 18:00, or kaji park nb"
    told = (await world.http.get("/v1/version")).headers.get(OWN_NOTICE, "")
    assert told == (words if owner == name else "")
    assert world.api.runs.idle.words("nobody") == ""
    await notebook(world, "nb2", parkAt=at(1))
    assert world.api.runs.idle.words(owner) == "2 of your runs hold 16 idle GPUs: kaji idle"
    await notebook(world, askedAt="")
    assert f"or it is parked at {at(1)}" in world.api.runs.idle.words(owner)
    await notebook(world, "nb2", phase="Stopped")
    assert world.api.runs.idle.words(owner) == ""


@pytest.mark.parametrize(
    ("until", "status", "told"),
    [
        (at(6), 200, ""),
        (at(-1), 422, "is in the past"),
        (at(24 * 8), 422, "later than policy allows: 7d"),
        ("tomorrow", 422, "not a time"),
    ],
)
async def test_an_owner_keeps_a_run_as_long_as_policy_allows(world: World, until: str, status: int, told: str) -> None:
    await notebook(world)
    kept = await world.http.post(f"{NOTEBOOK}/keep", json={"until": until})
    assert (kept.status_code, told in kept.text) == (status, True), kept.text
    spec = world.kubernetes.objects["runs", "team", "nb"]["spec"]
    assert spec.get("keepIdleUntil", "") == (until if status == 200 else "")
    await world.caught_up()
    if status == 200:
        assert (await world.http.get("/v1/idle")).json()["items"][0]["answer"] == "kept"


async def test_parking_stops_the_run_and_resuming_starts_it(world: World) -> None:
    await notebook(world)
    await world.http.post(f"{NOTEBOOK}/keep", json={"until": at(6)})
    for _ in range(2):
        parked = await world.http.post(f"{NOTEBOOK}/park")
        assert parked.status_code == 200, parked.text
    spec = world.kubernetes.objects["runs", "team", "nb"]["spec"]
    assert (spec["stopped"], spec["parked"], spec.get("keepIdleUntil")) == (True, True, None)
    await notebook(world, phase="Stopped")
    refused = await world.http.post(f"{NOTEBOOK}/keep", json={"until": at(1)})
    assert (refused.status_code, "kaji resume nb" in refused.text) == (409, True)
    resumed = await world.http.post(f"{NOTEBOOK}/resume")
    assert resumed.status_code == 200, resumed.text
    spec = world.kubernetes.objects["runs", "team", "nb"]["spec"]
    assert (spec["stopped"], spec["parked"], spec["resumes"]) == (False, False, 1)


async def test_nodes_are_asked_which_gpus_are_idle(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await notebook(world, fewest=1, most=1, gpus=2, askedAt="")
    uid = world.kubernetes.objects["pods", "team", "nb-1-0"]["metadata"]["uid"]
    rows, nan = 4, float("nan")
    used = [percent if each.name == "gpu.used" else nan for percent in (0.0, 95.0) for each in GPU] * rows
    series = Series(
        uid,
        array("d", [0.0] * rows).tobytes(),
        array("f", [nan] * len(MEMBER) * rows).tobytes(),
        ("GPU-a", "GPU-b"),
        array("f", used).tobytes(),
        {},
    )

    asked_since = []

    async def ask(node: str, uids: Any, since: float, **_: Any) -> Answer:
        assert (node, list(uids)) == ("g1", [uid])
        asked_since.append(since)
        return Answer((series,))

    monkeypatch.setattr(world.api.telemetry, "ask", ask)
    report = await world.http.get(f"{NOTEBOOK}/idle")
    assert_fits(openapi_document(), {"$ref": "#/components/schemas/IdleReport"}, report.json(), NOTEBOOK)
    assert report.json()["idleGpus"] == [{"rank": 0, "gpu": 0, "node": "g1"}]
    assert (report.json()["lookedGpus"], report.json()["found"]["answer"]) == (2, "unsure")
    await notebook(world, fewest=1, most=1, gpus=2, since=at(-1 / 6))
    later = await world.http.get(f"{NOTEBOOK}/idle")
    assert (asked_since[1] - asked_since[0], later.json()["lookedSeconds"]) == (3000, 600), "at most an hour"
