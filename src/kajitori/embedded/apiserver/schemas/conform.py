"""Brings objects of built-in kinds into their kind's form: unknown fields are dropped, and values get their canonical
form. An object with a value of a wrong type is refused."""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import UTC, datetime
from typing import Any

from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.schemas.schema import Schema

# Empty values are dropped, except those of fields that are pointers in the API's types. OpenAPI does not distinguish
# the two, so they are listed here by name.
_KEPT_WHEN_EMPTY = frozenset({"eventTime", "hard", "holderIdentity", "used", "volumeAttributesClassName"})
_KEPT_BY_OWNER = {
    "EndpointPort": frozenset({"name", "protocol", "appProtocol"}),
    "PersistentVolumeClaimSpec": frozenset({"storageClassName"}),
}
_DROPPED_WHEN_FALSE = frozenset(
    {
        "globalDefault",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "publishNotReadyAddresses",
        "readOnly",
        "stdin",
        "stdinOnce",
        "tty",
        "unschedulable",
    }
)
_DROPPED_WHEN_ZERO = frozenset(
    {
        "count",
        "failureThreshold",
        "healthCheckNodePort",
        "hostPort",
        "initialDelaySeconds",
        "nodePort",
        "generation",
        "observedGeneration",
        "periodSeconds",
        "successThreshold",
        "timeoutSeconds",
    }
)
_WIDE = frozenset(
    {
        "activeDeadlineSeconds",
        "expirationSeconds",
        "fsGroup",
        "generation",
        "observedGeneration",
        "runAsGroup",
        "runAsUser",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
    }
)
_EXPECTED = {
    "array": "a list",
    "boolean": "true or false",
    "bytes": "text in base64",
    "integer": "a whole number",
    "intorstring": "a whole number or text",
    "map": "an object",
    "microtime": "a time",
    "number": "a number",
    "object": "an object",
    "string": "text",
    "time": "a time",
}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


class WrongType(ValueError):
    """A value cannot be read as its field's type; the message names the field."""


def type_name(value: Any) -> str:
    """Return the type of a JSON value, for messages."""
    if isinstance(value, bool):
        return "true or false"
    names = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")


