"""Sets of fields in the form of FieldsV1 (structured-merge-diff `fieldpath`, `typed`).

A set is a tree of path elements: `f:name` (a field), `k:{…}` (a list element by its keys), `v:…` (an element of a set).
A node is a member if it is empty or contains ".".
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from kajitori.embedded.apiserver.schemas.schema import ANY, Schema

FieldSet: TypeAlias = dict[str, Any]

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class Repeated(ValueError):
    """Two elements of a keyed list, or of a set, are the same."""


# --- algebra ---------------------------------------------------------------------------------------------------------


def is_member(node: FieldSet) -> bool:
    """Return whether a node is a member itself."""
    return not node or "." in node


def _node_of(member: bool, children: FieldSet) -> FieldSet | None:
    if children:
        return {".": {}, **children} if member else children
    return {} if member else None


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the union of two sets."""
    if not one:
        return other
    if not other:
        return one
    result = {name: node for name, node in one.items() if name != "."}
    for name, node in other.items():
        if name == ".":
            continue
        mine = result.get(name)
        if mine is None:
            result[name] = node
        else:
            joined = _node_of(is_member(mine) or is_member(node), union(_children_of(mine), _children_of(node)))
            assert joined is not None
            result[name] = joined
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of `one` that are not in `other`. A member is compared separately from those below it."""
    result: FieldSet = {}
    for name, node in one.items():
        if name == ".":
            continue
        theirs = other.get(name)
        if theirs is None:
            result[name] = node
            continue
        left = _node_of(is_member(node) and not is_member(theirs), difference(_children_of(node), _children_of(theirs)))
        if left is not None:
            result[name] = left
    return result


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the intersection of two sets."""
    result: FieldSet = {}
    for name, node in one.items():
        theirs = other.get(name)
        if name == "." or theirs is None:
            continue
        both = _node_of(is_member(node) and is_member(theirs), intersection(_children_of(node), _children_of(theirs)))
        if both is not None:
            result[name] = both
    return result


def paths(fields: FieldSet, prefix: str = "") -> list[str]:
    """Return every member as messages name it, such as `.spec.containers[name="main"].image`, parents first."""
    named = [(prefix + shown_element(name), fields[name]) for name in sorted(fields) if name != "."]
    found = [path for path, node in named if is_member(node)]
    for path, node in named:
        found += paths(_children_of(node), path)
    return found


def shown_element(element: str) -> str:
    """Return an element of a path as messages show it: `.name`, `[key="value"]`, `[=element]`."""
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = msgspec.json.decode(rest)
        return (
            "["
            + ",".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in sorted(keys.items()))
            + "]"
        )
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


def _children_of(node: FieldSet) -> FieldSet:
    return {name: one for name, one in node.items() if name != "."} if "." in node else node


# --- objects ---------------------------------------------------------------------------------------------------------


def part_of(schema: Schema, name: str) -> Schema:
    """Return the schema of a field."""
    return schema.properties.get(name) or schema.items or ANY


def is_map(schema: Schema, value: Any) -> bool:
    """Return whether the fields of a map have owners of their own."""
    return type(value) is dict and schema.map_type != "atomic" and not _is_scalar_type(schema)


def is_keyed_list(schema: Schema, value: Any) -> bool:
    """Return whether the elements of a list have owners of their own."""
    return type(value) is list and schema.list_type in ("set", "map")


def _is_scalar_type(schema: Schema) -> bool:
    return schema.type not in ("object", "map", "any", "array")


def element_of(schema: Schema, item: Any) -> str:
    """Return the path element of an item of a keyed list or set.

    Raises:
        Repeated: it has none of the list's keys.
    """
    if schema.list_type == "set":
        return f"v:{_encode_sorted(item).decode()}"
    if type(item) is not dict:
        raise Repeated(f"expected an object with the keys {', '.join(schema.list_map_keys)}, found {item!r}")
    keys = {}
    for name in schema.list_map_keys:
        value = item.get(name)
        if value is None:
            value = part_of(schema.items or ANY, name).default
        if value is not None:
            keys[name] = value
    if not keys:
        raise Repeated(
            "associative list with keys has an element that omits all key fields "
            f"{msgspec.json.encode(schema.list_map_keys).decode()} (and doesn't have default values for any key fields)"
        )
    return f"k:{_encode_sorted(keys).decode()}"


