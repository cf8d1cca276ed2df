"""Server-side apply and field ownership. Expected values were read from kube-apiserver 1.36."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.embedded_server import APPLY, MERGE, Answer, EmbeddedServer, embedded_server

MAP = "/api/v1/namespaces/default/configmaps/a"
POD = "/api/v1/namespaces/default/pods/p"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "set": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "list": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "properties": {"k": {"type": "string"}, "v": {"type": "string"}},
                                            "required": ["k"],
                                        },
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["k"],
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}
FOO = "/apis/x.io/v1/namespaces/default/foos/f"


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        yield server


def config(data: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **meta}, "data": data}


def foo(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": spec}


async def apply(api: EmbeddedServer, path: str, body: Any, manager: str = "one", **params: str) -> Answer:
    return await api.call("PATCH", path, body, content_type=APPLY, params={"fieldManager": manager, **params})


def owners(answer: Answer) -> dict[str, Any]:
    """Return the fields of each manager."""
    return {entry["manager"]: entry["fieldsV1"] for entry in answer.body["metadata"]["managedFields"]}


async def test_applying_creates_and_then_owns_what_it_names(api: EmbeddedServer) -> None:
    """Fields that are no longer applied are removed; defaults have no manager."""
    made = await apply(api, MAP, config({"x": "1", "y": "2"}))
    assert made.code == 201
    assert owners(made) == {"one": {"f:data": {"f:x": {}, "f:y": {}}}}
    changed = await apply(api, MAP, config({"x": "1"}))
    assert (changed.code, changed.body["data"]) == (200, {"x": "1"})
    same = await apply(api, MAP, config({"x": "1"}))
    assert same.version == changed.version


async def test_a_conflict_names_manager_and_field_and_changes_nothing(api: EmbeddedServer) -> None:
    """409 with a cause for each field; with force the field changes its manager."""
    made = await apply(api, MAP, config({"x": "1", "y": "1"}))
    refused = await apply(api, MAP, config({"x": "2", "y": "2"}), "two")
    assert (refused.code, refused.body["reason"]) == (409, "Conflict")
    assert refused.body["message"] == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.x\n- .data.y'
    causes = [(cause["reason"], cause["field"]) for cause in refused.body["details"]["causes"]]
    assert causes == [("FieldManagerConflict", ".data.x"), ("FieldManagerConflict", ".data.y")]
    assert (await api.call("GET", MAP)).body == made.body
    forced = await apply(api, MAP, config({"x": "2"}), "two", force="true")
    assert forced.body["data"] == {"x": "2", "y": "1"}
    assert owners(forced) == {"one": {"f:data": {"f:y": {}}}, "two": {"f:data": {"f:x": {}}}}


async def test_the_same_value_may_be_owned_by_several(api: EmbeddedServer) -> None:
    """The field stays until its last manager gives it up."""
    await apply(api, MAP, config({"x": "1"}))
    shared = await apply(api, MAP, config({"x": "1"}), "two")
    assert set(owners(shared)) == {"one", "two"}
    assert (await apply(api, MAP, config({}), "one")).body["data"] == {"x": "1"}
    last = await apply(api, MAP, config({}), "two")
    assert "data" not in last.body


async def test_an_update_takes_ownership_of_what_it_changes(api: EmbeddedServer) -> None:
    """The manager that applied it is told at its next apply."""
    await apply(api, MAP, config({"x": "1"}))
    updated = await api.call("PATCH", MAP, {"data": {"x": "2"}}, content_type=MERGE, params={"fieldManager": "editor"})
    assert owners(updated) == {"editor": {"f:data": {"f:x": {}}}}
    refused = await apply(api, MAP, config({"x": "1"}))
    assert 'conflict with "editor" using v1: .data.x' in refused.body["message"]


async def test_list_items_are_owned_by_their_keys(api: EmbeddedServer) -> None:
    """Two managers keep their own containers' fields and their own items of a set."""
    spec = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    made = await apply(api, POD, body)
    container = owners(made)["one"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container["f:ports"] == {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    await apply(api, FOO, foo(set=["a", "b"], list=[{"k": "x", "v": "1"}]))
    both = await apply(api, FOO, foo(set=["c"], list=[{"k": "y", "v": "2"}]), "two")
    assert both.body["spec"] == {"set": ["a", "b", "c"], "list": [{"k": "x", "v": "1"}, {"k": "y", "v": "2"}]}
    less = await apply(api, FOO, foo(set=["b"]))
    assert less.body["spec"] == {"set": ["b", "c"], "list": [{"k": "y", "v": "2"}]}


async def test_status_and_scale_have_owners_of_their_own(api: EmbeddedServer) -> None:
    """The entry in managedFields names the subresource."""
    await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    await apply(api, FOO, foo(replicas=1))
    status = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}, "status": {"replicas": 1}}
    await apply(api, f"{FOO}/status", status, "controller")
    scaled = await api.call("PATCH", f"{FOO}/scale", {"spec": {"replicas": 3}}, content_type=MERGE)
    assert (scaled.body["kind"], scaled.body["spec"], scaled.body["status"]) == (
        "Scale",
        {"replicas": 3},
        {"replicas": 1},
    )
    entries = (await api.call("GET", FOO)).body["metadata"]["managedFields"]
    assert {(entry["manager"], entry.get("subresource", "")): entry["fieldsV1"] for entry in entries} == {
        ("controller", "status"): {"f:status": {"f:replicas": {}}},
        ("tests", "scale"): {"f:spec": {"f:replicas": {}}},
    }


async def test_a_dry_run_of_a_scale_shows_the_change_and_stores_nothing(api: EmbeddedServer) -> None:
    """The answer has the new number; the object keeps its own."""
    await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    await apply(api, FOO, foo(replicas=1))
    patch = {"spec": {"replicas": 3}}
    answer = await api.call("PATCH", f"{FOO}/scale?dryRun=All", patch, content_type=MERGE)
    assert answer.body["spec"] == {"replicas": 3}
    assert (await api.call("GET", f"{FOO}/scale")).body["spec"] == {"replicas": 1}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({**config({}), "foo": 1}, 500, ".foo: field not declared in schema"),
        (config({"x": 1}), 500, ".data.x: expected text, not a number"),
        (config({}, managedFields=[{"manager": "x"}]), 400, "metadata.managedFields must be nil"),
        (config({}, resourceVersion="1"), 409, "the object has been modified"),
        (config({}, name="b"), 400, "does not match the name on the URL"),
        (b"{a: [", 400, "error decoding patch"),
    ],
)
async def test_an_invalid_configuration_is_refused(api: EmbeddedServer, body: Any, code: int, message: str) -> None:
    """Nothing changes."""
    made = await apply(api, MAP, config({"x": "1"}))
    refused = await apply(api, MAP, body)
    assert refused.code == code
    assert message in refused.body["message"]
    assert (await api.call("GET", MAP)).body == made.body


async def test_applying_needs_a_manager(api: EmbeddedServer) -> None:
    """A field manager is required."""
    refused = await api.call("PATCH", MAP, config({}), content_type=APPLY)
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "fieldManager")


async def test_only_the_last_ten_updaters_have_entries_of_their_own(api: EmbeddedServer) -> None:
    """Older entries are merged, so that metadata stays small."""
    await api.call("POST", MAP.rpartition("/")[0], config({"first": "1"}))
    for index in range(14):
        body = {"data": {f"k{index}": "1"}}
        params = {"fieldManager": f"m{index:02}"}
        answer = await api.call("PATCH", MAP, body, content_type=MERGE, params=params)
    assert len(owners(answer)) == 10
    assert "ancient-changes" in owners(answer)
