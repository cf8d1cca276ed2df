"""The custom resource's schema is one that an API server takes, and says what the types say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kajitori.core.spec.definition import custom_resource_definition, structural
from kajitori.core.spec.run import RunSpec, parse_spec, to_document
from kajitori.core.spec.status import Attempt, Finding, MemberCounts, Notable, RunStatus, template_text

VERSION = custom_resource_definition()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]

BOUNDS = {"array": "maxItems", "object": "maxProperties", "string": "maxLength"}


def parts(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from parts(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from parts(schema[key], f"{path}.{key}")


def test_it_is_structural() -> None:
    """Each part has a type or the extension that replaces it; there are no references, alternatives or nulls."""
    allowed = {"type", "description", "properties", "items", "additionalProperties", "format", *BOUNDS.values()}
    extensions = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type"}
    for path, schema in parts(SCHEMA):
        assert schema.keys() <= allowed | extensions, path
        assert "type" in schema or schema.keys() & extensions, path
        assert not ("properties" in schema and "additionalProperties" in schema), path


def test_nothing_is_stored_without_a_bound() -> None:
    """Every list, map and text of a spec: what came by kubectl would be refused, but would be in etcd by then."""
    for path, schema in parts(SCHEMA["properties"]["spec"], "spec"):
        kind = schema.get("type")
        if kind in BOUNDS and "properties" not in schema:
            assert schema[BOUNDS[kind]] > 0, path


def test_it_judges_types_and_sizes_only() -> None:
    """What is allowed, required or known is for our own check to say, with all reasons: the schema drops nothing."""
    for path, schema in parts(SCHEMA["properties"]["spec"], "spec"):
        assert not schema.keys() & {"required", "enum", "minimum", "maximum", "pattern", "default"}, path
        if "properties" in schema:
            assert schema["x-kubernetes-preserve-unknown-fields"] is True, path


def test_the_status_alone_is_one_thing_to_the_api_server() -> None:
    """It has one writer, who checks it himself; several may share a spec."""
    atomic = [path for path, schema in parts(SCHEMA) if schema.get("x-kubernetes-map-type") == "atomic"]
    assert atomic == [".status"]
    assert SCHEMA["properties"]["status"]["x-kubernetes-preserve-unknown-fields"] is True
    assert "properties" not in SCHEMA["properties"]["status"]


def test_every_field_is_there() -> None:
    """The schema has exactly the fields of a spec as we read it, with a text for each, and names those of a status."""
    spec = SCHEMA["properties"]["spec"]["properties"]
    assert set(spec) == {info.alias or name for name, info in RunSpec.model_fields.items()}
    told = SCHEMA["properties"]["status"]["description"].split("Its fields: ")[1].rstrip(".").split(", ")
    assert told == [field.encode_name for field in msgspec.structs.fields(RunStatus)]
    assert spec["resources"]["properties"]["memory"]["x-kubernetes-int-or-string"] is True
    assert "One of batch, service." in spec["type"]["description"]


def fits(value: Any, schema: dict[str, Any], path: str = "") -> None:
    """Asserts that a value has the types of a structural schema, as an API server checks them."""
    if schema.get("x-kubernetes-int-or-string"):
        assert isinstance(value, int | str) and not isinstance(value, bool), path
        return
    kinds: dict[str, tuple[type, ...]] = {
        "object": (dict,),
        "array": (list,),
        "string": (str,),
        "integer": (int,),
        "boolean": (bool,),
    }
    if "type" not in schema:
        return
    assert isinstance(value, kinds[schema["type"]]), path
    if isinstance(value, dict):
        for key, inner in value.items():
            inner_schema = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if inner_schema is None:
                assert schema.get("x-kubernetes-preserve-unknown-fields"), f"{path}.{key}"
            else:
                fits(inner, inner_schema, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            fits(inner, schema["items"], path)


FULL = {
    "image": "bert:3",
    "command": ["a"],
    "args": ["b"],
    "env": {"A": "1"},
    "secrets": [{"name": "s", "key": "k", "env": "S"}],
    "replicas": 2,
    "resources": {"cpu": 0.5, "memory": "1Gi", "gpu": 1, "gpuType": "h100", "shm": 1024, "wholeNode": True},
    "volumes": [{"name": "v", "path": "/v", "readOnly": True}],
    "checkpoint": {"path": "/c", "size": "1Gi"},
    "timeLimit": "7d",
    "grace": 60,
    "ports": [80],
    "user": 1000,
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "labels": {"a": "b"},
    "unknown": {"kept": True},
}


def test_a_spec_as_people_write_it() -> None:
    """Amounts as numbers or text, and fields that nobody knows, pass; what we write ourselves does too."""
    fits(FULL, SCHEMA["properties"]["spec"])
    known = {key: value for key, value in FULL.items() if key != "unknown"}
    fits(to_document(parse_spec(known), with_defaults=True), SCHEMA["properties"]["spec"])


def test_a_status_as_we_write_it() -> None:
    """A status with everything in it has the schema's types, the template inside it untouched."""
    status = RunStatus(
        attempt=Attempt(
            number=1, nodes="a-[1-2]", template=template_text({"spec": {"containers": [{"name": "main"}]}}), port=1
        ),
        exit_code=3,
        members=MemberCounts(total=2),
        notable=[Notable(rank=1, exit_code=1)],
        findings=[Finding("A", "b", "c")],
        avoid_nodes={"a-1": 2},
    )
    fits(msgspec.to_builtins(status), SCHEMA["properties"]["status"])


def test_columns_point_at_fields() -> None:
    """What `kubectl get` shows stands in the spec's schema, or in what is written as a status."""
    types = {"spec": SCHEMA["properties"]["spec"], "status": structural(msgspec.json.schema(RunStatus))}
    for column in VERSION["additionalPrinterColumns"]:
        part: dict[str, Any] = {"properties": types}
        for name in column["jsonPath"].strip(".").split("."):
            if name == "metadata":
                break
            part = part["properties"][name]
        else:
            assert part["type"] == column["type"], column


def test_a_field_of_several_types_needs_an_extension() -> None:
    """A union that the API server could not check is a mistake in our types, found here and not there."""
    with pytest.raises(ValueError):
        structural({"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}})
