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

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from kajitori.embedded.apiserver import metadata
from kajitori.embedded.apiserver.causes import Cause
from kajitori.embedded.apiserver.schemas import conform
from kajitori.embedded.apiserver.schemas.schema import ANY, Schema
from kajitori.embedded.apiserver.status import Unreadable
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.kube.resources import Resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_BARE = frozenset({("", "events"), ("coordination.k8s.io", "leases"), ("policy", "poddisruptionbudgets")})
"""Built-in kinds that take any finalizer, as custom resources do."""


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
            raise Unreadable(self.resource, str(error)) from error

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
