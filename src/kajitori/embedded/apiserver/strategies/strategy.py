"""The strategy of a kind: what is particular about its objects."""

from __future__ import annotations

from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause

Object = dict[str, Any]


class Strategy:
    """What a kind does to its objects, in place. The base class keeps status and generation in order, nothing else."""

    has_status = False
    """`/status` is a subresource: creation drops a status, updates keep it."""
    has_generation = False
    """`metadata.generation` counts changes to everything but metadata and status."""
    name_rule: texts.Rule = staticmethod(texts.dns_subdomain)
    """What names of this kind look like."""
    looks_at_metadata = True
    """Whether metadata are looked at together with the rest; else afterwards, if there is nothing else to say."""

    def default(self, obj: Object) -> None:
        """Fill in what was left out; a second call changes nothing."""

    def prepare_create(self, obj: Object) -> None:
        """Take away what a creator may not set, and set what the server sets itself."""
        if self.has_status:
            obj.pop("status", None)
        if self.has_generation:
            obj["metadata"]["generation"] = 1
        else:
            obj["metadata"].pop("generation", None)

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keep what an update may not change silently (status); runs before validation."""
        if self.has_status:
            keep(new, old, "status")
        generation = old["metadata"].get("generation")
        if generation is None:
            new["metadata"].pop("generation", None)
        else:
            changed = self.has_generation and _substance(new) != _substance(old)
            new["metadata"]["generation"] = generation + 1 if changed else generation

    def prepare_status_update(self, new: Object, old: Object) -> None:
        """Keep everything but the status; metadata may change with it."""
        for name in (new.keys() | old.keys()) - {"status", "metadata", "apiVersion", "kind"}:
            keep(new, old, name)
        keep(new["metadata"], old["metadata"], "generation")

    def validate_create(self, obj: Object) -> list[Cause]:
        """Every fault of a new object, beyond its metadata."""
        return []

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Every fault of a changed object, beyond its metadata: also what may not be changed."""
        return self.validate_create(new)

    def validate_status_update(self, new: Object, old: Object) -> list[Cause]:
        """Every fault of a changed status."""
        return []

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """What whoever writes an object should be told, though it is right; `old` is None for a new one."""
        return []

    def fields(self, obj: Object) -> dict[str, str]:
        """What field selectors may name beyond metadata.name and metadata.namespace."""
        return {}


def keep(new: Object, old: Object, name: str) -> None:
    """The field stays what it was, or absent."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _substance(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status", "apiVersion", "kind")}
