"""Change the labels of a run with the caller's credentials."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.rendering.runs import nodes_of, run_view
from kajitori.api.requests.bodies import json_body, takes
from kajitori.api.runs.changes.compare_and_swap import Expected, Patch, change_object
from kajitori.api.views.runs import RunView
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import Document, read
from kajitori.core.documents.fields import LabelKey, LabelValue
from kajitori.core.spec.reading.conflicts import is_reserved, reserved_fault
from kajitori.errors import Fault, InvalidInput

router = APIRouter(tags=["runs"])

MOST_LABELS = 64


class LabelRequest(Document):
    """Labels for a run."""

    set: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=MOST_LABELS)
    """Labels that the run gets; another value of the same key is replaced."""
    remove: list[LabelKey] = Field(default_factory=list, max_length=MOST_LABELS)
    """Keys of labels that the run loses. One that it does not have changes nothing."""


@router.post(
    "/v1/runs/{namespace}/{name}/labels",
    responses=describes(RunView),
    openapi_extra=takes(LabelRequest),
    summary="Change the labels of a run",
)
async def label_run(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """Lists, searches and history find the run by its new labels; other labels stay. The Pods of its members keep the
    labels with which the run was submitted (`spec.labels`): rules of the network may select them."""
    wanted, faults, _ = read(LabelRequest, await json_body(request), "")
    if wanted is not None and not faults:
        faults = _contradictions(wanted)
    if faults or wanted is None:
        raise InvalidInput(faults)

    def labelled(run: RunObject) -> Patch:
        if len((run.metadata.labels.keys() | wanted.set.keys()) - set(wanted.remove)) > MOST_LABELS:
            hint = f"remove some: kaji label {name} KEY-"
            raise InvalidInput.one("set", f"{name} would have more than {MOST_LABELS} labels", hint=hint)
        return {"metadata": {"labels": {**wanted.set, **dict.fromkeys(wanted.remove)}}}

    run = await change_object(api, user, namespace, name, expected, labelled)
    return answer(run_view(run, nodes_of(api.mirror, run)))


def _contradictions(wanted: LabelRequest) -> list[Fault]:
    faults = [reserved_fault(f"set[{key!r}]", key) for key in filter(is_reserved, wanted.set)]
    for index, key in enumerate(wanted.remove):
        if is_reserved(key):
            faults.append(reserved_fault(f"remove[{index}]", key))
        if key in wanted.set:
            faults.append(Fault(f"remove[{index}]", f"{key} is set and removed at once", key, "leave one of them out"))
    if not wanted.set and not wanted.remove:
        faults.append(Fault("set", "there is nothing to change", hint="name labels to set, or keys to remove"))
    return faults
