"""Change the limits, the priority or the array of a run that waits or runs, without starting it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.rendering.runs import nodes_of, phase_of, run_view
from kajitori.api.requests.bodies import json_body, takes
from kajitori.api.runs.changes.compare_and_swap import Expected, Patch, change_run, require_allowed
from kajitori.api.views.runs import RunView
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import Document, read
from kajitori.core.documents.fields import Duration, DurationAboveZero
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import seconds_since
from kajitori.core.spec.array import MAX_TEXT
from kajitori.core.spec.parts import RunNetwork
from kajitori.core.spec.run import MAX_NETWORKS, MAX_RESTARTS
from kajitori.errors import InvalidInput, WrongState

router = APIRouter(tags=["runs"])


class UpdateRequest(Document):
    """Fields of a run's spec that take effect while it waits or runs. Fields that are left out stay as they are; null
    removes a field, so that policy's default applies."""

    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """Counts from the start of the run. In a sweep, members that run already keep the limit with which they started."""
    priority: Literal["high", "normal", "low"] | None = None
    restarts: int | None = Field(default=None, ge=0, le=MAX_RESTARTS)
    """How often in all the program may fail and start again, with the failures so far."""
    remove_after_seconds: Duration | None = Field(default=None, alias="removeAfter")
    on_stuck: Literal["tell", "restart"] | None = None
    array: str | None = Field(default=None, min_length=1, max_length=MAX_TEXT)
    """The indices of a sweep: more of them add members, fewer remove some, and %N changes how many run at once."""
    networks: list[RunNetwork] | None = Field(default=None, max_length=MAX_NETWORKS)
    """The networks of the run, instead of those that it has. Other runs find it by its new names at once. Members that
    run already find the names in a new network at once on nodes of `kaji up` and `kaji node`, else after their next
    start."""


@router.patch(
    "/v1/runs/{namespace}/{name}",
    responses=describes(RunView),
    openapi_extra=takes(UpdateRequest),
    summary="Change a run without starting it again",
)
async def update_run(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """The change applies at once to a run that waits or runs, and to one that has ended when it is resumed. Policy must
    allow the run with the change. A second request with the same fields has no further effect."""
    document = await json_body(request)
    wanted, faults, _ = read(UpdateRequest, document, "")
    if faults or wanted is None:
        raise InvalidInput(faults)
    patch: Patch = dict.fromkeys(document) | wanted.model_dump(mode="json", exclude_none=True)
    if not patch:
        raise InvalidInput.one("", "nothing is to be changed", hint=f"name one of {', '.join(_fields())}")

    def updated(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        if run.metadata.deletion_timestamp:
            raise WrongState(f"{name} is being deleted", hint="submit it again")
        if all(spec.get(field) == value for field, value in patch.items()):
            return None
        _check_time_left(api, run, spec, wanted.time_limit_seconds)
        require_allowed(api, run, {field: value for field, value in (spec | patch).items() if value is not None})
        request.state.reason = changes_in_words(spec, patch)  # for the audit trail
        return patch

    run = await change_run(api, user, namespace, name, expected, updated)
    return answer(run_view(run, nodes_of(api.mirror, run)))


def changes_in_words(spec: Mapping[str, Any], patch: Patch) -> str:
    """Return what a patch changes: `timeLimit: 3d to 7d, priority: default to high`."""
    changed = ((field, spec.get(field), value) for field, value in patch.items())
    return ", ".join(f"{field}: {_in_words(old)} to {_in_words(new)}" for field, old, new in changed if old != new)


def _in_words(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_use_in_words, value)) or "none"
    return "default" if value is None else str(value)


def _use_in_words(use: Mapping[str, Any]) -> str:
    return ":".join((use["name"], *(use.get("aliases") or ()))) + (" (internal)" if use.get("internal") else "")


def _fields() -> list[str]:
    return [field.alias or name for name, field in UpdateRequest.model_fields.items()]


def _check_time_left(api: Api, run: RunObject, spec: dict[str, Any], limit_seconds: int | None) -> None:
    """Raise InvalidInput if the run would end at once. Members of a sweep have limits of their own."""
    status = run.status
    if limit_seconds is None or status is None or phase_of(run).is_final or spec.get("array"):
        return
    passed = seconds_since(status.started_at, api.now())
    if passed is not None and passed >= limit_seconds:
        message = f"{run.metadata.name} has run for {format_duration(int(passed))} already, so it would end at once"
        hint = f"name a longer time, or stop it: kaji stop {run.metadata.name}"
        raise InvalidInput.one("timeLimit", message, value=format_duration(limit_seconds), hint=hint)
