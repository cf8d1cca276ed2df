"""Checks that a CustomResourceDefinition's schema is structural, as pruning, defaulting and validation require."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.schemas.conform import prune
from kajitori.embedded.apiserver.schemas.custom import convert
from kajitori.embedded.apiserver.strategies.custom_kinds import rules
from kajitori.embedded.apiserver.strategies.custom_kinds.validation import validate

Document = dict[str, Any]
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = (
    *("$ref", "$schema", "definitions", "dependencies", "id", "patternProperties", "additionalItems", "uniqueItems"),
)
_NOT_IN_JUNCTORS = (
    *("additionalProperties", "default", "description", "nullable", "title", "type"),
    *(f"x-kubernetes-{name}" for name in ("embedded-resource", "int-or-string", "preserve-unknown-fields")),
)
_METADATA = "may have the properties name and generateName only"
_KEY_NEEDED = "must have a default or be required, since it is in x-kubernetes-list-map-keys"


def validate_structural(document: Any, field: str) -> list[Cause]:
    """Return every fault of the schema of one version."""
    if not isinstance(document, dict) or document.get("type") != "object":
        return [invalid(f"{field}.type", None, "must be object at the root")]
    causes: list[Cause] = []
    metadata = (document.get("properties") or {}).get("metadata", {})
    allowed = isinstance(metadata, dict) and metadata.keys() <= {"type", "properties", "description"}
    if not allowed or not (metadata.get("properties") or {}).keys() <= {"name", "generateName"}:
        causes.append(forbidden(f"{field}.properties[metadata]", _METADATA))
    return causes + _schema_faults(document, field, is_root=True) + _default_faults(document, field)


def _schema_faults(document: Any, field: str, *, is_root: bool = False) -> list[Cause]:
    if not isinstance(document, dict):
        return [invalid(field, document, "must be a schema object")]
    causes: list[Cause] = []
    kind = document.get("type")
    preserve = document.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not preserve and not document.get("x-kubernetes-int-or-string"):
        causes.append(required(f"{field}.type"))
    if kind and kind not in _TYPES:
        causes.append(not_supported(f"{field}.type", kind, _TYPES))
    if kind == "array" and "items" not in document:
        causes.append(required(f"{field}.items"))
    if document.get("properties") and document.get("additionalProperties") is not None:
        causes.append(forbidden(f"{field}.additionalProperties", "may not be combined with properties"))
    given = [name for name in _UNSUPPORTED if document.get(name)]
    causes += [forbidden(f"{field}.{name}", f"{name} is not supported") for name in given]
    if preserve is False:
        causes.append(invalid(f"{field}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    causes += rules.faults_of_definition(document.get("x-kubernetes-validations"), f"{field}.x-kubernetes-validations")
    causes += _list_faults(document, field) + _junctor_faults(document, field)
    for name, part in _nested_schemas(document):
        causes += _schema_faults(part, f"{field}.{name}") if not (is_root and name == "properties[metadata]") else []
    return causes


def _nested_schemas(document: Document) -> Iterator[tuple[str, Any]]:
    """Yield the schemas in a schema, with their paths."""
    for name, part in (document.get("properties") or {}).items():
        yield f"properties[{name}]", part
    for name in ("items", "additionalProperties"):
        if name in document and not isinstance(document[name], bool):
            yield name, document[name]


def _list_faults(document: Document, field: str) -> list[Cause]:
    causes: list[Cause] = []
    items, list_type = document.get("items"), document.get("x-kubernetes-list-type")
    for name, words in (("map-type", ("atomic", "granular")), ("list-type", ("atomic", "map", "set"))):
        value = document.get(f"x-kubernetes-{name}")
        if value is not None and value not in words:
            causes.append(not_supported(f"{field}.x-kubernetes-{name}", value, words))
    if list_type is None or not isinstance(items, dict):
        return causes
    if document.get("type") != "array":
        causes.append(invalid(f"{field}.type", document.get("type", ""), "must be array with x-kubernetes-list-type"))
    keys = document.get("x-kubernetes-list-map-keys") or []
    if list_type == "map" and not keys:
        causes.append(required(f"{field}.x-kubernetes-list-map-keys"))
    for key in keys if list_type == "map" else ():
        part = (items.get("properties") or {}).get(key)
        if part is None or ("default" not in part and key not in (items.get("required") or [])):
            causes.append(required(f"{field}.items.properties[{key}]", _KEY_NEEDED))
    if list_type == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        causes.append(required(f"{field}.items.x-kubernetes-map-type", "must be atomic for the items of a set"))
    return causes


def _junctor_faults(document: Document, field: str) -> list[Cause]:
    parts = [(name, part) for name in ("allOf", "anyOf", "oneOf") for part in document.get(name) or []]
    if document.get("x-kubernetes-int-or-string"):
        parts = [(name, part) for name, part in parts if set(part) - {"type"}]
    if document.get("not"):
        parts.append(("not", document["not"]))
    return [cause for name, part in parts for cause in _in_junctor(part, f"{field}.{name}")]


def _in_junctor(document: Any, field: str) -> list[Cause]:
    if not isinstance(document, dict):
        return [invalid(field, document, "must be a schema object")]
    given = [name for name in _NOT_IN_JUNCTORS if document.get(name)]
    causes = [forbidden(f"{field}.{name}", "must be empty to be structural") for name in given]
    for name, part in _nested_schemas(document):
        causes += _in_junctor(part, f"{field}.{name}") if name != "additionalProperties" else []
    return causes + _junctor_faults(document, field)


def _default_faults(document: Document, field: str) -> list[Cause]:
    """Return the faults of default values, which must be valid themselves."""
    causes: list[Cause] = []
    for name, part in _nested_schemas(document):
        where = f"{field}.{name}"
        if not isinstance(part, dict):
            continue
        if part.get("default") is not None:
            schema = convert(part)
            if prune(schema, copy.deepcopy(part["default"])):
                causes.append(invalid(f"{where}.default", part["default"], "must not have unknown fields"))
            faults = validate(schema, part["default"])
            causes += [Cause(fault.reason, f"{where}.default", fault.message) for fault in faults]
        causes += _default_faults(part, where)
    return causes
