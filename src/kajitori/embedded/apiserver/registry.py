"""All kinds that are served: the built-in ones and those of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kajitori.embedded.apiserver.builtin import built_in_kinds, role_kinds
from kajitori.embedded.apiserver.crds import kinds_of
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.schemas.schema import Object


class KindRegistry:
    """All kinds that are served now. Definitions of custom resources can be added and removed."""

    def __init__(self, kinds: list[Kind]) -> None:
        self._built_in = {_key_of(one): one for one in kinds}
        self._custom: dict[str, list[Kind]] = {}
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_stored: dict[tuple[str, str], list[Kind]] = {}
        self._generation = 0
        self._rebuild_indexes()

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind under a URL path, or None."""
        return self._kinds.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind of an object's apiVersion and kind (or of an owner reference), or None."""
        return self._by_kind.get((api_version, kind))

    def find_stored(self, group: str, plural: str) -> list[Kind]:
        """Return all kinds that show the objects stored under this group and plural."""
        return self._by_stored.get((group, plural), [])

    def all(self) -> Iterator[Kind]:
        """Return every kind, built-in ones first."""
        return iter(list(self._kinds.values()))

    def add_definition(self, definition: Object) -> list[Kind]:
        """Serve the kinds of a CustomResourceDefinition (again, after a change), and return them."""
        made = kinds_of(definition)
        self._custom[definition["metadata"]["name"]] = made
        self._rebuild_indexes()
        return made

    def remove_definition(self, definition: Object) -> None:
        """Stop serving the kinds of a definition."""
        if self._custom.pop(definition["metadata"]["name"], None) is not None:
            self._rebuild_indexes()

    @property
    def generation(self) -> int:
        """A counter of changes, by which discovery and OpenAPI are cached."""
        return self._generation

    def _rebuild_indexes(self) -> None:
        self._kinds = dict(self._built_in)
        for made in self._custom.values():
            for one in made:
                self._kinds.setdefault(_key_of(one), one)
        self._by_kind = {(one.resource.api_version, one.resource.kind): one for one in self._kinds.values()}
        self._by_stored = {}
        for one in self._kinds.values():
            self._by_stored.setdefault((one.stored.group, one.stored.plural), []).append(one)
        self._generation += 1


def _key_of(kind: Kind) -> tuple[str, str, str]:
    return kind.resource.group, kind.resource.version, kind.resource.plural


def built_in(*, roles: bool = False) -> KindRegistry:
    """Return a registry of the built-in kinds; with `roles`, also those of role-based access control, and service
    accounts have tokens."""
    kinds = built_in_kinds()
    if roles:
        with_tokens = frozenset({"token"})
        kinds = [replace(one, subresources=with_tokens) if _is_account(one) else one for one in kinds] + role_kinds()
    return KindRegistry(kinds)


def _is_account(kind: Kind) -> bool:
    return (kind.resource.group, kind.resource.plural) == ("", "serviceaccounts")
