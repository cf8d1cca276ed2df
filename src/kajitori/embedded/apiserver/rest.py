"""REST verbs: create, read, update, patch and delete objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kajitori.embedded.apiserver import auth
from kajitori.embedded.apiserver.access.account_tokens import AccountTokens
from kajitori.embedded.apiserver.auth import AllowKnown, Authenticator, Authorizer
from kajitori.embedded.apiserver.causes import Cause
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.patches.managed import manage
from kajitori.embedded.apiserver.reads.lists import Lister, encode_list, partial_metadata
from kajitori.embedded.apiserver.reads.tables import to_table
from kajitori.embedded.apiserver.reads.watches import Watch
from kajitori.embedded.apiserver.requests.answers import encode_plain, encode_stored
from kajitori.embedded.apiserver.requests.formats import (
    Format,
    check_identity,
    duplicate_fields,
    not_an_object,
    parse_body,
    read_object,
    report_unknown,
)
from kajitori.embedded.apiserver.requests.options import (
    DeleteOptions,
    WriteOptions,
    parse_delete,
    parse_list,
    parse_write,
)
from kajitori.embedded.apiserver.requests.target import Target, check_name, check_namespace
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.subresources.objects import Subresources, scale_fault
from kajitori.embedded.apiserver.upkeep import deletion
from kajitori.embedded.apiserver.writes.objects import Caller, Objects, check_version, made_by_update
from kajitori.embedded.apiserver.writes.patching import APPLY_PATCH, Patch, check_media_type, patched
from kajitori.embedded.store import Record

_DELETED_AT_ONCE = 128


@dataclass(slots=True)
class Call:
    """One request to a resource."""

    method: str
    target: Target
    query: Mapping[str, str]
    body: bytes
    content_type: str
    answer: Format
    caller: Caller


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, encoded in the client's format."""

    body: bytes
    code: int = 200


def verb_of(call_method: str, target: Target, query: Mapping[str, str]) -> str:
    """Return the Kubernetes verb of a request; empty if the method is not supported."""
    if target.subresource:
        verbs = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        return verbs.get(call_method, "")
    if target.name:
        verbs = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        return verbs.get(call_method, "")
    if call_method == "GET":
        return "watch" if query.get("watch", "").lower() not in ("", "0", "false") else "list"
    return {"POST": "create", "DELETE": "deletecollection"}.get(call_method, "")


