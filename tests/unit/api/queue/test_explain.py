"""What a run that waits lacks, and who holds it."""

from __future__ import annotations

from typing import Any

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, node, pod, run
from tests.unit.api.steps import get, hold

from kajitori.core.spec.status_parts.attempts import template_text


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
