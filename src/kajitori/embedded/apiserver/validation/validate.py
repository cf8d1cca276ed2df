"""Validate an object of a built-in kind by its schema and the tables of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.metadata import validate_labels
from kajitori.embedded.apiserver.schemas.schema import Schema
from kajitori.embedded.apiserver.validation import fields
from kajitori.embedded.apiserver.validation.combinations import COMBINATIONS, Rule
from kajitori.embedded.apiserver.validation.fields import Check

_NOT_WALKED = frozenset({"ObjectMeta", "JSONSchemaProps"})
"""Types that have a validation of their own."""


@dataclass(frozen=True, slots=True)
class _Field:
    """The checks of one field of a type."""

    check: Check | None
    is_fine: Callable[[Any], bool] | None
    """Whether a value passes the check; None if there is none."""
    unique: tuple[str, ...]
    is_labels: bool
    plan: _Plan | None
    """The checks of the objects in the field; None if there are none."""

    @property
    def is_empty(self) -> bool:
        return self.check is None and not (self.unique or self.is_labels or self.plan)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The checks of objects of one type; built once."""

    kind: str
    required: tuple[str, ...]
    one_of: tuple[str, ...]
    fields: Mapping[str, _Field]
    rules: tuple[Rule, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.required or self.one_of or self.fields or self.rules)


def validate(schema: Schema, value: Any, path: str) -> list[Cause]:
    """Return every fault of a value of a built-in type. The value has been conformed to its schema and has its
    defaults."""
    causes: list[Cause] = []
    _check_object(_plan_of(schema), value or {}, path, causes)
    return causes


@lru_cache(maxsize=1024)
def _plan_of(schema: Schema) -> _Plan:
    name = schema.reference.rpartition(".")[2]
    kind = fields.SAME_AS.get(name, name)
    if kind in _NOT_WALKED:
        return _Plan(kind, (), (), {}, ())
    required_texts = [
        name
        for name in schema.required
        if (part := schema.properties.get(name)) is not None
        and part.type == "string"
        and f"{kind}.{name}" not in fields.MAY_BE_EMPTY
    ]
    found = {}
    for name, part in schema.properties.items():
        key = f"{kind}.{name}"
        inner = part.items if part.type == "array" else part
        plan = _plan_of(inner) if inner is not None and inner.type == "object" else None
        check = fields.CHECKS.get(key)
        field = _Field(
            check,
            None if check is None else _memoized_check(check),
            fields.UNIQUE.get(key, ()),
            key in fields.LABELS,
            None if plan is None or plan.is_empty else plan,
        )
        if not field.is_empty:
            found[name] = field
    needed = tuple(dict.fromkeys([*required_texts, *fields.REQUIRED.get(kind, ())]))
    return _Plan(kind, needed, fields.ONE_OF.get(kind, ()), found, COMBINATIONS.get(kind, ()))


def _check_object(plan: _Plan, value: dict[str, Any], path: str, causes: list[Cause]) -> None:
    prefix = f"{path}." if path else ""
    if plan.required:
        causes += [required(f"{prefix}{name}") for name in plan.required if not value.get(name)]
    if plan.one_of:
        _check_one_of(plan, value, path, causes)
    fields_of = plan.fields
    for name, part in value.items():
        field = fields_of.get(name)
        if field is None or part is None:
            continue
        if field.is_fine is None or type(part) is list or not field.is_fine(part):
            _check_field(field, part, f"{prefix}{name}", causes)
    for rule in plan.rules:
        causes += rule(value, path)


def _check_one_of(plan: _Plan, value: dict[str, Any], path: str, causes: list[Cause]) -> None:
    given = [name for name in plan.one_of if value.get(name) is not None]
    if not given and plan.kind not in fields.MAY_HAVE_NONE:
        others = " and others" if len(plan.one_of) > 6 else ""
        causes.append(required(path, f"must specify one of {', '.join(plan.one_of[:6])}{others}"))
    causes += [forbidden(f"{path}.{name}", f"may not be specified together with {given[0]}") for name in given[1:]]


def _check_field(field: _Field, value: Any, path: str, causes: list[Cause]) -> None:
    if type(value) is list:
        if field.unique:
            _check_unique(value, path, field.unique, causes)
        for index, item in enumerate(value):
            if field.plan is not None:
                _check_object(field.plan, item, f"{path}[{index}]", causes)
            elif field.check is not None:
                causes += checked(field.check, item, f"{path}[{index}]")
    elif field.plan is not None:
        _check_object(field.plan, value, path, causes)
    elif field.is_labels:
        causes += validate_labels(value, path)
    elif field.check is not None and value != "":
        causes += checked(field.check, value, path)


def _check_unique(items: list[Any], path: str, keys: tuple[str, ...], causes: list[Cause]) -> None:
    seen: set[tuple[str, ...]] = set()
    for index, item in enumerate(items):
        key = tuple(str(item.get(name, "")) for name in keys)
        if key in seen and any(key):
            causes.append(duplicate(f"{path}[{index}].{keys[0]}", "/".join(key)))
        seen.add(key)


def checked(check: Check, value: Any, path: str) -> list[Cause]:
    """Return the faults of one value: it must be one of some words, in a range, or obey a rule."""
    if isinstance(check, tuple):
        return [] if value in check else [not_supported(path, value, check)]
    if isinstance(check, range):
        if type(value) is not int or value in check:
            return []
        return [invalid(path, value, f"must be between {check.start} and {check.stop - 1}, inclusive")]
    return [invalid(path, value, fault) for fault in check(value)]


@lru_cache(maxsize=256)
def _memoized_check(check: Check) -> Callable[[Any], bool]:
    """Return a function that says whether a value has no faults. It remembers values, since the Pods of a run have the
    same ones."""

    @lru_cache(maxsize=4096, typed=True)
    def is_fine(value: Any) -> bool:
        return value == "" or not checked(check, value, "")

    return is_fine
