"""Custom resources: defaults and validation by their schema."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kajitori.embedded.apiserver.causes import Cause, invalid
from kajitori.embedded.apiserver.reads import jsonpath
from kajitori.embedded.apiserver.schemas.conform import type_name
from kajitori.embedded.apiserver.schemas.schema import ABSENT, Schema
from kajitori.embedded.apiserver.strategies import rules, warnings
from kajitori.embedded.apiserver.strategies.custom_validation import validate
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy

_MOST_REPLICAS = 2**31 - 1


class CustomStrategy(Strategy):
    has_generation = True

    def __init__(
        self,
        load_schema: Callable[[], Schema],
        *,
        has_status: bool,
        scale: Mapping[str, str] | None = None,
        selectable: Sequence[str] = (),
    ) -> None:
        self._load_schema = load_schema
        self.has_status = has_status
        self._scale = scale or {}
        """Paths of the scale subresource, such as `specReplicasPath`; empty if there is none."""
        self._selectable = {path.removeprefix("."): jsonpath.compile_path(path) for path in selectable}

    def default(self, obj: Object) -> None:
        apply_defaults(self._load_schema(), obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        if not self.has_status and new.get("status") != old.get("status"):
            # Without the subresource, the status is an ordinary field.
            before = old["metadata"].get("generation", 1)
            new["metadata"]["generation"] = before + 1

    def prepare_status_update(self, new: Object, old: Object) -> None:
        metadata = {**old["metadata"]}
        for name in ("managedFields", "resourceVersion"):
            metadata.pop(name, None)
            if name in new["metadata"]:
                metadata[name] = new["metadata"][name]
        super().prepare_status_update(new, old)
        new["metadata"] = metadata

    def validate_create(self, obj: Object) -> list[Cause]:
        return self._faults(obj, ABSENT) + self._replicas(obj, "specReplicasPath") + self._scale_status(obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self._faults(new, old) + self._replicas(new, "specReplicasPath") + self._scale_status(new)

    def _faults(self, new: Object, old: Object) -> list[Cause]:
        schema = self._load_schema()
        causes = validate(schema, {name: value for name, value in new.items() if name != "metadata"}, "", old)
        return causes + rules.rule_faults(schema, new, old, causes)

    def _scale_status(self, obj: Object) -> list[Cause]:
        causes = self._replicas(obj, "statusReplicasPath")
        path = self._scale.get("labelSelectorPath", "")
        _, fault = _nested(obj, path, str, "text")
        return [*causes, invalid(path, "", fault)] if fault else causes

    def _replicas(self, obj: Object, name: str) -> list[Cause]:
        path = self._scale.get(name, "")
        found, fault = _nested(obj, path, int, "a whole number")
        if fault:
            return [invalid(path, 0, fault)]
        if found is not None and found < 0:
            return [invalid(path, found, "should be a non-negative integer")]
        if found is not None and found > _MOST_REPLICAS:
            return [invalid(path, found, f"should be less than or equal to {_MOST_REPLICAS}")]
        return []

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        before = old["metadata"] if old is not None else {}
        return warnings.of_finalizers(new["metadata"].get("finalizers") or [], before.get("finalizers") or [])

    def fields(self, obj: Object) -> dict[str, str]:
        found = {name: path.find(obj) for name, path in self._selectable.items()}
        return {name: jsonpath.text_of(values[0]) if values else "" for name, values in found.items()}

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        schema = self._load_schema().properties.get("status")
        if schema is not None and new.get("status") is not None:
            # Faults name fields from the status on; add the name of the status itself.
            for one in validate(schema, new["status"], "", old.get("status", ABSENT)):
                inside = one.field and one.field != "<nil>"
                causes.append(replace(one, field=f"status.{one.field}" if inside else one.field or "status"))
        return causes + rules.rule_faults(self._load_schema(), new, old, causes) + self._scale_status(new)


def _nested(obj: Object, path: str, wanted: type, expected: str) -> tuple[Any, str]:
    """Return the value at a path such as `.spec.replicas`, None if there is none, and what is wrong with its type."""
    value: Any = obj
    names = path.removeprefix(".").split(".") if path else []
    for name in names:
        if value is None:
            return None, ""
        if type(value) is not dict:
            return None, f"expected an object before {name}, not {type_name(value)}"
        if name not in value:
            return None, ""
        value = value[name]
    if names and type(value) is not wanted:
        return None, f"expected {expected}, not {type_name(value)}"
    return (value if names else None), ""


def apply_defaults(schema: Schema, value: Any) -> None:
    """Fill in defaults, in place, also for nulls that are not allowed. Idempotent."""
    if type(value) is dict:
        for name, part in schema.properties.items():
            if part.default is not None and (name not in value or (value[name] is None and not part.nullable)):
                value[name] = copy.deepcopy(part.default)
        for name, one in value.items():
            inner = schema.properties.get(name) or (schema.items if schema.type == "map" else None)
            if inner is not None:
                apply_defaults(inner, one)
    elif type(value) is list and schema.items is not None:
        for one in value:
            apply_defaults(schema.items, one)
