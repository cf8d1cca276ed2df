"""The health of nodes as the Web API shows it, and the requests that change it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import run

from kajitori.core.naming import names
from kajitori.core.nodes.health import DRAINED_BY, PREFLIGHT_FAILED
from kajitori.core.nodes.trail import TrailEvent, new_entry, read_trail, write_trail
from kajitori.core.policy.file import Policy
from kajitori.core.policy.nodes.health import Preflight

OTHER = {"key": "team", "value": "vision", "effect": "NoSchedule"}
SICK = {"key": names.TAINT_UNHEALTHY, "value": PREFLIGHT_FAILED, "effect": "NoSchedule"}
NEW = {"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"}
OUT = new_entry(
    NOW - timedelta(hours=1), TrailEvent.OUT, PREFLIGHT_FAILED, evidence=["exit code 1: 7 of 8 GPUs"], run="test-g1"
)


async def mark(world: World, name: str, *taints: dict[str, str], trail: tuple[Any, ...] = (), **spec: Any) -> None:
    """Put these taints, this trail and these annotations on a Node."""
    annotations = {names.ANNOTATION_HEALTH: write_trail(trail)} if trail else {}
    annotations |= spec.pop("annotations", {})
    world.kubernetes.change("nodes", name, "", metadata={"annotations": annotations}, spec={"taints": taints, **spec})
    await world.caught_up()


def use_test(world: World, **rules: Any) -> None:
    preflight = Preflight.model_validate({"image": "preflight:1", "namespace": "ops", **rules})

    def complete(policy: Policy) -> Policy:
        return policy.model_copy(update={"preflight": preflight})

    world.api.policy.complete(complete)


async def get(world: World, name: str) -> Any:
    response = await world.http.get(f"/v1/nodes/{name}")
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_reason_and_the_trail_of_an_unhealthy_node_are_shown(world: World) -> None:
    await mark(
        world, "g1", SICK, trail=(new_entry(NOW - timedelta(hours=2), TrailEvent.PASSED, by="ben", run="test-0"), OUT)
    )
    view = await get(world, "g1")
    assert view["why"] == "unhealthy: PreflightFailed: exit code 1: 7 of 8 GPUs"
    assert [entry["says"] for entry in view["health"]] == [
        "passed its test, asked for by ben",
        "out of the pool: PreflightFailed; exit code 1: 7 of 8 GPUs",
    ]
    assert view["test"]["state"] == "failed"
    assert view["test"]["run"] == "test-g1"
    board = (await world.http.get("/v1/gpus")).json()["types"][0]
    assert (board["total"], board["free"], board["broken"]) == (16, 8, 8)


async def test_a_node_marked_by_hand_and_an_untested_one_are_explained(world: World) -> None:
    await mark(world, "g1", SICK | {"value": "smoke"})
    assert (await get(world, "g1"))["why"] == "unhealthy: smoke"
    await mark(world, "g2", NEW)
    assert (await get(world, "g2"))["why"] == "not tested, and the policy has no test for it (preflight)"
    use_test(world)
    assert (await get(world, "g2"))["why"] == "not tested yet"
    cannot = new_entry(NOW, TrailEvent.UNTESTED, evidence=["no such image"], run="test-g2")
    await mark(world, "g2", NEW, trail=(cannot,))
    assert (await get(world, "g2"))["why"] == "not tested yet; could not be tested; no such image"


async def test_a_user_puts_a_node_back_into_the_pool(world: World) -> None:
    """Taints of others stay, and the trail names the user. A repeated request changes nothing."""
    drained = {names.ANNOTATION_DRAIN: f"{DRAINED_BY}{PREFLIGHT_FAILED}"}
    await mark(world, "g1", OTHER, SICK, NEW, trail=(OUT,), unschedulable=True, annotations=drained)
    response = await world.http.post("/v1/nodes/g1/healthy")
    assert (response.status_code, response.json()["why"], response.json()["schedulable"]) == (200, "", True)
    written = world.kubernetes.get("nodes", "g1", "")
    assert written["spec"]["taints"] == [OTHER]
    assert names.ANNOTATION_DRAIN not in written["metadata"]["annotations"]
    trail = read_trail(written["metadata"]["annotations"][names.ANNOTATION_HEALTH])
    assert (trail[0], trail[-1].what, trail[-1].by, len(trail)) == (OUT, TrailEvent.BACK, "ada", 2)
    assert ("PATCH", "/api/v1/nodes/g1", "ada") in world.kubernetes.requests
    await world.http.post("/v1/nodes/g1/healthy")
    assert world.kubernetes.get("nodes", "g1", "") == written, "asked twice, it is done once"


async def test_an_operators_own_cordon_stays(world: World) -> None:
    await mark(world, "g1", SICK, trail=(OUT,), unschedulable=True, annotations={names.ANNOTATION_DRAIN: "ben"})
    response = await world.http.post("/v1/nodes/g1/healthy")
    assert response.json()["why"] == "drained by ben"


async def test_a_drain_for_health_becomes_the_operators_own(world: World) -> None:
    """Else the controller would end it as soon as the node looks healthy."""
    mine = {names.ANNOTATION_DRAIN: f"{DRAINED_BY}{PREFLIGHT_FAILED}"}
    await mark(world, "g1", SICK, trail=(OUT,), unschedulable=True, annotations=mine)
    response = await world.http.post("/v1/nodes/g1/drain", json={"reason": "new fan"})
    assert [entry["says"] for entry in response.json()["health"]][1:] == ["drained by ada: new fan"]
    assert world.kubernetes.get("nodes", "g1", "")["metadata"]["annotations"][names.ANNOTATION_DRAIN] == "ada: new fan"


async def test_a_requested_test_is_recorded_and_shown(world: World) -> None:
    use_test(world)
    response = await world.http.post("/v1/preflight", json={"nodes": ["g1", "g1"]})
    assert (response.status_code, response.json()) == (200, {"nodes": ["g1"]})
    written = world.kubernetes.get("nodes", "g1", "")
    assert written["metadata"]["annotations"] == {names.ANNOTATION_TEST_WANTED: "ada"}
    await world.caught_up()
    shown = (await get(world, "g1"))["test"]
    assert (shown["state"], shown["by"]) == ("asked", "ada")
    test = run("test-g1", namespace="ops") | {"status": {"phase": "Queued", "message": "needs 8 GPUs", "members": {}}}
    test["metadata"]["annotations"] = {names.ANNOTATION_TESTED_NODE: "g1"}
    world.kubernetes.put("runs", test)
    await world.caught_up()
    shown = (await get(world, "g1"))["test"]
    assert (shown["state"], shown["run"], shown["namespace"], shown["says"]) == (
        "testing",
        "test-g1",
        "ops",
        "needs 8 GPUs",
    )


async def test_a_test_can_be_requested_for_all_suitable_nodes(world: World) -> None:
    """Cordoned nodes, and nodes for which policy has no test, are left out."""
    use_test(world)
    await mark(world, "g2", unschedulable=True)
    response = await world.http.post("/v1/preflight", json={"all": True})
    assert (response.status_code, response.json()) == (200, {"nodes": ["g1", "n1"]})
    for name, is_asked in (("g1", True), ("n1", True), ("g2", False)):
        annotations = world.kubernetes.get("nodes", name, "")["metadata"].get("annotations", {})
        assert (names.ANNOTATION_TEST_WANTED in annotations) == is_asked


async def test_a_refused_test_names_the_cause_and_the_remedy(world: World) -> None:
    """Each such node is named, and no node is tested."""

    async def faults(*nodes: str, every: bool = False) -> list[tuple[str, str]]:
        response = await world.http.post("/v1/preflight", json={"all": True} if every else {"nodes": nodes})
        assert (response.status_code, response.json()["code"]) == (422, "Invalid")
        return [(fault["message"], fault["hint"]) for fault in response.json()["faults"]]

    for answer in (await faults("g1", "g2"), await faults(every=True)):
        ((message, hint),) = answer
        assert message == "policy names no image for tests, so no node can be tested"
        assert hint.startswith("add to the policy: preflight: {image: REGISTRY/IMAGE")
    use_test(world, nodes={"pool": "gpu"})
    ((message, _),) = await faults("g1")
    assert message == "g1 can't be tested: policy tests only nodes with pool=gpu"
    use_test(world)
    await mark(world, "g1", unschedulable=True)
    ready = world.kubernetes.get("nodes", "n1", "")["status"]["conditions"]
    silent = [condition | {"status": "Unknown"} if condition["type"] == "Ready" else condition for condition in ready]
    world.kubernetes.change("nodes", "n1", "", status={"conditions": silent})
    await world.caught_up()
    assert await faults("g1", "g2", "n1") == [
        ("g1 can't be tested: it is cordoned", "kaji uncordon g1"),
        ("n1 can't be tested: it is not ready", "wait until its kubelet answers"),
    ]
    assert names.ANNOTATION_TEST_WANTED not in world.kubernetes.get("nodes", "g2", "")["metadata"].get(
        "annotations", {}
    )
    for wrong in ({}, {"nodes": ["g2"], "all": True}):
        response = await world.http.post("/v1/preflight", json=wrong)
        assert (response.status_code, response.json()["faults"][0]["hint"]) == (422, "give nodes, or all: true")


async def test_metrics_count_nodes_by_health_and_by_test(world: World) -> None:
    """Nodes that stay in the pool only because of the limit are counted as well."""
    use_test(world)
    await mark(world, "g1", SICK, trail=(OUT,))
    await mark(world, "g2", NEW)
    condition = {"type": "KernelDeadlock", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    ready = world.kubernetes.get("nodes", "n1", "")["status"]["conditions"]
    world.kubernetes.change("nodes", "n1", "", status={"conditions": [*ready, condition]})
    await world.caught_up()
    lines = (await world.http.get("/metrics")).text.splitlines()
    counted = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}
    states = {state: counted[f'kajitori_nodes{{state="{state}"}}'] for state in ("ready", "unhealthy", "untested")}
    assert states == {"ready": 1, "unhealthy": 1, "untested": 1}
    assert counted["kajitori_nodes_suspected"] == 1
    assert counted['kajitori_node_tests{state="failed"}'] == 1


async def test_a_caller_without_rights_and_an_unknown_node_are_refused(world: World) -> None:
    use_test(world)
    world.kubernetes.denied.add(("ada", "patch", "nodes", "*"))
    for name, status in (("g1", 403), ("g7", 404)):
        assert (await world.http.post("/v1/preflight", json={"nodes": ["g1", name]})).status_code == 403
        response = await world.http.post(f"/v1/nodes/{name}/healthy")
        assert (response.status_code, "g7" in response.json()["detail"]) == (status, name == "g7")
    assert (await world.http.post("/v1/preflight", json={"all": True})).status_code == 403
    assert "annotations" not in world.kubernetes.get("nodes", "g1", "")["metadata"]
