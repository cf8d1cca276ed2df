"""Checks that a CustomResourceDefinition's schema is structural, as pruning, defaulting and validation require."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.apiserver.causes import Cause, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.schemas.conform import prune
from kajitori.embedded.apiserver.schemas.custom import convert
from kajitori.embedded.apiserver.strategies import rules
from kajitori.embedded.apiserver.strategies.custom_validation import validate

Document = dict[str, Any]
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("$ref", "$schema", "definitions", "dependencies", "id", "patternProperties", "additionalItems")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_NOT_IN_JUNCTORS = (
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
)
_KEY_NEEDED = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"


def validate_structural(document: Document, field: str) -> list[Cause]:
    """Return every fault of the schema of one version."""
    causes: list[Cause] = []
    kind = document.get("type")
    if not kind:
        causes.append(required(f"{field}.type", "must not be empty at the root"))
    elif kind != "object":
        detail = "must be object at the root"
        causes.append(invalid(f"{field}.type", kind, detail))
    if "metadata" in (document.get("properties") or {}):
        causes += _metadata(document["properties"]["metadata"], f"{field}.properties[metadata]")
    return causes + _node(document, field, is_root=True) + _defaults(document, field)


def _metadata(document: Any, field: str) -> list[Cause]:
    allowed = isinstance(document, dict) and document.keys() <= {"type", "properties", "description"}
    if allowed and (document.get("properties") or {}).keys() <= {"name", "generateName"}:
        return []
    detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
    return [forbidden(field, detail)]


def _node(document: Any, field: str, *, is_root: bool = False) -> list[Cause]:
    if not isinstance(document, dict):
        return [invalid(field, document, "must be a schema object")]
    causes: list[Cause] = []
    kind = document.get("type")
    free = document.get("x-kubernetes-int-or-string") or document.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not free and not is_root:
        causes.append(required(f"{field}.type", "must not be empty for specified object fields"))
    if kind and kind not in _TYPES:
        causes.append(not_supported(f"{field}.type", kind, _TYPES))
    if kind == "array" and "items" not in document:
        causes.append(required(f"{field}.items", "must be specified"))
    if isinstance(document.get("items"), list):
        causes.append(forbidden(f"{field}.items", "items must be a schema object and not an array"))
    if document.get("properties") and document.get("additionalProperties") is not None:
        detail = "additionalProperties and properties are mutual exclusive"
        causes.append(forbidden(f"{field}.additionalProperties", detail))
    given = [name for name in _UNSUPPORTED if document.get(name)]
    causes += [forbidden(f"{field}.{name}", f"{name} is not supported") for name in given]
    if document.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{field}.uniqueItems", detail))
    if document.get("x-kubernetes-preserve-unknown-fields") is False:
        causes.append(invalid(f"{field}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    causes += rules.faults_of_definition(document.get("x-kubernetes-validations"), f"{field}.x-kubernetes-validations")
    causes += _lists(document, field) + _junctors(document, field)
    for name, part in (document.get("properties") or {}).items():
        causes += _node(part, f"{field}.properties[{name}]") if not (is_root and name == "metadata") else []
    if isinstance(document.get("items"), dict):
        causes += _node(document["items"], f"{field}.items")
    if isinstance(document.get("additionalProperties"), dict):
        causes += _node(document["additionalProperties"], f"{field}.additionalProperties")
    return causes


def _lists(document: Document, field: str) -> list[Cause]:
    causes: list[Cause] = []
    map_type = document.get("x-kubernetes-map-type")
    if map_type not in (None, "atomic", "granular"):
        causes.append(not_supported(f"{field}.x-kubernetes-map-type", map_type, ("atomic", "granular")))
    list_type, keys = document.get("x-kubernetes-list-type"), document.get("x-kubernetes-list-map-keys") or []
    if list_type is None:
        return causes
    if list_type not in ("atomic", "map", "set"):
        causes.append(not_supported(f"{field}.x-kubernetes-list-type", list_type, ("atomic", "map", "set")))
    if document.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        return [*causes, invalid(f"{field}.type", document.get("type", ""), detail)]
    items = document.get("items") if isinstance(document.get("items"), dict) else {}
    assert isinstance(items, dict)
    if list_type == "map":
        if not keys:
            detail = "must not be empty if x-kubernetes-list-type is map"
            causes.append(required(f"{field}.x-kubernetes-list-map-keys", detail))
        for key in keys:
            part = (items.get("properties") or {}).get(key)
            where = f"{field}.items.properties[{key}]"
            if part is None:
                detail = "entries must all be names of item properties"
                causes.append(invalid(f"{field}.x-kubernetes-list-map-keys", key, detail))
            elif "default" not in part and key not in (items.get("required") or []):
                causes.append(required(f"{where}.default", _KEY_NEEDED))
    if list_type == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        causes.append(invalid(f"{field}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), detail))
    return causes


def _junctors(document: Document, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in _JUNCTORS:
        for index, part in enumerate(document.get(name) or []):
            if document.get("x-kubernetes-int-or-string") and set(part) <= {"type"}:
                continue
            causes += _in_junctor(part, f"{field}.{name}[{index}]")
    if document.get("not"):
        causes += _in_junctor(document["not"], f"{field}.not")
    return causes


def _in_junctor(document: Any, field: str) -> list[Cause]:
    if not isinstance(document, dict):
        return [invalid(field, document, "must be a schema object")]
    causes = [
        forbidden(f"{field}.{name}", "must be empty to be structural")
        for name in _NOT_IN_JUNCTORS
        if document.get(name)
    ]
    for name, part in (document.get("properties") or {}).items():
        causes += _in_junctor(part, f"{field}.properties[{name}]")
    if isinstance(document.get("items"), dict):
        causes += _in_junctor(document["items"], f"{field}.items")
    return causes + _junctors(document, field)


def _defaults(document: Document, field: str) -> list[Cause]:
    """Return the faults of default values, which must be valid themselves."""
    causes: list[Cause] = []
    for name, part in (document.get("properties") or {}).items():
        if isinstance(part, dict):
            where = f"{field}.properties[{name}]"
            if part.get("default") is not None:
                schema = convert(part)
                if prune(schema, _copied(part["default"])):
                    causes.append(invalid(f"{where}.default", part["default"], "must not have unknown fields"))
                faults = validate(schema, part["default"])
                causes += [Cause(fault.reason, f"{where}.default", fault.message) for fault in faults]
            causes += _defaults(part, where)
    for name in ("items", "additionalProperties"):
        if isinstance(document.get(name), dict):
            causes += _defaults(document[name], f"{field}.{name}")
    return causes


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value
