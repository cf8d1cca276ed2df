"""Writing objects: the path of every create and update.

The order is that of kube-apiserver (`registry/generic/registry/store.go`): defaults, field ownership, mutating
admission, preparation by the strategy, validation, validating admission, store.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kajitori.embedded.apiserver.access.roles import GROUP as RBAC_GROUP
from kajitori.embedded.apiserver.access.roles import RoleAuthorizer
from kajitori.embedded.apiserver.admission import admission
from kajitori.embedded.apiserver.admission.admission import AdmissionRequest
from kajitori.embedded.apiserver.admission.policies.mutating import MutatingPolicies
from kajitori.embedded.apiserver.admission.policies.validating import ValidatingPolicies
from kajitori.embedded.apiserver.auth import ANONYMOUS, Attributes, Authorizer, User
from kajitori.embedded.apiserver.causes import invalid
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.patches.own_metadata import (
    SERVER_SET,
    generate_name,
    keep_identity,
    now_text,
    only_times_differ,
)
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.requests.answers import dry_run_answer, encode_plain, encode_stored, store_key
from kajitori.embedded.apiserver.requests.options import WriteOptions
from kajitori.embedded.apiserver.requests.selection import node_of
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError, qualified
from kajitori.embedded.apiserver.strategies.strategy import Strategy, keep
from kajitori.embedded.apiserver.writes import automatic
from kajitori.embedded.store import KeyTaken, NotStored, Record, Stale, Store
from kajitori.kube.resources import Resource

_MADE_BY_UPDATE = frozenset({"events", "endpoints", "limitranges", "services", "leases.coordination.k8s.io"})
"""Kinds for which a PUT creates an object that does not exist (AllowCreateOnUpdate)."""
_NEED_VERSION = frozenset(
    {
        "leases.coordination.k8s.io",
        "poddisruptionbudgets.policy",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
"""Built-in kinds for which an update must name a resource version (AllowUnconditionalUpdate). For custom resources it
always must."""


@dataclass(slots=True)
class Caller:
    """The user that a write is made for, and the warnings for that user."""

    user: User = ANONYMOUS
    manager: str = "unknown"
    warnings: list[str] = field(default_factory=list)


Change = Callable[[Object], Object]
"""Returns the wanted object, given a copy of the stored one. It is called again if another write came first."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write: the object in the form of its kind, as JSON."""

    value: bytes
    created: bool = False


