"""Routes that stop, restart, resume and delete a run, and that give it files for its next start."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import no_such_run
from kajitori.api.rendering.runs import nodes_of, phase_of, run_view
from kajitori.api.requests.bodies import body_of, takes
from kajitori.api.rights import User
from kajitori.api.runs.changes.compare_and_swap import (
    Expected,
    Patch,
    change_run,
    check_name,
    is_restarting,
    is_resuming,
    other_run,
    require_allowed,
    resumes_of,
    uid_of,
    without_old_grace,
)
from kajitori.api.runs.submit.submission import require_archive
from kajitori.api.views.base import Deleted
from kajitori.api.views.runs import RunView, StopView
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.stored_runs import life_of
from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Digest, Duration
from kajitori.core.formats.quantities import format_duration
from kajitori.core.naming import names
from kajitori.core.spec.parts import FilesUse
from kajitori.core.spec.reading.stored import read_stored
from kajitori.errors import Conflict, Forbidden, InvalidInput, NotFound, Refused, WrongState
from kajitori.kube.resources import CLAIMS

router = APIRouter(tags=["runs"])


class StopRequest(Document):
    """How to stop a run."""

    grace_seconds: Duration | None = Field(default=None, alias="grace")
    """Time between SIGTERM and SIGKILL, for this stop only, instead of the run's own. 0s kills within a second."""


class DeleteParameters(Parameters):
    checkpoint: bool = False
    """Delete the run's checkpoint as well. This cannot be undone."""
    grace_seconds: Duration | None = Field(default=None, alias="grace")
    """For a run that has not ended: time between SIGTERM and SIGKILL, instead of the run's own. 0s kills within a
    second."""


