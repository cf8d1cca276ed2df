"""Nodes, the GPU board, explain, policy, health and metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.helpers.gpus import nvidia_slices as nvidia
from tests.unit.api.conftest import Clock, World
from tests.unit.api.fake_kubernetes import attempts, node, pod, run

from kajitori.api.context import Remembered
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import parse_policy
from kajitori.core.protection.token_bucket import Allowances
from kajitori.core.spec.status_parts.attempts import template_text
from kajitori.kube.device_objects import DeviceClaim, PublishedClass, ResourceSlice
from kajitori.kube.resources import DEVICE_CLAIMS, RESOURCE_SLICES

GPUS_8 = {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}}


async def get(world: World, path: str) -> Any:
    response = await world.http.get(path)
    assert response.status_code == 200, response.text
    return response.json()


async def hold(world: World, name: str, *, owner: str, node: str, gpus: int) -> None:
    """-"""
    made = world.kubernetes.put("runs", run(name, owner=owner) | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made, node=node, gpus=gpus))


async def test_nodes_show_their_usage_and_why_they_take_no_work(world: World) -> None:
    world.kubernetes.put("nodes", node("g2", gpus=8, gpu_type="h100", cordoned=True))
    world.kubernetes.put("nodes", node("g3", gpus=8, gpu_type="h100", ready=False))
    await hold(world, "bert", owner="ada", node="g1", gpus=6)
    await world.caught_up()
    found = {item["name"]: item for item in (await get(world, "/v1/nodes"))["items"]}
    assert found["g1"]["gpus"] == {"total": 8, "used": 6}
    assert found["g1"]["cpuMillis"] == {"total": 32_000, "used": 1000}
    assert found["g1"]["gpuType"] == "h100"
    assert [found[name]["why"] for name in ("n1", "g1", "g2", "g3")] == ["", "", "cordoned", "not ready: silent"]


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


async def test_a_ready_node_that_is_still_tainted_is_explained(world: World) -> None:
    """`kubectl get nodes` shows it as Ready before the taint is removed, so it is not called "not ready"."""
    fresh = node("g2", gpus=8, gpu_type="h100")
    fresh["spec"]["taints"] = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    world.kubernetes.put("nodes", fresh)
    world.kubernetes.put("runs", run("bert", phase="Queued", resources={"gpu": 8, "gpuType": "h100"}, replicas=2))
    await world.caught_up()
    shown = await get(world, "/v1/nodes/g2")
    assert (shown["ready"], shown["why"]) == (True, "Ready, but still tainted node.kubernetes.io/not-ready")
    explained = await get(world, "/v1/runs/team/bert/explain")
    assert [(group["why"], group["nodes"]) for group in explained["blocked"]] == [
        ("still tainted node.kubernetes.io/not-ready", "g2")
    ]


async def test_a_node_is_drained_in_the_callers_name(world: World) -> None:
    """A second drain keeps the first caller's name; uncordon undoes both. The health history keeps both, and a mark
    that `kubectl uncordon` left does not hide the next drain's reason."""
    response = await world.http.post("/v1/nodes/g1/drain")
    assert response.status_code == 200
    assert (response.json()["draining"], response.json()["why"]) == (True, "drained by ada")
    await world.http.post("/v1/nodes/g1/drain", headers={"Authorization": "Bearer grace"})
    await world.caught_up()
    written = world.kubernetes.get("nodes", "g1", "")
    assert (written["spec"]["unschedulable"], written["metadata"]["annotations"]["kajitori.dev/drain"]) == (True, "ada")
    assert (await get(world, "/v1/nodes/g1"))["why"] == "drained by ada"
    assert ("PATCH", "/api/v1/nodes/g1", "ada") in world.kubernetes.requests

    response = await world.http.post("/v1/nodes/g1/uncordon")
    assert (response.json()["draining"], response.json()["schedulable"], response.json()["why"]) == (False, True, "")
    assert "kajitori.dev/drain" not in world.kubernetes.get("nodes", "g1", "")["metadata"]["annotations"]
    said = [entry["says"] for entry in response.json()["health"]]
    assert said == ["drained by ada", "takes work again, by ada"]
    left = {"kajitori.dev/drain": "ada: earlier"}
    world.kubernetes.change("nodes", "g1", "", metadata={"annotations": left}, spec={})
    response = await world.http.post("/v1/nodes/g1/drain", json={"reason": "loud\nfan "})
    assert response.json()["why"] == "drained by ada: loud fan"
    world.kubernetes.put("runs", run("bert", phase="Queued", resources={"gpu": 8, "gpuType": "h100"}, replicas=2))
    await world.caught_up()
    explained = await get(world, "/v1/runs/team/bert/explain")
    assert [(group["why"], group["nodes"]) for group in explained["blocked"]] == [("drained by ada: loud fan", "g1")]
    assert [(step["kind"], step["why"]) for step in explained["toFree"]] == [("cordoned", "drained by ada: loud fan")]


