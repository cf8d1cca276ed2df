"""What-ifs about a run before it is submitted."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run

from kajitori.core.queue.what_if import Answer, ask
from kajitori.core.spec.status_parts.attempts import template_text

WANTS: dict[str, Any] = {"image": "bert:3", "replicas": 2, "resources": {"gpu": 8, "gpuType": "h100"}}


async def what_if(world: World, spec: dict[str, Any], **more: Any) -> httpx2.Response:
    return await world.http.post("/v1/what-if", json={"spec": spec} | more)


def writes(world: World) -> list[tuple[str, str, str]]:
    return [request for request in world.kubernetes.requests if request[0] != "GET" and "reviews" not in request[1]]


async def test_what_if_names_the_nodes_on_which_a_run_would_start(world: World) -> None:
    """Nothing is created, not even in a dry run of the API server."""
    answer = await what_if(world, WANTS)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["starts"], found["nodes"], found["namespace"]) == (True, "g[1-2]", "team")
    assert found["start"]["toFree"] == []
    assert found["start"]["expectedAt"] == "2026-11-21T12:00:00Z"
    assert found["findings"]
    assert writes(world) == []


async def test_what_if_explains_why_a_run_would_wait(world: World) -> None:
    """It would come after the runs that wait already."""
    made = world.kubernetes.put("runs", run("big", owner="grace") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made, node="g1", gpus=8))
    queued = {"phase": "Queued", "queuedAt": "2026-11-21T11:05:00Z"}
    world.kubernetes.put("runs", run("huge", replicas=2, resources=WANTS["resources"]) | {"status": queued})
    await world.caught_up()
    found = (await what_if(world, WANTS)).json()
    assert (found["starts"], found["nodes"], found["domains"]) == (False, "", {})
    assert (found["start"]["reason"], found["start"]["ahead"]) == ("WaitingForGPU", 1)
    assert {(step["kind"], step["name"]) for step in found["start"]["toFree"]} == {
        ("run", "team/big"),
        ("ahead", "team/huge"),
    }
    renamed = (await what_if(world, WANTS, name="huge")).json()  # in place of the run with this name
    assert [(step["kind"], step["name"]) for step in renamed["start"]["toFree"]] == [("run", "team/big")]


async def test_a_changed_request_keeps_the_place_of_the_waiting_run(world: World) -> None:
    """It has waited as long as that run: as a newcomer it would be the last, however little it asks for."""
    made = world.kubernetes.put("runs", run("big", owner="grace") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made, node="g1", gpus=8))
    for name, queued_at in (("first", "2026-11-21T10:00:00Z"), ("second", "2026-11-21T11:30:00Z")):
        waits = {"phase": "Queued", "queuedAt": queued_at}
        world.kubernetes.put("runs", run(name, replicas=2, resources=WANTS["resources"]) | {"status": waits})
    await world.caught_up()
    for name, place in (("first", (1, 7200)), ("second", (2, 1800)), ("third", (3, 0))):
        found = (await what_if(world, WANTS, name=name)).json()["start"]["place"]
        assert (found["position"], found["waitedSeconds"]) == place, name


async def test_a_namespace_quota_counts_before_submission(world: World) -> None:
    """A gang that exceeds it does not start, and an elastic one starts with fewer members. A caller without the right
    to list quotas gets an answer from the nodes alone."""
    hard = {"requests.nvidia.com/gpu": "12"}
    quota = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": hard}, "status": {"hard": hard}}
    world.kubernetes.put("resourcequotas", quota)
    found = (await what_if(world, WANTS)).json()
    assert (found["starts"], found["nodes"], found["start"]["reason"]) == (False, "", "Quota")
    assert found["start"]["message"] == "quota q, requests.nvidia.com/gpu: needs 16, 12 of 12 left"
    dry = await world.http.post("/v1/runs", json={"spec": WANTS}, params={"dryRun": "true"})
    assert dry.json()["start"] == found["start"]
    elastic = (await what_if(world, WANTS | {"minReplicas": 1})).json()
    assert (elastic["starts"], elastic["nodes"], elastic["start"]["fitNow"]) == (True, "g1", 1)
    world.kubernetes.denied.add(("ada", "list", "resourcequotas", "team"))
    assert (await what_if(world, WANTS)).json()["starts"] is True


async def test_what_if_names_the_runs_that_would_be_preempted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of high priority preempts one of low priority; a run of low priority waits. While nodes come and go no run
    is named."""
    requests = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "8"}
    template = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    attempt = {
        "number": 1,
        "nodes": "g1",
        "created": True,
        "template": template_text(template),
        "startedAt": "2026-11-20T10:00:00Z",
    }
    status = {"phase": "Running", "attempts": 1, "attempt": attempt, "members": {"total": 1, "running": 1}}
    made = world.kubernetes.put("runs", run("cheap", owner="grace", priority="low") | {"status": status})
    world.kubernetes.put("pods", pod(made, node="g1", gpus=8))
    await world.caught_up()
    start = (await what_if(world, WANTS | {"priority": "high"})).json()["start"]
    assert (start["asks"], [blocker["name"] for blocker in start["toFree"]]) == (["team/cheap"], ["team/cheap"])
    assert (await what_if(world, WANTS | {"priority": "low"})).json()["start"]["asks"] == []

    def while_a_node_goes(*asked: Any) -> Answer:
        if world.api.mirror.nodes.pop("g2", None):
            world.api.cluster.note_node("g2")
        return ask(*asked)

    monkeypatch.setattr("kajitori.api.queue.waiting.ask", while_a_node_goes)
    start = (await what_if(world, WANTS | {"priority": "high"})).json()["start"]
    assert (start["asks"], [blocker["name"] for blocker in start["toFree"]]) == ([], ["team/cheap"])


async def test_answers_to_what_if_do_not_influence_each_other(world: World) -> None:
    """Neither the time limit nor the name of a run that was only asked about is remembered."""
    for limit, seconds in (("1h", 3600), ("9h", 32_400)):
        place = (await what_if(world, WANTS | {"timeLimit": limit})).json()["start"]["place"]
        assert (place["expectedSeconds"], place["expectedFrom"]) == (seconds, "limit")
    for name in ("a", "b", "c"):
        await what_if(world, WANTS, name=name)
        await world.http.post("/v1/runs", json={"spec": WANTS, "name": name}, params={"dryRun": "true"})
    assert not {"a", "b", "c"} & {name for _, name in world.api.queue.outlook.past._known}


async def test_what_if_refuses_what_submission_refuses(world: World) -> None:
    """Invalid fields, missing rights and violations of policy are reported all at once."""
    spec = {**WANTS, "privileged": True, "resources": {"gpu": 4, "gpuType": "h900"}}
    answer, submitted = await what_if(world, spec), await world.http.post("/v1/runs", json={"spec": spec})
    assert answer.status_code == submitted.status_code == 422
    assert answer.json()["faults"] == submitted.json()["faults"]
    assert (await what_if(world, {"image": "bert:3", "replicas": 0})).json()["faults"][0]["field"] == "spec.replicas"
    assert (await what_if(world, {"image": "bert:3", "stopped": True})).json()["start"]["phase"] == "Stopped"
    assert writes(world) == []
