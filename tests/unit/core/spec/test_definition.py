"""An API server accepts the custom resource's schema, which agrees with the types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kajitori.core.documents.fields import RULES
from kajitori.core.spec.definition import custom_resource_definition, structural
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import RunSpec, to_document
from kajitori.core.spec.status import Finding, RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.core.spec.status_parts.members import MemberCounts, Notable
from kajitori.embedded.apiserver.schemas.custom import convert
from kajitori.embedded.apiserver.schemas.schema import ABSENT
from kajitori.embedded.apiserver.strategies.custom_kinds.rules import rule_faults
from kajitori.embedded.apiserver.strategies.custom_kinds.validation import validate
from kajitori.errors import InvalidInput

VERSION = custom_resource_definition()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]

BOUNDS = {"array": "maxItems", "object": "maxProperties", "string": "maxLength"}


def parts(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema inside a schema, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from parts(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from parts(schema[key], f"{path}.{key}")


def test_the_schema_is_structural() -> None:
    """Each part has a type or the extension that replaces it; there are no references, alternatives or nulls."""
    allowed = {"type", "description", "properties", "items", "additionalProperties", "format", *BOUNDS.values()}
    allowed |= {"enum", "maximum", "minimum", "minItems", "minLength", "pattern", "required", RULES}
    extensions = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type"}
    for path, schema in parts(SCHEMA):
        assert schema.keys() <= allowed | extensions, path
        assert "type" in schema or schema.keys() & extensions, path
        assert not ("properties" in schema and "additionalProperties" in schema), path


def test_every_list_map_and_text_of_a_spec_has_a_limit() -> None:
    """A Run from kubectl would be refused by the controller, but would be in etcd already."""
    for path, schema in parts(SCHEMA["properties"]["spec"], "spec"):
        kind = schema.get("type")
        if kind in BOUNDS and "properties" not in schema and "enum" not in schema:
            assert schema[BOUNDS[kind]] > 0, path


def test_the_schema_keeps_unknown_fields_and_sets_no_defaults() -> None:
    """A dropped `gpus: 8` would start a run without GPUs. Defaults are the policy's."""
    for path, schema in parts(SCHEMA["properties"]["spec"], "spec"):
        assert "default" not in schema, path
        if "properties" in schema:
            assert schema["x-kubernetes-preserve-unknown-fields"] is True, path


def faults(spec: dict[str, Any]) -> list[str]:
    """Return the messages of an API server about a spec."""
    schema = convert(SCHEMA)
    found = validate(schema, {"spec": spec})
    return [str(fault) for fault in found + rule_faults(schema, {"spec": spec}, ABSENT, found)]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: a run has at least one member"),
        ({"replicas": 100_000}, "spec.replicas"),
        ({"resources": {"gpu": -3}}, "spec.resources.gpu"),
        ({"resources": {"memory": "1Qi"}}, 'spec.resources.memory: Invalid value: "1Qi": write a size above zero'),
        ({"resources": {"memory": 0}}, "spec.resources.memory: Invalid value: 0: write a size above zero"),
        ({"resources": {"gpuType": "h100"}}, "spec.resources: Invalid value: a GPU type is given"),
        ({"timeLimit": "soon"}, 'spec.timeLimit: Invalid value: "soon": write seconds, or a time'),
        ({"launcher": "tourchrun"}, 'supported values: "none", "torchrun", "mpi"'),
        ({"launcher": "mpi"}, "launcher mpi needs a command"),
        ({"stdin": True, "replicas": 2}, "only a run with one member can have stdin or a terminal"),
        ({"tty": True, "array": "0"}, "only a run with one member can have stdin or a terminal"),
        ({"launcher": "torchrun", "type": "service"}, "a launcher needs members that start and end together"),
        ({"array": "0-9", "replicas": 3}, "replicas and array cannot be combined"),
        ({"array": "0-9", "type": "service"}, "only runs of type batch can be sweeps"),
        ({"array": "0-9", "launcher": "torchrun"}, "launcher and array cannot be combined"),
        ({"array": "0-9", "minReplicas": 1}, "a sweep cannot be elastic"),
        ({"stopAt": "first-success"}, "stopAt applies to sweeps only"),
        ({"minReplicas": 4, "replicas": 2}, "minReplicas is above replicas"),
        ({"stuckAfter": "20m", "array": "0-9"}, "only gangs are watched for hangs"),
        ({"onStuck": "restart", "type": "service"}, "only gangs are watched for hangs"),
        ({"onStuck": "restart", "restarts": 0}, "onStuck is restart, but restarts is 0"),
        ({"minReplicas": 1, "type": "service"}, "only runs of type batch can be elastic"),
        ({"minReplicas": 1, "launcher": "mpi", "args": ["a"]}, "an MPI gang cannot be elastic"),
        ({"volumes": [{"path": "/a"}]}, "spec.volumes[0]: Invalid value: a volume has either the name"),
        ({"volumes": [{"name": "a", "path": "b"}]}, 'spec.volumes[0].path: Invalid value: "b": begin it with /'),
        ({"volumes": [{"name": "A b", "path": "/b"}]}, "spec.volumes[0].name"),
        ({"volumes": [{"name": "a"}]}, "spec.volumes[0].path: Required value"),
        ({"secrets": [{"name": "a", "key": "k"}]}, "spec.secrets[0]: Invalid value: key and env must be set together"),
        ({"secrets": [{"name": "a", "key": "k", "env": "E", "path": "/p"}]}, "path and env cannot be combined"),
        ({"tolerations": [{"operator": "Exists", "value": "v"}]}, "Exists takes no value"),
        ({"tolerations": [{"effect": "NoSchedule"}]}, "a toleration with operator Equal needs a key"),
        ({"ports": [70000]}, "spec.ports[0]"),
        ({"user": "ada"}, 'spec.user: Invalid value: "ada": write numbers'),
        ({"code": {"digest": "sha256:12"}}, "spec.code.digest"),
    ],
)
def test_the_schema_refuses_only_what_parse_spec_refuses(spec: dict[str, Any], said: str) -> None:
    """Its messages name the field and the remedy."""
    whole = {"image": "bert:3", **spec}
    assert any(said in fault for fault in faults(whole)), faults(whole)
    with pytest.raises(InvalidInput):
        parse_spec(whole)