async def test_a_drain_without_rights_or_of_an_unknown_node_is_refused(world: World) -> None:
    world.kubernetes.denied.add(("ada", "patch", "nodes", "*"))
    response = await world.http.post("/v1/nodes/g1/drain")
    assert response.status_code == 403
    assert "kubectl auth can-i patch nodes" in response.json()["hint"]
    assert "unschedulable" not in world.kubernetes.get("nodes", "g1", "").get("spec", {})
    response = await world.http.post("/v1/nodes/g7/drain")
    assert (response.status_code, response.json()["hint"]) == (404, "known: g1, g2, n1")


def test_costly_answers_are_remembered_and_cheap_ones_are_computed() -> None:
    """Computing takes at most a twentieth of the time, and no answer is older than a second."""
    clock = Clock()
    remembered = Remembered(clock, share=0.05, longest_seconds=1.0)
    made: list[float] = []

    def make(cost_seconds: float) -> bytes:
        clock.now += cost_seconds
        made.append(cost_seconds)
        return str(len(made)).encode()

    def ask(key: str, cost_seconds: float, *, after: float) -> bytes:
        clock.now += after
        return remembered.get(key, lambda: make(cost_seconds))

    assert [ask("cheap", 0.0, after=0.0) for _ in range(3)] == [b"1", b"2", b"3"]
    assert [ask("nodes", 0.02, after=0.15) for _ in range(5)] == [b"4", b"4", b"4", b"5", b"5"]
    assert [ask("all", 5.0, after=0.6) for _ in range(4)] == [b"6", b"6", b"7", b"7"]


async def test_a_node_lists_the_pods_on_it(world: World) -> None:
    await hold(world, "bert", owner="ada", node="g1", gpus=6)
    stranger = {"metadata": {"name": "web", "namespace": "other"}, "spec": {"nodeName": "g1", "containers": []}}
    world.kubernetes.put("pods", stranger)
    await world.caught_up()
    first, second = (await get(world, "/v1/nodes/g1"))["members"]
    assert (first["holder"], first["owner"], first["isRun"], first["rank"], first["gpus"]) == (
        "team/bert",
        "ada",
        True,
        0,
        6,
    )
    assert (second["holder"], second["owner"], second["isRun"], second["rank"]) == ("other/web", "", False, None)
    response = await world.http.get("/v1/nodes/g9")
    assert response.status_code == 404
    assert response.json()["hint"].startswith(("did you mean", "known"))


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


async def test_explain_names_what_is_missing_and_who_holds_it(world: World) -> None:
    await hold(world, "big", owner="grace", node="g1", gpus=8)
    queued = {"phase": "Queued", "queuedAt": "2026-11-21T10:05:00Z"}
    wants: dict[str, Any] = {"resources": {"gpu": 8, "gpuType": "h100"}}
    world.kubernetes.put("runs", run("mine", replicas=2, **wants) | {"status": queued})
    earlier = queued | {"queuedAt": "2026-11-21T10:04:00Z"}
    world.kubernetes.put("runs", run("before", replicas=2, **wants) | {"status": earlier})
    world.kubernetes.put("runs", run("lower", priority="low", **wants) | {"status": earlier})
    await world.caught_up()
    answer = await get(world, "/v1/runs/team/mine/explain")
    assert (answer["phase"], answer["reason"]) == ("Queued", "WaitingForGPU")
    assert answer["missing"] == {"members": 1, "gpu": 8}
    assert (answer["members"], answer["fitNow"], answer["ahead"]) == (2, 1, 1)
    (holder,) = answer["held"]
    assert (holder["holder"], holder["owner"], holder["gpus"], holder["nodes"]) == ("team/big", "grace", 8, "g1")
    assert answer["room"] == {"free": 1, "reserved": 0, "held": 1, "cordoned": 0, "broken": 0}
    assert [(step["kind"], step["name"]) for step in answer["toFree"]] == [
        ("run", "team/big"),
        ("ahead", "team/before"),
    ]
    (step, _) = answer["toFree"]
    assert (step["owner"], step["gpus"], step["nodes"]) == ("grace", 8, "g1")
    assert answer["exact"] is True
    first = await get(world, "/v1/runs/team/before/explain")
    assert [(step["kind"], step["name"]) for step in first["toFree"]] == [("run", "team/big")]


