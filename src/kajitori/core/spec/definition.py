"""The CustomResourceDefinition of `Run`, made from the same types that read and write it.

The API server checks types and sizes, so that nobody fills etcd with what is refused anyway; what goes together, what
is known and what is allowed is `parse_spec`'s and `decide`'s to say, so that a Run from `kubectl` is refused with the
same words as one from the command line. Hence unknown fields are kept rather than dropped: a dropped `gpus: 8` would
start a run without GPUs and tell nobody.

Pydantic's and msgspec's schemas are not structural, as the API server wants them: references are written out, `null`
branches are left out, and where a field takes several types the extension that says so takes their place.

A status is one thing to the API server, whose fields it does not know: it has one writer, who always writes all of it,
and who checks what he reads (`core.spec.status_check`). With its types here half of the memory that a write of it costs
the API server would go into checking them; with its leaves listed one by one as somebody's, as much again.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import msgspec

from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.words import names

Schema = dict[str, Any]

SHORT_NAME = "kj"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_WORD_LENGTH = 63
"""Of a field that is one of a few words."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def custom_resource_definition() -> dict[str, Any]:
    """The definition that an API server has to know before there can be Runs."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names.PLURAL}.{names.GROUP}",
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.KIND.lower(),
                "shortNames": [SHORT_NAME],
                "categories": ["kajitori"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": deepcopy(_schema())},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(*column) for column in _COLUMNS],
                }
            ],
        },
    }


@cache
def _schema() -> Schema:
    """Of all fields of a Run: working it out takes a tenth of a second."""
    spec = structural(RunSpec.model_json_schema(by_alias=True))
    fields = ", ".join(field.encode_name for field in msgspec.structs.fields(RunStatus))
    told = f"What became of it; written by Kajitori alone. Its fields: {fields}."
    return {
        "type": "object",
        "description": "A training or a service: members that are placed, started and kept alive together.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec | {"description": "What is to run, in Docker's words."},
            "status": {"type": "object", _PRESERVE: True, "x-kubernetes-map-type": "atomic", "description": told},
        },
    }


_COLUMNS = (
    ("Phase", "string", ".status.phase", 0),
    ("Reason", "string", ".status.reason", 0),
    ("Members", "integer", ".status.members.total", 0),
    ("Running", "integer", ".status.members.running", 0),
    ("GPU", "integer", ".spec.resources.gpu", 0),
    ("Restarts", "integer", ".status.restarts", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Image", "string", ".spec.image", 1),
    ("Nodes", "string", ".status.attempt.nodes", 1),
    ("Message", "string", ".status.message", 1),
)


def _column(name: str, kind: str, path: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column


def structural(schema: Mapping[str, Any]) -> Schema:
    """A JSON schema as Kubernetes wants it: types only, no references, nothing unknown dropped."""
    return _converted(schema, schema.get("$defs", {}))


def _converted(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    described = {"description": schema["description"]} if schema.get("description") else {}
    if "$ref" in schema:
        return _converted(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions) | described
    if schema.get(_INT_OR_STRING):
        return {_INT_OR_STRING: True} | described
    if schema.get(_PRESERVE):
        return {_PRESERVE: True} | described
    if "anyOf" in schema:
        branches = [each for each in schema["anyOf"] if each.get("type") != "null"]
        if len(branches) != 1:
            raise ValueError(f"a field with several types needs an extension that says so: {schema}")
        return _converted(branches[0], definitions) | described
    if "enum" in schema:
        words = [str(word) for word in schema["enum"] if word != ""]
        text = f"{schema['description']} " if schema.get("description") else ""
        return {"type": "string", "maxLength": _WORD_LENGTH, "description": f"{text}One of {', '.join(words)}."}
    kind = schema["type"]
    converted: Schema = {"type": kind, **described}
    converted |= {name: schema[name] for name in ("maxItems", "maxLength", "maxProperties") if name in schema}
    if kind == "array":
        converted["items"] = _converted(schema["items"], definitions)
    elif kind == "integer":
        converted["format"] = "int64"
    elif kind == "object":
        values = schema.get("additionalProperties")
        if schema.get("properties"):
            properties = schema["properties"].items()
            converted["properties"] = {name: _converted(each, definitions) for name, each in properties}
            converted[_PRESERVE] = True
        elif isinstance(values, Mapping) and values:
            converted["additionalProperties"] = _converted(values, definitions)
        else:
            converted[_PRESERVE] = True
    return converted
