"""Custom resources: defaults and validation by their schema."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from kajitori.local.apiserver import jsonpath
from kajitori.local.apiserver.causes import Cause
from kajitori.local.apiserver.kinds import Object, Strategy
from kajitori.local.apiserver.schema import Schema
from kajitori.local.apiserver.strategies.custom_validation import validate


class CustomStrategy(Strategy):
    has_generation = True

    def __init__(self, load_schema: Callable[[], Schema], *, has_status: bool, selectable: Sequence[str] = ()) -> None:
        self._load_schema = load_schema
        self.has_status = has_status
        self._selectable = {path.removeprefix("."): jsonpath.compile_path(path) for path in selectable}

    def default(self, obj: Object) -> None:
        apply_defaults(self._load_schema(), obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        if not self.has_status and new.get("status") != old.get("status"):
            # Without the subresource a status is a part of the object like any other.
            before = old["metadata"].get("generation", 1)
            new["metadata"]["generation"] = before + 1

    def prepare_status_update(self, new: Object, old: Object) -> None:
        metadata = {**old["metadata"]}
        for name in ("managedFields", "resourceVersion"):
            if name in new["metadata"]:
                metadata[name] = new["metadata"][name]
        super().prepare_status_update(new, old)
        new["metadata"] = metadata

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate(self._load_schema(), {name: value for name, value in obj.items() if name != "metadata"})

    def fields(self, obj: Object) -> dict[str, str]:
        found = {name: path.find(obj) for name, path in self._selectable.items()}
        return {name: jsonpath.text_of(values[0]) if values else "" for name, values in found.items()}

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new)


def apply_defaults(schema: Schema, value: Any) -> None:
    """Fill in defaults, in place, and drop nulls that are not allowed; a second call changes nothing."""
    if type(value) is dict:
        for name, part in schema.properties.items():
            if name in value and value[name] is None and not part.nullable and part.type != "any":
                del value[name]
            if name not in value and part.default is not None:
                value[name] = copy.deepcopy(part.default)
        for name, one in value.items():
            inner = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
            if inner is not None:
                apply_defaults(inner, one)
    elif type(value) is list and schema.items is not None:
        for one in value:
            apply_defaults(schema.items, one)
