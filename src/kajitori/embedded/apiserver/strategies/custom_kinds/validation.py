"""Validation by a custom resource's schema."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from kajitori.embedded.apiserver.causes import (
    Cause,
    duplicate,
    format_value,
    invalid,
    not_supported,
    required,
    too_long,
)
from kajitori.embedded.apiserver.schemas.custom import convert
from kajitori.embedded.apiserver.schemas.schema import ABSENT, Schema, is_same, stored_part

_INT_BOUNDS = {"int32": 2**31, "int64": 2**63}
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "intorstring": (int, str),
    "object": (dict,),
    "map": (dict,),
    "array": (list,),
}


def validate(schema: Schema, value: Any, path: str = "", old: Any = ABSENT) -> list[Cause]:
    """Return every fault of a value by its schema. `old` is the stored value that it replaces: unchanged parts are not
    validated again, so that a stricter schema does not block changes elsewhere in the object. Never raises."""
    if is_same(value, old):
        return []
    if value is None:
        return [] if schema.nullable or schema.type == "any" or not path else [_type_fault(schema.type, value, path)]
    if not _has_type(schema.type, value):
        return [_type_fault(schema.type, value, path)]
    causes = _value_faults(schema.constraints, value, path)
    if type(value) is dict:
        causes += _object_faults(schema, value, path, old)
    elif type(value) is list:
        causes += _list_faults(schema, value, path, old)
    return causes + _junctor_faults(schema.constraints, value, path)


def _has_type(kind: str, value: Any) -> bool:
    if kind == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    return kind not in _TYPES or type(value) in _TYPES[kind]


def _type_fault(wanted: str, value: Any, path: str) -> Cause:
    wanted = {"map": "object", "intorstring": "integer or string"}.get(wanted, wanted)
    return Cause("FieldValueTypeInvalid", path, f"Invalid value: {format_value(value)}: must be of type {wanted}")


def _value_faults(rules: Mapping[str, Any], value: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    allowed = rules.get("enum")
    if allowed is not None and not any(one == value and type(one) is type(value) for one in allowed):
        shown = [one if isinstance(one, str) else format_value(one) for one in allowed]
        causes.append(not_supported(path, value, shown))
    if type(value) is str:
        causes += _text_faults(rules, value, path)
    elif type(value) in (int, float):
        causes += [invalid(path, value, detail) for detail in _number_faults(rules, value)]
    return causes


def _text_faults(rules: Mapping[str, Any], value: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    pattern = rules.get("pattern")
    compiled = compile_pattern(pattern) if pattern else None
    # Only the first of these faults is reported, as in Kubernetes.
    if len(value) > rules.get("maxLength", len(value)):
        causes.append(too_long(path, rules["maxLength"]))
    elif len(value) < rules.get("minLength", 0):
        causes.append(invalid(path, value, f"should be at least {rules['minLength']} chars long"))
    elif compiled is not None and not compiled.search(value):
        causes.append(invalid(path, value, f"should match '{pattern}'"))
    form = rules.get("format")
    if form and not has_format(form, value):
        causes.append(_type_fault(form, value, path))
    return causes


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """Return a compiled Go (RE2) pattern, or None if Python cannot compile it."""
    text = pattern.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[0-9A-Za-z]").replace("[[:alpha:]]", "[A-Za-z]")
    # In RE2, `$` does not match before a final line break.
    text = re.sub(r"(?<!\\)\$(?=$|\)|\|)", r"\\Z", text)
    try:
        return re.compile(text, re.ASCII)
    except re.error:
        return None


def _number_faults(rules: Mapping[str, Any], value: float) -> Iterator[str]:
    low, high, step = rules.get("minimum"), rules.get("maximum"), rules.get("multipleOf")
    if low is not None and (value < low or (value == low and rules.get("exclusiveMinimum"))):
        yield f"should be greater than {'' if rules.get('exclusiveMinimum') else 'or equal to '}{low}"
    if high is not None and (value > high or (value == high and rules.get("exclusiveMaximum"))):
        yield f"should be less than {'' if rules.get('exclusiveMaximum') else 'or equal to '}{high}"
    if step and value % step:
        yield f"should be a multiple of {step}"
    bound = _INT_BOUNDS.get(rules.get("format", ""))
    if bound is not None and not -bound <= value < bound:
        yield f"must be of type integer with format {rules['format']}"


def _object_faults(schema: Schema, value: dict[str, Any], path: str, old: Any) -> list[Cause]:
    prefix = f"{path}." if path else ""
    causes = _size_faults(schema.constraints, len(value), path, "Properties")
    causes += [required(f"{prefix}{name}") for name in schema.required if name not in value and name != "metadata"]
    for name, one in value.items():
        part = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
        if part is not None:
            causes += validate(part, one, f"{prefix}{name}", stored_part(schema, old, name))
    return causes


def _size_faults(rules: Mapping[str, Any], count: int, path: str, what: str) -> list[Cause]:
    causes: list[Cause] = []
    if count > rules.get(f"max{what}", count):
        detail = f"Too many: {count}: must have at most {rules[f'max{what}']} {what.lower()}"
        causes.append(Cause("FieldValueTooMany", path, detail))
    if count < rules.get(f"min{what}", 0):
        causes.append(invalid(path, count, f"should have at least {rules[f'min{what}']} {what.lower()}"))
    return causes


def _list_faults(schema: Schema, value: list[Any], path: str, old: Any) -> list[Cause]:
    causes = _size_faults(schema.constraints, len(value), path, "Items")
    seen: list[Any] = []
    for index, one in enumerate(value):
        if schema.items is not None:
            causes += validate(schema.items, one, f"{path}[{index}]", stored_part(schema, old, one))
        if schema.list_type == "set":
            key = one
        elif schema.list_type == "map" and type(one) is dict:
            key = {name: one.get(name) for name in schema.list_map_keys if name in one}
        else:
            continue
        if key in seen:
            causes.append(duplicate(f"{path}[{index}]", key))
        seen.append(key)
    return causes


def _junctor_faults(rules: Mapping[str, Any], value: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("allOf", "anyOf", "oneOf"):
        parts = rules.get(name)
        if not parts:
            continue
        faults = [_part_faults(one, value, path) for one in parts]
        valid = sum(not one for one in faults)
        if name == "allOf":
            causes += [cause for one in faults for cause in one]
        elif valid != 1 and (name == "oneOf" or not valid):
            causes += [invalid(path, value, f"matches {valid} schemas ({name})"), *min(faults, key=len)]
    if rules.get("not") and not _part_faults(rules["not"], value, path):
        causes.append(invalid(path, value, "must not match the schema (not)"))
    return causes


def _part_faults(document: Mapping[str, Any], value: Any, path: str) -> list[Cause]:
    return validate(convert(dict(document)), value, path)


def has_format(form: str, value: str) -> bool:
    """Return whether a text has an OpenAPI format. Unknown formats are not checked."""
    check = _FORMATS.get(form)
    if check is None:
        return True
    try:
        return bool(check(value))
    except (ValueError, binascii.Error):
        return False


def _is_date_time(value: str) -> bool:
    if not _DATE_TIME.fullmatch(value):
        return False
    datetime.fromisoformat(value[:19].upper().replace(" ", "T"))
    return True


def _is_uri(value: str) -> bool:
    return bool(urlsplit(value).scheme) or value.startswith("/")


def _is_duration(value: str) -> bool:
    return value == "0" or "".join(found[0] for found in _DURATION.finditer(value)) == value != ""


_FORMATS: dict[str, Any] = {
    "byte": lambda text: base64.b64decode(text, validate=True) is not None,
    "cidr": lambda text: ipaddress.ip_network(text, strict=False) is not None and "/" in text,
    "date": lambda text: date.fromisoformat(text) is not None,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _EMAIL.fullmatch,
    "ipv4": lambda text: ipaddress.IPv4Address(text) is not None,
    "ipv6": lambda text: ipaddress.IPv6Address(text) is not None,
    "uri": _is_uri,
    "uuid": lambda text: uuid.UUID(text) is not None,
}
