"""What is wrong with the types of a configuration that is to be applied (structured-merge-diff `typed`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kajitori.core.words.texts import go_quoted
from kajitori.embedded.apiserver.patches.fieldsets import Repeated, element_of, is_keyed_list, part_of, shown_element
from kajitori.embedded.apiserver.patches.strategic import go_text
from kajitori.embedded.apiserver.schemas.schema import ANY, Schema

_SCALARS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "string"),
    "boolean": (bool, "boolean"),
    "integer": ((int, float), "numeric (int or float)"),
    "number": ((int, float), "numeric (int or float)"),
}


def type_faults(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """What a configuration has that its schema does not, in structured-merge-diff's words."""
    if value is None:
        return
    if schema.type in ("object", "map") or (schema.type == "any" and type(value) is dict):
        yield from _map_faults(schema, value, path)
    elif schema.type == "array":
        yield from _list_faults(schema, value, path)
    elif (expected := _SCALARS.get(schema.type)) is not None:
        kinds, name = expected
        if (isinstance(value, bool) and kinds is not bool) or not isinstance(value, kinds):
            yield f"{path}: expected {name}, got {_got(value, name)}"


def _map_faults(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if type(value) is not dict:
        yield f"{path}: expected map, got {_got(value, 'map')}"
        return
    closed = schema.type == "object" and not schema.preserve_unknown
    for name, one in value.items():
        if closed and name not in schema.properties:
            yield f"{path}.{name}: field not declared in schema"
        else:
            yield from type_faults(part_of(schema, name), one, f"{path}.{name}")


def _list_faults(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if type(value) is not list:
        yield f"{path}: expected list, got {_got(value, 'list')}"
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


def _got(value: Any, expected: str) -> str:
    """A value of a wrong type, in one of three of Go's ways."""
    if expected.startswith("numeric"):
        names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
        return names.get(type(value), "")
    if expected == "string":
        return f"&value.valueUnstructured{{Value:{_go_literal(value)}}}"
    return f"&{{{go_text(value)}}}"


def _go_literal(value: Any) -> str:
    """A value as Go prints it with %#v."""
    if isinstance(value, dict):
        members = (f"{go_quoted(name)}:{_go_literal(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_go_literal(one) for one in value)}}}"
    if isinstance(value, str):
        return go_quoted(value)
    return "interface {}(nil)" if value is None else go_text(value)
