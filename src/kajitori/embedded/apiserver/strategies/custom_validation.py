"""Validation by a custom resource's schema, with the messages of kube-openapi and apiextensions."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from kajitori.embedded.apiserver.causes import Cause, duplicate, format_value, not_supported, required, too_long
from kajitori.embedded.apiserver.schemas.custom import convert
from kajitori.embedded.apiserver.schemas.schema import ABSENT, Schema, is_same, stored_part

_NOWHERE = "<nil>"
"""The field of faults that belong to no single field."""
_INT_BOUNDS = {"int32": 2**31, "int64": 2**63}
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


def validate(schema: Schema, value: Any, path: str = "", old: Any = ABSENT) -> list[Cause]:
    """Return every fault of a value by its schema. `old` is the stored value that it replaces: unchanged parts are not
    validated again, so that a stricter schema does not block changes elsewhere in the object. Never raises."""
    if is_same(value, old):
        return []
    if value is None:
        if schema.nullable or schema.type == "any":
            return []
        return [_type_fault(schema, value, path)] if path else []
    if not _has_type(schema, value):
        causes = [_type_fault(schema, value, path)]
        if schema.type == "integer" and type(value) is float:
            form = schema.constraints.get("format")
            detail = f"with format {form}" if form else "(default format)"
            causes.append(_nowhere(path, f"Checked value must be of type integer {detail} in {path}"))
        return causes
    causes = _value_faults(schema.constraints, value, path)
    if type(value) is dict:
        causes += _object_faults(schema, value, path, old)
    elif type(value) is list:
        causes += _list_faults(schema, value, path, old)
    return causes + _junctor_faults(schema.constraints, value, path)


def _has_type(schema: Schema, value: Any) -> bool:
    kind = schema.type
    if kind == "any":
        return True
    if kind in ("object", "map"):
        return type(value) is dict
    if kind == "array":
        return type(value) is list
    return _is_scalar(kind, value)


def _is_scalar(kind: str, value: Any) -> bool:
    if kind == "string":
        return type(value) is str
    if kind == "boolean":
        return type(value) is bool
    if kind == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    if kind == "number":
        return type(value) in (int, float)
    if kind == "intorstring":
        return type(value) in (int, str)
    return True


def _type_name(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _type_fault(schema: Schema, value: Any, path: str) -> Cause:
    wanted = {"map": "object", "intorstring": "integer,string"}.get(schema.type, schema.type)
    given = _type_name(value)
    return Cause(
        "FieldValueTypeInvalid", path, f'Invalid value: "{given}": {path} in body must be of type {wanted}: "{given}"'
    )


def _fault(path: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {format_value(value)}: {path} in body {detail}")


def _nowhere(path: str, detail: str) -> Cause:
    return Cause("FieldValueInvalid", _NOWHERE, f'Invalid value: "": {detail}')


def _value_faults(rules: Mapping[str, Any], value: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    allowed = rules.get("enum")
    if allowed is not None and not any(one == value and type(one) is type(value) for one in allowed):
        causes.append(not_supported(path, value, [one if isinstance(one, str) else _plain(one) for one in allowed]))
    if type(value) is str:
        causes += _text_faults(rules, value, path)
    elif type(value) in (int, float):
        causes += _number_faults(rules, value, path)
    return causes


def _plain(value: Any) -> str:
    return {True: "true", False: "false", None: "null"}.get(value, str(value)) if type(value) is not int else str(value)


def _text_faults(rules: Mapping[str, Any], value: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    pattern = rules.get("pattern")
    compiled = compile_pattern(pattern) if pattern else None
    # Only the first of these faults is reported, as in Kubernetes.
    if "maxLength" in rules and len(value) > rules["maxLength"]:
        causes.append(too_long(path, rules["maxLength"]))
    elif "minLength" in rules and len(value) < rules["minLength"]:
        causes.append(_fault(path, value, f"should be at least {rules['minLength']} chars long"))
    elif compiled is not None and not compiled.search(value):
        causes.append(_fault(path, value, f"should match '{pattern}'"))
    form = rules.get("format")
    if form and not has_format(form, value):
        detail = f"Invalid value: {format_value(value)}: {path} in body must be of type {form}: {format_value(value)}"
        causes.append(Cause("FieldValueTypeInvalid", path, detail))
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


def _number_faults(rules: Mapping[str, Any], value: float, path: str) -> list[Cause]:
    causes: list[Cause] = []
    low, high = rules.get("minimum"), rules.get("maximum")
    if low is not None:
        if rules.get("exclusiveMinimum"):
            if value <= low:
                causes.append(_fault(path, value, f"should be greater than {low}"))
        elif value < low:
            causes.append(_fault(path, value, f"should be greater than or equal to {low}"))
    if high is not None:
        if rules.get("exclusiveMaximum"):
            if value >= high:
                causes.append(_fault(path, value, f"should be less than {high}"))
        elif value > high:
            causes.append(_fault(path, value, f"should be less than or equal to {high}"))
    step = rules.get("multipleOf")
    if step and value % step:
        causes.append(_fault(path, value, f"should be a multiple of {step}"))
    bound = _INT_BOUNDS.get(rules.get("format", ""))
    if bound is not None and not -bound <= value < bound:
        causes.append(_nowhere(path, f"Checked value must be of type integer with format {rules['format']} in {path}"))
    return causes


def _object_faults(schema: Schema, value: dict[str, Any], path: str, old: Any) -> list[Cause]:
    causes: list[Cause] = []
    rules = schema.constraints
    if "maxProperties" in rules and len(value) > rules["maxProperties"]:
        causes.append(_too_many(path, len(value), rules["maxProperties"]))
    if "minProperties" in rules and len(value) < rules["minProperties"]:
        causes.append(_fault(path, len(value), f"should have at least {rules['minProperties']} properties"))
    causes += [required(_joined(path, name)) for name in schema.required if name not in value and name != "metadata"]
    for name, one in value.items():
        part = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
        if part is not None:
            causes += validate(part, one, _joined(path, name), stored_part(schema, old, name))
    return causes


def _too_many(path: str, count: int, limit: int) -> Cause:
    unit = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} {unit}")


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _list_faults(schema: Schema, value: list[Any], path: str, old: Any) -> list[Cause]:
    causes: list[Cause] = []
    rules = schema.constraints
    if "maxItems" in rules and len(value) > rules["maxItems"]:
        causes.append(_too_many(path, len(value), rules["maxItems"]))
    if "minItems" in rules and len(value) < rules["minItems"]:
        causes.append(_fault(path, len(value), f"should have at least {rules['minItems']} items"))
    if schema.items is not None:
        for index, one in enumerate(value):
            causes += validate(schema.items, one, f"{path}[{index}]", stored_part(schema, old, one))
    seen: list[Any] = []
    for index, one in enumerate(value):
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
        best = min(faults, key=len)
        if name == "anyOf" and not valid:
            causes += [_nowhere(path, f'"{path}" must validate at least one schema (anyOf)'), *best]
        elif name == "oneOf" and valid != 1:
            found = "none valid" if not valid else f"{valid} valid alternatives"
            causes.append(_nowhere(path, f'"{path}" must validate one and only one schema (oneOf). Found {found}'))
            causes += best
        elif name == "allOf" and valid < len(parts):
            causes += [cause for one in faults for cause in one]
            none = ". None validated" if not valid else ""
            causes.append(_nowhere(path, f'"{path}" must validate all the schemas (allOf){none}'))
    if rules.get("not") and not _part_faults(rules["not"], value, path):
        causes.append(_nowhere(path, f'"{path}" must not validate the schema (not)'))
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
