"""Route that writes the command line for a request, for people who click and want to script it later."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.requests.bodies import json_body, takes
from kajitori.api.runs.submit.submission import RunRequest, read_submission
from kajitori.api.views.runs import CommandLineView
from kajitori.core.spec.command_line import command_line
from kajitori.core.spec.run import to_document
from kajitori.errors import InvalidInput

router = APIRouter(tags=["runs"])


@router.post(
    "/v1/command-line",
    responses=describes(CommandLineView),
    openapi_extra=takes(RunRequest),
    summary="The kaji command for a request",
)
async def write_command_line(api: Shared, user: Caller, request: Request) -> Response:
    """The `kaji run` or `kaji notebook` command that asks for the same run. Parts of the request that cannot be read
    are left out; nothing is checked against policy, and nothing is created."""
    document = await json_body(request)
    submission = read_submission(document, api.namespace)
    if submission.draft.spec is None:
        raise InvalidInput(submission.faults)
    asks_for_namespace = isinstance(document, dict) and bool(document.get("namespace"))
    line = command_line(
        to_document(submission.spec),
        name=submission.name,
        namespace=submission.namespace if asks_for_namespace else "",
        notebook_image=api.cluster.policy.notebooks.image,
    )
    return answer(CommandLineView(text=line.text, left_out=list(line.left_out)))
