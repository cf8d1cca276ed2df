"""The strategy of a kind: defaults, preparation and validation of its objects."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import IMMUTABLE, Cause, invalid
from kajitori.embedded.apiserver.schemas.defaulting import apply_defaults
from kajitori.embedded.apiserver.schemas.schema import Object, Schema
from kajitori.embedded.apiserver.validation.validate import validate


class Strategy:
    """Base class of strategies, and the strategy of kinds without rules of their own. It maintains status and
    generation. Methods change objects in place."""

    has_status = False
    """Whether `/status` is a subresource: creation drops the status and updates keep it."""
    first_status: ClassVar[Mapping[str, Any] | None] = None
    """The status of a new object; None: it has none."""
    has_generation = False
    """Whether `metadata.generation` counts changes other than of metadata and status."""
    name_rule: texts.Rule = staticmethod(texts.dns_subdomain)
    """The rule for names of this kind."""
    immutable: tuple[str, ...] = ()
    """Paths of fields that no update may change."""
    selectable: ClassVar[Mapping[str, str]] = {}
    """Paths of fields for field selectors, beyond metadata.name and metadata.namespace; with the value if missing."""

    def __init__(self, load_schema: Callable[[], Schema]) -> None:
        self._load_schema = load_schema

    @cached_property
    def schema(self) -> Schema:
        """The schema of the kind; built on first use, since that loads the models."""
        return self._load_schema()

    def default(self, obj: Object) -> None:
        """Set defaults. Idempotent."""
        if "spec" in self.schema.properties:
            obj.setdefault("spec", {})
        apply_defaults(self.schema, obj)
        self.complete(obj)

    def complete(self, obj: Object) -> None:
        """Set the defaults that depend on other fields."""

    def prepare_create(self, obj: Object) -> None:
        """Drop fields that a creator may not set, and set those that the server sets."""
        if self.has_status:
            obj.pop("status", None)
        if self.first_status is not None:
            obj["status"] = copy.deepcopy(dict(self.first_status))
        if self.has_generation:
            obj["metadata"]["generation"] = 1
        else:
            obj["metadata"].pop("generation", None)

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keep fields that an update does not change (status). Runs before validation."""
        if self.has_status:
            keep(new, old, "status")
        generation = old["metadata"].get("generation")
        if generation is None:
            new["metadata"].pop("generation", None)
        else:
            changed = self.has_generation and _without_metadata_and_status(new) != _without_metadata_and_status(old)
            new["metadata"]["generation"] = generation + 1 if changed else generation

    def prepare_status_update(self, new: Object, old: Object) -> None:
        """Keep everything but the status and metadata."""
        for name in (new.keys() | old.keys()) - {"status", "metadata", "apiVersion", "kind"}:
            keep(new, old, name)
        keep(new["metadata"], old["metadata"], "generation")

    def validate_create(self, obj: Object) -> list[Cause]:
        """Return every fault of a new object, except of its metadata."""
        return self._schema_faults(obj) + self.faults(obj, None)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return every fault of a changed object, except of its metadata, including changes that are not allowed."""
        values = [(path, at_path(new, path), at_path(old, path)) for path in self.immutable]
        causes = [
            invalid(path, value, IMMUTABLE) for path, value, before in values if (value or None) != (before or None)
        ]
        return causes + self._schema_faults(new) + self.faults(new, old)

    def _schema_faults(self, obj: Object) -> list[Cause]:
        return validate(self.schema, {name: part for name, part in obj.items() if name != "status"}, "")

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        """Return every fault that neither the schema nor `immutable` shows; `old` is None for a new object."""
        return []

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        """Return every fault of a changed status."""
        return []

    def fields(self, obj: Object) -> dict[str, str]:
        """Return the values for field selectors beyond metadata.name and metadata.namespace."""
        return {path: _selectable_text(at_path(obj, path), blank) for path, blank in self.selectable.items()}


def keep(new: Object, old: Object, name: str) -> None:
    """Give a field its old value, or drop it if it had none."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def at_path(obj: Object, path: str) -> Any:
    """Return the value at a path such as `spec.nodeName`; None if there is none."""
    value: Any = obj
    for name in path.strip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _selectable_text(value: Any, blank: str) -> str:
    return "true" if value is True else value if isinstance(value, str) else blank


def _without_metadata_and_status(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status", "apiVersion", "kind")}
