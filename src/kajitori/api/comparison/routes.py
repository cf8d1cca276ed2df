"""Route that compares runs, live or removed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters, time_text
from kajitori.api.auth import Caller
from kajitori.api.comparison.rows import rows_of
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.history.lost_time import time_of
from kajitori.api.lookup import find_run_or_record
from kajitori.api.rendering.runs import run_view
from kajitori.api.rights import User
from kajitori.api.telemetry.routes import DEFAULT_POINTS, intervals_of, is_wanted
from kajitori.api.views.comparison import (
    ComparedFigure,
    ComparedLine,
    ComparedPoint,
    ComparedRun,
    Comparison,
    MissingRun,
)
from kajitori.api.views.runs import RunView
from kajitori.cluster.run_object import RunObject
from kajitori.core.spec.command_line import command_line
from kajitori.core.suggestions import first_few
from kajitori.core.telemetry.levels import MAX_POINTS, Interval, shown
from kajitori.core.telemetry.quantities import MINUTE_SECONDS, TRAINING_PREFIX, describe
from kajitori.errors import Forbidden, InvalidInput, KajitoriError, NotFound

router = APIRouter(tags=["runs"])

MAX_RUNS = 4
"""Most runs beside each other: a plot of more lines cannot be read."""
DEFAULT_NAMES = (TRAINING_PREFIX, "gpu.used", "cpu.used")


class CompareParameters(Parameters):
    run: list[str] = Field(default_factory=list, max_length=64)
    """Two to four runs as `namespace/name`, or `namespace/UID` for removed ones."""
    name: list[str] = Field(default_factory=lambda: list(DEFAULT_NAMES), max_length=64)
    """Curves of these quantities; `gpu.` names all that begin with it. Default: the figures that programs wrote, and
    the use of GPUs and processors."""
    points: int = Field(default=DEFAULT_POINTS, ge=1, le=MAX_POINTS)
    """Largest number of intervals of each run; they become longer if there are more."""


@router.get("/v1/compare", responses=describes(Comparison), summary="Compare runs")
async def compare_runs(api: Shared, user: Caller, query: Annotated[CompareParameters, Query()]) -> Response:
    """Compares the requests, the results and the curves of two to four runs. Curves are medians over all ranks, since
    each run was created. Removed runs are included if this server has a history. A run that does not exist, or that the
    caller may not read, is listed as missing; it is an error only if no run is left."""
    _require_several(query.run)
    runs, missing = await _readable_runs(api, user, query.run)
    intervals = [await _intervals(api, run, query.points) for run in runs]
    times = [(await time_of(api, run))[0] for run in runs]
    views = [run_view(run) for run in runs]
    figures = await asyncio.to_thread(_figures, intervals, query.name)
    training = [figure for figure in figures if figure.name.startswith(TRAINING_PREFIX)]
    return answer(
        Comparison(
            runs=[_compared(api, *each) for each in zip(views, intervals, strict=True)],
            missing=missing,
            rows=rows_of(views, times, training),
            figures=figures,
        )
    )


def _require_several(wanted: Sequence[str]) -> None:
    """Raise InvalidInput unless these are two to four different runs as `namespace/name`."""
    hint = "name two to four different runs"
    if not 2 <= len(wanted) <= MAX_RUNS:
        raise InvalidInput.one("run", "two to four runs can be compared", value=str(len(wanted)), hint=hint)
    unclear = [text for text in wanted if text.count("/") != 1 or text.startswith("/") or text.endswith("/")]
    if unclear:
        raise InvalidInput.one("run", f"{first_few(unclear)} is no namespace/name", value=unclear[0], hint=hint)
    if len(set(wanted)) < len(wanted):
        raise InvalidInput.one("run", "a run is named twice", value=", ".join(wanted), hint=hint)


async def _readable_runs(api: Api, user: User, wanted: Sequence[str]) -> tuple[list[RunObject], list[MissingRun]]:
    """Return the runs that the caller may read, and why others are missing. Raises the first refusal without any."""
    runs: list[RunObject] = []
    missing: list[MissingRun] = []
    first: KajitoriError | None = None
    for text in wanted:
        namespace, _, name = text.partition("/")
        try:
            runs.append(await find_run_or_record(api, user, namespace, name))
        except (NotFound, Forbidden, InvalidInput) as error:
            first = first or error
            missing.append(MissingRun(run=text, message=error.message, hint=error.hint or ""))
    if first is not None and not runs:
        raise first
    return runs, missing


async def _intervals(api: Api, run: RunObject, points: int) -> list[Interval]:
    intervals = await intervals_of(api, run, 0, api.now().timestamp())
    return await asyncio.to_thread(shown, intervals, points)


def _compared(api: Api, view: RunView, intervals: Sequence[Interval]) -> ComparedRun:
    live = api.mirror.runs.get((view.namespace, view.name))
    return ComparedRun(
        name=view.name,
        namespace=view.namespace,
        uid=view.uid,
        owner=view.owner,
        phase=str(view.status.get("phase") or "Queued"),
        created_at=view.created_at,
        started_at=str(view.status.get("startedAt") or ""),
        is_removed=live is None or live.metadata.uid != view.uid,
        command_line=command_line(view.spec, name=view.name, namespace=view.namespace).text,
        interval_seconds=max((each.seconds for each in intervals), default=MINUTE_SECONDS),
    )


def _figures(runs: Sequence[Sequence[Interval]], wanted: Sequence[str]) -> list[ComparedFigure]:
    """Return the curves of all runs by figure: those of the training first."""
    lines: dict[str, list[ComparedLine]] = {}
    for index, intervals in enumerate(runs):
        points: dict[str, list[ComparedPoint]] = {}
        for each in intervals:
            _add(points, each, wanted)
        for name, run_points in points.items():
            lines.setdefault(name, []).append(ComparedLine(run=index, points=run_points))
    order = sorted(lines, key=lambda name: (not name.startswith(TRAINING_PREFIX), name))
    return [
        ComparedFigure(name=name, unit=about.unit.value, description=about.text, lines=lines[name])
        for name in order
        for about in (describe(name),)
    ]


def _add(points: dict[str, list[ComparedPoint]], interval: Interval, wanted: Sequence[str]) -> None:
    for name, band in interval.bands.items():
        if is_wanted(name, wanted):
            point = ComparedPoint(at=time_text(interval.start), attempt=interval.attempt, p50=band.median)
            points.setdefault(name, []).append(point)
