"""All kinds that are served: the built-in ones, and those that definitions of custom resources add."""

from __future__ import annotations

from collections.abc import Iterator

from kajitori.embedded.apiserver.builtin import built_in_kinds
from kajitori.embedded.apiserver.crds import kinds_of
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.strategies.strategy import Object


class KindRegistry:
    """All kinds served now; definitions of custom resources come and go."""

    def __init__(self, kinds: list[Kind]) -> None:
        self._built_in = {_key(one): one for one in kinds}
        self._custom: dict[str, list[Kind]] = {}
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_stored: dict[tuple[str, str], list[Kind]] = {}
        self._generation = 0
        self._index()

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind under a URL path, or None."""
        return self._kinds.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object's apiVersion and kind (or an owner reference) name, or None."""
        return self._by_kind.get((api_version, kind))

    def find_stored(self, group: str, plural: str) -> list[Kind]:
        """All kinds that show the objects which the store keeps under this group and plural."""
        return self._by_stored.get((group, plural), [])

    def all(self) -> Iterator[Kind]:
        """Every kind, built-in ones first."""
        return iter(list(self._kinds.values()))

    def add_definition(self, definition: Object) -> list[Kind]:
        """Serve (or serve anew, after a change) what a CustomResourceDefinition defines; answers its kinds."""
        made = kinds_of(definition)
        self._custom[definition["metadata"]["name"]] = made
        self._index()
        return made

    def remove_definition(self, definition: Object) -> None:
        """Stop serving it."""
        if self._custom.pop(definition["metadata"]["name"], None) is not None:
            self._index()

    @property
    def generation(self) -> int:
        """Grows with every change: discovery and OpenAPI are cached by it."""
        return self._generation

    def _index(self) -> None:
        self._kinds = dict(self._built_in)
        for made in self._custom.values():
            for one in made:
                self._kinds.setdefault(_key(one), one)
        self._by_kind = {(one.resource.api_version, one.resource.kind): one for one in self._kinds.values()}
        self._by_stored = {}
        for one in self._kinds.values():
            self._by_stored.setdefault((one.stored.group, one.stored.plural), []).append(one)
        self._generation += 1


def _key(kind: Kind) -> tuple[str, str, str]:
    return kind.resource.group, kind.resource.version, kind.resource.plural


def built_in() -> KindRegistry:
    """A registry of the built-in kinds."""
    return KindRegistry(built_in_kinds())
