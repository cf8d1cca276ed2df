"""Route that writes the note on a run with the caller's credentials."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.rendering.runs import nodes_of, run_view
from kajitori.api.requests.bodies import body_of, takes
from kajitori.api.runs.changes.compare_and_swap import Expected, Patch, change_object
from kajitori.api.views.runs import RunView
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import Document
from kajitori.core.naming import names
from kajitori.core.spec.note import Note, faults_of, read_note, write_note
from kajitori.errors import Conflict, Fault, InvalidInput

router = APIRouter(tags=["runs"])


class NoteRequest(Document):
    """A note on a run."""

    text: str
    """At most 2,000 characters of plain text. Empty: remove the note."""
    instead_of: str | None = None
    """`at` of the note that this one replaces; empty if there was none. 409 if the run has another note. Left out:
    replace whatever is there."""


@router.post(
    "/v1/runs/{namespace}/{name}/note",
    responses=describes(RunView),
    openapi_extra=takes(NoteRequest),
    summary="Write the note on a run",
)
async def write_run_note(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """A run has one note, which everybody sees who sees the run. Those write it who may change the run. It is kept in
    history with the run; that of a removed run cannot be changed."""
    wanted = await body_of(request, NoteRequest)
    text = wanted.text.replace("\r\n", "\n").strip()
    if wrong := faults_of(text):
        raise InvalidInput([Fault("text", each, hint="a note is a short plain text") for each in wrong])
    note = Note(text, user.name, f"{api.now():%Y-%m-%dT%H:%M:%S.%fZ}")

    def noted(run: RunObject) -> Patch | None:
        present = read_note(run.metadata.annotations.get(names.ANNOTATION_NOTE, ""))
        if (present.text if present is not None else "") == text:
            return None  # nothing to change; or the answer to an earlier request was lost
        if wanted.instead_of is not None and wanted.instead_of != (present.at if present is not None else ""):
            what = f"{present.by} wrote another note" if present is not None else "the note was removed"
            raise Conflict(f"{what} on {name} meanwhile", hint="read it, and write yours again")
        return {"metadata": {"annotations": {names.ANNOTATION_NOTE: write_note(note) if text else None}}}

    run = await change_object(api, user, namespace, name, expected, noted)
    return answer(run_view(run, nodes_of(api.mirror, run)))
