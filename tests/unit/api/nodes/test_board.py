"""The board: free and used GPUs by type, and who holds them."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.helpers.gpus import nvidia_slices as nvidia
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, node, pod, run
from tests.unit.api.steps import get, hold

from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import parse_policy
from kajitori.core.protection.token_bucket import Allowances
from kajitori.core.spec.status_parts.attempts import template_text
from kajitori.kube.device_objects import DeviceClaim, PublishedClass, ResourceSlice
from kajitori.kube.resources import DEVICE_CLAIMS, RESOURCE_SLICES

GPUS_8 = {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}}


async def test_devices_are_on_the_board_by_type(world: World) -> None:
    """A slice in use takes a whole GPU away. The free GPUs of both ways of offering them add up."""
    devices, counters = nvidia.partitionable(0)
    for written in nvidia.driver_classes():
        world.mirror.device_classes[written["metadata"]["name"]] = msgspec.convert(written, PublishedClass)
    for written in nvidia.slices("n1", [*devices, nvidia.gpu(1)], [counters]):
        world.mirror.slices[written["metadata"]["name"]] = msgspec.convert(written, ResourceSlice)
        world.mirror._notify(RESOURCE_SLICES, "", written["metadata"]["name"])
    results = [{"driver": nvidia.DRIVER, "pool": "n1", "device": "gpu-0-mig-1g10gb-19-3"}]
    claim = {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}
    world.mirror.device_claims["", "c"] = msgspec.convert(claim, DeviceClaim)
    world.mirror._notify(DEVICE_CLAIMS, "", "c")
    types = {row["type"]: (row["free"], row["used"], row["total"]) for row in (await get(world, "/v1/gpus"))["types"]}
    assert types == {"h100": (17, 1, 18), "h100-mig-1g.10gb": (6, 1, 7), "h100-mig-3g.40gb": (1, 1, 2)}
    shown = await get(world, "/v1/nodes/n1")
    assert (shown["gpuType"], shown["gpus"]) == ("h100", {"total": 2, "used": 1})
    assert shown["partialGpus"] == {
        "h100-mig-1g.10gb": {"total": 7, "used": 1},
        "h100-mig-3g.40gb": {"total": 2, "used": 1},
    }


async def test_the_gpu_board_adds_up(world: World) -> None:
    """Used, free and broken GPUs are all GPUs of a type; users are listed by the number of GPUs that they hold."""
    world.kubernetes.put("nodes", node("g2", gpus=8, gpu_type="h100", cordoned=True))
    sick = node("g4", gpus=8, gpu_type="a100")
    sick["status"]["allocatable"] = {**sick["status"]["allocatable"], "nvidia.com/gpu": "7"}
    world.kubernetes.put("nodes", sick)
    await hold(world, "bert", owner="ada", node="g1", gpus=4)
    await hold(world, "gpt", owner="grace", node="g2", gpus=5)
    await hold(world, "old", owner="ada", node="g4", gpus=2)
    await world.caught_up()
    board = await get(world, "/v1/gpus")
    assert board["types"] == [
        {"type": "h100", "total": 16, "used": 9, "idle": 0, "free": 4, "broken": 3},
        {"type": "a100", "total": 8, "used": 2, "idle": 0, "free": 5, "broken": 1},
    ]
    assert [(user["owner"], user["gpus"], user["types"]) for user in board["users"]] == [
        ("ada", 6, {"h100": 4, "a100": 2}),
        ("grace", 5, {"h100": 5}),
    ]
    assert board["users"][0]["runs"][0] | {"since": ""} == {
        "name": "bert",
        "namespace": "team",
        "isRun": True,
        "gpus": 4,
        "idle": 0,
        "type": "h100",
        "nodes": "g1",
        "since": "",
    }


async def test_gpus_of_members_that_are_still_starting_are_used(world: World) -> None:
    """From the moment the attempt is stored they count on the board, of the node and in metrics; once a member is
    bound, its GPUs still count once."""
    template = template_text({"spec": {"containers": [{"name": "main", "resources": GPUS_8}]}})
    attempt = {"number": 1, "nodes": "g[1-2]", "template": template, "plannedAt": "2026-11-21T10:00:00Z"}
    starting = {"phase": "Starting", "attempts": 1, "attempt": attempt, "members": {"total": 2}}
    gang = run("bert", owner="ada", replicas=2, resources={"gpu": 8}) | {"status": starting}
    made = world.kubernetes.put("runs", gang)
    for bound in (0, 1):
        if bound:
            world.kubernetes.put("pods", pod(made, node="g1", phase="Pending", gpus=8))
        await world.caught_up()
        world.clock.now += 10
        board = await get(world, "/v1/gpus")
        assert board["types"] == [{"type": "h100", "total": 16, "used": 16, "idle": 0, "free": 0, "broken": 0}], bound
        (user,) = board["users"]
        assert (user["owner"], user["gpus"], user["runs"][0]["nodes"]) == ("ada", 16, "g[1-2]")
        nodes = {item["name"]: item["gpus"]["used"] for item in (await get(world, "/v1/nodes"))["items"]}
        assert nodes == {"g1": 8, "g2": 8, "n1": 0}
        assert (await get(world, "/v1/nodes/g2"))["gpus"] == {"total": 8, "used": 8}
        text = (await world.http.get("/metrics")).text
        assert 'kajitori_gpus{state="free",type="h100"} 0.0' in text


async def test_guarantees_of_teams_and_their_use_are_shown(world: World) -> None:
    """They are on the GPU board, in metrics, and in the explanation of a waiting run."""
    rules = {"guarantees": [{"namespace": "team", "gpuType": "h100", "gpus": 4}, {"namespace": "nlp", "cpu": 16}]}
    world.api.policy.complete(lambda _: parse_policy(rules))
    status: dict[str, Any] = {"phase": "Running", "members": {"total": 1, "running": 1}}
    status["startedAt"] = "2026-11-21T10:00:05Z"
    template = template_text({"spec": {"containers": [{"name": "main", "resources": GPUS_8}]}})
    held = attempts(1, **status)
    held["attempt"] |= {"nodes": "g1", "template": template}
    made = world.kubernetes.put("runs", run("bert", owner="ada", resources={"gpu": 8}) | {"status": held})
    world.kubernetes.put("pods", pod(made, node="g1", gpus=8))
    world.kubernetes.put("runs", run("next", replicas=2, resources={"gpu": 8}))
    await world.caught_up()
    board = await get(world, "/v1/gpus")
    mine = {"namespace": "team", "gpuType": "h100", "gpus": {"total": 4, "used": 8}}
    nothing_of = {"cpuMillis": None, "memoryBytes": None, "nodes": None}
    assert board["guarantees"][0] == mine | nothing_of
    assert board["guarantees"][1]["cpuMillis"] == {"total": 16_000, "used": 0}
    assert [(team["namespace"], team["gpus"], team["types"]) for team in board["teams"]] == [("team", 8, {"h100": 8})]
    text = (await world.http.get("/metrics")).text
    assert 'kajitori_guaranteed{resource="gpus",team="team",type="h100"} 4.0' in text
    assert 'kajitori_guaranteed_used{resource="gpus",team="team",type="h100"} 8.0' in text
    assert 'kajitori_guaranteed{resource="cores",team="nlp",type=""} 16.0' in text
    assert (await get(world, "/v1/runs/team/next/explain"))["guarantees"] == [mine | nothing_of]


async def test_the_board_needs_no_sign_in_only_if_policy_says_so(world: World) -> None:
    await hold(world, "secretive", owner="ada", node="g1", gpus=4)
    await world.caught_up()
    assert (await world.http.get("/v1/board")).status_code == 200
    del world.http.headers["Authorization"]
    assert (await world.http.get("/v1/board")).status_code == 401
    policy = PolicyFile(None, without_file=parse_policy({"board": "public"}))
    world.change(cluster=ClusterView(world.mirror, policy))
    shown = await world.http.get("/v1/board")
    assert (shown.status_code, shown.headers["cache-control"]) == (200, "public, max-age=10")
    assert [(held["owner"], held["gpus"]) for held in shown.json()["holdings"]] == [("ada", 4)]
    assert "secretive" not in shown.text and "g1" not in shown.text
    assert (await world.http.get("/v1/gpus")).status_code == 401
    world.change("callers", board=Allowances(1, 1))
    statuses = [(await world.http.get("/v1/board")).status_code for _ in range(3)]
    assert statuses == [200, 429, 429]