@pytest.mark.parametrize(
    "spec",
    [
        {"resources": {"memory": "64g", "shm": "1.5 GB", "cpu": 0.5}, "timeLimit": "1:30:00", "grace": 0},
        {"resources": {"memory": "1e9", "shm": "500m"}, "timeLimit": "2-12", "removeAfter": "1.5h"},
        {"resources": {"memory": " 64Gi ", "gpuType": "h100", "wholeNode": True}, "user": "1000:1000"},
        {"array": "0-9%3", "stopAt": "first-failure", "replicas": 1, "launcher": "none", "type": "batch"},
        {"minReplicas": 2, "replicas": 4, "launcher": "torchrun"},
        {"launcher": "mpi", "command": ["mpirun"], "replicas": 99_999},
        {"type": "service", "tolerations": [{"operator": "Exists"}, {"key": "a", "effect": ""}]},
        {"secrets": [{"name": "a"}, {"name": "a", "path": "/p"}, {"name": "a", "key": "k", "env": "E"}]},
    ],
)
def test_the_schema_accepts_valid_specs(spec: dict[str, Any]) -> None:
    whole = {"image": "bert:3", **spec}
    parse_spec(whole)
    assert faults(whole) == []


def test_server_side_apply_treats_the_status_as_one_field() -> None:
    """It has one writer, which validates it; several may share a spec."""
    atomic = [path for path, schema in parts(SCHEMA) if schema.get("x-kubernetes-map-type") == "atomic"]
    assert atomic == [".status"]
    assert SCHEMA["properties"]["status"]["x-kubernetes-preserve-unknown-fields"] is True
    assert "properties" not in SCHEMA["properties"]["status"]


def test_the_schema_has_exactly_the_fields_of_spec_and_status() -> None:
    """Each has a description."""
    spec = SCHEMA["properties"]["spec"]["properties"]
    assert set(spec) == {info.alias or name for name, info in RunSpec.model_fields.items()}
    told = SCHEMA["properties"]["status"]["description"].split("Its fields: ")[1].rstrip(".").split(", ")
    assert told == [field.encode_name for field in msgspec.structs.fields(RunStatus)]
    assert spec["resources"]["properties"]["memory"]["x-kubernetes-int-or-string"] is True
    assert spec["type"]["enum"] == ["batch", "service", "notebook"]


def fits(value: Any, schema: dict[str, Any], path: str = "") -> None:
    """Assert that a value has the types of a structural schema, as an API server checks them."""
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


def test_the_schema_accepts_specs_in_all_notations() -> None:
    """Amounts as numbers or text, unknown fields, and everything that Kajitori writes."""
    fits(FULL, SCHEMA["properties"]["spec"])
    known = {key: value for key, value in FULL.items() if key != "unknown"}
    fits(to_document(parse_spec(known), with_defaults=True), SCHEMA["properties"]["spec"])


def test_the_schema_accepts_a_full_status() -> None:
    """The template inside it is unchanged."""
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


def test_columns_of_kubectl_get_refer_to_existing_fields() -> None:
    types = {"spec": SCHEMA["properties"]["spec"], "status": structural(msgspec.json.schema(RunStatus))}
    for column in VERSION["additionalPrinterColumns"]:
        part: dict[str, Any] = {"properties": types}
        for name in column["jsonPath"].strip(".").split("."):
            if name == "metadata":
                break
            part = part["properties"][name]
        else:
            assert part["type"] == column["type"], column


def test_a_union_that_the_api_server_cannot_check_is_an_error() -> None:
    """It is a mistake in our types, and is found here."""
    with pytest.raises(ValueError):
        structural({"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}})