class Rest:
    """Answers requests to resources."""

    def __init__(self, objects: Objects, authenticator: Authenticator, authorizer: Authorizer | None = None) -> None:
        self.objects = objects
        self._authenticator = authenticator
        self._authorizer = authorizer or AllowKnown()
        self.account_tokens: AccountTokens | None = None
        """Issues tokens of service accounts; None if service accounts have no tokens."""
        self._lister = Lister(objects)
        self._subresources = Subresources(objects)

    async def answer(self, verb: str, call: Call) -> Answer:
        """Carry out a request other than a watch or a stream.

        Raises:
            StatusError: it is refused.
        """
        target = call.target
        if target.subresource:
            return await self._on_subresource(verb, call)
        if verb not in target.kind.verbs:
            raise StatusError.method_not_allowed()
        if target.kind.resource.namespaced and not target.namespace and verb in ("create", "deletecollection"):
            raise StatusError.method_not_allowed()
        match verb:
            case "get":
                return await self._get(call)
            case "list":
                page = await self._lister.page(target, parse_list(call.query))
                return Answer(encode_list(target.kind, page, call.answer, include=_include_parameter(call)))
            case "create":
                return await self._create(call)
            case "update":
                return await self._update(call)
            case "patch":
                return await self._patch(call)
            case "delete":
                return await self._delete(call)
            case "deletecollection":
                return await self._delete_collection(call)
        raise StatusError.method_not_allowed()

    def watch(self, call: Call) -> Watch:
        """Return the watch that a request asks for.

        Raises:
            StatusError: 400, 405, 422.
        """
        if "watch" not in call.target.kind.verbs:
            raise StatusError.method_not_allowed()
        options = parse_list(call.query)
        return Watch(self.objects, call.target, options, call.answer, include=_include_parameter(call))

    async def _get(self, call: Call) -> Answer:
        target = call.target
        check_version(call.query.get("resourceVersion", ""))
        record = self.objects.get(target.kind, target.namespace, target.name)
        value = encode_stored(target.kind, record)
        await self.objects.durable(record.revision)
        return _object_answer(call, value)

    async def _create(self, call: Call) -> Answer:
        target = call.target
        kind = target.kind
        options = parse_write(call.query, "CreateOptions")
        obj = self._read(call, options)
        check_namespace(obj, target)
        if kind.virtual:
            return await self._review(call, obj)
        if kind.custom is not None and kind.custom["metadata"].get("deletionTimestamp"):
            why = "create not allowed while custom resource definition is terminating"
            raise StatusError(405, "MethodNotAllowed", why)
        own = _owner_of_fields(kind, call.caller, options)
        written = await self.objects.create(kind, target.namespace, obj, call.caller, options, own=own)
        return _object_answer(call, written.value, 201)

    async def _review(self, call: Call, obj: Object) -> Answer:
        kind = call.target.kind.resource.kind
        faults = list(auth.faults_of(kind, obj))
        if faults:
            causes = [Cause("FieldValueInvalid", "spec", f"Invalid value: {fault}") for fault in faults]
            raise StatusError.invalid(call.target.kind.resource.group, kind, "", causes)
        reviewed = await auth.review(kind, obj, call.caller.user, self._authenticator, self._authorizer)
        return _object_answer(call, encode_plain(reviewed), 201)

    async def _update(self, call: Call) -> Answer:
        target = call.target
        kind = target.kind
        options = parse_write(call.query, "UpdateOptions")
        obj = self._read(call, options)
        check_namespace(obj, target)
        check_name(obj, target)
        own = _owner_of_fields(kind, call.caller, options, target.subresource)
        body = encode_plain(obj)

        def replace(_old: Object) -> Object:
            found: Object = parse_body(body, "")
            return found

        if self.objects.find(kind, target.namespace, target.name) is None:
            if target.subresource or not made_by_update(kind):
                raise StatusError.not_found(kind.resource, target.name)
            if obj["metadata"].get("uid"):
                raise StatusError.conflict(kind.resource, target.name, "there is no object with this UID")
            obj["metadata"].pop("resourceVersion", None)
            self.objects.check_may_create(kind, target.namespace, target.name, call.caller.user)
            written = await self.objects.create(kind, target.namespace, obj, call.caller, options, own=own)
            return _object_answer(call, written.value, 201)
        written = await self.objects.update(
            kind,
            target.namespace,
            target.name,
            replace,
            call.caller,
            options,
            subresource=target.subresource,
            own=own,
            retry=not obj["metadata"].get("resourceVersion"),
            checks_uid=True,
        )
        return _object_answer(call, written.value)

    async def _patch(self, call: Call) -> Answer:
        target = call.target
        media_type = check_media_type(call.content_type, target.kind)
        options = parse_write(call.query, "PatchOptions", apply=media_type == APPLY_PATCH)
        if media_type != APPLY_PATCH or target.subresource:
            # No warnings about a patch of an object that does not exist.
            self.objects.get(target.kind, target.namespace, target.name)
        patch = Patch.read(call.body, call.content_type, target.kind, options.field_validation)
        written = await patched(self.objects, target, patch, call.caller, options)
        return _object_answer(call, written.value, 201 if written.created else 200)

    async def _delete(self, call: Call) -> Answer:
        target = call.target
        options = self._delete_options(call)
        gone = await deletion.delete(self.objects, target.kind, target.namespace, target.name, call.caller, options)
        accepted = not gone.at_once and options.orphan_dependents is False
        return _object_answer(call, gone.value, 202 if accepted else 200)

    async def _delete_collection(self, call: Call) -> Answer:
        target = call.target
        options = self._delete_options(call)
        page = await self._lister.page(target, parse_list(call.query))
        for start in range(0, len(page.records), _DELETED_AT_ONCE):
            # Concurrently, so that the writes share commits.
            some = page.records[start : start + _DELETED_AT_ONCE]
            await asyncio.gather(*(self._delete_one(call, record, options) for record in some))
        return Answer(encode_list(target.kind, page, call.answer, include=_include_parameter(call)))

    async def _delete_one(self, call: Call, record: Record, options: DeleteOptions) -> None:
        kind = call.target.kind
        try:
            await deletion.delete(self.objects, kind, record.namespace, record.name, call.caller, options)
        except StatusError as error:
            if error.code != 404:
                raise

    def _delete_options(self, call: Call) -> DeleteOptions:
        if not call.body.strip():
            return parse_delete(call.query, None)
        body = self._plain_body(call)
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise StatusError.bad_request(f"expected DeleteOptions, not {body['kind']!r:.100}")
        return parse_delete(call.query, body)

    async def _on_subresource(self, verb: str, call: Call) -> Answer:
        target = call.target
        match (target.subresource, verb):
            case ("status", "get"):
                return await self._get(call)
            case ("status" | "finalize", "update"):
                return await self._update(call)
            case ("status", "patch"):
                return await self._patch(call)
            case ("binding", "create"):
                options = parse_write(call.query, "CreateOptions")
                body = self._plain_body(call)
                return Answer(call.answer.rewrite(await self._subresources.bind(target, body, options)), 201)
            case ("eviction", "create"):
                options = parse_write(call.query, "CreateOptions")
                body = self._plain_body(call)
                evicted = await self._subresources.evict(target, body, call.caller, options)
                return Answer(call.answer.rewrite(evicted), 201)
            case ("token", "create"):
                if self.account_tokens is None:
                    raise StatusError.method_not_allowed()
                made = self.account_tokens.issue(target.namespace, target.name, self._plain_body(call))
                return _object_answer(call, encode_plain(made), 201)
            case ("scale", _):
                return await self._on_scale(verb, call)
        raise StatusError.method_not_allowed()

    async def _on_scale(self, verb: str, call: Call) -> Answer:
        match verb:
            case "get":
                return _object_answer(call, await self._subresources.scale(call.target))
            case "update":
                return await self._update_scale(call)
            case "patch":
                return await self._patch_scale(call)
        raise StatusError.method_not_allowed()

    async def _update_scale(self, call: Call) -> Answer:
        options = parse_write(call.query, "UpdateOptions")
        body = self._plain_body(call)
        if why := scale_fault(body):
            raise StatusError.bad_request(why)
        value = await self._subresources.rescale(call.target, lambda _: body, call.caller, options)
        return _object_answer(call, value)

    async def _patch_scale(self, call: Call) -> Answer:
        target = call.target
        patch = Patch.read(call.body, call.content_type, target.kind)
        options = parse_write(call.query, "PatchOptions", apply=patch.is_apply)

        def change(old: Object) -> Object:
            new = patch.on_plain(old)
            if why := scale_fault(new):
                raise patch.refused(why, new)
            return new

        value = await self._subresources.rescale(target, change, call.caller, options)
        return _object_answer(call, value)

    def _plain_body(self, call: Call) -> Object:
        try:
            body = parse_body(call.body, call.content_type)
        except ValueError as error:
            raise StatusError.bad_request(f"the body cannot be read: {error}") from error
        if not isinstance(body, dict | None):
            raise StatusError.bad_request(not_an_object(body))
        return body or {}

    def _read(self, call: Call, options: WriteOptions) -> Object:
        kind = call.target.kind
        obj = read_object(call.body, call.content_type, kind)
        check_identity(obj, kind)
        twice: list[str] = []
        if options.field_validation != "Ignore":
            twice = duplicate_fields(call.body, call.content_type, obj)
        report_unknown(kind, [*kind.conform(obj), *twice], options.field_validation, call.caller.warnings)
        return obj


