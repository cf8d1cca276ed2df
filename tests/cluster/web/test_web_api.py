"""The Web API on a live cluster with a controller, on the embedded server and on a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.harness.cluster import Cluster
from tests.harness.servers.real_server import RealServer
from tests.harness.waiting import until
from tests.harness.web_api import web_api

from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.core.spec.reasons import Phase
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import CUSTOM_RESOURCES, NODES, Resource

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")

SPEC: dict[str, Any] = {
    "image": "bert:3",
    "command": ["train"],
    "resources": {"cpu": 1, "memory": "1Gi"},
    "grace": "2s",
}


@pytest.fixture
async def http(cluster: Cluster) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a Web API on the cluster, with a working controller."""
    cluster.start_controller()
    async with web_api(cluster) as web:
        yield web.http


async def submit(http: httpx2.AsyncClient, name: str, **spec: Any) -> dict[str, Any]:
    response = await http.post("/v1/runs", json={"name": name, "spec": {**SPEC, **spec}})
    assert response.status_code == 201, response.text
    view: dict[str, Any] = response.json()
    return view


async def lines(http: httpx2.AsyncClient, path: str, **params: Any) -> AsyncIterator[dict[str, Any]]:
    async with http.stream("GET", path, params=params) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line:
                yield json.loads(line)


@pytest.mark.conformance
async def test_a_run_from_submission_to_its_end_and_resumption(
    request: pytest.FixtureRequest, cluster: Cluster, http: httpx2.AsyncClient
) -> None:
    """The test watches the run, its members, its logs over a restart, and its events."""
    view = await submit(http, "bert", replicas=3, restarts=1)
    assert view["owner"]
    path = f"/v1/runs/{cluster.namespace}/bert"
    seen: list[tuple[int, str]] = []
    logged = asyncio.create_task(_collect(lines(http, f"{path}/logs", allRanks="true", follow="true")))
    async for view in lines(http, f"{path}/watch"):  # at most five a second, so short phases may be missing
        attempt = (view["status"].get("attempt") or {}).get("number", 0)
        if (attempt, view["status"]["phase"]) in seen:
            continue
        seen.append((attempt, view["status"]["phase"]))
        if seen[-1] == (1, "Running"):
            await cluster.behave("bert-1-1", exit_code="5")
        elif seen[-1] == (2, "Running"):
            members = (await http.get(f"{path}/members")).json()["items"]
            assert [(member["rank"], member["attempt"], member["phase"]) for member in members] == [
                (rank, 2, "Running") for rank in range(3)
            ]
            await cluster.succeed("bert")
    assert {(1, "Running"), (2, "Running")} < set(seen)
    assert seen[-1] == (2, "Succeeded")
    if "real" in request.node.name:  # the embedded server does not trust the certificates of simulated kubelets
        documents = await logged
        assert {(document["rank"], document["attempt"]) for document in documents} >= {(rank, 2) for rank in range(3)}
    await asyncio.gather(logged, return_exceptions=True)

    async def is_told() -> bool:
        return "Succeeded" in [event["reason"] async for event in lines(http, f"{path}/events")]

    await until(is_told, "an event tells of its end")  # events are written in the background
    assert (await http.post(f"{path}/resume")).status_code == 200
    await cluster.reaches("bert", Phase.RUNNING, attempt=3)


