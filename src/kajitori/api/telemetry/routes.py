"""Routes for the telemetry of runs: bands over ranks, single ranks, and the newest values."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import DEFAULT_LIMIT, MAX_LIMIT, Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run, find_run_or_record
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.runs.routes import readable_namespaces
from kajitori.api.streams.answers import NDJSON, Chunks
from kajitori.api.telemetry.exposition import ShownRun, exposition
from kajitori.api.telemetry.live import MAX_LIVE, live_stats, stats_stream
from kajitori.api.telemetry.rows import rank_series
from kajitori.api.views.telemetry import (
    BandPoint,
    BandSeries,
    ExtremeView,
    NodeTemperatures,
    RankMetrics,
    RunMetrics,
    RunStats,
    RunSummary,
    StatsList,
)
from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.quantities import QuantityError, parse_duration_seconds
from kajitori.core.formats.times import format_time, parse_time, time_at
from kajitori.core.suggestions import did_you_mean
from kajitori.core.telemetry.bands import Band, Place, hottest_celsius, unpack
from kajitori.core.telemetry.collector import Attempt
from kajitori.core.telemetry.levels import MAX_POINTS, Interval, shown
from kajitori.core.telemetry.quantities import MINUTE_SECONDS, TRAINING_PREFIX, describe
from kajitori.core.traffic.totals import run_id
from kajitori.errors import InvalidInput, NotFound

router = APIRouter(tags=["telemetry"])

DEFAULT_SINCE_SECONDS = 3600
DEFAULT_POINTS = 240


class MetricsParameters(Parameters):
    since: str = Field(default="", max_length=40)
    """Beginning: a time (RFC 3339), or a duration before now such as 1h. Default: one hour ago."""
    until: str = Field(default="", max_length=40)
    """End; now if it is left out."""
    name: list[str] = Field(default_factory=list, max_length=64)
    """Only these quantities, such as gpu.used or train.loss; `gpu.` names all that begin with it."""
    attempt: int = Field(default=0, ge=0)
    """Only this attempt; 0: all."""
    points: int = Field(default=DEFAULT_POINTS, ge=1, le=MAX_POINTS)
    """Largest number of intervals; they become longer if there are more."""


class RankParameters(Parameters):
    since: str = Field(default="", max_length=40)
    """Beginning: a time (RFC 3339), or a duration before now such as 10m. Nodes keep one hour."""
    name: list[str] = Field(default_factory=list, max_length=64)
    """Only these quantities; `gpu.` names all that begin with it."""


class StatsParameters(Parameters):
    rank: list[int] = Field(default_factory=list, max_length=MAX_LIVE)
    """Only these ranks."""
    limit: int = Field(default=MAX_LIVE, ge=1, le=MAX_LIMIT)
    """Largest number of ranks, the lowest first."""
    live: bool = True
    """Ask the nodes for new samples, for at most 64 ranks; else the answer has means of the last minute."""


class SummaryParameters(Parameters):
    namespace: str = Field(default="", max_length=253)
    """Only this namespace; else all that the caller may read."""
    owner: str = Field(default="", max_length=1024)
    """Only runs that this user submitted; `@me` is the caller."""
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    """Largest number of runs."""


@router.get(
    "/v1/runs/{namespace}/{name}/metrics", responses=describes(RunMetrics), summary="Bands of a run over all ranks"
)
async def run_metrics(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[MetricsParameters, Query()]
) -> Response:
    """Minimum, 10th, 50th and 90th percentile and maximum of each quantity per interval, with the ranks of both
    extremes. Includes removed runs if this server has a history. A minute appears 50 to 65 seconds after its
    end."""
    run = await find_run_or_record(api, user, namespace, name)
    now = api.now().timestamp()
    until = moment("until", query.until, now, now)
    since = moment("since", query.since, now, until - DEFAULT_SINCE_SECONDS)
    intervals = await intervals_of(api, run, since, until)
    if query.attempt:
        intervals = [each for each in intervals if each.attempt == query.attempt]
    shown_intervals = await asyncio.to_thread(shown, intervals, query.points)
    series = _series(shown_intervals, query.name)
    return answer(
        RunMetrics(
            run=run.metadata.name,
            namespace=run.metadata.namespace,
            uid=run.metadata.uid,
            since=_at(since),
            until=_at(until),
            interval_seconds=max((each.seconds for each in shown_intervals), default=MINUTE_SECONDS),
            ranks=max((each.ranks for each in shown_intervals), default=0),
            series=series,
        )
    )


@router.get(
    "/v1/runs/{namespace}/{name}/members/{rank}/metrics",
    responses=describes(RankMetrics),
    summary="The last hour of one rank in full resolution",
)
async def rank_metrics(
    api: Shared, user: Caller, namespace: str, name: str, rank: int, query: Annotated[RankParameters, Query()]
) -> Response:
    """Asked from the rank's node, which keeps a sample of every 15 seconds for an hour, as long as the member runs."""
    run = await find_run(api, user, namespace, name)
    pod = newest_pods(api.mirror.pods_of_run(run)).get(rank)
    if pod is None or pod.member is None or not pod.spec.node_name:
        message = f"{run.metadata.name} has no member of rank {rank} on a node now"
        raise NotFound(message, hint=f"bands over all ranks remain: kaji metrics {run.metadata.name}")
    now = api.now().timestamp()
    since = moment("since", query.since, now, now - DEFAULT_SINCE_SECONDS)
    reply = await api.telemetry.ask(pod.spec.node_name, (pod.metadata.uid,), since, fresh=True)
    if not reply.members:
        raise NotFound(f"node {pod.spec.node_name} has no samples of rank {rank} of {run.metadata.name} yet")
    series = await asyncio.to_thread(rank_series, reply, reply.members[0])
    require_known(query.name, (each.name for each in series))
    return answer(
        RankMetrics(
            run=run.metadata.name,
            namespace=run.metadata.namespace,
            uid=run.metadata.uid,
            attempt=pod.member.attempt,
            rank=rank,
            node=pod.spec.node_name,
            since=_at(since),
            series=[each for each in series if is_wanted(each.name, query.name)],
        )
    )


