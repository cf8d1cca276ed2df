"""Custom resources: defaults and validation by their schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kajitori.embedded.apiserver.causes import Cause
from kajitori.embedded.apiserver.schemas import jsonpath
from kajitori.embedded.apiserver.schemas.defaulting import apply_defaults
from kajitori.embedded.apiserver.schemas.schema import ABSENT, Object, Schema
from kajitori.embedded.apiserver.strategies.custom_kinds import rules
from kajitori.embedded.apiserver.strategies.custom_kinds.validation import validate
from kajitori.embedded.apiserver.strategies.strategy import Strategy, keep


class CustomStrategy(Strategy):
    has_generation = True

    def __init__(self, load_schema: Callable[[], Schema], *, has_status: bool, selectable: Sequence[str] = ()) -> None:
        super().__init__(load_schema)
        self.has_status = has_status
        self._selectable = {path.removeprefix("."): jsonpath.compile_path(path) for path in selectable}

    def default(self, obj: Object) -> None:
        apply_defaults(self.schema, obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        if not self.has_status and new.get("status") != old.get("status"):
            # Without the subresource, the status is an ordinary field.
            before = old["metadata"].get("generation", 1)
            new["metadata"]["generation"] = before + 1

    def prepare_status_update(self, new: Object, old: Object) -> None:
        metadata = {**old["metadata"]}
        for name in ("managedFields", "resourceVersion"):
            keep(metadata, new["metadata"], name)
        super().prepare_status_update(new, old)
        new["metadata"] = metadata

    def validate_create(self, obj: Object) -> list[Cause]:
        return self.validate_update(obj, ABSENT)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = validate(self.schema, {name: value for name, value in new.items() if name != "metadata"}, "", old)
        return causes + rules.rule_faults(self.schema, new, old, causes)

    def fields(self, obj: Object) -> dict[str, str]:
        found = {name: path.find(obj) for name, path in self._selectable.items()}
        return {name: jsonpath.text_of(values[0]) if values else "" for name, values in found.items()}

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        causes: list[Cause] = []
        schema = self.schema.properties.get("status")
        if schema is not None and new.get("status") is not None:
            causes = validate(schema, new["status"], "status", old.get("status", ABSENT))
        return causes + rules.rule_faults(self.schema, new, old, causes)
