"""The strategy of a kind: defaults, preparation and validation of its objects."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause

Object = dict[str, Any]


class Strategy:
    """Base class of strategies. It maintains status and generation. Methods change objects in place."""

    has_status = False
    """Whether `/status` is a subresource: creation drops the status and updates keep it."""
    has_generation = False
    """Whether `metadata.generation` counts changes other than of metadata and status."""
    name_rule: texts.Rule = staticmethod(texts.dns_subdomain)
    """The rule for names of this kind."""
    looks_at_metadata = True
    """Whether metadata is validated together with the rest; otherwise only if the rest has no faults."""

    def default(self, obj: Object) -> None:
        """Set defaults. Idempotent."""

    def prepare_create(self, obj: Object) -> None:
        """Drop fields that a creator may not set, and set those that the server sets."""
        if self.has_status:
            obj.pop("status", None)
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
            changed = self.has_generation and _substance(new) != _substance(old)
            new["metadata"]["generation"] = generation + 1 if changed else generation

    def prepare_status_update(self, new: Object, old: Object) -> None:
        """Keep everything but the status and metadata."""
        for name in (new.keys() | old.keys()) - {"status", "metadata", "apiVersion", "kind"}:
            keep(new, old, name)
        keep(new["metadata"], old["metadata"], "generation")

    def validate_create(self, obj: Object) -> list[Cause]:
        """Return every fault of a new object, except of its metadata."""
        return []

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return every fault of a changed object, except of its metadata, including changes that are not allowed."""
        return self.validate_create(new)

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        """Return every fault of a changed status."""
        return []

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Return warnings about a valid object; `old` is None for a new one."""
        return []

    def fields(self, obj: Object) -> dict[str, str]:
        """Return the values for field selectors beyond metadata.name and metadata.namespace."""
        return {}


def keep(new: Object, old: Object, name: str) -> None:
    """Give a field its old value, or drop it if it had none."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _substance(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status", "apiVersion", "kind")}
