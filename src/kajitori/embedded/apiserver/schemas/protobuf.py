"""Reads bodies in Kubernetes' protobuf form, which kubectl and other Go clients send for built-in kinds.

Nothing is written in this form, because these clients accept answers in JSON. The envelope is `runtime.Unknown` of
k8s.io/apimachinery.

`protobuf_fields.txt` has a line per type: its name and the names of its fields by number, from k8s.io/api's
generated.proto files. `-` is an unused number; the fields of an embedded type, `+type`, belong to the object itself.
Types that nothing here uses, such as volumes of cloud providers, are left out. An object with one is refused.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from kajitori.embedded.apiserver.schemas.models import PACKAGES, model_schema
from kajitori.embedded.apiserver.schemas.nesting import decode_json
from kajitori.embedded.apiserver.schemas.schema import Schema

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODULES = {package: module for module, package in PACKAGES.items()}
_EVERYWHERE = ("DeleteOptions",)
"""Kinds of meta/v1 that are sent under every group."""


@functools.cache
def _field_names() -> dict[str, list[str]]:
    """Return the names of the fields of each type, in the order of their numbers."""
    text = (resources.files(__package__) / "protobuf_fields.txt").read_text()
    return {name: fields for name, *fields in map(str.split, text.splitlines())}


def decode(body: bytes) -> dict[str, Any]:
    """Decode a body to the object in its JSON form.

    Raises:
        ValueError: the body is damaged, or its kind has no protobuf form here.
    """
    if not body.startswith(_MAGIC):
        raise ValueError("the body does not start with the magic bytes of Kubernetes' protobuf")
    api_version, kind, raw = "", "", b""
    for number, value in _message_fields(body[len(_MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            for part, text in _message_fields(value):
                if isinstance(text, bytes):
                    api_version, kind = (text.decode(), kind) if part == 1 else (api_version, text.decode())
        elif number == 2 and isinstance(value, bytes):
            raw = value
    group, _, version = api_version.rpartition("/")
    module = "meta_v1" if kind in _EVERYWHERE else f"{group.partition('.')[0] or 'core'}_{version}"
    if module not in PACKAGES or f"{module}.{kind}" not in _field_names():
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    obj = _read_message(raw, f"{module}.{kind}", model_schema(module, kind))
    return {**obj, "apiVersion": api_version, "kind": kind}


def _read_message(data: bytes, key: str, schema: Schema) -> dict[str, Any]:
    obj: dict[str, Any] = {}
    _read_into(obj, data, key, schema)
    return obj


def _read_into(obj: dict[str, Any], data: bytes, key: str, schema: Schema) -> None:
    names = _field_names().get(key)
    if names is None:
        raise ValueError(f"{key.partition('.')[2]} is not read as protobuf here: send JSON")
    for number, value in _message_fields(data):
        name = names[number - 1] if number <= len(names) else "-"
        if name.startswith("+"):
            if isinstance(value, bytes):
                _read_into(obj, value, name[1:], schema)
            continue
        part = schema.properties.get(name)
        if part is None:
            continue
        if part.type == "array":
            _extend_list(obj.setdefault(name, []), part.items or part, value)
        elif part.type == "map":
            _add_entry(obj.setdefault(name, {}), part.items or part, value)
        else:
            found = _field_value(part, value)
            if found is not None:
                obj[name] = found


def _extend_list(items: list[Any], schema: Schema, value: int | bytes) -> None:
    if schema.type == "integer" and isinstance(value, bytes):
        at = 0
        while at < len(value):
            number, at = _read_varint(value, at)
            items.append(_as_signed(number))
        return
    found = _field_value(schema, value)
    items.append({} if found is None else found)


def _add_entry(entries: dict[str, Any], schema: Schema, value: int | bytes) -> None:
    name, found = "", None
    if isinstance(value, bytes):
        for number, part in _message_fields(value):
            if number == 1 and isinstance(part, bytes):
                name = part.decode()
            elif number == 2:
                found = _field_value(schema, part)
    entries[name] = found if found is not None else ""


def _field_value(schema: Schema, value: int | bytes) -> Any:
    kind = schema.type
    if isinstance(value, int):
        return bool(value) if kind == "boolean" else _as_signed(value)
    if kind == "string":
        return value.decode()
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "object":
        package, _, name = schema.reference.rpartition(".")
        return _read_message(value, f"{_MODULES[package]}.{name}", schema)
    if kind in ("time", "microtime"):
        return _time_text(value, micro=kind == "microtime")
    if kind == "array":
        # A list as the value of a map is a message of its own.
        return [one.decode() for number, one in _message_fields(value) if number == 1 and isinstance(one, bytes)]
    inner = dict(_message_fields(value))
    if kind == "quantity":
        text = inner.get(1, b"")
        return text.decode() if isinstance(text, bytes) and text else "0"
    if kind == "intorstring":
        text = inner.get(3, b"")
        number = inner.get(2, 0)
        return _as_signed(number) if inner.get(1, 0) == 0 and isinstance(number, int) else _decoded_text(text)
    raw = inner.get(1, b"")
    return decode_json(raw) if isinstance(raw, bytes) and raw else None


def _decoded_text(value: int | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else ""


def _time_text(value: bytes, *, micro: bool) -> str | None:
    inner = dict(_message_fields(value))
    seconds, nanos = inner.get(1, 0), inner.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or (not seconds and not nanos):
        return None
    try:
        moment = datetime.fromtimestamp(_as_signed(seconds), UTC).replace(microsecond=_as_signed(nanos) // 1000)
    except (OverflowError, OSError) as error:
        raise ValueError(f"time out of range: {_as_signed(seconds)}") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _message_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and values of the fields of a message."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _read_varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"proto: illegal wireType {wire}")
        if number == 0 or at + size > len(data):
            raise ValueError("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _as_signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