def index_list(schema: Schema, items: list[Any]) -> dict[str, Any]:
    """Return the items of a keyed list by their path elements, in order; the first of repeated ones."""
    found: dict[str, Any] = {}
    for item in items:
        found.setdefault(element_of(schema, item), item)
    return found


def fields_of(schema: Schema, value: Any) -> FieldSet:
    """Return the fields of an applied configuration (ToFieldSet)."""
    found: FieldSet = {}
    if is_map(schema, value):
        known = schema.properties
        for name, one in value.items():
            part = part_of(schema, name)
            children = fields_of(part, one) if one is not None else {}
            member = _is_leaf(part, one) or one is None or one == {} or name not in known
            node = _node_of(member, children)
            if node is not None:
                found[f"f:{name}"] = node
    elif is_keyed_list(schema, value):
        items = schema.items or ANY
        for item in value:
            node = _node_of(True, fields_of(items, item))
            assert node is not None
            found[element_of(schema, item)] = node
    return found


def _is_leaf(schema: Schema, value: Any) -> bool:
    return not is_map(schema, value) and not is_keyed_list(schema, value)


class Comparison:
    """The differences between two objects, as sets of fields."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self, schema: Schema, old: Any, new: Any) -> None:
        self.added: FieldSet = {}
        self.modified: FieldSet = {}
        self.removed: FieldSet = {}
        self._compare_maps(schema, old, new, self.added, self.modified, self.removed)

    @property
    def is_same(self) -> bool:
        """Return whether nothing differs."""
        return not (self.added or self.modified or self.removed)

    def _compare_maps(
        self, schema: Schema, old: Any, new: Any, added: FieldSet, modified: FieldSet, removed: FieldSet
    ) -> None:
        for name, value in new.items():
            if name not in old:
                added[f"f:{name}"] = whole(part_of(schema, name), value)
            elif old[name] is not value and old[name] != value:
                self._compare_values(part_of(schema, name), f"f:{name}", old[name], value, added, modified, removed)
        for name, value in old.items():
            if name not in new:
                removed[f"f:{name}"] = whole(part_of(schema, name), value)

    def _compare_values(
        self, schema: Schema, element: str, old: Any, new: Any, added: FieldSet, modified: FieldSet, removed: FieldSet
    ) -> None:
        below: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
        if is_map(schema, new) and is_map(schema, old):
            self._compare_maps(schema, old, new, *below)
        elif is_keyed_list(schema, new) and is_keyed_list(schema, old):
            self._compare_lists(schema, old, new, *below)
        elif old is None and not _is_leaf(schema, new):
            # If a list or map was null before, its contents are new, but the field itself is not.
            below = (_children_of(whole(schema, new)), {}, {})
        else:
            modified[element] = {}
            return
        for found, into in zip(below, (added, modified, removed), strict=True):
            if found:
                into[element] = found

    def _compare_lists(
        self, schema: Schema, old: list[Any], new: list[Any], added: FieldSet, modified: FieldSet, removed: FieldSet
    ) -> None:
        before, after = index_list(schema, old), index_list(schema, new)
        items = schema.items or ANY
        for element, item in after.items():
            if element not in before:
                added[element] = whole(items, item)
            elif before[element] != item:
                self._compare_values(items, element, before[element], item, added, modified, removed)
        for element, item in before.items():
            if element not in after:
                removed[element] = whole(items, item)


def whole(schema: Schema, value: Any) -> FieldSet:
    """Return the node of a value that was added or removed as a whole: it and everything in it."""
    found: FieldSet = {}
    if is_map(schema, value):
        for name, one in value.items():
            found[f"f:{name}"] = whole(part_of(schema, name), one)
    elif is_keyed_list(schema, value):
        items = schema.items or ANY
        for item in value:
            element = element_of(schema, item)
            # Parts of repeated items cannot be told apart.
            found[element] = {} if element in found else whole(items, item)
    return {".": {}, **found} if found else found


def with_named_fields(schema: Schema, fields: FieldSet) -> FieldSet:
    """Return the set with every named field that has members below it as a member (EnsureNamedFieldsAreMembers)."""
    result: FieldSet = {}
    for name, node in fields.items():
        if name == ".":
            result[name] = node
            continue
        kind, _, rest = name.partition(":")
        part = part_of(schema, rest) if kind == "f" else (schema.items or ANY)
        below = with_named_fields(part, node)
        if kind == "f" and rest in schema.properties and below and "." not in below:
            below = {".": {}, **below}
        result[name] = below
    return result