def _owner_of_fields(
    kind: Kind, caller: Caller, options: WriteOptions, subresource: str = ""
) -> Callable[[Object, Object | None], None]:
    def own(new: Object, old: Object | None) -> None:
        manage(kind, new, old, manager=options.field_manager or caller.manager, subresource=subresource)

    return own


def _object_answer(call: Call, value: bytes, code: int = 200) -> Answer:
    """Return an object or a Status in the shape that the client asked for."""
    answer = call.answer
    if not answer.shape:
        return Answer(answer.rewrite(value), code)
    obj: Object = parse_body(value, "")
    if obj.get("kind") == "Status":
        return Answer(answer.rewrite(value), code)
    if answer.of_list:
        raise StatusError(406, "NotAcceptable", "the requested object is not a list")
    if answer.shape == "Table":
        table = to_table(call.target.kind, [obj], include=_include_parameter(call))
        table["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return Answer(answer.write(table), code)
    return Answer(answer.write(partial_metadata(obj)), code)


def _include_parameter(call: Call) -> str:
    """Return what the rows of a Table contain of their objects.

    Raises:
        StatusError: 400.
    """
    include = call.query.get("includeObject", "") or "Metadata"
    if call.answer.shape == "Table" and include not in ("None", "Metadata", "Object"):
        detail = f"""includeObject: Invalid value: "{include}": must be 'Metadata', 'Object', 'None', or empty"""
        raise StatusError.bad_request(f"Unable to convert to Table as requested: {detail}")
    return include
