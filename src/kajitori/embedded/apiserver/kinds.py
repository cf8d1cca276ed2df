"""Kinds that the API server serves, and the steps of a write.

1. `kind.conform(obj)`: drop and report unknown fields (`fieldValidation`), refuse values of a wrong type (400).
2. `strategy.default(obj)`. The caller sets the metadata (name, uid, creationTimestamp).
3. create: `strategy.prepare_create(obj)`; update: `strategy.prepare_update(new, old)`, which keeps the old status;
   on `/status`: `strategy.prepare_status_update(new, old)`, which keeps everything but the status.
4. `await admission.admit(request, view)`: change the object; refuse what refers to something that does not exist.
5. `kind.validate_metadata(new, old)`, and `strategy.validate_create(obj)`, `.validate_update(new, old)` or
   `.validate_status_update(new, old)`.
6. `admission.check(request, view)`: check limits and quotas. Synchronous, so that nothing changes before the store.
7. Store `kind.encode(obj)` under `kind.stored` (its group and plural; the version may change). Readers of `kind` get
   `kind.decode(stored)`.
8. `upkeep.follow_ups(kind, old, new, view)`: write what depends on the change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kajitori.embedded.apiserver import metadata
from kajitori.embedded.apiserver.causes import Cause
from kajitori.embedded.apiserver.schemas import conform
from kajitori.embedded.apiserver.schemas.schema import Object, Schema
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.strategies.strategy import Strategy
from kajitori.kube.resources import Resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_BARE = frozenset({("", "events"), ("coordination.k8s.io", "leases"), ("policy", "poddisruptionbudgets")})
"""Built-in kinds that accept any finalizer, like custom resources."""


@dataclass(frozen=True)
class Kind:
    """A kind as one version of its group serves it."""

    resource: Resource
    singular: str
    strategy: Strategy
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    """Names of its subresources: "status", "scale", "log", "exec", "binding", "eviction"."""
    verbs: tuple[str, ...] = ALL_VERBS
    virtual: bool = False
    """Whether objects can only be created and are not stored (reviews)."""
    storage: Resource | None = None
    """The resource under which objects are stored, if it differs from `resource` (see `stored`)."""
    to_stored: Callable[[Object], Object] | None = field(default=None, repr=False, compare=False)
    from_stored: Callable[[Object], Object] | None = field(default=None, repr=False, compare=False)
    custom: Object | None = field(default=None, repr=False, compare=False)
    """The CustomResourceDefinition of a custom kind; None for a built-in one."""

    @property
    def schema(self) -> Schema:
        """The schema of its objects."""
        return self.strategy.schema

    @property
    def stored(self) -> Resource:
        """The resource under which the store keeps the objects; the versions of a custom resource share one."""
        return self.storage or self.resource

    def encode(self, obj: Object) -> Object:
        """Return the object in its stored form. The argument is not changed."""
        return obj if self.to_stored is None else self.to_stored(obj)

    def as_read_back(self, obj: Object) -> Object:
        """Return the object as it will be read back from the store: without nulls that are not allowed. The argument is
        not changed."""
        if self.custom is None or "status" not in obj or obj["status"] is not None:
            return obj
        return {name: value for name, value in obj.items() if name != "status"}

    def decode(self, stored: Object) -> Object:
        """Return a stored object in the form of this kind. The argument is not changed."""
        return stored if self.from_stored is None else self.from_stored(stored)

    def conform(self, obj: Object, *, applied: bool = False) -> list[str]:
        """Drop, in place, the fields that the kind does not know, and return them as Kubernetes names them (`unknown
        field "spec.foo"`). `applied`: the object is the result of a server-side apply.

        Raises:
            StatusError: 400, a built-in kind's field has a value of another type. (For custom resources that is
                `strategy.validate_…`, hence 422.)
        """
        meta = obj.get("metadata")
        try:
            if self.custom is not None:
                return conform.conform_custom(self.schema, obj, applied=applied)
            if isinstance(meta, dict) and meta.get("managedFields") == []:
                # An emptied list removes all managers; a list with one empty entry means the same and is kept.
                meta["managedFields"] = [{}]
            return conform.conform(self.schema, obj)
        except conform.WrongType as error:
            raise StatusError.unreadable(self.resource, str(error)) from error

    def validate_metadata(self, new: Object, old: Object | None = None) -> list[Cause]:
        """Return every fault of an object's metadata: name, labels, annotations, finalizers, owner references; on
        update also changes that are not allowed."""
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