@router.get("/v1/runs/{namespace}/{name}/stats", responses=describes(RunStats), summary="Latest values of each rank")
async def run_stats(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[StatsParameters, Query()]
) -> Response:
    """One row per rank, as `docker stats`: asked from the nodes, else the mean of the last minute."""
    run = await find_run(api, user, namespace, name)
    return answer(await live_stats(api, run, query.rank, query.limit, live=query.live))


@router.get(
    "/v1/runs/{namespace}/{name}/stats/watch",
    responses=describes(RunStats, media_type=NDJSON),
    summary="Stream the latest values of each rank",
)
async def watch_stats(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[StatsParameters, Query()]
) -> Response:
    """One document on each line, about every two seconds, until the run ends. An empty line is a heartbeat."""
    run = await find_run(api, user, namespace, name)
    chunks: Chunks = stats_stream(api, user, run, query.rank, query.limit, live=query.live)
    return api.streams.stream(chunks, kind="stats", media_type=NDJSON)


@router.get("/v1/stats", responses=describes(StatsList), summary="Latest bands of all runs")
async def list_stats(api: Shared, user: Caller, query: Annotated[SummaryParameters, Query()]) -> Response:
    """One row per run that reported in the last minutes, with bands over its ranks."""
    readable = await readable_namespaces(api, user, query.namespace)
    owner = user.name if query.owner == "@me" else query.owner
    items = [
        (run, attempt.number, minute, document)
        for run, attempt, minute, document in _newest(api)
        if (readable is None or run.metadata.namespace in readable) and (not owner or run.owner == owner)
    ]
    items.sort(key=lambda item: (item[0].metadata.namespace, item[0].metadata.name))
    summaries = [
        RunSummary(
            run=run.metadata.name,
            namespace=run.metadata.namespace,
            attempt=number,
            at=_at(minute * MINUTE_SECONDS),
            owner=run.owner,
            bands={name: point(band, minute * MINUTE_SECONDS, number) for name, band in unpack(document).items()},
        )
        for run, number, minute, document in items[: query.limit]
    ]
    return answer(StatsList(items=summaries, total=len(items)))


@router.get("/v1/node-temperatures", responses=describes(NodeTemperatures), summary="Temperatures of nodes")
async def node_temperatures(api: Shared, user: Caller) -> Response:
    """The temperature of the hottest GPU that a member holds, from the newest minute that its node reported."""
    readable = await readable_namespaces(api, user, "")
    minutes = [
        member
        for member in api.telemetry.collector.newest_ranks()
        if readable is None or member.minute.namespace in readable
    ]
    celsius = await asyncio.to_thread(hottest_celsius, minutes)
    by_node: dict[str, int] = {}
    for member in minutes:
        pod = api.mirror.pods.get((member.minute.namespace, member.minute.pod))
        if pod is not None and pod.metadata.uid == member.minute.uid and member.minute.uid in celsius:
            node = pod.spec.node_name
            by_node[node] = max(round(celsius[member.minute.uid]), by_node.get(node, 0))
    return answer(NodeTemperatures(celsius=by_node))


