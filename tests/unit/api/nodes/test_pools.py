"""Pools that can grow, in submission, explanations, the GPU board and the list of nodes."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.core.policy.file import Policy, parse_policy
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState

WHOLE: dict[str, Any] = {"gpu": 8, "gpuType": "h100"}
POOL = {
    "nodeSelector": {"pool": "spot"},
    "labels": {"kajitori.dev/gpu-type": "h100"},
    "node": {"cpu": 32, "memory": "256Gi", "gpu": 8},
    "maxNodes": 4,
}


def grow(world: World, **pool: Any) -> None:
    """Add a pool to the policy."""
    pools = parse_policy({"nodePools": {"spot": POOL | pool}}).node_pools

    def fill(policy: Policy) -> Policy:
        return policy.model_copy(update={"node_pools": pools})

    world.api.policy.complete(fill)


def waiting(name: str, replicas: int, request: NodeRequest | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Queued", "queuedAt": "2026-11-21T11:50:00Z"}
    if request is not None:
        status["nodeRequest"] = msgspec.to_builtins(request)
    return run(name, replicas=replicas, resources=WHOLE) | {"status": status}


ASKED = NodeRequest(
    pool="spot",
    nodes=3,
    attempt=1,
    number=1,
    state=RequestState.ACCEPTED,
    since="2026-11-21T11:58:00Z",
    asked_at="2026-11-21T11:57:00Z",
    first_asked_at="2026-11-21T11:57:00Z",
)


async def test_nodes_that_a_pool_may_get_count_at_submission(world: World) -> None:
    """There are two nodes and four may come: five members are queued, and seven are refused with the reason."""
    spec = {"image": "bert:3", "replicas": 5, "resources": WHOLE}
    refused = await world.http.post("/v1/runs", json={"name": "bert", "spec": spec})
    assert refused.status_code == 422 and refused.json()["faults"][0]["code"] == "LargerThanTheCluster"
    grow(world)
    made = await world.http.post("/v1/runs", json={"name": "bert", "spec": spec})
    assert made.status_code == 201, made.text
    refused = await world.http.post("/v1/runs", json={"name": "gpt", "spec": spec | {"replicas": 7}})
    (fault,) = refused.json()["faults"]
    message = "the whole cluster has room for at most 6 such members, including all nodes that its pools may get"
    assert message in fault["message"] and "at most 6 members" in fault["hint"]


async def test_a_gpu_type_that_only_a_pool_has_is_known(world: World) -> None:
    """The number of GPUs of a whole node is known as well."""
    grow(world, labels={"kajitori.dev/gpu-type": "b200"})
    spec = {"image": "bert:3", "replicas": 2, "resources": {"gpuType": "b200", "wholeNode": True}}
    answer = await world.http.post("/v1/runs", json={"name": "bert", "spec": spec})
    assert answer.status_code == 201, answer.text
    found = (
        await world.http.post("/v1/runs", json={"spec": {**spec, "resources": {"gpuType": "b100", "gpu": 1}}})
    ).json()
    assert "known: b200, h100" in found["faults"][0]["hint"]


async def test_a_runs_request_for_nodes_is_explained(world: World) -> None:
    """The message has its age and its state; the GPU board and the list of nodes count it."""
    grow(world)
    world.kubernetes.put("runs", waiting("bert", 5, ASKED))
    await world.caught_up()
    found = (await world.http.get("/v1/runs/team/bert/explain")).json()
    assert found["message"].startswith("requested 3 nodes of pool spot 3m ago: accepted, provisioning; needs 40 h100")
    assert found["reason"] == "ProvisioningNodes" and found["nodeRequest"]["state"] == "Accepted"
    pool = {"name": "spot", "gpuType": "h100", "gpus": 8, "nodes": 0, "maxNodes": 4, "askedFor": 3}
    assert (await world.http.get("/v1/gpus")).json()["pools"] == [pool]
    assert (await world.http.get("/v1/nodes")).json()["pools"] == [pool]


async def test_what_if_names_the_nodes_that_a_run_would_request(world: World) -> None:
    """It also says that a pool has no room left for the run."""
    grow(world, askAfter="90s")
    spec = {"image": "bert:3", "replicas": 5, "resources": WHOLE}
    found = (await world.http.post("/v1/what-if", json={"spec": spec})).json()["start"]
    assert found["message"].startswith("asks for 3 nodes of pool spot when it has waited for 1m30s; needs 40 h100")
    world.kubernetes.put("runs", waiting("other", 5, ASKED))
    await world.caught_up()
    found = (await world.http.post("/v1/what-if", json={"spec": spec})).json()["start"]
    full = "pool spot cannot grow by 3 for it: it has 0 of at most 4 nodes and 3 more were asked for; needs 40 h100"
    assert found["message"].startswith(full)


async def test_without_pools_no_answer_mentions_pools(world: World) -> None:
    world.kubernetes.put("runs", waiting("bert", 5))
    await world.caught_up()
    for path in ("/v1/gpus", "/v1/nodes"):
        assert "pools" not in (await world.http.get(path)).json()
    assert "nodeRequest" not in (await world.http.get("/v1/runs/team/bert/explain")).json()
