"""The board's view of the past: GPU-hours of the last 30 days."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Depends
from starlette.responses import Response

from kajitori.api.answers.paging import time_text
from kajitori.api.context import Api, Shared, describes
from kajitori.api.history.routes import USAGE_SINCE, sums_of
from kajitori.api.lookup import history_of
from kajitori.api.nodes.board import board_answer, reads_board
from kajitori.api.views.history import BoardUsage, BoardUse
from kajitori.core.usage.sums import By

router = APIRouter(tags=["cluster"])

LONGEST_SECONDS = 300
"""Time for which an answer is kept at most; hours of a month change slowly."""
LARGEST = 10
"""Number of teams that are named."""


@router.get(
    "/v1/board/usage",
    responses=describes(BoardUsage),
    dependencies=[Depends(reads_board)],
    summary="GPU-hours of the last 30 days by type and team",
)
async def show_board_usage(api: Shared) -> Response:
    """For pages that everybody sees: a user who may read the board may read this. Names no users, runs or nodes."""
    body = await api.remembered.ask("board/usage", lambda: _usage(api), longest_seconds=LONGEST_SECONDS)
    return board_answer(api, body)


async def _usage(api: Api) -> bytes:
    until = int(api.now().timestamp())
    since, until = await history_of(api).countable(until - int(USAGE_SINCE.total_seconds()), until)
    types = await _uses(api, By.TYPE, since, until)
    teams = await _uses(api, By.TEAM, since, until)
    usage = BoardUsage(
        since=time_text(since),
        until=time_text(until),
        gpu_seconds=sum(use.gpu_seconds for use in types),
        types=types,
        teams=teams[:LARGEST],
        team_count=len(teams),
    )
    return msgspec.json.encode(usage)


async def _uses(api: Api, by: By, since: int, until: int) -> list[BoardUse]:
    """Return the sums with GPUs, the largest first."""
    sums = await sums_of(api, by, since, until)
    uses = (BoardUse(name=key, gpu_seconds=used.gpu_seconds) for key, used in sums.items() if used.gpu_seconds)
    return sorted(uses, key=lambda use: (-use.gpu_seconds, use.name))
