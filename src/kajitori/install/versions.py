"""Rules for upgrades: which versions may replace each other, and which changes of the schema of `runs.kajitori.dev` are
compatible with stored Runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kajitori.errors import Fault

Schema = Mapping[str, Any]

_LOWER_BOUNDS = ("minimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "maxLength", "maxItems", "maxProperties")


def step_fault(installed: str, new: str) -> Fault | None:
    """Return why version `new` cannot replace the `installed` one; None if it can.

    Within a major version, one step goes one minor version up or down, or to any patch version. The first minor version
    of a major version can replace any version of the previous major version.
    """
    old_version, new_version = _version_parts(installed), _version_parts(new)
    if old_version is None or new_version is None:
        return Fault("version", f"{installed!r} is not a version", installed, "run kaji install to repair the record")
    (old_major, old_minor), (major, minor) = old_version, new_version
    if old_major == major and abs(old_minor - minor) <= 1:
        return None
    if abs(old_major - major) == 1 and (minor if major > old_major else old_minor) == 0:
        return None
    between = f"{old_major}.{old_minor + (1 if (major, minor) > (old_major, old_minor) else -1)}"
    if old_major == major or old_minor == 0:
        hint = f"go one minor version at a time: install kajitori {between} and run kaji upgrade with it first"
    else:
        hint = f"go over the last minor version of {min(old_major, major)} first"
    return Fault("version", f"{new} cannot replace {installed} in one step", installed, hint)


def is_downgrade(installed: str, new: str) -> bool:
    """Whether `new` is the older of two versions."""
    old_version, new_version = _version_parts(installed), _version_parts(new)
    return old_version is not None and new_version is not None and new_version < old_version


def _version_parts(version: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)(\.|$)", version)
    return (int(match[1]), int(match[2])) if match else None


# ---------------------------------------------------------------------------------------------- schemas


def breaks(old: Schema, new: Schema, path: str = "") -> Iterator[str]:
    """Yield each way in which the schema `new` refuses, or silently drops, values that `old` accepts.

    Both are structural schemas of a custom resource's version. Rules in CEL are compared as texts: a rule that the old
    schema lacks may refuse stored objects.
    """
    where = path or "the object"
    yield from _changed_types(old, new, where)
    yield from _changed_values(old, new, where)
    yield from _changed_bounds(old, new, where)
    known = {rule["rule"] for rule in old.get("x-kubernetes-validations") or ()}
    for rule in new.get("x-kubernetes-validations") or ():
        if rule["rule"] not in known:
            yield f"{where}: there is a new rule: {rule['rule']}"
    for name in sorted(set(new.get("required") or ()) - set(old.get("required") or ())):
        yield f"{path}.{name} has become required"
    yield from _changed_fields(old, new, path)
    for key, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(old.get(key), Mapping) and isinstance(new.get(key), Mapping):
            yield from breaks(old[key], new[key], path + step)


def _changed_fields(old: Schema, new: Schema, path: str) -> Iterator[str]:
    after = new.get("properties") or {}
    for name, schema in (old.get("properties") or {}).items():
        if name in after:
            yield from breaks(schema, after[name], f"{path}.{name}")
        else:
            yield f"{path}.{name} is gone"


def _changed_types(old: Schema, new: Schema, where: str) -> Iterator[str]:
    before, after = _types_of(old), _types_of(new)
    if not before <= after:
        yield f"{where}: was {' or '.join(sorted(before))}, is {' or '.join(sorted(after))}"
    if old.get("nullable") and not new.get("nullable"):
        yield f"{where}: may not be null any more"
    if old.get("x-kubernetes-preserve-unknown-fields") and not new.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{where}: unknown fields would be dropped"


def _types_of(schema: Schema) -> set[str]:
    if schema.get("x-kubernetes-int-or-string"):
        return {"integer", "string"}
    kind = schema.get("type")
    if kind is None:
        return {"array", "boolean", "integer", "null", "number", "object", "string"}
    return {"integer", "number"} if kind == "number" else {str(kind)}


def _changed_values(old: Schema, new: Schema, where: str) -> Iterator[str]:
    if "enum" in new:
        lost = [str(value) for value in old.get("enum") or ["any value"] if value not in new["enum"]]
        if lost:
            yield f"{where}: no longer accepts {', '.join(lost)}"
    for key in ("pattern", "format", "x-kubernetes-list-type"):
        if new.get(key) is not None and new.get(key) != old.get(key):
            yield f"{where}: its {key} has become {new[key]!r}"


def _changed_bounds(old: Schema, new: Schema, where: str) -> Iterator[str]:
    for key, sign in [(key, 1) for key in _LOWER_BOUNDS] + [(key, -1) for key in _UPPER_BOUNDS]:
        if new.get(key) is not None and (old.get(key) is None or sign * new[key] > sign * old[key]):
            yield f"{where}: its {key} has become {new[key]}"


# ---------------------------------------------------------------------------------------------- stored objects


def faults_in(value: Any, schema: Schema, old: Schema, path: str = "") -> Iterator[str]:
    """Yield the parts that the new `schema` refuses or drops in a value that was stored under the `old` schema.

    Rules in CEL are not evaluated: Kubernetes checks them only for fields that change (from 1.33 on).
    """
    if value is None:
        return
    where = path or "the object"
    kind = _kind_of(value)
    if kind not in _types_of(schema) and not (kind == "integer" and "number" in _types_of(schema)):
        yield f"{where} is {kind}, which is no longer accepted"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r:.80} is no longer accepted"
    yield from _bound_faults(value, schema, where)
    if isinstance(value, Mapping):
        yield from _field_faults(value, schema, old, path)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, inner in enumerate(value):
            yield from faults_in(inner, schema["items"], old.get("items") or {}, f"{path}[{index}]")


def _field_faults(value: Mapping[str, Any], schema: Schema, old: Schema, path: str) -> Iterator[str]:
    """Yield faults of the fields of an object: missing ones, those that are gone, and those inside them."""
    known, before = schema.get("properties") or {}, old.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{path}.{name} is missing and has become required"
    for name, inner in value.items():
        if name in known:
            yield from faults_in(inner, known[name], before.get(name) or {}, f"{path}.{name}")
        elif name in before:
            yield f"{path}.{name} is set, and is gone from the schema"
        elif isinstance(schema.get("additionalProperties"), Mapping):
            rest = old.get("additionalProperties")
            rest = rest if isinstance(rest, Mapping) else {}
            yield from faults_in(inner, schema["additionalProperties"], rest, f"{path}.{name}")


def _kind_of(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "object")


def _bound_faults(value: Any, schema: Schema, where: str) -> Iterator[str]:
    measures = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
    kind = _kind_of(value)
    low, high = measures.get(kind, ("minProperties", "maxProperties"))
    size: Any = len(value) if kind in ("string", "array", "object") else value
    if kind in ("integer", "number"):
        low, high = "minimum", "maximum"
    if kind != "boolean" and schema.get(low) is not None and size < schema[low]:
        yield f"{where}: {size} is below {schema[low]}"
    if kind != "boolean" and schema.get(high) is not None and size > schema[high]:
        yield f"{where}: {size} is above {schema[high]}"
    if kind == "string" and schema.get("pattern") and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r:.80} does not match {schema['pattern']}"
