"""The CustomResourceDefinition of `Run`, made from the same types that read and write it.

The schema has everything that a schema can express: types, sizes, ranges, enumerations, required fields, and CEL rules
with our own messages for fields that exclude or need each other. So `kubectl apply` refuses `replicas: -1` at once.
Every spec that `parse_spec` accepts passes the schema. The reverse does not hold: `parse_spec` and `decide` check the
rest, for example what the policy allows. They refuse a Run from `kubectl` in its status, with the messages of the
command line. For that reason unknown fields are kept: if the API server dropped a misspelt `gpus: 8`, the run would
start without GPUs and without a warning.

Pydantic's and msgspec's schemas are not structural, as the API server requires: references are written out, `null`
branches are left out, and a field of several types gets the extension for it.

The schema does not describe the fields of the status. Only Kajitori writes the status, as a whole, and checks it on
reading (`core.spec.status_check`). Typed status fields would double the memory that a status write costs the API
server, and tracking the owner of each field would double it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import msgspec

from kajitori.core.documents.fields import RULES
from kajitori.core.naming import names
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus

Schema = dict[str, Any]

SHORT_NAME = "kj"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIMITS = (
    "enum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "required",
    RULES,
)
"""Restrictions that are taken over as they are."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def custom_resource_definition() -> dict[str, Any]:
    """Return the definition. An API server needs it before it can store Runs."""
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
                    "additionalPrinterColumns": [_printer_column(*column) for column in _COLUMNS],
                }
            ],
        },
    }


@cache
def _schema() -> Schema:
    """Return the schema of all fields of a Run. Making it takes a tenth of a second."""
    spec = structural(RunSpec.model_json_schema(by_alias=True))
    fields = ", ".join(field.encode_name for field in msgspec.structs.fields(RunStatus))
    about = f"What became of it; written by Kajitori alone. Its fields: {fields}."
    return {
        "type": "object",
        "description": "A training or a service: members that are placed, started and kept alive together.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec | {"description": "What is to run, in Docker's words."},
            "status": {"type": "object", _PRESERVE: True, "x-kubernetes-map-type": "atomic", "description": about},
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


def _printer_column(name: str, kind: str, path: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column


def structural(schema: Mapping[str, Any]) -> Schema:
    """Return a JSON schema in the structural form that Kubernetes requires: without references, with all unknown fields
    kept."""
    return _convert_schema(schema, schema.get("$defs", {}))


def _convert_schema(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    described = {"description": schema["description"]} if schema.get("description") else {}
    if "$ref" in schema:
        return _convert_schema(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions) | described
    if schema.get(_INT_OR_STRING):
        return {_INT_OR_STRING: True} | described | _restrictions(schema)
    if schema.get(_PRESERVE):
        return {_PRESERVE: True} | described
    if "anyOf" in schema:
        branches = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
        if len(branches) != 1:
            raise ValueError(f"a field with several types needs an extension that says so: {schema}")
        return _convert_schema(branches[0], definitions) | described
    kind = schema.get("type", "string" if "enum" in schema else None)
    converted: Schema = {"type": kind, **described, **_restrictions(schema)}
    if kind == "array":
        converted["items"] = _convert_schema(schema["items"], definitions)
    elif kind == "integer":
        converted["format"] = "int64"
    elif kind == "object":
        values = schema.get("additionalProperties")
        if schema.get("properties"):
            properties = schema["properties"].items()
            converted["properties"] = {name: _convert_schema(part, definitions) for name, part in properties}
            converted[_PRESERVE] = True
        elif isinstance(values, Mapping) and values:
            converted["additionalProperties"] = _convert_schema(values, definitions)
        else:
            converted[_PRESERVE] = True
    return converted


def _restrictions(schema: Mapping[str, Any]) -> Schema:
    """Return the restrictions of a field. A minimum is left out if a rule states it with our message: the API server
    would report it twice."""
    limits = {name: schema[name] for name in _LIMITS if name in schema}
    if any(rule["rule"] == f"self >= {limits.get('minimum')}" for rule in limits.get(RULES, ())):
        del limits["minimum"]
    return limits
