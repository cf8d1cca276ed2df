"""CustomResourceDefinitions become kinds: versions, subresources, columns, discovery, OpenAPI."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.helpers.objects.custom_resource import boat, definition
from tests.helpers.objects.kinds_pipeline import MemoryView, create, fresh

from kajitori.embedded.apiserver.discovery import groups as discovery
from kajitori.embedded.apiserver.discovery.openapi import OpenApi
from kajitori.embedded.apiserver.reads import tables
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.kube import resources


async def served() -> tuple[KindRegistry, MemoryView]:
    registry, view = fresh()
    made = await create(registry, view, definition())
    assert made.faults == []
    registry.add_definition(made.object)
    return registry, view


async def test_a_definition_is_established_at_once() -> None:
    """Names are completed and accepted, the cleanup finalizer is added, the storage version is recorded."""
    registry, view = fresh()
    made = (await create(registry, view, definition())).object
    assert made["status"]["acceptedNames"]["listKind"] == "BoatList"
    assert made["status"]["storedVersions"] == ["v1"]
    assert {one["type"] for one in made["status"]["conditions"]} == {"NamesAccepted", "Established"}
    assert made["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]


async def test_versions_show_the_same_stored_object() -> None:
    """Conversion changes nothing but the version; a default appears even if it was not stored."""
    registry, _ = await served()
    old, new = registry.find("sea.example", "v1alpha1", "boats"), registry.find("sea.example", "v1", "boats")
    assert old is not None
    assert new is not None
    assert old.stored == new.stored == new.resource
    stored = old.encode(boat("v1alpha1", size=1))
    assert stored == boat("v1", size=1)
    assert old.decode(stored) == boat("v1alpha1", size=1, mode="slow")
    assert stored == boat("v1", size=1)
    assert [one.resource.version for one in registry.find_stored("sea.example", "boats")] == ["v1alpha1", "v1"]


async def test_defaults_pruning_and_faults() -> None:
    """Unknown fields are dropped and named, defaults are set, every fault is listed."""
    registry, view = await served()
    made = await create(registry, view, boat(size=2, sails=3))
    assert made.object["spec"] == {"size": 2, "mode": "slow"}
    assert made.unknown == ['unknown field "spec.sails"']
    wrong = await create(registry, view, boat(size=0, mode="lazy", parts=[{"name": "a"}, {"name": "a"}]))
    assert wrong.faults == [
        'spec.mode: Unsupported value: "lazy": supported values: "slow", "fast"',
        'spec.parts[1]: Duplicate value: {"name":"a"}',
        "spec.size: Invalid value: 0: should be greater than or equal to 1",
    ]


async def test_the_status_is_written_through_its_subresource_only() -> None:
    """A status is dropped at creation and kept by updates; a status update keeps everything else, also labels."""
    registry, view = await served()
    kind = registry.find("sea.example", "v1", "boats")
    assert kind is not None
    made = (await create(registry, view, {**boat(size=1), "status": {"phase": "Lost"}})).object
    assert "status" not in made
    told = copy.deepcopy(made)
    told.update(spec={"size": 9}, status={"phase": "Sailing"})
    told["metadata"]["labels"] = {"a": "b"}
    kind.strategy.prepare_status_update(told, made)
    assert told["spec"] == made["spec"]
    assert "labels" not in told["metadata"]
    assert told["status"] == {"phase": "Sailing"}
    bigger = copy.deepcopy(told)
    bigger["spec"]["size"] = 5
    kind.strategy.prepare_update(bigger, told)
    assert bigger["metadata"]["generation"] == 2
    assert kind.strategy.fields(bigger) == {"spec.mode": "slow"}


async def test_printer_columns_come_from_the_definition() -> None:
    """By JSONPath; empty if the path leads nowhere."""
    registry, _ = await served()
    kind = registry.find("sea.example", "v1", "boats")
    assert kind is not None
    table = tables.to_table(kind, [boat(size=4)])
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Size", "Phase", "Age"]
    assert table["rows"][0]["cells"] == ["b", 4, None, None]


async def test_discovery_prefers_the_stable_version() -> None:
    """Both versions are listed, the stable one first, with subresources and short names."""
    registry, _ = await served()
    group = discovery.api_group(registry, "sea.example")
    assert group is not None
    assert [one["version"] for one in group["versions"]] == ["v1", "v1alpha1"]
    listed = discovery.api_resources(registry, "sea.example", "v1")
    assert listed is not None
    assert [one["name"] for one in listed["resources"]] == ["boats", "boats/scale", "boats/status"]
    assert listed["resources"][0]["shortNames"] == ["bo"]
    every = discovery.aggregated(registry, core=False)["items"]
    assert every[-1]["metadata"]["name"] == "sea.example"


async def test_the_openapi_document_has_the_kind_while_it_is_defined() -> None:
    """`kubectl explain` finds the kind as long as it is defined."""
    registry, _ = await served()
    documents = OpenApi(registry)
    document = documents.v3("apis/sea.example/v1")
    assert document is not None
    schema = json.loads(document)["components"]["schemas"]["example.sea.v1.Boat"]
    assert schema["properties"]["spec"]["properties"]["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "sea.example", "version": "v1", "kind": "Boat"}]
    registry.remove_definition(definition())
    assert documents.v3("apis/sea.example/v1") is None
    assert registry.find("sea.example", "v1", "boats") is None
    assert "sea.example" not in documents.v3_index().decode()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda spec: spec.update(scope="Cluster"), "spec.scope: "),
        (lambda spec: spec["names"].update(kind="Ship"), "spec.names.kind: "),
        (lambda spec: spec["versions"].pop(), "status.storedVersions[0]: "),
    ],
)
async def test_immutable_parts_of_a_definition(change: Any, fault: str) -> None:
    """Scope and names are immutable; a version that objects may be stored in cannot be removed."""
    registry, view = fresh()
    old = (await create(registry, view, definition())).object
    kind = registry.find(*_key())
    assert kind is not None
    new = copy.deepcopy(old)
    change(new["spec"])
    kind.strategy.prepare_update(new, old)
    causes = kind.strategy.validate_update(new, old)
    assert any(str(one).startswith(fault) for one in causes)


def _key() -> tuple[str, str, str]:
    resource = resources.CUSTOM_RESOURCES
    return resource.group, resource.version, resource.plural


def with_rules(**rules: list[dict[str, str]]) -> dict[str, Any]:
    """Return the definition of boats with CEL rules for fields of the spec, or for `spec` itself."""
    body = copy.deepcopy(definition())
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name, declared in rules.items():
        (spec if name == "spec" else spec["properties"][name])["x-kubernetes-validations"] = declared
    body["spec"]["versions"] = body["spec"]["versions"][:1]
    body["spec"]["versions"][0]["storage"] = True
    return body


async def test_cel_rules_are_evaluated_with_their_message() -> None:
    """A violated rule names its field. A rule about the old value applies to updates; unchanged parts are not
    checked."""
    registry, view = fresh()
    declared = with_rules(
        size=[
            {"rule": "self != 13", "message": "bad luck"},
            {"rule": "self >= oldSelf", "messageExpression": "'boats only grow: ' + string(oldSelf)"},
        ],
        spec=[{"rule": "self.size < 10 || self.mode == 'slow'", "message": "too large for that", "fieldPath": ".mode"}],
    )
    kind = registry.add_definition((await create(registry, view, declared)).object)[0]
    version = kind.resource.version
    assert (await create(registry, view, boat(version, size=13, mode="slow"))).faults == [
        "spec.size: Invalid value: 13: bad luck"
    ]
    assert (await create(registry, view, boat(version, size=12, mode="fast"))).faults == [
        "spec.mode: Invalid value: too large for that"
    ]
    old, new = boat(version, size=13, mode="slow"), boat(version, size=13, mode="fast")
    assert [str(one) for one in kind.strategy.validate_update(old, old)] == []
    assert [one.field for one in kind.strategy.validate_update(new, old)] == ["spec.mode"]
    smaller = boat(version, size=3, mode="slow")
    assert [str(one) for one in kind.strategy.validate_update(smaller, old)] == [
        "spec.size: Invalid value: 3: boats only grow: 13"
    ]


async def test_rules_are_not_evaluated_on_values_that_the_schema_refuses() -> None:
    """A rule could only fail on a value of a wrong type; the answer says that rules were not checked."""
    registry, view = fresh()
    made = await create(registry, view, with_rules(size=[{"rule": "self > 1"}]))
    registry.add_definition(made.object)
    faults = (await create(registry, view, boat("v1alpha1", size="large"))).faults
    assert len(faults) == 2 and "some validation rules were not checked" in faults[0] and "spec.size" in faults[1]


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        ({"rule": "self.size >"}, "compilation failed"),
        ({"rule": "1 + 1"}, "must evaluate to"),
        ({"rule": ""}, "rule is not specified"),
        ({"rule": "self == oldSelf", "optionalOldSelf": True}, "does not support it"),
    ],
)
async def test_rules_that_cannot_be_evaluated_are_refused(declared: dict[str, Any], fault: str) -> None:
    registry, view = fresh()
    (only,) = (await create(registry, view, with_rules(spec=[declared]))).faults
    assert fault in only


async def test_a_stricter_schema_does_not_check_unchanged_fields() -> None:
    """An object stored before can still be changed elsewhere, and deleted by removing its finalizers."""
    registry, _ = await served()
    kind = registry.find("sea.example", "v1", "boats")
    assert kind is not None
    old = boat("v1", size=0, mode="slow")
    assert kind.strategy.validate_create(old)
    assert kind.strategy.validate_update(boat("v1", size=0, mode="fast"), old) == []
    assert kind.strategy.validate_update(boat("v1", size=-1, mode="slow"), old)
