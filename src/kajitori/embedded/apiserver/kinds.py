"""The kinds that the API server serves, and what is particular about each.

The life of a request, with whose part each step is:

1. `kind.conform(obj)`: unknown fields are dropped and reported (`fieldValidation`), wrong types refused (400).
2. `strategy.default(obj)`; metadata (name, uid, creationTimestamp) is the caller's.
3. create: `strategy.prepare_create(obj)`; update: `strategy.prepare_update(new, old)`, which keeps the old status;
   on `/status`: `strategy.prepare_status_update(new, old)`, which keeps everything but the status.
4. `await admission.admit(request, view)`: mutates; what does not exist or may not be is refused.
5. `kind.validate_metadata(new, old)`, and `strategy.validate_create(obj)`, `.validate_update(new, old)` or
   `.validate_status_update(new, old)`.
6. `admission.check(request, view)`: limits and quotas; synchronous, so that nothing comes between it and the store.
7. The store keeps `kind.encode(obj)` under `kind.stored` (its group and plural; the version may change); who reads
   through `kind` gets `kind.decode(stored)`.
8. `upkeep.follow_ups(kind, old, new, view)`: what else has to be written because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver import metadata
from kajitori.embedded.apiserver.causes import Cause
from kajitori.embedded.apiserver.schemas import conform
from kajitori.embedded.apiserver.schemas.schema import ANY, Schema
from kajitori.embedded.apiserver.status import StatusError
from kajitori.kube.resources import Resource

Object = dict[str, Any]
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


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


_BARE = frozenset({("", "events"), ("coordination.k8s.io", "leases"), ("policy", "poddisruptionbudgets")})
"""Built-in kinds that take any finalizer, as custom resources do."""


def keep(new: Object, old: Object, name: str) -> None:
    """The field stays what it was, or absent."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _substance(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status", "apiVersion", "kind")}


def _no_schema() -> Schema:
    return ANY


@dataclass(frozen=True)
class Kind:
    """A kind as one version of its group serves it."""

    resource: Resource
    singular: str
    strategy: Strategy
    load_schema: Callable[[], Schema] = field(default=_no_schema, repr=False, compare=False)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    """"status", "scale", "log", "exec", "binding", "eviction" …"""
    verbs: tuple[str, ...] = ALL_VERBS
    virtual: bool = False
    """Reviews: `create` only, nothing is stored."""
    storage: Resource | None = None
    """As what it is stored, where that is another version or group than `resource` (see `stored`)."""
    to_stored: Callable[[Object], Object] | None = field(default=None, repr=False, compare=False)
    from_stored: Callable[[Object], Object] | None = field(default=None, repr=False, compare=False)
    custom: Object | None = field(default=None, repr=False, compare=False)
    """The CustomResourceDefinition that made this kind; None for a built-in one."""

    @cached_property
    def schema(self) -> Schema:
        """The structure; built when it is first asked for, since that loads the models."""
        return self.load_schema()

    @property
    def stored(self) -> Resource:
        """Under which resource the store keeps its objects. Several kinds may share one: versions of a custom
        resource, or the Events of both groups."""
        return self.storage or self.resource

    def encode(self, obj: Object) -> Object:
        """The object as it is stored. The argument stays as it is."""
        return obj if self.to_stored is None else self.to_stored(obj)

    def settle(self, obj: Object) -> Object:
        """The object as it is when it was stored and read again: without nulls that may not be. The argument stays."""
        if self.custom is None or "status" not in obj or obj["status"] is not None:
            return obj
        return {name: value for name, value in obj.items() if name != "status"}

    def decode(self, stored: Object) -> Object:
        """The object as this kind shows it. The argument stays as it is."""
        return stored if self.from_stored is None else self.from_stored(stored)

    def conform(self, obj: Object, *, applied: bool = False) -> list[str]:
        """Drop, in place, the fields that the kind does not know; answer them as Kubernetes names them
        (`unknown field "spec.foo"`). `applied`: it is the result of a server-side apply, not from a client.

        Raises:
            StatusError: 400, a built-in kind's field has a value of another type. (For custom resources that is
                `strategy.validate_…`, hence 422.)
        """
        try:
            if self.custom is not None:
                return conform.conform_custom(self.schema, obj, applied=applied)
            return conform.conform(self.schema, obj)
        except conform.WrongType as error:
            kind = self.resource.kind
            version = str(obj.get("apiVersion") or self.resource.api_version).rpartition("/")[2]
            text = f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
            raise StatusError.bad_request(text) from error

    def validate_metadata(self, new: Object, old: Object | None = None) -> list[Cause]:
        """Every fault of an object's metadata: name, labels, annotations, finalizers, owner references; on update also
        what may not change."""
        meta = new["metadata"]
        bare = (
            self.custom is not None
            or self.resource.group == "apiextensions.k8s.io"
            or (self.resource.group, self.resource.plural) in _BARE
        )
        if old is not None:
            causes = metadata.validate_changed(meta, old["metadata"])
            return causes if bare else causes + metadata.validate_finalizers(meta)
        causes = metadata.validate_new(meta, namespaced=self.resource.namespaced, rule=self.strategy.name_rule)
        if not bare:
            causes += metadata.validate_finalizers(meta)
        return causes


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
        from kajitori.embedded.apiserver.crds import kinds_of

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
    from kajitori.embedded.apiserver.builtin import built_in_kinds

    return KindRegistry(built_in_kinds())
