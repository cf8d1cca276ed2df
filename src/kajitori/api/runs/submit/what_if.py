"""What-ifs about a run that is not submitted: the answer of the planner that would place it. Nothing is created."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import require_definition, run_object
from kajitori.api.queue import waiting
from kajitori.api.requests.bodies import json_body, takes
from kajitori.api.runs.submit.submission import (
    RunRequest,
    completed,
    decide_or_refuse,
    read_submission,
    run_document,
)
from kajitori.api.views.queue import WhatIf
from kajitori.core.formats import node_lists
from kajitori.core.placement.planner import Placement

router = APIRouter(tags=["runs"])

_NAMELESS = "this"


@router.post(
    "/v1/what-if",
    responses=describes(WhatIf),
    openapi_extra=takes(RunRequest),
    summary="Plan a run without submitting it",
)
async def what_if(api: Shared, user: Caller, request: Request) -> Response:
    """Whether a run would start now, and where; otherwise what it would wait for. An invalid or
    refused run gets the same answer as on submission. A request with a waiting run's name is for that run's place in
    the queue."""
    submission = await completed(api, user, read_submission(await json_body(request), api.namespace))
    await user.require("create", submission.namespace)
    require_definition(api)
    decision = await decide_or_refuse(api, user, submission)
    name = submission.name or _NAMELESS
    run = run_object(run_document(submission, name, user, api.now()))
    start, placement = await waiting.start_of_new(api, user, run, submission.spec, decision)
    return answer(
        WhatIf(
            namespace=submission.namespace,
            starts=placement is not None,
            nodes=node_lists.compress(placement.nodes) if placement is not None else "",
            domains=_domains(api, placement),
            findings=list(decision.findings),
            start=start,
        )
    )


def _domains(api: Api, placement: Placement | None) -> dict[str, int]:
    """Return how many domains of each level of the topology the members would be in."""
    if placement is None:
        return {}
    table = api.cluster.table()
    places = [table.nodes[table.index[name]].domains for name in placement.nodes if name in table.index]
    return {
        label: len({domains[: level + 1] for domains in places})
        for level, label in enumerate(api.cluster.policy.topology)
        if any(domains[level] for domains in places)
    }
