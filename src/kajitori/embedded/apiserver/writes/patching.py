"""The four types of patches."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch
import jsonpointer

from kajitori.embedded.apiserver.causes import invalid
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.patches import managed
from kajitori.embedded.apiserver.patches.json_patching import apply_operations
from kajitori.embedded.apiserver.patches.strategic import BadPatch, strategic_merge
from kajitori.embedded.apiserver.requests.formats import (
    JSON,
    check_identity,
    duplicate_fields,
    encode_json,
    parse_body,
    report_unknown,
)
from kajitori.embedded.apiserver.requests.options import WriteOptions
from kajitori.embedded.apiserver.requests.target import Target, check_name, check_namespace
from kajitori.embedded.apiserver.schemas.conform import type_name
from kajitori.embedded.apiserver.schemas.nesting import TooDeep
from kajitori.embedded.apiserver.schemas.schema import ANY, Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.writes.objects import Caller, Objects, Written

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_OPERATIONS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch, parsed."""

    media_type: str
    document: Any
    kind: Kind
    duplicates: tuple[str, ...] = ()

    @classmethod
    def read(cls, body: bytes, content_type: str, kind: Kind, validation: str = "") -> Patch:
        """Parse the patch in a body; `validation` is the mode of field validation.

        Raises:
            StatusError: 415, 400.
        """
        media_type = check_media_type(content_type, kind)
        try:
            document = parse_body(body, "application/yaml" if media_type == APPLY_PATCH else "application/json")
        except ValueError as error:
            raise StatusError.bad_request(f"error decoding patch: {error}") from error
        if document is None and media_type in (APPLY_PATCH, STRATEGIC_PATCH):
            document = {}
        if not isinstance(document, list if media_type == JSON_PATCH else dict):
            expected = "a list of operations" if media_type == JSON_PATCH else "an object"
            raise StatusError.bad_request(f"error decoding patch: expected {expected}, not {type_name(document)}")
        if media_type == JSON_PATCH and len(document) > _OPERATIONS_MAX:
            detail = f"The allowed maximum operations in a JSON patch is {_OPERATIONS_MAX}, got {len(document)}"
            raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {detail}")
        twice: list[str] = []
        if isinstance(document, dict) and media_type in (MERGE_PATCH, STRATEGIC_PATCH):
            twice = duplicate_fields(body, JSON, document)
        return cls(media_type, document, kind, tuple(twice))

    @property
    def is_apply(self) -> bool:
        """Whether this is a server-side apply."""
        return self.media_type == APPLY_PATCH

    def on(self, obj: Object) -> Object:
        """Apply the patch to an object, which may be changed.

        Raises:
            StatusError: 400 or 422, it cannot be applied.
        """
        if self.media_type == JSON_PATCH:
            return self._apply_json_patch(obj)
        if self.media_type == MERGE_PATCH:
            merged: Object = merge_patch(obj, self.document)
            return merged
        try:
            return strategic_merge(obj, deepcopy(self.document), self.kind.schema)
        except BadPatch as error:
            raise StatusError(500, "", str(error)) from error

    def on_plain(self, obj: Object) -> Object:
        """Apply the patch to an object without a schema (a Scale)."""
        if self.media_type in (JSON_PATCH, MERGE_PATCH):
            return self.on(obj)
        return strategic_merge(obj, deepcopy(self.document), ANY)

    def refused(self, why: str, patched_object: Object) -> StatusError:
        """Return a 422: the patched object cannot be read."""
        return StatusError.invalid("", "", "", [invalid("patch", encode_json(patched_object).decode(), why)])

    def _apply_json_patch(self, obj: Object) -> Object:
        # A missing value is null.
        operations = [{"value": None, **one} if isinstance(one, dict) else one for one in self.document]
        try:
            patched = apply_operations(obj, operations)
        except TooDeep as error:
            raise StatusError.bad_request(f"the patched object {error}") from error
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError) as error:
            raise _rejected_patch() from error
        if not isinstance(patched, dict):
            raise _rejected_patch()
        return patched


