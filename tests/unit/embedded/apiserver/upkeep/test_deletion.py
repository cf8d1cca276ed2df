"""Deleting: grace, preconditions, finalizers, owners, namespaces, definitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.embedded_server import MERGE, Answer, EmbeddedServer, embedded_server
from tests.unit.embedded.apiserver.test_apply import DEFINITION

SPACE = "/api/v1/namespaces/team"
MAPS = f"{SPACE}/configmaps"
PODS = f"{SPACE}/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/x.io/v1/namespaces/team/foos"


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        await server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        yield server


def owned_by(owner: Answer, *, block: bool = False) -> dict[str, Any]:
    body = owner.body
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": owner.name,
        "uid": body["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }


async def make(api: EmbeddedServer, name: str, *owners: dict[str, Any], finalizers: tuple[str, ...] = ()) -> Answer:
    meta = {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}
    answer = await api.call("POST", MAPS, {"metadata": meta})
    assert answer.code == 201, answer.body
    return answer


async def make_pod(api: EmbeddedServer, name: str, node: str = "", **labels: str) -> Answer:
    spec = {"containers": [{"name": "c", "image": "i:1"}]}
    answer = await api.call("POST", PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    if node:
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        assert (await api.call("POST", f"{PODS}/{name}/binding", binding)).code == 201
    return answer


async def gone(api: EmbeddedServer, path: str) -> None:
    """Wait until nothing is stored at this path."""
    async with asyncio.timeout(60), api.watch(path.rpartition("/")[0]) as events:
        while (await api.call("GET", path)).code != 404:
            await events.next()


async def names(api: EmbeddedServer) -> list[str]:
    return [item["metadata"]["name"] for item in (await api.call("GET", MAPS)).body["items"]]


# --- grace -----------------------------------------------------------------------------------------------------------


async def test_a_pod_on_a_node_stays_until_its_kubelet_removes_it(api: EmbeddedServer) -> None:
    """The grace may be shortened, never prolonged; a grace of 0 removes it."""
    await make_pod(api, "p", "n")
    first = await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 20})
    assert first.body["metadata"]["deletionGracePeriodSeconds"] == 20
    longer = await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 60})
    assert longer.version == first.version
    shorter = await api.call("DELETE", f"{PODS}/p", params={"gracePeriodSeconds": "5"})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert shorter.body["metadata"]["deletionTimestamp"] < first.body["metadata"]["deletionTimestamp"]
    last = await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert last.code == 200
    assert (await api.call("GET", f"{PODS}/p")).code == 404


async def test_a_pod_without_a_node_is_removed_at_once(api: EmbeddedServer) -> None:
    """No process runs that could need time."""
    await make_pod(api, "p")
    assert (await api.call("DELETE", f"{PODS}/p")).body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.call("GET", f"{PODS}/p")).code == 404


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"preconditions": {"uid": "x"}}, 409, ", not x"),
        ({"preconditions": {"resourceVersion": "1"}}, 409, ", not 1"),
        ({"propagationPolicy": "Sometimes"}, 422, "propagationPolicy: Unsupported value"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
        ({"gracePeriodSeconds": "x"}, 400, "expected a whole number, not text"),
        ({"kind": "Pod", "apiVersion": "v1"}, 400, "expected DeleteOptions"),
    ],
)
async def test_an_invalid_deletion_is_refused(
    api: EmbeddedServer, options: dict[str, Any], code: int, message: str
) -> None:
    """The object stays."""
    await make(api, "a")
    refused = await api.call("DELETE", f"{MAPS}/a", options)
    assert refused.code == code
    assert message in refused.body["message"]
    assert await names(api) == ["a"]


async def test_finalizers_hold_an_object(api: EmbeddedServer) -> None:
    """It is marked, accepts no new finalizers, and is removed with the last of them."""
    await make(api, "a", finalizers=("x.io/f",))
    marked = await api.call("DELETE", f"{MAPS}/a")
    assert marked.body["metadata"]["deletionTimestamp"]
    more = await api.call("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": ["x.io/f", "x.io/g"]}}, content_type=MERGE)
    assert more.code == 422
    last = await api.call("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert last.code == 200
    assert (await api.call("GET", f"{MAPS}/a")).code == 404


async def test_a_collection_is_deleted_by_its_selector(api: EmbeddedServer) -> None:
    """Other objects stay; the answer lists the deleted ones."""
    await make_pod(api, "a", l="1")
    await make_pod(api, "b", l="2")
    answer = await api.call("DELETE", PODS, params={"labelSelector": "l=1"})
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a"]
    assert [item["metadata"]["name"] for item in (await api.call("GET", PODS)).body["items"]] == ["b"]


# --- owners ----------------------------------------------------------------------------------------------------------


async def test_dependents_are_deleted_with_their_owner(api: EmbeddedServer) -> None:
    """All generations of them; those of another owner stay."""
    owner = await make(api, "owner")
    child = await make(api, "child", owned_by(owner))
    await make(api, "grandchild", owned_by(child))
    await make(api, "other")
    await api.call("DELETE", f"{MAPS}/owner")
    await gone(api, f"{MAPS}/grandchild")
    assert await names(api) == ["other"]


async def test_a_dependent_with_another_owner_left_stays(api: EmbeddedServer) -> None:
    """It only loses the reference."""
    first, second = await make(api, "first"), await make(api, "second")
    await make(api, "child", owned_by(first), owned_by(second))
    await api.call("DELETE", f"{MAPS}/first")
    async with api.watch(MAPS, fieldSelector="metadata.name=child") as events:
        while len((await events.next())["object"]["metadata"]["ownerReferences"]) > 1:
            pass
    assert await names(api) == ["child", "second"]


@pytest.mark.parametrize("change", [{"uid": "made-up"}, {"name": "nobody"}])
async def test_an_owner_that_never_existed_counts_as_deleted(api: EmbeddedServer, change: dict[str, str]) -> None:
    """A name is not enough: the UID has to agree."""
    owner = await make(api, "owner")
    await make(api, "child", owned_by(owner) | change)
    await gone(api, f"{MAPS}/child")
    assert await names(api) == ["owner"]


async def test_an_owner_of_an_unknown_kind_is_left_alone(api: EmbeddedServer) -> None:
    """It is unknown whether it exists."""
    owner = await make(api, "owner")
    await make(api, "child", owned_by(owner) | {"kind": "Unheard", "apiVersion": "un.heard/v1"})
    await make(api, "doomed", owned_by(owner) | {"uid": "x"})
    await gone(api, f"{MAPS}/doomed")
    assert await names(api) == ["child", "owner"]


async def test_orphaned_dependents_stay(api: EmbeddedServer) -> None:
    """Their owner reference is removed before the owner."""
    owner = await make(api, "owner")
    await make(api, "child", owned_by(owner))
    await api.call("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    await gone(api, f"{MAPS}/owner")
    assert "ownerReferences" not in (await api.call("GET", f"{MAPS}/child")).body["metadata"]


async def test_foreground_deletion_waits_for_blocking_dependents(api: EmbeddedServer) -> None:
    """Only dependents with blockOwnerDeletion do."""
    owner = await make(api, "owner")
    await make(api, "blocks", owned_by(owner, block=True), finalizers=("x.io/f",))
    await make(api, "does-not", owned_by(owner), finalizers=("x.io/f",))
    answer = await api.call("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    async with api.watch(MAPS, fieldSelector="metadata.name=blocks") as events:
        while "deletionTimestamp" not in (await events.next())["object"]["metadata"]:
            pass
    assert (await api.call("GET", f"{MAPS}/owner")).code == 200
    await api.call("PATCH", f"{MAPS}/blocks", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await gone(api, f"{MAPS}/owner")
    assert await names(api) == ["does-not"]


# --- namespaces and definitions --------------------------------------------------------------------------------------


async def test_a_namespace_is_deleted_with_its_objects(api: EmbeddedServer) -> None:
    """Its status says what it waits for, and it accepts no new objects."""
    await make(api, "held", finalizers=("x.io/f",))
    await make(api, "free")
    marked = await api.call("DELETE", SPACE)
    assert marked.body["status"]["phase"] == "Terminating"
    await gone(api, f"{MAPS}/free")
    refused = await api.call("POST", MAPS, {"metadata": {"name": "late"}})
    assert refused.code == 403
    assert "because it is being terminated" in refused.body["message"]
    async with api.watch("/api/v1/namespaces", fieldSelector="metadata.name=team") as events:
        while not (conditions := (await events.next())["object"]["status"].get("conditions")):
            pass
    messages = {one["type"]: one["message"] for one in conditions}
    assert "configmaps. has 1 resource instances" in messages["NamespaceContentRemaining"]
    assert "x.io/f in 1 resource instances" in messages["NamespaceFinalizersRemaining"]
    await api.call("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await gone(api, SPACE)


async def test_the_systems_namespaces_cannot_be_deleted(api: EmbeddedServer) -> None:
    for name in ("default", "kube-system", "kube-public"):
        refused = await api.call("DELETE", f"/api/v1/namespaces/{name}")
        assert (refused.code, refused.body["reason"]) == (403, "Forbidden")


async def test_a_definition_is_deleted_with_its_objects(api: EmbeddedServer) -> None:
    """Afterwards the kind is no longer served. If it is defined again, the old objects are gone."""
    assert (await api.call("POST", DEFINITIONS, DEFINITION)).code == 201
    body = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f", "finalizers": ["x.io/f"]}}
    assert (await api.call("POST", FOOS, body)).code == 201
    await api.call("DELETE", f"{DEFINITIONS}/foos.x.io")
    async with api.watch(FOOS) as events:
        while "deletionTimestamp" not in (await events.next())["object"]["metadata"]:
            pass
    assert (await api.call("POST", FOOS, {**body, "metadata": {"name": "g"}})).code == 405
    await api.call("PATCH", f"{FOOS}/f", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await gone(api, f"{DEFINITIONS}/foos.x.io")
    assert (await api.call("GET", FOOS)).code == 404
    await api.call("POST", DEFINITIONS, DEFINITION)
    assert (await api.call("GET", FOOS)).body["items"] == []


# --- eviction --------------------------------------------------------------------------------------------------------


async def test_a_disruption_budget_prevents_evictions(api: EmbeddedServer) -> None:
    """429 until it allows a disruption; an eviction uses one up."""
    await make_pod(api, "p", "n", app="x")
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await api.call("PATCH", f"{PODS}/p/status", running, content_type=MERGE)
    budgets = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await api.call("POST", budgets, {"metadata": {"name": "b"}, "spec": spec})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    too_soon = await api.call("POST", f"{PODS}/p/eviction", eviction)
    assert (too_soon.code, too_soon.body["details"]["retryAfterSeconds"]) == (429, 10)
    status = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    await api.call("PATCH", f"{budgets}/b/status", {"status": {**status, "disruptionsAllowed": 0}}, content_type=MERGE)
    refused = await api.call("POST", f"{PODS}/p/eviction", eviction)
    assert (refused.code, refused.body["reason"]) == (429, "TooManyRequests")
    assert "needs 1 healthy pods and has 1 currently" in refused.body["details"]["causes"][0]["message"]
    assert "retryAfterSeconds" not in refused.body["details"], "nobody knows when"
    await api.call("PATCH", f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}}, content_type=MERGE)
    assert (await api.call("POST", f"{PODS}/p/eviction", eviction)).code == 201
    assert (await api.call("GET", f"{PODS}/p")).body["metadata"]["deletionTimestamp"]
    assert (await api.call("GET", f"{budgets}/b")).body["status"]["disruptionsAllowed"] == 0
