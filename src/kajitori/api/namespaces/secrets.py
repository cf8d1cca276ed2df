"""Create, list and delete the Secrets of a namespace with the caller's credentials.

No answer contains a value. Secrets are listed as a table, which the API server renders without values, so this server
never holds them. An annotation names the keys of a Secret that was created here.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field, field_validator
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.audit import note_subject
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import active_runs
from kajitori.api.requests.bodies import json_body, takes
from kajitori.api.rights import User
from kajitori.api.views.base import Deleted
from kajitori.api.views.storage import SecretList, SecretView
from kajitori.cluster.runs.stored_runs import secret_names
from kajitori.core.documents.faults import Document, read, show
from kajitori.core.documents.fields import DnsLabel, ObjectName
from kajitori.core.kubernetes.texts import dns_subdomain
from kajitori.core.naming import names
from kajitori.core.suggestions import first_few
from kajitori.errors import AlreadyExists, Fault, FieldError, Forbidden, InvalidInput, NotFound, WrongState
from kajitori.kube.client import METADATA_ONLY
from kajitori.kube.resources import SECRETS
from kajitori.kube.tables import Row, list_table

router = APIRouter(tags=["secrets"])

OPAQUE = "Opaque"
MAX_VALUES_BYTES = 512 * 1024
"""The limit for all values together; Kubernetes takes 1 MiB."""

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class SecretRequest(Document):
    """A request for a new Secret."""

    name: ObjectName
    namespace: DnsLabel | None = None
    """Default: the server's own."""
    data: dict[str, str] = Field(min_length=1, max_length=1000)
    """The values by their keys, each in base64."""

    @field_validator("data")
    @classmethod
    def _readable(cls, data: dict[str, str]) -> dict[str, str]:
        """Check keys, base64 and size. No error repeats a value: answers are logged and read by others."""
        size_bytes = 0
        for key, value in data.items():
            if not _KEY.fullmatch(key) or key in (".", ".."):
                raise FieldError(f"{show(key)!r} is no valid key", "use letters, digits, dots, dashes and underscores")
            try:
                size_bytes += len(base64.b64decode(value, validate=True))
            except (binascii.Error, ValueError):
                raise FieldError(f"the value of {key} is not base64", "encode it: base64 -w0") from None
        if size_bytes > MAX_VALUES_BYTES:
            message = f"the values have {size_bytes} bytes together; {MAX_VALUES_BYTES} are allowed"
            raise FieldError(message, "put large files on a volume", "TooLarge")
        return data


class CreateParameters(Parameters):
    replace: bool = False
    """Replace an existing secret of this name, with all of its keys."""


class SecretParameters(Parameters):
    namespace: DnsLabel | None = None
    """Default: the server's own."""


class RemoveParameters(SecretParameters):
    force: bool = False
    """Delete the secret even if an active run uses it. The run's next attempt will then not start."""


@router.get("/v1/secrets", responses=describes(SecretList), summary="The secrets of a namespace, without their values")
async def list_secrets(api: Shared, user: Caller, query: Annotated[SecretParameters, Query()]) -> Response:
    """Needs the right to list Secrets, since the API server has no weaker one. `keys` is null if another tool created
    or changed the Secret."""
    namespace = query.namespace or api.namespace
    rows = await list_table(user.client, SECRETS, namespace)
    users = _runs_by_secret(api, namespace) if await user.may("list", namespace) else {}
    views = [_view(row, namespace, users.get(row.metadata.name, [])) for row in rows]
    return answer(SecretList(namespace=namespace, items=sorted(views, key=lambda view: view.name)))