def _rejected_patch() -> StatusError:
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def check_media_type(content_type: str, kind: Kind) -> str:
    """Return the type of a patch.

    Raises:
        StatusError: 415.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    served = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH, *((STRATEGIC_PATCH,) if kind.custom is None else ()))
    if media_type not in served:
        raise StatusError.unsupported_media_type(served)
    return media_type


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386). The target may be changed."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merge_patch(target.get(name), value)
    return target


async def patched(objects: Objects, target: Target, patch: Patch, caller: Caller, options: WriteOptions) -> Written:
    """Patch a stored object; a server-side apply creates it if it does not exist.

    Raises:
        StatusError: 404, 409, 422 …
    """
    if patch.is_apply:
        return await _apply(objects, target, patch.document, caller, options)
    kind = target.kind

    def change(old: Object) -> Object:
        new = patch.on(old)
        if patch.media_type == STRATEGIC_PATCH:
            new["apiVersion"], new["kind"] = kind.resource.api_version, kind.resource.kind
        if kind.custom is not None and patch.media_type == JSON_PATCH and not new.get("kind"):
            raise _rejected_patch()
        try:
            check_identity(new, kind)
            faults = [*kind.conform(new), *patch.duplicates]
        except StatusError as error:
            raise patch.refused(error.message, new) from error
        if faults and options.field_validation == "Strict":
            raise patch.refused(f"strict decoding error: {', '.join(faults)}", new)
        report_unknown(kind, faults, options.field_validation, caller.warnings)
        check_namespace(new, target)
        check_name(new, target)
        return new

    def own(new: Object, old: Object | None) -> None:
        manager = options.field_manager or caller.manager
        managed.manage(kind, new, old, manager=manager, subresource=target.subresource)

    return await objects.update(
        kind, target.namespace, target.name, change, caller, options, subresource=target.subresource, own=own
    )


@dataclass(slots=True)
class _Application:
    """A server-side apply of one configuration."""

    target: Target
    config: Object
    options: WriteOptions
    entries: list[managed.Entry] = field(default_factory=list)
    """The managed fields of the last result."""

    def result(self, live: Object | None) -> Object:
        """Return the live object with the configuration applied; None as the live object means that there is none."""
        kind = self.target.kind
        merged, self.entries = managed.apply(
            kind,
            live,
            deepcopy(self.config),
            manager=self.options.field_manager,
            subresource=self.target.subresource,
            force=self.options.force,
        )
        try:
            kind.conform(merged, applied=True)
        except StatusError as error:
            raise StatusError(500, "", f"the applied object can't be read: {error.message}") from error
        if live is None and self.config["metadata"].get("uid"):
            raise StatusError.conflict(kind.resource, self.target.name, "there is no object with this UID")
        return merged

    def own(self, new: Object, _old: Object | None) -> None:
        """Write the managed fields of the result into the object."""
        if self.entries:
            new["metadata"]["managedFields"] = self.entries
        else:
            new["metadata"].pop("managedFields", None)


async def _apply(objects: Objects, target: Target, config: Object, caller: Caller, options: WriteOptions) -> Written:
    """Apply a configuration. Create the object if there is none, also if it is deleted meanwhile."""
    kind = target.kind
    _check_config(target, config)
    check_namespace(config, target)
    if objects.find(kind, target.namespace, target.name) is not None:
        config["metadata"].setdefault("name", target.name)
    check_name(config, target)
    application = _Application(target, config, options)
    result, own = application.result, application.own
    while True:
        if objects.find(kind, target.namespace, target.name) is None:
            if target.subresource:
                raise StatusError.not_found(kind.resource, target.name)
            config["metadata"].pop("resourceVersion", None)
            objects.check_may_create(kind, target.namespace, target.name, caller.user)
            try:
                return await objects.create(kind, target.namespace, result(None), caller, options, own=own)
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        try:
            return await objects.update(
                kind, target.namespace, target.name, result, caller, options, subresource=target.subresource, own=own
            )
        except StatusError as error:
            if error.code != 404 or objects.find(kind, target.namespace, target.name) is not None:
                raise
            if target.subresource:
                raise


def _check_config(target: Target, config: Object) -> None:
    """Refuse configurations that cannot be applied.

    Raises:
        StatusError: 400, 500.
    """
    kind = target.kind
    version, name = config.get("apiVersion") or "none", config.get("kind") or "none"
    if (version, name) != (kind.resource.api_version, kind.resource.kind):
        raise StatusError.bad_request(f"invalid object type: apiVersion {version}, kind {name}")
    check_identity(config, kind)
    meta = config["metadata"]
    if meta.get("managedFields") is not None:
        raise StatusError.bad_request("metadata.managedFields must be nil")
    managed.check_typed(kind, config)