@router.post(
    "/v1/runs/{namespace}/{name}/stop",
    responses=describes(StopView),
    openapi_extra=takes(StopRequest, required=False),
    summary="Stop a run",
)
async def stop_run(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """Send the members SIGTERM, and SIGKILL after the grace period. The run and its checkpoint are kept, so that it can
    be resumed later. A run that has ended does not change. If the run is already being stopped, a shorter grace period
    replaces the first."""
    wanted = await body_of(request, StopRequest, required=False)

    def stopped(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        if phase_of(run).is_final and not is_resuming(run, spec):
            return None
        patch: Patch = {"stopped": True, **without_old_grace(run, spec)}
        if wanted.grace_seconds is not None:
            patch["stopGrace"] = format_duration(wanted.grace_seconds)
            _check_grace(api, run, spec | patch)
        return patch

    return _ending(api, await change_run(api, user, namespace, name, expected, stopped))


@router.post(
    "/v1/runs/{namespace}/{name}/restart",
    responses=describes(StopView),
    openapi_extra=takes(StopRequest, required=False),
    summary="Stop a run and start it again",
)
async def restart_run(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """Stop a run as `stop` does, and queue it again once it has ended, from its checkpoint. A run that has ended is
    queued again at once. The controller does both, so the caller need not wait. Until the run has ended, a second
    request has no further effect, except that a shorter grace period replaces the first."""
    wanted = await body_of(request, StopRequest, required=False)

    def restarted(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        if run.metadata.deletion_timestamp:
            raise WrongState(f"{name} is being deleted", hint="submit it again")
        is_new = not (is_resuming(run, spec) or is_restarting(run, spec))
        patch = _next_start(run, spec) if is_new else Patch()
        if wanted.grace_seconds is not None and not phase_of(run).is_final:
            patch["stopGrace"] = format_duration(wanted.grace_seconds)
        if not patch:
            return None
        require_allowed(api, run, spec | patch)
        return patch

    return _ending(api, await change_run(api, user, namespace, name, expected, restarted))


def _ending(api: Api, run: RunObject) -> Response:
    """Return the answer about a run that is asked to end, with the grace period that counts."""
    try:
        spec, decision = api.cluster.decide(run)
    except InvalidInput:  # policy refuses it by now
        life, _ = api.cluster.outline(run, run.current_status)
    else:
        life = life_of(run, spec, decision, run.current_status)
    view = msgspec.structs.asdict(run_view(run, nodes_of(api.mirror, run)))
    return answer(StopView(**view, grace_seconds=life.limits.last_grace_seconds))


def _next_start(run: RunObject, spec: dict[str, Any]) -> Patch:
    """Return the change that asks for one more start of the run."""
    done = run.status.resumes if run.status is not None else 0
    return {"stopped": False, "parked": False, "stopGrace": None, "resumes": max(done, resumes_of(spec)) + 1}


@router.post("/v1/runs/{namespace}/{name}/resume", responses=describes(RunView), summary="Start a run again")
async def resume_run(api: Shared, user: Caller, namespace: str, name: str, expected: Expected = "") -> Response:
    """Queue a run that has ended again; it continues from its checkpoint. A second request has no further effect."""

    def resumed(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        if is_resuming(run, spec):
            return None
        phase = phase_of(run)
        if not phase.is_final:
            doing = "is being stopped" if spec.get("stopped") else f"is {phase.value}"
            hint = f"wait until it has stopped: kaji wait {name}" if spec.get("stopped") else f"kaji stop {name}"
            raise WrongState(f"{name} {doing}: only a run that has ended can be resumed", hint=hint)
        if run.metadata.deletion_timestamp:
            raise WrongState(f"{name} is being deleted", hint="submit it again")
        patch = _next_start(run, spec)
        require_allowed(api, run, spec | patch)
        return patch

    return answer(run_view(await change_run(api, user, namespace, name, expected, resumed)))


class FilesRequest(Document):
    """Files for a run that does not run."""

    files: FilesUse
    """The archive with all files of the run, and their paths."""
    instead_of: Digest | None = None
    """Digest of the archive that the run has; left out if it has none. 409 if it has another."""


@router.post(
    "/v1/runs/{namespace}/{name}/set-files",
    responses=describes(RunView),
    openapi_extra=takes(FilesRequest),
    summary="Give a run that does not run files for its next start",
)
async def set_files(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """Every member of the next attempts has these files before its program starts, instead of those that the run had.
    The archive must be in the store (`PUT /v1/code/DIGEST/parts/NUMBER`)."""
    wanted = await body_of(request, FilesRequest)
    if api.stores.code is not None and await user.may("create", namespace):
        await require_archive(api.stores.code, namespace, "files.digest", wanted.files.digest)

    def given(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        was_never_started = run.status is None or not run.status.attempts
        if is_resuming(run, spec) or not (phase_of(run).is_final or (spec.get("stopped") and was_never_started)):
            hint = f"copy them while its program runs: kaji cp FILE {name}:PATH; or stop it first: kaji stop {name}"
            raise WrongState(f"{name} is {phase_of(run).value}: files are set before a start", hint=hint)
        digest = read_stored(run.spec).files_digest
        if digest == wanted.files.digest != wanted.instead_of:
            return None  # the answer to an earlier request was lost
        if digest != (wanted.instead_of or ""):
            raise Conflict(f"{name} was given other files meanwhile", hint="read the run, and try again")
        patch: Patch = {"files": wanted.files.model_dump(mode="json")}
        require_allowed(api, run, spec | patch)
        return patch

    return answer(run_view(await change_run(api, user, namespace, name, expected, given)))


@router.delete(
    "/v1/runs/{namespace}/{name}", status_code=202, responses=describes(Deleted, status=202), summary="Delete a run"
)
async def delete_run(
    api: Shared,
    user: Caller,
    namespace: str,
    name: str,
    query: Annotated[DeleteParameters, Query()],
    expected: Expected = "",
) -> Response:
    """End the members, then delete the run. The checkpoint is kept unless `checkpoint` is true."""
    check_name(api, namespace, name)
    if query.checkpoint:
        await _check_checkpoint(api, user, namespace, name, expected)
    if query.grace_seconds is not None:
        await _shorten_grace(api, user, namespace, name, expected, format_duration(query.grace_seconds))
    elif _has_old_grace(api.mirror.runs.get((namespace, name))):
        await _shorten_grace(api, user, namespace, name, expected, None)
    try:
        await user.client.delete(RUNS, name, namespace, propagation="Background", uid=uid_of(expected) or None)
    except NotFound as error:
        raise no_such_run(api, namespace, name, error) from None
    except Conflict:
        if not uid_of(expected):
            raise
        raise other_run(name) from None
    if query.checkpoint and api.cluster.policy.checkpoint.kind == "claim":
        with suppress(NotFound):  # the run may never have had a checkpoint
            await user.client.delete(CLAIMS, names.checkpoint_claim(name), namespace)
    return answer(Deleted(name=name, namespace=namespace), 202)


def _has_old_grace(run: RunObject | None) -> bool:
    """Whether an earlier restart of the run left its grace period in the spec."""
    if run is None or phase_of(run).is_final:
        return False
    spec = msgspec.json.decode(run.spec)
    return isinstance(spec, dict) and bool(without_old_grace(run, spec))


async def _shorten_grace(api: Api, user: User, namespace: str, name: str, expected: str, grace: str | None) -> None:
    """Write the grace period into a run that has not ended; None: that of the run itself.

    If the caller may delete but not change the run, its grace period stays as it is.
    """

    def shortened(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        if phase_of(run).is_final and not is_resuming(run, spec):
            return None
        patch: Patch = {"stopGrace": grace}
        _check_grace(api, run, spec | patch)
        return patch

    with suppress(Forbidden):
        await change_run(api, user, namespace, name, expected, shortened)


async def _check_checkpoint(api: Api, user: User, namespace: str, name: str, expected: str) -> None:
    """Raise an error if the checkpoint could not be deleted after the run, so that both are deleted or neither.

    The controller deletes a checkpoint folder once no member is left; this function marks the run for that.
    """
    rules = api.cluster.policy.checkpoint
    if rules.kind == "claim":
        await user.require("delete", namespace, resource=CLAIMS)
        return
    try:
        run = await user.client.get(RUNS, name, namespace, type=RunObject)
    except NotFound as error:
        raise no_such_run(api, namespace, name, error) from None
    if run.metadata.uid != (uid_of(expected) or run.metadata.uid):
        raise other_run(name)
    spec = msgspec.json.decode(run.spec)
    if not isinstance(spec, dict) or not spec.get("checkpoint"):
        return
    if rules.kind == "folder" and not rules.deletable:
        raise InvalidInput.one(
            "checkpoint",
            f"this cluster keeps checkpoints as folders below {rules.root}, which the server does not touch",
            value="true",
            hint="delete the run without its checkpoint, and the folder by hand",
            code="Unsupported",
        )
    mark = {"uid": run.metadata.uid, "annotations": {names.ANNOTATION_DELETE_CHECKPOINT: "true"}}
    await user.client.patch(RUNS, name, {"metadata": mark}, namespace)


def _check_grace(api: Api, run: RunObject, spec: dict[str, Any]) -> None:
    """Raise Refused if the policy forbids the grace period. Other faults of a run do not keep it from being stopped."""
    try:
        require_allowed(api, run, spec)
    except InvalidInput as error:
        faults = [fault for fault in error.faults if fault.field == "spec.stopGrace"]
        if faults:
            raise Refused(faults) from None
