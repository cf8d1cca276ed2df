"""The route for the last figures of runs, which a list of runs shows."""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from kajitori.api.answers.packed import packed_answer
from kajitori.api.auth import Caller
from kajitori.api.context import Shared, describes
from kajitori.api.runs.lists import FilterParameters, filter_of
from kajitori.api.streams.last_figures import last_figures
from kajitori.api.views.telemetry import RunFiguresList

router = APIRouter(tags=["telemetry"])

MAX_UIDS = 256


class FiguresParameters(FilterParameters):
    uid: list[Annotated[str, Field(max_length=64)]] = Field(default_factory=list, max_length=MAX_UIDS)
    """Only runs with these UIDs."""


@router.get("/v1/run-figures", responses=describes(RunFiguresList), summary="Last figures of runs, for a list of them")
async def run_figures(
    request: Request, api: Shared, user: Caller, query: Annotated[FiguresParameters, Query()]
) -> Response:
    """GPU use of running runs, and the last step and main figure of the training also of ended ones, if this server has
    a history. Of a run that ended more than six hours ago the main figure is the mean of its last ten minutes, after a
    week that of its last hour. The filters are those of `GET /v1/runs`."""
    run_filter = await filter_of(api, user, query)
    uids = set(query.uid)
    runs = [
        row.run for row in api.runs.rows.rows() if (not uids or row.summary.uid in uids) and run_filter.matches(row)
    ]
    history = api.stores.history
    figures = await last_figures(api.telemetry.collector, api.runs.past_figures, history, runs, api.now())
    body = msgspec.json.encode(RunFiguresList(figures=figures))
    return await packed_answer(request, hashlib.blake2s(body, digest_size=12).hexdigest(), {}, lambda: body)