@router.get(
    "/v1/stats/prometheus",
    responses=describes(None, media_type="text/plain"),
    summary="Latest bands of all runs, for Prometheus",
)
async def prometheus(api: Shared, user: Caller) -> Response:
    """Median and extremes of a few quantities for each run, at most 1,000 runs. Needs the right to list the runs of all
    namespaces, because it names them: give Prometheus a token that has it."""
    await user.require("list", "")
    shown_runs = []
    for run, attempt, _, document in _newest(api):
        bands = unpack(document)
        ranks = max((band.size for name, band in bands.items() if not name.startswith("gpu.")), default=0)
        place = run.metadata.namespace, run.metadata.name, run_id(attempt.run_uid)
        shown_runs.append(ShownRun(*place, ranks, bands))
    body = await asyncio.to_thread(exposition, shown_runs)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


# ---------------------------------------------------------------------------------------------- views


def _newest(api: Api) -> Iterator[tuple[RunObject, Attempt, int, bytes]]:
    """Yield Run, attempt, minute and packed bands of the present attempts of runs that reported in the last minutes."""
    runs = {run.metadata.uid: run for run in api.mirror.runs.values()}
    for attempt, (minute, document) in api.telemetry.collector.newest().items():
        run = runs.get(attempt.run_uid)
        if run is not None and run.status is not None and run.status.attempts == attempt.number:
            yield run, attempt, minute, document


async def intervals_of(api: Api, run: RunObject, since: float, until: float) -> list[Interval]:
    """Return the intervals of a run from history and from this server's memory, which has the newest ones."""
    uid = run.metadata.uid
    first = math.floor(since) - MINUTE_SECONDS
    intervals = {(each.attempt, each.start): each for each in api.telemetry.collector.recent(uid, first, until)}
    if api.stores.history is not None:
        for each in await api.stores.history.telemetry(uid, first, math.ceil(until)):
            other = intervals.get((each.attempt, each.start))
            if other is None or other.ranks < each.ranks or each.seconds > other.seconds:
                intervals[each.attempt, each.start] = each
    return list(intervals.values())


def _series(intervals: Sequence[Interval], wanted: Sequence[str]) -> list[BandSeries]:
    names = sorted({name for each in intervals for name in each.bands}, key=_order)
    require_known(wanted, names)
    return [
        BandSeries(
            name=name,
            unit=about.unit.value,
            kind=about.kind.value,
            description=about.text,
            points=[point(each.bands[name], each.start, each.attempt) for each in intervals if name in each.bands],
        )
        for name in names
        if is_wanted(name, wanted)
        for about in (describe(name),)
    ]


def point(band: Band, start: float, attempt: int) -> BandPoint:
    """Return one band as answers show it."""
    return BandPoint(
        at=_at(start),
        attempt=attempt,
        count=band.size,
        min=_extreme(band.least, band.least_at),
        p10=band.p10,
        p50=band.median,
        p90=band.p90,
        max=_extreme(band.most, band.most_at),
    )


def _extreme(value: float, place: Place) -> ExtremeView:
    return ExtremeView(value=value, rank=place.rank, gpu=place.gpu if place.gpu >= 0 else None)


def _order(name: str) -> tuple[int, str]:
    """Return the sort key of a quantity: training first, since people look at it most, then the member, then GPUs."""
    group = 0 if name.startswith(TRAINING_PREFIX) else 2 if name.startswith("gpu.") else 1
    return group, name


def is_wanted(name: str, wanted: Sequence[str]) -> bool:
    """Whether a quantity is one of the wanted ones: by its name, by `gpu.` for all that begin so, or, for a figure of
    the training, by the name that the program gave it."""
    return not wanted or any(
        name in (each, f"{TRAINING_PREFIX}{each}") or (each.endswith(".") and name.startswith(each)) for each in wanted
    )


def require_known(wanted: Iterable[str], names: Iterable[str]) -> None:
    """Raise InvalidInput for a wanted quantity that none of the measured ones is, if anything was measured."""
    measured = list(names)
    for name in wanted if measured else ():
        if not any(is_wanted(measured_name, (name,)) for measured_name in measured):
            hint = did_you_mean(name, measured) or f"there are: {', '.join(measured)}"
            message = f"{name[:80]} was not measured in this time"
            raise InvalidInput.one("name", message, value=name[:80], hint=hint)


def moment(field: str, text: str, now: float, default: float) -> float:
    """Return the time that a parameter names. Raises InvalidInput."""
    if not text:
        return default
    try:
        return now - parse_duration_seconds(text)
    except QuantityError:
        pass  # a time, then
    try:
        found = parse_time(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        hint = "such as 2026-11-21T10:00:00Z, or 1h"
        raise InvalidInput.one(field, "is neither a time (RFC 3339) nor a duration", value=text, hint=hint)
    return found.timestamp()


def _at(seconds: float) -> str:
    return format_time(time_at(seconds))