def conform(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Bring an object into its kind's form, in place, and return `unknown field "spec.foo"` for each dropped field.

    Raises:
        WrongType: a value has another type than its field.
    """
    unknown: list[str] = []
    _conform_object(schema, obj, "", unknown)
    return unknown


def _conform_object(schema: Schema, obj: dict[str, Any], path: str, unknown: list[str]) -> None:
    properties = schema.properties
    owner = _short_name(schema)
    for name in list(obj):
        part = properties.get(name)
        if part is None:
            if not schema.preserve_unknown:
                unknown.append(f'unknown field "{path}{name}"')
                del obj[name]
            continue
        value = obj[name]
        if value is None:
            del obj[name]
            continue
        value = _conform_value(part, value, f"{path}{name}", unknown)
        if _is_left_out(schema, owner, name, part, value):
            del obj[name]
        else:
            obj[name] = value


def _short_name(schema: Schema) -> str:
    return schema.reference.rpartition(".")[2]


def _is_left_out(schema: Schema, owner: str, name: str, part: Schema, value: Any) -> bool:
    if value:
        return False
    if part.type == "object" or name in schema.required or name in _KEPT_WHEN_EMPTY:
        return False
    if name in _KEPT_BY_OWNER.get(owner, ()):
        return False
    if value is False:
        return name in _DROPPED_WHEN_FALSE
    if part.type in ("integer", "number"):
        return name in _DROPPED_WHEN_ZERO
    return part.type in ("string", "map", "array", "time", "microtime")


def _conform_value(schema: Schema, value: Any, path: str, unknown: list[str]) -> Any:
    match schema.type:
        case "object" if type(value) is dict:
            _conform_object(schema, value, f"{path}.", unknown)
            return value
        case "array" if type(value) is list:
            return _conform_array(schema, value, path, unknown)
        case "map" if type(value) is dict:
            return _conform_map(schema, value, path, unknown)
        case "string" if type(value) is str:
            return value
        case "boolean" if type(value) is bool:
            return value
        case "integer" if type(value) is int or (type(value) is float and value.is_integer()):
            return _conform_integer(int(value), path)
        case "number" if type(value) in (int, float):
            return value
        case "intorstring" if type(value) in (int, str):
            return value
        case "quantity" if type(value) in (int, float, str):
            return _conform_quantity(str(value), path)
        case "time" | "microtime" if type(value) is str:
            return _conform_time(value, path, micro=schema.type == "microtime")
        case "bytes" if type(value) is str:
            return _conform_bytes(value, path)
        case "any":
            return value
    raise _wrong_type(path, _EXPECTED.get(schema.type, "a quantity"), value)


def _wrong_type(path: str, expected: str, value: Any) -> WrongType:
    return WrongType(f"{path}: expected {expected}, not {type_name(value)}")


def _conform_integer(value: int, path: str) -> int:
    limit = 2**63 if path.rpartition(".")[2] in _WIDE else 2**31
    if -limit <= value < limit:
        return value
    raise WrongType(f"{path}: {value} is out of range")


def _conform_array(schema: Schema, value: list[Any], path: str, unknown: list[str]) -> list[Any]:
    items = schema.items
    if items is None:
        return value
    blank: Any = {} if items.type == "object" else ""
    return [
        _conform_value(items, blank if item is None else item, f"{path}[{index}]", unknown)
        for index, item in enumerate(value)
    ]


def _conform_map(schema: Schema, value: dict[str, Any], path: str, unknown: list[str]) -> dict[str, Any]:
    items = schema.items
    for key, item in value.items() if items is not None else ():
        assert items is not None
        if item is None:
            value[key] = "0" if items.type == "quantity" else ""
        elif items.type != "string" or type(item) is not str:
            value[key] = _conform_value(items, item, f"{path}.{key}", unknown)
    return value


def _conform_quantity(value: str, path: str) -> str:
    try:
        return quantities.canonical(value.strip())
    except ValueError as error:
        raise WrongType(f"{path}: {error}") from error


def _conform_time(value: str, path: str, *, micro: bool) -> str:
    if value == "":
        return ""
    found = _TIME.fullmatch(value)
    example = "2026-01-31T12:00:00.000000Z" if micro else "2026-01-31T12:00:00Z"
    if found is None or (micro and (found[2] is None or len(found[2]) != 7)):
        raise WrongType(f"{path}: {json.dumps(value)} is not a time such as {example}")
    try:
        moment = datetime.fromisoformat(found[1] + (f".{found[2][1:7]:0<6}" if found[2] else "") + found[3].upper())
    except ValueError as error:
        raise WrongType(f"{path}: {json.dumps(value)} is not a time: {error}") from error
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _conform_bytes(value: str, path: str) -> str:
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongType(f"{path}: not base64: {error}") from error
    return value


def conform_custom(schema: Schema, obj: dict[str, Any], *, applied: bool = False) -> list[str]:
    """Bring a custom resource into its form: only metadata has fixed types. Elsewhere unknown fields are dropped, and
    nulls that are not allowed and have no default. An applied object keeps its nulls.

    Raises:
        WrongType: metadata holds a value of another type than its field.
    """
    unknown: list[str] = []
    metadata = obj.get("metadata")
    if metadata is not None:
        if type(metadata) is not dict:
            raise _wrong_type("metadata", "an object", metadata)
        of_metadata = conform(schema.properties["metadata"], metadata)
        unknown += [one.replace('"', '"metadata.', 1) for one in of_metadata]
    unknown += prune(schema, obj)
    if not applied:
        _drop_nulls(schema, obj)
    return unknown


def _drop_nulls(schema: Schema, value: Any) -> None:
    """Drop nulls that are not allowed and have no default (PruneNonNullableNullsWithoutDefaults)."""
    if type(value) is dict:
        for name in list(value):
            part = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
            if part is None:
                continue
            if value[name] is None and not part.nullable and part.type != "any" and part.default is None:
                del value[name]
            else:
                _drop_nulls(part, value[name])
    elif type(value) is list and schema.items is not None:
        for one in value:
            _drop_nulls(schema.items, one)


def prune(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Drop, in place, what a custom resource's schema does not name, and return `unknown field "spec.foo"` for each."""
    unknown: list[str] = []
    if type(value) is list and schema.items is not None and schema.type == "array":
        for index, one in enumerate(value):
            unknown += prune(schema.items, one, f"{path}[{index}]")
    elif type(value) is dict and (schema.type != "any" or schema.properties):
        for name in list(value):
            where = f"{path}.{name}" if path else name
            part = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
            if part is not None:
                unknown += prune(part, value[name], where)
            elif not schema.preserve_unknown:
                unknown.append(f'unknown field "{where}"')
                del value[name]
    return unknown
