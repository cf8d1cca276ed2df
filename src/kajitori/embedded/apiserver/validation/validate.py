"""Validate an object of a built-in kind by its schema and the tables of rules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.metadata import validate_labels
from kajitori.embedded.apiserver.schemas.models import model_schema
from kajitori.embedded.apiserver.schemas.schema import Schema
from kajitori.embedded.apiserver.validation import fields
from kajitori.embedded.apiserver.validation.combinations import COMBINATIONS
from kajitori.embedded.apiserver.validation.fields import Check

_NOT_WALKED = frozenset({"ObjectMeta", "JSONSchemaProps"})
"""Types that have a validation of their own."""


def validate(module: str, name: str, value: Any, path: str) -> list[Cause]:
    """Return every fault of a value of a built-in type, such as `validate("core_v1", "PodSpec", spec, "spec")`. The
    value has been conformed to its schema and has its defaults."""
    return list(_object(model_schema(module, name), value or {}, path))


def label_selector(selector: Any, path: str) -> list[Cause]:
    """Return every fault of a LabelSelector."""
    return validate("meta_v1", "LabelSelector", selector, path)


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Cause]:
    kind = type_name(schema)
    if kind in _NOT_WALKED:
        return
    for name in _required(schema):
        if value.get(name) in (None, "", [], {}):
            yield required(f"{path}.{name}" if path else name)
    yield from _one_of(kind, value, path)
    for name, part in value.items():
        known = schema.properties.get(name)
        if known is not None and part is not None:
            yield from _value(known, part, f"{path}.{name}" if path else name, f"{kind}.{name}")
    for rule in COMBINATIONS.get(kind, ()):
        yield from rule(value, path)


@lru_cache(maxsize=1024)
def type_name(schema: Schema) -> str:
    """Return the name of a schema's type that the tables use, such as `Container`."""
    name = schema.reference.rpartition(".")[2]
    return fields.SAME_AS.get(name, name)


@lru_cache(maxsize=1024)
def _required(schema: Schema) -> tuple[str, ...]:
    """Texts that OpenAPI requires, and what else must be given and not be empty."""
    texts_ = [
        name for name in schema.required if name in schema.properties and schema.properties[name].type == "string"
    ]
    return tuple(dict.fromkeys([*texts_, *fields.REQUIRED.get(type_name(schema), ())]))


def _one_of(kind: str, value: dict[str, Any], path: str) -> Iterator[Cause]:
    choices = fields.ONE_OF.get(kind)
    if choices is None:
        return
    given = [name for name in choices if value.get(name) is not None]
    if not given and kind not in fields.MAY_HAVE_NONE:
        yield required(path, f"must specify one of {', '.join(choices[:6])}{' and others' if len(choices) > 6 else ''}")
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", f"may not be specified together with {given[0]}")


def _value(schema: Schema, value: Any, path: str, key: str) -> Iterator[Cause]:
    check = fields.CHECKS.get(key)
    if type(value) is list:
        yield from _unique(value, path, fields.UNIQUE.get(key))
        for index, item in enumerate(value):
            if type(item) is dict and schema.items is not None:
                yield from _object(schema.items, item, f"{path}[{index}]")
            elif check is not None:
                yield from checked(check, item, f"{path}[{index}]")
    elif schema.type == "object" and type(value) is dict:
        yield from _object(schema, value, path)
    elif key in fields.LABELS:
        yield from validate_labels(value, path)
    elif check is not None and value != "":
        yield from checked(check, value, path)


def _unique(items: list[Any], path: str, keys: tuple[str, ...] | None) -> Iterator[Cause]:
    seen: set[tuple[str, ...]] = set()
    for index, item in enumerate(items) if keys else ():
        key = tuple(str(item.get(name, "")) for name in keys or ())
        if key in seen:
            yield duplicate(f"{path}[{index}].{(keys or ('',))[0]}", "/".join(key))
        seen.add(key)


def checked(check: Check, value: Any, path: str) -> Iterator[Cause]:
    """Yield the faults of one value: it must be one of some words, in a range, or obey a rule."""
    if isinstance(check, tuple):
        if value not in check:
            yield not_supported(path, value, check)
    elif isinstance(check, range):
        if type(value) is int and value not in check:
            yield invalid(path, value, f"must be between {check.start} and {check.stop - 1}, inclusive")
    else:
        yield from (invalid(path, value, fault) for fault in check(value))


def port_reference(port: Any) -> list[str]:
    """Return what is wrong with a port that is given by number or by name."""
    return texts.port_number(port) if isinstance(port, int) else texts.port_name(port)