async def test_explaining_a_run_that_does_not_wait_returns_its_status(world: World) -> None:
    world.kubernetes.put("runs", run("bert") | {"status": {"phase": "Failed", "reason": "NodeLost", "message": "g1"}})
    await world.caught_up()
    assert await get(world, "/v1/runs/team/bert/explain") == {"phase": "Failed", "reason": "NodeLost", "message": "g1"}


async def test_explaining_a_running_elastic_gang_says_when_it_can_grow(world: World) -> None:
    """The message has the number of its members, the room for more, and the conditions with their times."""
    size: dict[str, Any] = {"replicas": 2, "minReplicas": 1, "resources": {"gpu": 8, "gpuType": "h100"}}
    members = {"total": 1, "pending": 0, "running": 1, "succeeded": 0, "failed": 0}
    status = attempts(1, phase="Running", members=members)
    status["attempt"] |= {"nodes": "g1", "worldSize": 1, "startedAt": "2026-11-21T11:00:00Z"}
    bert = world.kubernetes.put("runs", run("bert", **size) | {"status": status})
    world.kubernetes.put("pods", pod(bert, node="g1", gpus=8))
    await world.caught_up()
    message = "1 of 1-2 members; there is room for 1 more: it restarts with them once there has been room for 10m and "
    assert (await get(world, "/v1/runs/team/bert/explain"))["message"] == f"{message}it has run for 30m"
    queued = {"phase": "Queued", "queuedAt": "2026-11-21T10:05:00Z"}
    wants: dict[str, Any] = {"replicas": 2, "resources": {"gpu": 8, "gpuType": "h100"}}
    world.kubernetes.put("runs", run("mine", **wants) | {"status": queued})
    await world.caught_up()
    message = "1 of 1-2 members; there is no room for more beside the waiting runs"
    assert (await get(world, "/v1/runs/team/bert/explain"))["message"] == message


async def test_a_run_that_cannot_start_says_until_when_it_keeps_its_nodes(world: World) -> None:
    """Also to a run that waits for them. The time counts from the last member that was created or started."""
    wants: dict[str, Any] = {"resources": {"gpu": 8, "gpuType": "h100"}}
    status = attempts(1, phase="Starting", reason="ImagePull", message="1 member not running yet")
    status["attempt"] |= {"nodes": "g1", "startedAt": "", "plannedAt": "2026-11-21T11:57:00Z"}
    held = world.kubernetes.put("runs", run("typo", owner="grace", **wants) | {"status": status})
    member = pod(held, node="g1", phase="Pending", gpus=8)
    member["metadata"]["creationTimestamp"] = "2026-11-21T11:57:30Z"
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    member["status"]["containerStatuses"] = [{"name": "main", "state": {"waiting": waiting}}]
    world.kubernetes.put("pods", member)
    world.kubernetes.put("nodes", node("g2", gpus=8, gpu_type="h100", cordoned=True))
    world.kubernetes.put("runs", run("mine", **wants) | {"status": {"phase": "Queued"}})
    await world.caught_up()
    message = "1 member not running yet; if none of its members starts within 7m30s, its nodes become free and it is "
    assert (await get(world, "/v1/runs/team/typo/explain"))["message"] == f"{message}tried again later"
    steps = (await get(world, "/v1/runs/team/mine/explain"))["toFree"]
    assert [(step["name"], step["why"]) for step in steps] == [("team/typo", "cannot start: ImagePull")]
    note = {"rank": 0, "attempt": 1, "node": "g1", "reason": "ImagePull", "message": "no such image"}
    tried = {"phase": "Queued", "attempts": 2, "failedStarts": 2, "notable": [note]}
    world.kubernetes.put("runs", run("again", **wants) | {"status": tried})
    await world.caught_up()
    message = (await get(world, "/v1/runs/team/again/explain"))["message"]
    assert message.endswith("; it had nodes 2 times and did not start: ImagePull, no such image")