class Objects:
    """All objects of the cluster, written by the rules of their kinds."""

    def __init__(self, store: Store, registry: KindRegistry) -> None:
        self.store = store
        self.registry = registry
        self.view = View(store)
        self.validating_policies = ValidatingPolicies(self.view, registry)
        self._mutating = MutatingPolicies(self.view, registry)
        self.role_guard: RoleAuthorizer | None = None
        """Set if roles decide what users may do. It then keeps users from granting rights that they do not have."""
        store.group_by("/pods", node_of)

    def let_policies_ask(self, authorizer: Authorizer) -> None:
        """Let expressions of admission policies ask what users may do. Until then, every known user may do all."""
        self.validating_policies.authorizer = self._mutating.authorizer = authorizer

    # --- reading -----------------------------------------------------------------------------------------------------

    def find(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """Return the stored record, which may not be durable yet, or None."""
        return self.store.get(store_key(kind), namespace, name)

    def get(self, kind: Kind, namespace: str, name: str) -> Record:
        """Return the stored record, which may not be durable yet.

        Raises:
            StatusError: 404.
        """
        record = self.find(kind, namespace, name)
        if record is None:
            raise StatusError.not_found(kind.resource, name)
        return record

    # --- creating ----------------------------------------------------------------------------------------------------

    async def create(
        self,
        kind: Kind,
        namespace: str,
        obj: Object,
        caller: Caller,
        options: WriteOptions,
        *,
        own: Own | None = None,
    ) -> Written:
        """Store a new object, which must have been conformed.

        Raises:
            StatusError: the object is not allowed.
        """
        _complete_new(kind, obj, own)
        name = obj["metadata"].get("name", "")
        request = AdmissionRequest(
            "CREATE", kind, namespace, name, obj, None, "", options.dry_run, caller.user, caller.warnings
        )
        await self._admit_new(request)
        self._check_name_is_free(request)
        if options.dry_run:
            return Written(dry_run_answer(kind, obj), created=True)
        return await self._store_new(request)

    async def _admit_new(self, request: AdmissionRequest) -> None:
        """Admit, prepare and validate a new object. Raises StatusError if it is not allowed."""
        kind, obj = request.kind, request.object
        await admission.admit(request, self.view)
        self._mutating.mutate(request)
        kind.strategy.prepare_create(obj)
        causes = kind.validate_metadata(obj) + kind.strategy.validate_create(obj)
        if causes:
            raise invalid_object(kind, obj["metadata"].get("name", ""), causes)
        self._check(request)
        admission.check(request, self.view)

    def _check_name_is_free(self, request: AdmissionRequest) -> None:
        """Raise a 409 if the name of a new object is taken."""
        kind, meta = request.kind, request.object["metadata"]
        present = self.find(kind, request.namespace, meta["name"])
        if present is None:
            return
        taken = StatusError.already_exists(kind.resource, meta["name"], generated=bool(meta.get("generateName")))
        if present.object["metadata"].get("deletionTimestamp"):
            taken.message = f"object is being deleted: {taken.message}"
        raise taken

    async def _store_new(self, request: AdmissionRequest) -> Written:
        kind, name = request.kind, request.object["metadata"]["name"]
        try:
            record = self.store.create(store_key(kind), request.namespace, name, kind.encode(request.object))
        except KeyTaken as error:
            raise StatusError.already_exists(kind.resource, name) from error
        await self.durable(self.follow_up(kind, None, record))
        return Written(encode_stored(kind, record), created=True)

    def check_may_create(self, kind: Kind, namespace: str, name: str, user: User) -> None:
        """Check the right to create, for requests with another verb that create an object (`withAuthorization` of
        kube-apiserver).

        Raises:
            StatusError: 403.
        """
        if self.role_guard is None:
            return
        resource = kind.resource
        asked = Attributes("create", resource.group, resource.version, resource.plural, "", namespace, name)
        if refusal := self.role_guard.refusal(user, asked):
            raise StatusError.forbidden(resource, name, refusal)

    # --- changing ----------------------------------------------------------------------------------------------------

    async def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Change,
        caller: Caller,
        options: WriteOptions,
        *,
        subresource: str = "",
        own: Own | None = None,
        retry: bool = True,
        checks_uid: bool = False,
    ) -> Written:
        """Change a stored object. `change` returns a conformed object. If that has a resource version, it must be the
        stored one; with `checks_uid` the same holds for its UID. Without a difference nothing is stored.

        Raises:
            StatusError: 404, 409, 422 …
        """
        while True:
            record = self.get(kind, namespace, name)
            old = kind.decode(record.decode())
            new = change(kind.decode(record.decode()))
            self._check_versions(kind, record, old, new, checks_uid=checks_uid)
            request = AdmissionRequest(
                "UPDATE", kind, namespace, name, new, old, subresource, options.dry_run, caller.user, caller.warnings
            )
            try:
                return await self._replace(record, old, request, own)
            except Stale as error:
                if not retry:
                    raise StatusError.conflict(kind.resource, name) from error

    async def _replace(self, record: Record, old: Object, request: AdmissionRequest, own: Own | None) -> Written:
        """Replace a stored object with the new object of a request, or delete it if its last finalizer was removed.

        Raises:
            Stale: another write came first.
            StatusError: the new object is not allowed.
        """
        kind, new = request.kind, request.object
        _complete_changed(kind, new, old, own)
        await self._admit_change(request, old)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        self._check_is_current(record)
        if _is_finished(kind, new, old):
            return await self._finish_deletion(record, request)
        if only_times_differ(new, old):
            keep(new["metadata"], old["metadata"], "managedFields")
        encoded = kind.encode(new)
        if encoded == record.object and not request.dry_run:
            # Compare with the stored form: a default that was added to the schema since then is a change.
            return await self._unchanged(record, kind)
        if request.subresource != "status":
            admission.check(request, self.view)
        if request.dry_run:
            return Written(dry_run_answer(kind, new))
        return await self._store_change(record, kind, encoded)

    async def _admit_change(self, request: AdmissionRequest, old: Object) -> None:
        """Admit, prepare and validate the new object of an update. Raises StatusError if it is not allowed."""
        kind, new, strategy = request.kind, request.object, request.kind.strategy
        if request.subresource == "status":
            strategy.prepare_status_update(new, old)
            causes = strategy.validate_status_update(new, old)
        elif request.subresource == "finalize":
            # The only way to change the finalizers in the spec of a namespace.
            Strategy.prepare_update(strategy, new, old)
            causes = []
        else:
            await admission.admit(request, self.view)
            self._mutating.mutate(request)
            strategy.prepare_update(new, old)
            causes = strategy.validate_update(new, old)
        causes = kind.validate_metadata(new, old) + causes
        if causes:
            raise invalid_object(kind, request.name, causes)
        self._check(request)

    def _check_is_current(self, record: Record) -> None:
        """Raise Stale if an object was changed after this record was read."""
        if self.store.get(record.resource, record.namespace, record.name) is not record:
            raise Stale

    async def _finish_deletion(self, record: Record, request: AdmissionRequest) -> Written:
        """Delete an object that only finalizers have kept so far."""
        if not request.dry_run:
            await self.durable(self.remove(request.kind, record).revision)
        return Written(encode_plain(request.object))

    async def _unchanged(self, record: Record, kind: Kind) -> Written:
        """Return the stored object as the result of an update that changes nothing."""
        await self.durable(record.revision)
        return Written(encode_stored(kind, record))

    async def _store_change(self, record: Record, kind: Kind, encoded: Object) -> Written:
        stored = self.store.update(record, kind.as_read_back(encoded))
        await self.durable(self.follow_up(kind, record, stored))
        return Written(encode_stored(kind, stored))

    def _check_versions(self, kind: Kind, record: Record, old: Object, new: Object, *, checks_uid: bool) -> None:
        meta, before = new["metadata"], old["metadata"]
        version = meta.get("resourceVersion") or ""
        if checks_uid:
            StatusError.check_preconditions(kind.resource, before, meta.get("uid") or None, None)
        if version in ("", "0"):
            if kind.custom is not None or qualified(kind.resource) in _NEED_VERSION:
                cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise StatusError.invalid(kind.resource.group, kind.resource.plural, record.name, [cause])
        elif version != before["resourceVersion"]:
            check_version(version)
            raise StatusError.conflict(kind.resource, record.name)

    # --- by the server itself ----------------------------------------------------------------------------------------

    def put(self, kind: Kind, record: Record, obj: Object) -> Record:
        """Replace a stored object as it is, without rules and admission, for the server's own controllers. Not durable
        yet.

        Raises:
            Stale: it was changed meanwhile.
        """
        stored = self.store.update(record, obj)
        self.follow_up(kind, record, stored)
        return stored

    def remove(self, kind: Kind, record: Record) -> Record:
        """Delete an object at once and return its last state. Not durable yet.

        Raises:
            Stale: it was changed meanwhile.
        """
        gone = self.store.delete(record)
        self.follow_up(kind, record, None)
        return gone

    def follow_up(self, kind: Kind, old: Record | None, new: Record | None) -> int:
        """Write what depends on a change, and return the last revision."""
        some = new or old
        if some is not None and automatic.may_follow(kind, some.namespace, self.view):
            changes = automatic.follow_ups(
                self.registry, kind, old.object if old else None, new.object if new else None, self.view
            )
            self.carry_out(changes)
        return self.store.revision

    def _check(self, request: AdmissionRequest) -> None:
        """Raise StatusError if an admission policy refuses the write, or if it grants rights that the user lacks."""
        self.validating_policies.check(request)
        guard, resource = self.role_guard, request.kind.resource
        if guard is not None and resource.group == RBAC_GROUP:
            refusal = guard.escalation(request.user, resource.kind, request.namespace, request.object)
            if refusal:
                raise StatusError.forbidden(resource, request.name, refusal)

    def carry_out(self, changes: Iterable[automatic.Change]) -> None:
        """Carry out the changes that follow from a write."""
        for change in changes:
            meta = change.object["metadata"]
            record = self.find(change.kind, meta.get("namespace", ""), meta["name"])
            if change.part and record is not None:
                self._replace_part(record, change)
            elif not change.part and record is None:
                self._create_for_server(change.kind, change.object)

    def _replace_part(self, record: Record, change: automatic.Change) -> None:
        """Replace one part of a stored object with that of the change."""
        stored = record.decode()
        stored[change.part] = change.object.get(change.part, {})
        if stored != record.object:
            self.put(change.kind, record, stored)

    def _create_for_server(self, kind: Kind, obj: Object) -> None:
        """Create an object of the server's own, without admission and validation."""
        meta = obj["metadata"]
        kind.strategy.default(obj)
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", now_text())
        kind.strategy.prepare_create(obj)
        record = self.store.create(store_key(kind), meta.get("namespace", ""), meta["name"], kind.encode(obj))
        self.follow_up(kind, None, record)

    async def durable(self, revision: int) -> None:
        """Wait until a revision is on disk.

        Raises:
            StatusError: 507, it could not be written.
        """
        try:
            await self.store.durable(revision)
        except NotStored as error:
            raise StatusError.storage_full(error.message) from error