@router.post(
    "/v1/secrets",
    status_code=201,
    responses=describes(SecretView, status=201),
    openapi_extra=takes(SecretRequest),
    summary="Create a secret",
)
async def create_secret(
    api: Shared, user: Caller, request: Request, query: Annotated[CreateParameters, Query()]
) -> Response:
    """409 if the name is taken, unless `replace` is true. The answer contains no values."""
    wanted, faults, _ = read(SecretRequest, await json_body(request), "")
    if faults or wanted is None:
        raise InvalidInput([_without_value(fault) for fault in faults])
    namespace = wanted.namespace or api.namespace
    note_subject(request.state, namespace, wanted.name)
    document = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": wanted.name,
            "namespace": namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "annotations": {names.ANNOTATION_SECRET_KEYS: ",".join(sorted(wanted.data))},
        },
        "type": OPAQUE,
        "data": wanted.data,
    }
    made = await _write(user, document, replace=query.replace)
    created_at = str(made["metadata"].get("creationTimestamp") or "")
    view = SecretView(
        name=wanted.name,
        namespace=namespace,
        type=OPAQUE,
        keys=sorted(wanted.data),
        key_count=len(wanted.data),
        created_at=created_at,
        used_by=[],
    )
    return answer(view, 201)


def _without_value(fault: Fault) -> Fault:
    """Return the fault without the text that the user sent: it may be a secret value, whatever its field is called."""
    if fault.field in ("name", "namespace"):
        return fault
    hint = fault.hint if fault.field == "data" else ""
    return Fault(fault.field, fault.message, hint=hint, code=fault.code)


async def _write(user: User, document: dict[str, Any], *, replace: bool) -> dict[str, Any]:
    name, namespace = document["metadata"]["name"], document["metadata"]["namespace"]
    try:
        return await user.client.create(SECRETS, document, namespace)
    except AlreadyExists:
        if not replace:
            hint = f"choose another name, or replace it: kaji secret create --replace {name} …"
            raise AlreadyExists(f"there is a secret {name!r} in namespace {namespace} already", hint=hint) from None
    except NotFound as error:
        raise NotFound(f"there is no namespace {namespace!r}", hint="name one that you may use") from error
    return await user.client.replace(SECRETS, document)


@router.delete(
    "/v1/secrets/{name}",
    status_code=202,
    responses=describes(Deleted, status=202),
    summary="Delete a secret",
)
async def delete_secret(api: Shared, user: Caller, name: str, query: Annotated[RemoveParameters, Query()]) -> Response:
    """409 if a run that has not ended uses the secret, unless `force` is true."""
    namespace = query.namespace or api.namespace
    missing = NotFound(
        f"there is no secret {show(name)!r} in namespace {namespace}", hint="see them all: kaji secret ls"
    )
    if dns_subdomain(name):
        raise missing
    if not query.force and await user.may("list", namespace):
        runs = _runs_by_secret(api, namespace).get(name)
        if runs and await _exists(user, namespace, name):
            message = f"the secret {name!r} is used by {first_few(runs)}"
            raise WrongState(message, hint=f"wait until they have ended, or: kaji secret rm -f {name}")
    try:
        await user.client.delete(SECRETS, name, namespace)
    except NotFound:
        raise missing from None
    return answer(Deleted(name=name, namespace=namespace), 202)


async def _exists(user: User, namespace: str, name: str) -> bool:
    """Whether the Secret exists; True if the caller may not look."""
    try:
        await user.client.request("GET", SECRETS.path(namespace, name), headers={"Accept": METADATA_ONLY})
    except NotFound:
        return False
    except Forbidden:
        return True
    return True


def _runs_by_secret(api: Api, namespace: str) -> dict[str, list[str]]:
    """Map each Secret to the runs of the namespace that use it and have not ended."""
    runs: dict[str, list[str]] = {}
    for run_name, run in active_runs(api, namespace):
        for name in secret_names(run):
            runs.setdefault(name, []).append(run_name)
    return runs


def _view(row: Row, namespace: str, used_by: list[str]) -> SecretView:
    count = row.cells.get("data")
    key_count = count if isinstance(count, int) else 0
    noted = row.metadata.annotations.get(names.ANNOTATION_SECRET_KEYS, "")
    keys = noted.split(",") if noted else []
    return SecretView(
        name=row.metadata.name,
        namespace=namespace,
        type=str(row.cells.get("type") or ""),
        keys=keys if len(keys) == key_count else None,  # otherwise another tool changed it
        key_count=key_count,
        created_at=row.metadata.creation_timestamp,
        used_by=used_by,
    )