async def test_nodes_of_a_starting_run_are_not_free_for_others(world: World) -> None:
    """Its Pods are not bound yet."""
    wants: dict[str, Any] = {"resources": {"gpu": 8, "gpuType": "h100"}}
    requests = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "8"}
    template = {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    attempt = {"number": 1, "nodes": "g[1-2]", "created": True, "template": template_text(template)}
    starting = {"phase": "Starting", "attempts": 1, "attempt": attempt}
    world.kubernetes.put("runs", run("first", replicas=2, **wants) | {"status": starting})
    world.kubernetes.put("runs", run("second", **wants) | {"status": {"phase": "Queued"}})
    await world.caught_up()
    assert (await get(world, "/v1/runs/team/second/explain"))["fitNow"] == 0


async def test_the_policy_is_shown_and_another_one_can_be_checked(world: World) -> None:
    current = await get(world, "/v1/policy")
    assert current["version"] == 1
    assert (current["faults"], current["findings"]) == ([], [])
    assert current["policy"]["defaults"]["restarts"] == 3
    good = await world.http.post("/v1/policy/check", content=b"defaults: {restarts: 7}")
    assert good.json()["policy"]["defaults"]["restarts"] == 7
    bad = await world.http.post("/v1/policy/check", content=b"defaults: {restarts: -1}\nceilngs: {}\n")
    assert bad.status_code == 422
    assert len(bad.json()["faults"]) == 2
    assert any("line 2" in fault["field"] for fault in bad.json()["faults"])


async def test_objects_that_the_caller_may_not_read_are_notes(world: World) -> None:
    """The lookup uses the caller's rights: what they do not show is neither there nor missing."""
    world.kubernetes.denied.add(("ada", "get", "secrets", "team"))
    policy = b"{checkpoint: {kind: none}, images: {pullSecrets: [registry]}, network: {enforced: false}}"
    for user, is_readable in (("ada", False), ("bob", True)):
        headers = {"Authorization": f"Bearer {user}"}
        answer = (await world.http.post("/v1/policy/cluster", content=policy, headers=headers)).json()
        assert ("images.pullSecrets[0]" in {fault["field"] for fault in answer["faults"]}) is is_readable
        assert (
            bool([note for note in answer["notes"] if "images.pullSecrets[0] is not checked" in note])
            is not is_readable
        )


async def test_the_server_is_ready_only_while_the_api_server_answers(world: World) -> None:
    """It is alive all the time."""
    assert (await world.http.get("/readyz")).json()["status"] == "ok"
    world.kubernetes.failing = True
    assert (await world.http.get("/readyz")).status_code == 503
    assert (await world.http.get("/healthz")).status_code == 200


async def test_readiness_checks_share_requests_to_the_api_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readiness needs no credentials, so a flood of checks must not become a flood on the API server."""
    asked, request = [], world.api.client.request

    async def answered_late(*args: Any, **options: Any) -> bytes:
        asked.append(args)
        await asyncio.sleep(0)
        world.clock.now += 0.01
        return await request(*args, **options)

    monkeypatch.setattr(world.api.client, "request", answered_late)
    answers = await asyncio.gather(*(world.http.get("/readyz") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(asked) == 1
    world.clock.now += 2.0
    await world.http.get("/readyz")
    assert len(asked) == 2


async def test_the_server_is_not_ready_before_its_dependencies_are(world: World) -> None:
    """In `kaji up` it waits for the node of the user's machine."""
    awaited = ["the node laptop is not ready for runs yet"]
    world.change("process", awaited=lambda: "".join(awaited))
    answer = await world.http.get("/readyz")
    assert (answer.status_code, answer.json()["detail"]) == (503, awaited[0])
    awaited.clear()
    assert (await world.http.get("/readyz")).status_code == 200


async def test_a_refusal_of_the_servers_own_credentials_is_not_the_callers(world: World) -> None:
    """If they have expired, the answer is 503, never a 401, which would make users log in again."""
    world.kubernetes.put("runs", run("bert", phase="Running"))
    await world.caught_up()
    assert (await world.http.get("/v1/runs/team/bert")).status_code == 200
    world.kubernetes.unknown_tokens.add("server")
    for path in ("/readyz", "/v1/runs/team/bert/events"):
        answer = await world.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "Unavailable"), path
        assert "this server" in answer.json()["detail"]
        assert "www-authenticate" not in answer.headers


