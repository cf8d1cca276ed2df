"""Type checks of applied configurations (structured-merge-diff `typed`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kajitori.embedded.apiserver.patches.fieldsets import Repeated, element_of, is_keyed_list, part_of, shown_element
from kajitori.embedded.apiserver.schemas.conform import type_name
from kajitori.embedded.apiserver.schemas.schema import ANY, Schema

_SCALARS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "text"),
    "boolean": (bool, "true or false"),
    "integer": ((int, float), "a number"),
    "number": ((int, float), "a number"),
}


def type_faults(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Yield a message for each value of a configuration that does not fit its schema."""
    if value is None:
        return
    if schema.type in ("object", "map") or (schema.type == "any" and type(value) is dict):
        yield from _map_faults(schema, value, path)
    elif schema.type == "array":
        yield from _list_faults(schema, value, path)
    elif (expected := _SCALARS.get(schema.type)) is not None:
        kinds, name = expected
        if (isinstance(value, bool) and kinds is not bool) or not isinstance(value, kinds):
            yield f"{path}: expected {name}, not {type_name(value)}"


def _map_faults(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if type(value) is not dict:
        yield f"{path}: expected an object, not {type_name(value)}"
        return
    closed = schema.type == "object" and not schema.preserve_unknown
    for name, one in value.items():
        if closed and name not in schema.properties:
            yield f"{path}.{name}: field not declared in schema"
        else:
            yield from type_faults(part_of(schema, name), one, f"{path}.{name}")


def _list_faults(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if type(value) is not list:
        yield f"{path}: expected a list, not {type_name(value)}"
        return
    keyed = is_keyed_list(schema, value)
    seen = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if keyed:
            try:
                element = element_of(schema, item)
            except Repeated as error:
                yield f"{path}: element {index}: {error}"
                continue
            if element in seen:
                yield f"{path}: duplicate entries for key {shown_element(element)}"
            seen.add(element)
        yield from type_faults(schema.items or ANY, item, path + shown_element(element))
