"""Default values that a schema names: those of built-in kinds (`models`) and those of custom resources."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kajitori.embedded.apiserver.schemas.schema import NULL, Schema


@dataclass(frozen=True, slots=True)
class _Plan:
    """The defaults of values of one schema; built once."""

    values: tuple[tuple[str, Any, bool], ...]
    """Names, default values, and whether the field may be null."""
    parts: Mapping[str, _Plan]
    items: _Plan | None
    """The plan of the items of a list or of the values of a map."""


def apply_defaults(schema: Schema, value: Any) -> None:
    """Fill in defaults, in place, also for nulls that are not allowed. Idempotent."""
    plan = _plan_of(schema)
    if plan is not None:
        _fill_defaults(plan, value)


@lru_cache(maxsize=8192)
def _plan_of(schema: Schema) -> _Plan | None:
    """Return the plan of a schema; None if no value in it has a default."""
    values = tuple(
        (name, None if part.default is NULL else part.default, part.nullable or part.default is NULL)
        for name, part in schema.properties.items()
        if part.default is not None
    )
    parts = {name: plan for name, part in schema.properties.items() if (plan := _plan_of(part)) is not None}
    items = None if schema.items is None else _plan_of(schema.items)
    return _Plan(values, parts, items) if values or parts or items else None


def _fill_defaults(plan: _Plan, value: Any) -> None:
    if type(value) is dict:
        for name, default, nullable in plan.values:
            if name not in value or (value[name] is None and not nullable):
                value[name] = copy.deepcopy(default) if isinstance(default, dict | list) else default
        for name, one in value.items() if plan.parts or plan.items else ():
            part = plan.parts.get(name, plan.items)
            if part is not None:
                _fill_defaults(part, one)
    elif type(value) is list and plan.items is not None:
        for one in value:
            _fill_defaults(plan.items, one)