Own = Callable[[Object, Object | None], None]
"""Writes `metadata.managedFields` of a new object, given the old one."""


class View:
    """The view of the store for admission and automatic writes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return one object, which is shared and must not be changed."""
        record = self._store.get(f"{resource.group}/{resource.plural}", namespace, name)
        return None if record is None else record.object

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        """Return all objects, which are shared and must not be changed."""
        return [record.object for record in self._store.records(f"{resource.group}/{resource.plural}", namespace)]


def check_version(version: str) -> None:
    """Raise a 500 if a text is no resource version, as kube-apiserver does."""
    if version and not version.isdecimal():
        raise StatusError(500, "", f"resourceVersion: {version!r:.100} is not a number")


def made_by_update(kind: Kind) -> bool:
    """Return whether a PUT creates an object that does not exist."""
    return qualified(kind.resource) in _MADE_BY_UPDATE


def invalid_object(kind: Kind, name: str, causes: list[Any]) -> StatusError:
    """Return a 422 with every fault of an object."""
    return StatusError.invalid(kind.stored.group, kind.resource.kind, name, causes)


def _complete_new(kind: Kind, obj: Object, own: Own | None) -> None:
    """Set the defaults of a new object and the metadata that only the server sets.

    Raises:
        StatusError: 500, the object has a resource version.
    """
    meta = obj["metadata"]
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    meta.pop("resourceVersion", None)
    for name in SERVER_SET:
        meta.pop(name, None)
    kind.strategy.default(obj)
    (own or _drop_managers)(obj, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generate_name(meta["generateName"])
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now_text()


def _complete_changed(kind: Kind, new: Object, old: Object, own: Own | None) -> None:
    """Set the defaults of the new object of an update, and the metadata that an update cannot change."""
    kind.strategy.default(new)
    keep_identity(new["metadata"], old["metadata"])
    if own is None:
        keep(new["metadata"], old["metadata"], "managedFields")
    else:
        own(new, old)


def _drop_managers(obj: Object, _old: Object | None) -> None:
    obj["metadata"].pop("managedFields", None)


def _is_finished(kind: Kind, new: Object, old: Object) -> bool:
    """Return whether the last finalizer of an object that is being deleted was removed (ShouldDeleteDuringUpdate)."""
    before = old["metadata"]
    if not before.get("deletionTimestamp") or new["metadata"].get("finalizers"):
        return False
    if before.get("deletionGracePeriodSeconds"):
        return False
    if kind.resource.plural == "namespaces" and not kind.resource.group:
        return not (new.get("spec") or {}).get("finalizers")
    return True
