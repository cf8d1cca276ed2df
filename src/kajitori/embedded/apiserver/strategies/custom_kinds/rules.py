"""CEL rules in the schemas of custom resources (`x-kubernetes-validations`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kajitori.core.kubernetes.cel import Expression, ExpressionError, Scope
from kajitori.embedded.apiserver.causes import Cause, forbidden, format_value, invalid, required
from kajitori.embedded.apiserver.schemas.schema import ABSENT, Schema, is_same, stored_part

RULES = "x-kubernetes-validations"
_MAY_HIDE_RULES = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
"""Reasons of faults after which rules are not evaluated, since the rules could fail on the same values."""
_NOT_CHECKED = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_OLD_VALUE = re.compile(r"\boldSelf\b")


def rule_faults(schema: Schema, new: Any, old: Any, found: list[Cause]) -> list[Cause]:
    """Return a fault for each rule that an object breaks. `old` is the stored object, or ABSENT; rules of unchanged
    parts are not evaluated. `found` are the faults that the schema itself found."""
    if not _has_rules(schema):
        return []
    if any(cause.reason in _MAY_HIDE_RULES for cause in found):
        return [_NOT_CHECKED]
    return list(_broken_rules(schema, new, old, ""))


@lru_cache(maxsize=256)
def _has_rules(schema: Schema) -> bool:
    parts = [*schema.properties.values(), *([schema.items] if schema.items is not None else [])]
    return bool(schema.constraints.get(RULES)) or any(_has_rules(part) for part in parts)


def _broken_rules(schema: Schema, new: Any, old: Any, path: str) -> Iterator[Cause]:
    if new is None or is_same(new, old):
        return
    for rule in schema.constraints.get(RULES) or ():
        needs_old = bool(_OLD_VALUE.search(rule["rule"]))
        if needs_old and old is ABSENT:
            continue
        values = {"self": new, "oldSelf": old} if needs_old else {"self": new}
        yield from _broken_rule(rule, values, path)
    if type(new) is dict:
        for name, value in new.items():
            part = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
            if part is not None and _has_rules(part):
                where = f"{path}.{name}" if path else name
                yield from _broken_rules(part, value, stored_part(schema, old, name), where)
    elif type(new) is list and schema.items is not None and _has_rules(schema.items):
        for index, item in enumerate(new):
            yield from _broken_rules(schema.items, item, stored_part(schema, old, item), f"{path}[{index}]")


def _broken_rule(rule: dict[str, Any], values: dict[str, Any], path: str) -> Iterator[Cause]:
    value = values["self"]
    seen = "" if isinstance(value, dict | list) else f"{format_value(value)}: "
    where = f"{path}{rule.get('fieldPath', '')}".removeprefix(".") or "<nil>"
    try:
        if _compile_rule(rule["rule"]).evaluate(values) is True:
            return
        message = _failure_message(rule, values)
    except ExpressionError as error:
        message = f"rule could not be evaluated: {error.message}: {rule['rule'].strip()}"
    match rule.get("reason"):
        case "FieldValueForbidden":
            yield forbidden(where, message)
        case "FieldValueRequired":
            yield required(where, message)
        case "FieldValueDuplicate":
            yield Cause("FieldValueDuplicate", where, f"Duplicate value: {seen}{message}")
        case _:
            yield Cause("FieldValueInvalid", where, f"Invalid value: {seen}{message}")


def _failure_message(rule: dict[str, Any], values: dict[str, Any]) -> str:
    written = rule.get("messageExpression")
    try:
        detail = _compile_rule(written, "string").evaluate(values) if written else ""
    except ExpressionError:
        detail = ""
    if isinstance(detail, str) and detail.strip():
        return detail.strip()
    return (rule.get("message") or "").strip() or f"failed rule: {rule['rule'].strip()}"


@lru_cache(maxsize=1024)
def _compile_rule(text: str, result: str = "bool") -> Expression:
    return Scope(("self", "oldSelf")).compile(text, result, "dyn")


def faults_of_definition(declared: Any, field: str) -> list[Cause]:
    """Return every fault of the rules that a schema declares: a rule must compile here to be accepted."""
    causes: list[Cause] = []
    for index, rule in enumerate(declared or []):
        where = f"{field}[{index}]"
        if not isinstance(rule, dict) or not isinstance(rule.get("rule"), str) or not rule["rule"].strip():
            causes.append(required(f"{where}.rule", "rule is not specified"))
            continue
        if rule.get("optionalOldSelf"):
            causes.append(forbidden(f"{where}.optionalOldSelf", "the embedded API server does not support it"))
        for name, result in (("rule", "bool"), ("messageExpression", "string")):
            try:
                if rule.get(name):
                    _compile_rule(rule[name], result)
            except ExpressionError as error:
                causes.append(invalid(f"{where}.{name}", rule[name], error.message))
    return causes
