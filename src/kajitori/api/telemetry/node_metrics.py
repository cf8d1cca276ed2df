"""The route for the figures of a node over time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.lookup import history_of
from kajitori.api.runs.routes import readable_namespaces
from kajitori.api.telemetry.routes import DEFAULT_POINTS, DEFAULT_SINCE_SECONDS, is_wanted, moment, require_known
from kajitori.api.telemetry.rows import short_number
from kajitori.api.views.telemetry import NodeHolder, NodeMetrics, NodeSeries
from kajitori.core.documents.faults import show
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.suggestions import did_you_mean
from kajitori.core.telemetry.levels import MAX_POINTS, NODE_LEVELS
from kajitori.core.telemetry.node_figures import NodeInterval, shown
from kajitori.core.telemetry.quantities import MINUTE_SECONDS, NODE, NODE_GPU, Quantity
from kajitori.core.telemetry.report import MAX_GPUS
from kajitori.errors import NotFound
from kajitori.history.store import History

router = APIRouter(tags=["telemetry"])

KEPT_SECONDS = NODE_LEVELS[-1].kept_seconds
_HIDDEN = ("", "")
"""Namespace and name of all runs that the caller may not read."""


class NodeMetricsParameters(Parameters):
    since: str = Field(default="", max_length=40)
    """Beginning: a time (RFC 3339), or a duration before now such as 1h. Default: one hour ago. Servers keep a week."""
    until: str = Field(default="", max_length=40)
    """End; now if it is left out."""
    name: list[str] = Field(default_factory=list, max_length=64)
    """Only these quantities, such as gpu.used; `gpu.` names all that begin with it."""
    gpu: list[Annotated[int, Field(ge=0, lt=MAX_GPUS)]] = Field(default_factory=list, max_length=MAX_GPUS)
    """Only these GPUs, by their numbers from 0; quantities of the whole node stay."""
    points: int = Field(default=DEFAULT_POINTS, ge=1, le=MAX_POINTS)
    """Largest number of intervals; they become longer if there are more."""


@router.get("/v1/nodes/{name}/metrics", responses=describes(NodeMetrics), summary="Figures of a node over time")
async def node_metrics(
    api: Shared, user: Caller, name: str, query: Annotated[NodeMetricsParameters, Query()]
) -> Response:
    """Processors, memory, and use, memory, power and temperature of each GPU, whether or not a run holds it, as the
    node's agent reported them; and which runs held the node. Minutes are kept for six hours, means of ten minutes for a
    week; of temperatures the highest. A minute appears up to 40 seconds after its end. Every user who is signed in sees
    the figures. Runs that the caller may not read have no names."""
    if name not in api.mirror.nodes:
        raise NotFound(f"there is no node {show(name)!r}", hint=did_you_mean(name, api.mirror.nodes))
    now = api.now().timestamp()
    until = moment("until", query.until, now, now)
    since = moment("since", query.since, now, until - DEFAULT_SINCE_SECONDS)
    history = history_of(api)
    first = math.floor(max(since, now - KEPT_SECONDS)) - MINUTE_SECONDS
    intervals = await history.node_figures(name, first, math.ceil(until))
    last = "" if intervals else await _last_at(history, name, math.ceil(now))
    found = await asyncio.to_thread(shown, intervals, query.points)
    holders = _held(found)
    readable = await readable_namespaces(api, user, "", {namespace for (namespace, _), _ in holders})
    if readable is not None:
        holders = [(key if key[0] in readable else _HIDDEN, held) for key, held in holders]
    gpus = max((each.figures.gpus for each in found), default=0)
    series = [each for each in _series(found, gpus) if each.gpu is None or not query.gpu or each.gpu in query.gpu]
    require_known(query.name, (each.name for each in series))
    return answer(
        NodeMetrics(
            node=name,
            since=_at(since),
            until=_at(until),
            interval_seconds=max((each.seconds for each in found), default=MINUTE_SECONDS),
            gpus=gpus,
            at=[_at(each.start) for each in found],
            series=[each for each in series if is_wanted(each.name, query.name)],
            holders=list(_spans(holders)),
            last_at=last,
        )
    )


async def _last_at(history: History, node: str, now: int) -> str:
    known = await history.node_figures(node, now - KEPT_SECONDS, now)
    return _at(max(each.start for each in known)) if known else ""


def _series(intervals: Sequence[NodeInterval], gpus: int) -> Iterator[NodeSeries]:
    """Yield the series of the node, then those of its GPUs, without those that have no value."""
    for place, quantity in enumerate(NODE):
        yield from _one(intervals, quantity, place, None)
    for place, quantity in enumerate(NODE_GPU, len(NODE)):
        for gpu in range(gpus):
            yield from _one(intervals, quantity, place + gpu * len(NODE_GPU), gpu)


def _one(intervals: Sequence[NodeInterval], quantity: Quantity, place: int, gpu: int | None) -> Iterator[NodeSeries]:
    rows = (each.figures.row for each in intervals)
    values = [_known(row[place]) if place < len(row) else None for row in rows]
    if any(value is not None for value in values):
        yield NodeSeries(
            name=quantity.name,
            unit=quantity.unit.value,
            kind=quantity.kind.value,
            description=quantity.text,
            values=values,
            gpu=gpu,
        )


def _known(value: float) -> float | None:
    return short_number(value) if math.isfinite(value) else None


_Held = tuple[int, int, int]
"""Beginning and end of an interval, and the GPUs that a run held in it, as bits."""


def _held(intervals: Sequence[NodeInterval]) -> list[tuple[tuple[str, str], _Held]]:
    """Return namespace and name of each run that held the node in an interval, in the order of time."""
    found = []
    for each in intervals:
        for run, gpus in each.figures.holders.items():
            namespace, _, name = run.partition("/")
            found.append(((namespace, name), (each.start, each.start + each.seconds, gpus)))
    return found


def _spans(holders: Sequence[tuple[tuple[str, str], _Held]]) -> Iterator[NodeHolder]:
    """Yield the times in which each run held the node without a break, by their beginnings."""
    spans: list[tuple[tuple[str, str], list[int]]] = []
    last: dict[tuple[str, str], list[int]] = {}
    for key, (start, end, gpus) in holders:
        span = last.get(key)
        if span is None or span[1] < start:
            span = last[key] = [start, end, 0]
            spans.append((key, span))
        span[1], span[2] = end, span[2] | gpus
    for (namespace, run), (start, end, gpus) in spans:
        numbers = [number for number in range(gpus.bit_length()) if gpus >> number & 1]
        yield NodeHolder(namespace=namespace, run=run, gpus=numbers, since=_at(start), until=_at(end))


def _at(seconds: float) -> str:
    return format_time(time_at(seconds))
