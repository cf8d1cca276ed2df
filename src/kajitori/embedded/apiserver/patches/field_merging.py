"""Merging of objects field by field: adding an applied configuration, removing fields."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.apiserver.patches.fieldsets import (
    FieldSet,
    element_of,
    index_list,
    is_keyed_list,
    is_map,
    is_member,
    part_of,
)
from kajitori.embedded.apiserver.schemas.schema import ANY, Schema


def merge(schema: Schema, live: Any, applied: Any) -> Any:
    """Return the live value with an applied configuration merged in; neither is changed. A null counts as an empty map
    or keyed list, and removes nothing."""
    if applied is None and (is_map(schema, live) or is_keyed_list(schema, live)):
        return live
    if is_map(schema, applied):
        if type(live) is not dict:
            live = {}
        result = dict(live)
        for name, value in applied.items():
            result[name] = merge(part_of(schema, name), live.get(name), value)
        return result
    if is_keyed_list(schema, applied) and type(live) is list:
        return _merge_lists(schema, live, applied)
    return applied


def _merge_lists(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    """Merge two lists. Items that only one list has keep their place; items of both lists are in the applied order."""
    left_elements = [element_of(schema, item) for item in live]
    left, right = index_list(schema, live), index_list(schema, applied)
    right_elements = list(right)
    shared = [element for element in right_elements if element in left]
    items = schema.items or ANY
    merged: set[str] = set()
    result: list[Any] = []

    def take(element: str) -> None:
        merged.add(element)
        item = right[element]
        result.append(merge(items, left[element], item) if element in left else item)
        if shared and shared[0] == element:
            shared.pop(0)

    i = j = 0
    while i < len(left_elements) or j < len(right_elements):
        if i < len(left_elements) and j < len(right_elements):
            element = left_elements[i]
            if element == right_elements[j]:
                take(element)
                i, j = i + 1, j + 1
                continue
            if element in right and shared and shared[0] != element:
                i += 1
                continue
        if i < len(left_elements):
            element = left_elements[i]
            if element not in right:
                result.append(live[i])
                i += 1
                continue
            if element in merged:
                i += 1
        if j < len(right_elements):
            take(right_elements[j])
            j += 1
    return result


def remove(schema: Schema, value: Any, fields: FieldSet) -> Any:
    """Return the value without the members of a set; None if nothing is left."""
    if is_map(schema, value):
        result = {}
        for name, one in value.items():
            node = fields.get(f"f:{name}")
            if node is None:
                result[name] = one
            elif not is_member(node):
                left = remove(part_of(schema, name), one, node)
                if left is not None:
                    result[name] = left
        return result or None
    if is_keyed_list(schema, value):
        items = schema.items or ANY
        kept = []
        for item in value:
            node = fields.get(element_of(schema, item))
            if node is None:
                kept.append(item)
            elif not is_member(node):
                left = remove(items, item, node)
                kept.append({} if left is None else left)
        return kept or None
    # An atomic value is one field: nothing can be removed from it.
    return value
