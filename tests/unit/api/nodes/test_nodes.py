"""Nodes: how much of them is used, why they take no work, and how they are drained."""

from __future__ import annotations

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import node, run
from tests.unit.api.steps import get, hold


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
