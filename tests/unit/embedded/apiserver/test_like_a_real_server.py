"""Behaviour in which the embedded server once differed from kube-apiserver, found by random sequences."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.embedded_server import APPLY, MERGE, EmbeddedServer, embedded_server

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
SERVICES = "/api/v1/namespaces/default/services"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"serviceAccountName": "default", "containers": [{"name": "main", "image": "bert:3"}]},
}


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        yield server


async def test_a_service_may_be_replaced_without_its_address(api: EmbeddedServer) -> None:
    """The Service keeps its address."""
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
    }
    made = await api.call("POST", SERVICES, body)
    replaced = await api.call("PUT", f"{SERVICES}/web", body)
    assert replaced.code == 200
    assert replaced.body["spec"]["clusterIP"] == made.body["spec"]["clusterIP"]


async def test_a_pod_may_be_replaced_without_its_priority(api: EmbeddedServer) -> None:
    """Computed fields are kept."""
    await api.call("POST", PODS, POD)
    replaced = await api.call("PUT", f"{PODS}/p", POD)
    assert replaced.code == 200
    assert replaced.body["spec"]["priority"] == 0


async def test_names_of_events_are_generated_after_a_dot(api: EmbeddedServer) -> None:
    """As controllers generate them. Fields that the Event's writer omitted have no manager."""
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "bert."},
        "involvedObject": {"kind": "Pod", "name": "bert", "namespace": "default"},
        "reason": "Tested",
    }
    made = await api.call("POST", EVENTS, body)
    assert made.code == 201
    assert made.name.startswith("bert.")
    assert made.body["metadata"]["managedFields"][0]["fieldsV1"].keys() == {
        "f:metadata",
        "f:involvedObject",
        "f:reason",
    }


async def test_warnings_come_with_refusals(api: EmbeddedServer) -> None:
    """An unknown field is named even if the object does not exist."""
    answer = await api.call("PUT", f"{PODS}/p", {**POD, "metadata": {"name": "p", "nonsense": 1}})
    assert answer.code == 404
    assert "metadata.nonsense" in answer.headers["Warning"]


async def test_applying_no_fields_creates_an_object_without_managers(api: EmbeddedServer) -> None:
    path = "/api/v1/namespaces/default/configmaps/c"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    made = await api.call("PATCH", path, body, content_type=APPLY, params={"fieldManager": "me"})
    assert made.code == 201
    assert "managedFields" not in made.body["metadata"]


async def test_a_put_with_a_wrong_uid_creates_nothing(api: EmbeddedServer) -> None:
    """Even for kinds that a PUT can create, an object with the given UID must exist."""
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "uid": "00000000-0000-0000-0000-000000000001"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
    }
    refused = await api.call("PUT", f"{SERVICES}/web", body)
    assert refused.code == 409


async def test_a_claim_grows_only_once_it_is_bound(api: EmbeddedServer) -> None:
    """Before, there is no volume that could grow."""
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await api.call("POST", path, body)
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    refused = await api.call("PATCH", f"{path}/c", grown, content_type=MERGE)
    assert refused.code == 422
    assert "spec: Forbidden" in refused.body["message"]
    await api.call("PATCH", f"{path}/c/status", {"status": {"phase": "Bound"}}, content_type=MERGE)
    assert (await api.call("PATCH", f"{path}/c", grown, content_type=MERGE)).code == 200


@pytest.mark.parametrize("address", ["1.2.3", "127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.5"])
async def test_external_addresses_are_checked(api: EmbeddedServer, address: str) -> None:
    """Loopback and similar addresses cannot be reached from outside."""
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}], "externalIPs": [address]},
    }
    refused = await api.call("POST", SERVICES, body)
    assert [one["field"] for one in refused.body["details"]["causes"]] == ["spec.externalIPs[0]"]


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            "values",
            "must be",
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "Nope", "operator": "Exists"}]}},
            "scopeName",
            "Unsupported",
        ),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "Terminating"}]}}, "operator", "Required value"),
        ({"scopes": ["BestEffort", "NotBestEffort"]}, "scopes", "conflicting scopes"),
        ({"scopes": ["BestEffort"], "hard": {"cpu": "1"}}, "scopes", "does not apply to cpu"),
    ],
)
async def test_scopes_of_a_quota_are_checked(api: EmbeddedServer, spec: dict[str, Any], field: str, said: str) -> None:
    """A scope that does not apply would leave the quota without effect."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    refused = await api.call("POST", "/api/v1/namespaces/default/resourcequotas", body)
    assert refused.code == 422
    assert any(one["field"].endswith(field) and said in one["message"] for one in refused.body["details"]["causes"])


async def test_an_empty_list_of_managers_removes_all_of_them(api: EmbeddedServer) -> None:
    await api.call("POST", PODS, POD)
    cleared = await api.call("PATCH", f"{PODS}/p", {"metadata": {"managedFields": []}}, content_type=MERGE)
    assert cleared.code == 200
    assert "managedFields" not in cleared.body["metadata"]


async def test_a_patch_of_a_missing_object_is_not_validated(api: EmbeddedServer) -> None:
    """404 takes precedence over faults of the patch."""
    assert (await api.call("PATCH", f"{PODS}/nobody", 5, content_type=MERGE)).code == 404


async def test_a_binding_may_require_a_version_of_the_pod(api: EmbeddedServer) -> None:
    """A Pod that was changed meanwhile is not bound."""
    await api.call("POST", PODS, POD)
    binding = {"metadata": {"name": "p", "resourceVersion": "1"}, "target": {"kind": "Node", "name": "n"}}
    refused = await api.call("POST", f"{PODS}/p/binding", binding)
    assert refused.code == 409
    assert ", not 1" in refused.body["message"]


async def test_states_of_containers_are_completed(api: EmbeddedServer) -> None:
    """Clients read `lastState` and the times of a state without checking whether they exist."""
    await api.call("POST", PODS, POD)
    one = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    status = {"status": {"containerStatuses": [{**one, "state": {"terminated": {"exitCode": 3}}}]}}
    told = (await api.call("PATCH", f"{PODS}/p/status", status, content_type=MERGE)).body["status"]
    state = told["containerStatuses"][0]
    assert state["lastState"] == {}
    assert state["state"]["terminated"] == {"exitCode": 3, "startedAt": None, "finishedAt": None}


async def test_invalid_base64_is_refused_with_its_field(api: EmbeddedServer) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "not base64!"}}
    refused = await api.call("POST", "/api/v1/namespaces/default/secrets", body)
    assert refused.body["message"].partition("data.a: not base64")[1]


async def test_finalizers_of_a_namespace_have_an_owner(api: EmbeddedServer) -> None:
    """A finalizer of an unknown owner would keep the object forever."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": ["nodomain"]}}
    assert (await api.call("POST", "/api/v1/namespaces", body)).code == 422


async def test_an_unknown_eviction_policy_of_a_budget_is_refused(api: EmbeddedServer) -> None:
    """At creation and at updates."""
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {}}
    await api.call("POST", path, body)
    odd = {"spec": {"unhealthyPodEvictionPolicy": "Odd"}}
    assert (await api.call("PATCH", f"{path}/b", odd, content_type=MERGE)).code == 422
