"""Reading an object as the API server's decoder does: what a built-in kind doesn't know is dropped, values take their
canonical form, and a value of another type refuses the whole object."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kajitori.embedded.apiserver.schemas import quantities
from kajitori.embedded.apiserver.schemas.go_types import go_type
from kajitori.embedded.apiserver.schemas.schema import Schema

_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/=\r\n]")

# The decoder's structs leave out what is empty, but for fields that are pointers there. OpenAPI doesn't tell the two
# apart, so these are by name.
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
_NAMES = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool"}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


class WrongType(ValueError):
    """A value can't be decoded into its field; the message is what Go's decoder says."""


class _Mismatch(WrongType):
    """Go's decoder goes on after one, and tells the first at the end, unless something worse comes (a quantity or a
    time that can't be read)."""


@dataclass(slots=True)
class _Reading:
    """What was found on the way through an object."""

    unknown: list[str] = field(default_factory=list)
    mismatch: _Mismatch | None = None


def conform(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Bring an object into its kind's form, in place; answers `unknown field "spec.foo"` for what was dropped.

    Raises:
        WrongType: a value has another type than its field.
    """
    return _conformed(schema, obj)


def _conformed(schema: Schema, obj: dict[str, Any]) -> list[str]:
    reading = _Reading()
    _conform_object(schema, obj, "", reading)
    if reading.mismatch is not None:
        raise reading.mismatch
    return reading.unknown


def _conform_object(schema: Schema, obj: dict[str, Any], path: str, reading: _Reading) -> None:
    properties = schema.properties
    owner = _short(schema)
    for name in list(obj):
        part = properties.get(name)
        if part is None:
            if not schema.preserve_unknown:
                reading.unknown.append(f'unknown field "{path}{name}"')
                del obj[name]
            continue
        value = obj[name]
        if value is None:
            del obj[name]
            continue
        try:
            value = _conform_value(part, value, f"{path}{name}", reading, owner)
        except _Mismatch as mismatch:
            reading.mismatch = reading.mismatch or mismatch
            continue
        if _is_left_out(schema, owner, name, part, value):
            del obj[name]
        else:
            obj[name] = value


def _short(schema: Schema) -> str:
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


def _conform_value(schema: Schema, value: Any, path: str, reading: _Reading, owner: str) -> Any:
    kind = schema.type
    if kind == "string":
        if type(value) is str:
            return value
        # Phases have types of their own.
        named = path == "status.phase" and owner.endswith("Status")
        raise _mismatch(value, f"v1.{owner.removesuffix('Status')}Phase" if named else "string", path, owner)
    if kind == "object":
        if type(value) is dict:
            _conform_object(schema, value, f"{path}.", reading)
            return value
        raise _mismatch(value, f"v1.{_short(schema)}", path, owner)
    if kind == "array":
        return _conform_array(schema, value, path, reading, owner)
    if kind == "map":
        return _conform_map(schema, value, path, reading, owner)
    if kind == "boolean":
        if type(value) is bool:
            return value
        raise _mismatch(value, "bool", path, owner)
    return _conform_scalar(kind, value, path, owner)


def _conform_scalar(kind: str, value: Any, path: str, owner: str) -> Any:
    if kind == "integer":
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int:
            wide = path.rpartition(".")[2] in _WIDE
            if -(2**63 if wide else 2**31) <= value < (2**63 if wide else 2**31):
                return value
            where = re.sub(r"\[\d+\]", "", path)
            kind = "int64" if wide else "int32"
            raise _Mismatch(
                f"json: cannot unmarshal number {value} into Go struct field {owner}.{where} of type {kind}"
            )
        wanted = "int64" if path.rpartition(".")[2] in _WIDE else "int32"
        if type(value) is float:
            raise _mismatch(value, wanted, path, owner, f"number {json.dumps(value)}")
        raise _mismatch(value, wanted, path, owner)
    if kind == "quantity":
        return _conform_quantity(value)
    if kind in ("time", "microtime"):
        return _conform_time(value, micro=kind == "microtime")
    if kind == "intorstring":
        if type(value) in (int, str):
            return value
        raise WrongType(f"json: cannot unmarshal {go_type(value)} into Go value of type int32")
    if kind == "number":
        if type(value) in (int, float):
            return value
        raise _mismatch(value, "float64", path, owner)
    if kind == "bytes":
        return _conform_bytes(value, path, owner)
    return value


def _conform_array(schema: Schema, value: Any, path: str, reading: _Reading, owner: str) -> Any:
    if type(value) is not list:
        inner = schema.items or schema
        name = f"v1.{_short(inner)}" if inner.reference else _NAMES.get(inner.type, inner.type)
        raise _mismatch(value, f"[]{name}", path, owner)
    items = schema.items
    if items is None:
        return value
    if items.type == "object":
        for index, one in enumerate(value):
            if type(one) is not dict:
                if one is None:
                    value[index] = {}
                    continue
                raise _mismatch(one, f"v1.{_short(items)}", path, owner)
            _conform_object(items, one, f"{path}[{index}].", reading)
        return value
    return [
        _conform_value(items, "" if one is None else one, f"{path}[{i}]", reading, owner) for i, one in enumerate(value)
    ]


def _conform_map(schema: Schema, value: Any, path: str, reading: _Reading, owner: str) -> Any:
    if type(value) is not dict:
        inner = schema.items.type if schema.items is not None else "any"
        raise _mismatch(value, f"map[string]{_NAMES.get(inner, inner)}", path, owner)
    items = schema.items
    if items is None:
        return value
    for key, one in value.items():
        if one is None:
            value[key] = "0" if items.type == "quantity" else ""
        elif items.type != "string" or type(one) is not str:
            value[key] = _conform_value(items, one, path, reading, owner)
    return value


def _conform_quantity(value: Any) -> str:
    if type(value) in (int, float):
        value = str(value)
    if type(value) is not str:
        raise WrongType(f"quantities must match the regular expression '{quantities.PATTERN}'")
    try:
        return quantities.canonical(value.strip())
    except ValueError as error:
        raise WrongType(str(error)) from error


def _conform_time(value: Any, *, micro: bool) -> str:
    if type(value) is not str:
        raise WrongType(f"json: cannot unmarshal {go_type(value)} into Go value of type string")
    found = _TIME.fullmatch(value)
    if found is None:
        if value == "":
            return ""
        given = json.dumps(value)
        layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
        raise WrongType(f'parsing time {given} as "{layout}": cannot parse {given} as "2006"')
    try:
        moment = datetime.fromisoformat(found[1] + (f".{found[2][1:7]:0<6}" if found[2] else "") + found[3].upper())
    except ValueError as error:
        raise WrongType(f'parsing time "{value}": {error}') from error
    if micro and (found[2] is None or len(found[2]) != 7):
        given = json.dumps(value)
        rest = json.dumps((found[2] or "") + found[3])
        raise WrongType(f'parsing time {given} as "2006-01-02T15:04:05.000000Z07:00": cannot parse {rest} as ".000000"')
    moment = moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _conform_bytes(value: Any, path: str, owner: str) -> str:
    if type(value) is not str:
        raise _mismatch(value, "[]uint8", path, owner)
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        wrong = _NO_BASE64.search(value)
        raise _Mismatch(f"illegal base64 data at input byte {wrong.start() if wrong else len(value)}") from error
    return value


def _mismatch(value: Any, wanted: str, path: str, owner: str, found: str = "") -> _Mismatch:
    where = re.sub(r"\[\d+\]", "", path)
    return _Mismatch(
        f"json: cannot unmarshal {found or go_type(value)} into Go struct field {owner}.{where} of type {wanted}"
    )


def conform_custom(schema: Schema, obj: dict[str, Any], *, applied: bool = False) -> list[str]:
    """The same for a custom resource: only its metadata has fixed types; elsewhere just unknown fields are dropped, and
    nulls that are neither allowed nor stand for a default. An applied one keeps its nulls.

    Raises:
        WrongType: metadata holds a value of another type than its field.
    """
    unknown: list[str] = []
    metadata = obj.get("metadata")
    if metadata is not None:
        if type(metadata) is not dict:
            raise _mismatch(metadata, "ObjectMeta", "metadata", "")
        of_metadata = _conformed(schema.properties["metadata"], metadata)
        unknown += [one.replace('"', '"metadata.', 1) for one in of_metadata]
    _prune(schema, {name: value for name, value in obj.items() if name != "metadata"}, "", unknown, obj)
    if not applied:
        _drop_nulls(schema, obj)
    return unknown


def _drop_nulls(schema: Schema, value: Any) -> None:
    """PruneNonNullableNullsWithoutDefaults."""
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


def prune(schema: Schema, value: Any) -> list[str]:
    """Drop, in place, what a custom resource's schema doesn't name; answers the paths."""
    unknown: list[str] = []
    if type(value) is dict:
        _prune(schema, dict(value), "", unknown, value)
    elif type(value) is list and schema.items is not None:
        for index, one in enumerate(value):
            if type(one) is dict:
                _prune(schema.items, dict(one), f"[{index}].", unknown, one)
    return unknown


def _prune(schema: Schema, members: dict[str, Any], path: str, unknown: list[str], obj: dict[str, Any]) -> None:
    for name, value in members.items():
        part = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
        if part is None:
            if not schema.preserve_unknown:
                unknown.append(f'unknown field "{path}{name}"')
                del obj[name]
            continue
        _prune_value(part, value, f"{path}{name}", unknown)


def _prune_value(schema: Schema, value: Any, path: str, unknown: list[str]) -> None:
    if type(value) is dict:
        if schema.type != "any" or schema.properties:
            _prune(schema, dict(value), f"{path}.", unknown, value)
    elif type(value) is list and schema.items is not None and schema.type == "array":
        for index, one in enumerate(value):
            _prune_value(schema.items, one, f"{path}[{index}]", unknown)