async def test_metrics_follow_the_cluster_and_name_no_run_or_user(world: World) -> None:
    await hold(world, "bert", owner="ada", node="g1", gpus=6)
    await world.caught_up()
    await world.http.get("/v1/runs/team/bert")
    text = (await world.http.get("/metrics")).text
    assert 'kajitori_runs{phase="Running"} 1.0' in text
    assert 'kajitori_gpus{state="used",type="h100"} 6.0' in text
    assert 'kajitori_nodes{state="ready"} 3.0' in text
    assert "kajitori_mirror_synced 1.0" in text
    assert (
        'kajitori_api_request_seconds_count{method="GET",route="/v1/runs/{namespace}/{name}",status="200"} 1.0' in text
    )
    assert "bert" not in text
    assert "ada" not in text


async def test_an_unhealthy_node_counts_only_as_unhealthy(world: World) -> None:
    """It needs attention first; `why` also says that it is cordoned."""
    unhealthy = {"key": "kajitori.dev/unhealthy", "value": "GpuLost", "effect": "NoSchedule"}
    for name, cordoned, ready in (("g1", True, True), ("g2", False, False), ("g3", False, True)):
        sick = node(name, gpus=8, gpu_type="h100", cordoned=cordoned, ready=ready)
        sick["spec"] = {**sick.get("spec", {}), "taints": [unhealthy]}
        world.kubernetes.put("nodes", sick)
    await world.caught_up()
    text = (await world.http.get("/metrics")).text
    assert 'kajitori_nodes{state="unhealthy"} 3.0' in text
    assert 'kajitori_nodes{state="cordoned"} 0.0' in text
    assert 'kajitori_nodes{state="notReady"} 0.0' in text
    found = {item["name"]: item["why"] for item in (await get(world, "/v1/nodes"))["items"]}
    assert found["g1"] == "unhealthy: GpuLost; cordoned"


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


async def test_the_lag_of_the_mirror_is_measured(world: World) -> None:
    await world.http.post("/v1/runs", json={"spec": {"image": "bert:3"}})
    await world.caught_up()
    assert "kajitori_mirror_lag_seconds_count 1.0" in (await world.http.get("/metrics")).text


async def test_idle_gpus_are_counted_by_type_and_holder(world: World) -> None:
    await hold(world, "nb", owner="ada", node="g1", gpus=4)
    idle = {"since": "2026-11-21T09:00:00Z", "attempt": 1, "gpus": 4, "gpuType": "h100", "fewest": 4, "most": 4}
    stored = world.kubernetes.objects["runs", "team", "nb"]
    world.kubernetes.put("runs", stored | {"status": stored["status"] | {"phase": "Running", "idle": idle}})
    await world.caught_up()
    assert 'kajitori_gpus_idle{type="h100"} 4.0' in (await world.http.get("/metrics")).text
    board = await get(world, "/v1/gpus")
    assert [(row["type"], row["used"], row["idle"]) for row in board["types"] if row["used"]] == [("h100", 4, 4)]
    assert [(user["owner"], user["gpus"], user["idle"]) for user in board["users"]] == [("ada", 4, 4)]


async def test_runs_without_progress_are_counted_by_verdict(world: World) -> None:
    """A suspicion that an older version left in an ended run does not count."""
    since = {"since": "2026-11-21T09:00:00Z", "attempt": 1}
    for name, phase, verdict in (
        ("a", "Running", "suspected"),
        ("b", "Running", "stuck"),
        ("c", "Running", "stuck"),
        ("d", "Failed", "stuck"),
    ):
        await hold(world, name, owner="ada", node="g1", gpus=1)
        stored = world.kubernetes.objects["runs", "team", name]
        status = stored["status"] | {"phase": phase, "stuck": since | {"verdict": verdict}}
        world.kubernetes.put("runs", stored | {"status": status})
    await world.caught_up()
    text = (await world.http.get("/metrics")).text
    assert 'kajitori_runs_stuck{verdict="suspected"} 1.0' in text
    assert 'kajitori_runs_stuck{verdict="stuck"} 2.0' in text


async def test_runs_with_a_health_check_are_counted_by_health(world: World) -> None:
    """The health that an ended run had does not count."""
    for name, phase, health in (("a", "Running", "unhealthy"), ("b", "Running", "healthy"), ("c", "Failed", "healthy")):
        await hold(world, name, owner="ada", node="g1", gpus=1)
        stored = world.kubernetes.objects["runs", "team", name]
        world.kubernetes.put(
            "runs", stored | {"status": stored["status"] | {"phase": phase, "health": {"status": health}}}
        )
    await world.caught_up()
    text = (await world.http.get("/metrics")).text
    for health, count in (("unhealthy", 1), ("healthy", 1), ("starting", 0)):
        assert f'kajitori_runs_checked{{health="{health}"}} {count}.0' in text


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