async def _collect(documents: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [document async for document in documents]


async def test_a_run_is_stopped_and_deleted(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    await submit(http, "bert")
    await cluster.reaches("bert", Phase.RUNNING)
    path = f"/v1/runs/{cluster.namespace}/bert"
    assert (await http.post(f"{path}/stop", json={"grace": "1s"})).status_code == 200
    await cluster.reaches("bert", Phase.STOPPED)
    assert (await http.delete(path, params={"checkpoint": "true"})).status_code == 202
    await cluster.until(lambda: cluster.run("bert") is None, "the run is gone")
    assert (await http.get(path)).status_code == 404
    assert (await http.delete(path)).status_code == 404


async def test_a_missing_definition_of_runs_is_an_error(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    """Deleting it deleted all runs. The error names what installs it, and the server works again after that."""
    definition = custom_resource_definition()
    await submit(http, "bert")
    await cluster.client.delete(CUSTOM_RESOURCES, definition["metadata"]["name"])
    try:
        await cluster.until(lambda: cluster.mirror.lacks(RUNS), "the definition is gone")
        path = f"/v1/runs/{cluster.namespace}/bert"
        calls = [
            ("GET", "/v1/runs"),
            ("GET", path),
            ("GET", f"{path}/logs"),
            ("GET", "/v1/queue"),
            ("GET", "/v1/events"),
        ]
        calls += [("POST", "/v1/runs"), ("POST", f"{path}/stop"), ("POST", "/v1/what-if"), ("DELETE", path)]
        for method, where in calls:
            body = {"name": "other", "spec": SPEC} if method == "POST" and not where.endswith("/stop") else None
            answer = await http.request(method, where, json=body)
            assert answer.status_code == 501, (method, where, answer.text)
            assert "definition of runs" in answer.json()["detail"], where
            assert "kaji controller" in answer.json()["hint"]
    finally:
        await install(cluster.client)
    await cluster.until(lambda: not cluster.mirror.lacks(RUNS), "the definition is there again")
    assert (await http.get("/v1/runs")).json()["items"] == []
    await submit(http, "bert")


async def test_explain_and_the_gpu_board_show_why_a_run_waits(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    """The answers name the run that has the GPUs and the number of missing ones, and the totals add up."""
    whole = {"cpu": 4, "memory": "8Gi", "gpu": 8, "gpuType": "h100"}
    await submit(http, "big", replicas=6, resources=whole)
    await cluster.reaches("big", Phase.RUNNING)
    await submit(http, "mine", replicas=4, resources=whole)
    await cluster.until(lambda: cluster.status("mine").reason.value == "WaitingForGPU", "waits")
    answer = (await http.get(f"/v1/runs/{cluster.namespace}/mine/explain")).json()
    assert answer["missing"] == {"members": 2, "gpu": 16}
    assert [(holder["holder"], holder["gpus"]) for holder in answer["held"]] == [(f"{cluster.namespace}/big", 48)]
    board = (await http.get("/v1/gpus")).json()
    assert board["types"] == [{"type": "h100", "total": 64, "used": 48, "idle": 0, "free": 16, "broken": 0}]
    dry = await http.post(
        "/v1/runs", params={"dryRun": "true"}, json={"spec": {**SPEC, "replicas": 3, "resources": whole}}
    )
    assert dry.json()["start"]["missing"] == {"members": 1, "gpu": 8}


async def test_a_run_starts_after_exactly_the_steps_of_explain(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    """The run needs seven of eight nodes, of which one is silent and one is cordoned. It waits until all of the named
    steps are done, and then runs. A what-if names the same steps before the submission."""
    gpu = {"cpu": 1, "memory": "1Gi", "gpuType": "h100"}
    whole = {**gpu, "cpu": 4, "gpu": 8}
    await submit(http, "big", replicas=3, resources=whole, timeLimit="2h")
    await submit(http, "one", resources={**gpu, "gpu": 4}, timeLimit="10m")
    await submit(http, "other", resources={**gpu, "gpu": 4}, timeLimit="20m")
    for name in ("big", "one", "other"):
        await cluster.reaches(name, Phase.RUNNING)
    assert len({*cluster.nodes_of("one"), *cluster.nodes_of("other")}) == 1
    held = {node for name in ("big", "one") for node in cluster.nodes_of(name)}
    cordoned, silent = sorted(set(cluster.mirror.nodes) - held)[:2]
    await cluster.client.patch(NODES, cordoned, {"spec": {"unschedulable": True}})
    try:
        await cluster.silence(silent)
        await cluster.until(lambda: not cluster.mirror.nodes[silent].is_ready, "a node is silent")
        asked = {**SPEC, "replicas": 7, "resources": whole}
        guessed = (await http.post("/v1/what-if", json={"spec": asked})).json()
        await submit(http, "mine", replicas=7, resources=whole)
        await cluster.until(lambda: cluster.status("mine").reason.value == "WaitingForGPU", "waits")
        told = (await http.get(f"/v1/runs/{cluster.namespace}/mine/explain")).json()
        steps = [(step["kind"], step["name"]) for step in told["toFree"]]
        assert set(steps) == {
            *(("run", f"{cluster.namespace}/{name}") for name in ("big", "one", "other")),
            ("cordoned", cordoned),
        }
        assert [(step["kind"], step["name"]) for step in guessed["start"]["toFree"]] == steps
        assert (guessed["starts"], told["exact"]) == (False, True)
        assert told["room"] == {"free": 2, "reserved": 0, "held": 4, "cordoned": 1, "broken": 1}
        last, *less = steps
        for step in less:
            await carry_out(cluster, http, *step)
        await submit(http, "probe")  # once this runs, the controller has considered all waiting runs
        await cluster.reaches("probe", Phase.RUNNING)
        assert cluster.status("mine").phase is Phase.QUEUED
        left = (await http.get(f"/v1/runs/{cluster.namespace}/mine/explain")).json()
        assert [(step["kind"], step["name"]) for step in left["toFree"]] == [last]
        await carry_out(cluster, http, *last)
        await cluster.reaches("mine", Phase.RUNNING)
    finally:
        await cluster.client.patch(NODES, cordoned, {"spec": {"unschedulable": False}})


async def test_explain_names_the_run_that_a_waiting_run_would_delay(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    """Nodes are free but reserved for a run before it. The run would start without that other run, or with a shorter
    time limit."""
    whole = {"cpu": 4, "memory": "8Gi", "gpu": 8, "gpuType": "h100"}
    await submit(http, "half", replicas=4, resources=whole, timeLimit="2h")
    await cluster.reaches("half", Phase.RUNNING)
    await submit(http, "large", replicas=8, resources=whole, timeLimit="2h")
    await cluster.until(lambda: cluster.status("large").reason.value == "WaitingForGPU", "waits")
    await submit(http, "mine", resources=whole, timeLimit="9h")
    await cluster.until(lambda: cluster.status("mine").reason.value == "WaitingItsTurn", "waits its turn")
    large = f"{cluster.namespace}/large"
    told = (await http.get(f"/v1/runs/{cluster.namespace}/mine/explain")).json()
    assert [(step["kind"], step["name"]) for step in told["toFree"]] == [("ahead", large)]
    assert (told["behind"], told["room"]["free"], told["room"]["reserved"]) == ([large], 0, 1)
    assert told["sooner"] == ["--time-limit 1h"]
    shorter = {**SPEC, "resources": whole, "timeLimit": "1h"}
    assert (await http.post("/v1/what-if", json={"name": "mine", "spec": shorter})).json()["starts"] is True
    await carry_out(cluster, http, *[told["toFree"][0][key] for key in ("kind", "name")])
    await cluster.reaches("mine", Phase.RUNNING)


async def carry_out(cluster: Cluster, http: httpx2.AsyncClient, kind: str, name: str) -> None:
    """Carry out a step that an explanation names, and wait until the cluster has seen it."""
    if kind == "cordoned":
        await cluster.client.patch(NODES, name, {"spec": {"unschedulable": False}})
        await cluster.until(lambda: not cluster.mirror.nodes[name].spec.unschedulable, f"{name} is uncordoned")
    else:
        run = name.partition("/")[2]
        assert (await http.delete(f"/v1/runs/{name}")).status_code == 202
        await cluster.until(lambda: not cluster.run(run) and not cluster.pods(run), f"{run} is gone")


@pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
async def test_users_may_do_what_their_kubernetes_roles_allow(
    real_control_plane: RealServer, cluster: Cluster, http: httpx2.AsyncClient
) -> None:
    """Without a role, users may do nothing. With a role in a namespace, they may read and write only there. The
    embedded server has one user, so it is not tested."""
    ada = {"Authorization": f"Bearer {real_control_plane.tokens['ada']}"}
    await submit(http, "theirs")
    path = f"/v1/runs/{cluster.namespace}/theirs"
    assert (await http.get("/v1/version", headers=ada)).json()["user"] == "ada"
    assert (await http.get("/v1/runs", headers=ada)).json()["items"] == []
    for method, target in (("GET", path), ("GET", f"{path}/logs"), ("DELETE", path), ("POST", f"{path}/stop")):
        assert (await http.request(method, target, headers=ada)).status_code == 403, target
    assert (await http.post("/v1/runs", headers=ada, json={"spec": SPEC})).status_code == 403
    assert (await http.get("/v1/gpus", headers=ada)).status_code == 200

    rules = [{"apiGroups": [names.GROUP], "resources": [names.PLURAL], "verbs": ["*"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "runner"}}
    apply = {"kind": PatchKind.APPLY, "force": True}
    await cluster.client.patch(CLUSTER_ROLES, "runner", role | {"rules": rules}, **apply)  # type: ignore[arg-type]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ada"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "runner"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}],
    }
    await cluster.client.create(ROLE_BINDINGS, binding, cluster.namespace)
    made = await _until_allowed(http, ada)
    assert made["owner"] == "ada"
    stored = await cluster.client.get(RUNS, made["name"], cluster.namespace)
    assert stored["metadata"]["annotations"][names.ANNOTATION_OWNER] == "ada"
    elsewhere = await http.post("/v1/runs", headers=ada, json={"namespace": "default", "spec": SPEC})
    assert elsewhere.status_code == 403


async def _until_allowed(http: httpx2.AsyncClient, headers: dict[str, str]) -> dict[str, Any]:
    """Repeat a submission until the API server has seen the new binding."""
    async with asyncio.timeout(60):
        while True:
            response = await http.post("/v1/runs", headers=headers, json={"name": "mine", "spec": SPEC})
            if response.status_code == 201:
                made: dict[str, Any] = response.json()
                return made
            await asyncio.sleep(0.1)


async def test_nodes_that_run_out_of_addresses_are_named(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    """The finding follows from the Pod ranges and the capacities of their Nodes."""
    name = f"narrow-{cluster.namespace}"
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "110"}
    spec = {"podCIDR": "10.250.0.0/28", "podCIDRs": ["10.250.0.0/28"], "unschedulable": True}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
    await cluster.client.create(NODES, {**body, "status": {"capacity": amounts, "allocatable": amounts}})
    try:
        await cluster.until(lambda: cluster.mirror.nodes.get(name), "the mirror to show the node")
        items = {item["name"]: item for item in (await http.get("/v1/networks/use")).json()["items"]}
        assert items[name] == {
            "name": name,
            "podCidrs": ["10.250.0.0/28"],
            "addresses": 13,
            "mostPods": 110,
            "pods": 0,
            "runsOut": "its kubelet admits 110 Pods, but 10.250.0.0/28 has 13 addresses for them",
        }
    finally:
        await cluster.client.delete(NODES, name)
