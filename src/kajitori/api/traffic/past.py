"""Traffic by class of addresses over time, and the date at which addresses run out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import DEFAULT_LIMIT, MAX_LIMIT, Parameters, span_of, time_text
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import history_of
from kajitori.api.rights import User
from kajitori.api.runs.routes import readable_namespaces
from kajitori.api.traffic.recorder import address_pools
from kajitori.api.traffic.routes import order_class, require_by_run
from kajitori.api.views.base import Time, View
from kajitori.core.network.use.exhaustion import TREND_DAYS, DayUse, ExhaustionState, exhaustion
from kajitori.core.network.use.pools import AddressPool, PoolKind, PoolUnit
from kajitori.core.traffic.history import (
    DAY,
    HOUR,
    Bytes,
    HistoryGroup,
    HourRecord,
    TrafficPoint,
    TrafficRecord,
    amounts_between,
    interval_seconds,
    points_between,
)
from kajitori.core.traffic.totals import run_id
from kajitori.history.store import History

router = APIRouter(tags=["network"])

TRAFFIC_SINCE = timedelta(days=7)
"""Span of a query that names no beginning."""

Records = tuple[HourRecord, TrafficRecord | None]
"""The last record of a subject within a span, and that from before the span."""


class ClassBytes(View):
    """Traffic with the addresses of one class (the policy's `traffic.classes`)."""

    name: str
    received: int
    """Bytes."""
    sent: int
    """Bytes."""


class TrafficSumRow(View, omit_defaults=True):
    """Bytes received and sent within the span, over all nodes."""

    name: str
    """Name of the run, user or namespace; empty for the cluster."""
    classes: list[ClassBytes]
    namespace: str = ""
    """Namespace of the run."""
    run_id: str = ""
    """Distinguishes runs of the same name; it is not the UID."""
    user: str = ""
    """The user who submitted the run; empty if unknown."""


class TrafficPointView(View):
    """Traffic in one interval."""

    at: Time
    """Beginning of the interval."""
    classes: list[ClassBytes] | None
    """Null if no server recorded anything in the interval; its traffic is then in the next one."""


class TrafficHistory(View, omit_defaults=True):
    """Traffic in a span of time."""

    by: HistoryGroup
    name: str
    """The subject of the points; empty for the whole cluster."""
    since: Time
    until: Time
    interval_seconds: int
    """Length of the points' intervals: an hour, or a day if the span begins more than 14 days ago."""
    order_class: str
    """The class of addresses that the items are ordered by."""
    items: list[TrafficSumRow]
    """Sums over the span, the largest first."""
    total: int
    """Number of all rows; `items` may hold fewer."""
    points: list[TrafficPointView]
    hidden: int = 0
    """Number of runs in namespaces whose runs the caller may not list."""


class TrafficHistoryParameters(Parameters):
    by: HistoryGroup = "cluster"
    """Sums of the whole cluster, of namespaces, users or runs."""
    namespace: str = Field(default="", max_length=253)
    """Only runs of this namespace; needs the right to list them."""
    name: str = Field(default="", max_length=1024)
    """Only this namespace, user or run (`NAMESPACE/NAME`). Default: all, and the points of the whole cluster."""
    since: str = Field(default="", max_length=40)
    """Beginning (RFC 3339), rounded down to an hour; seven days before the end if it is left out."""
    until: str = Field(default="", max_length=40)
    """End; now if it is left out."""
    class_: str = Field(default="", alias="class", max_length=63)
    """Order by traffic with addresses of this class. Default: the policy's `traffic.others`, such as internet."""
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    """Largest number of items."""


class AddressDay(View):
    """The use of a pool on one day."""

    at: Time
    """Beginning of the day, in UTC."""
    used: int
    """Most that was in use."""


class AddressForecast(View, omit_defaults=True):
    """A pool of addresses, and when it runs out if its use grows as it did in the last 90 days."""

    kind: PoolKind
    """`nodes` and `pods`: a range of the registry for them. `own ranges`: all nodes' ranges for their Pods."""
    cidr: str
    cluster: str
    unit: PoolUnit
    """The unit that the pool hands out: single addresses, or ranges of nodes."""
    used: int
    capacity: int
    state: ExhaustionState
    days_known: int
    """Number of days with a sample that the answer rests on."""
    per_day: float = 0.0
    """Growth per day: the median slope between all pairs of days (Theil-Sen)."""
    at: Time = ""
    """Expected date."""
    earliest: Time = ""
    """The trend is known with 95 % confidence; this is the earliest date within it."""
    latest: Time = ""
    """The latest date within it; absent if it is more than ten years ahead."""
    history: list[AddressDay] = msgspec.field(default_factory=list)
    """The days that are known, the oldest first, up to today."""


class AddressForecasts(View):
    """All pools of which this cluster uses anything."""

    items: list[AddressForecast]


@router.get("/v1/traffic/history", responses=describes(TrafficHistory), summary="Traffic over time")
async def list_traffic_history(
    api: Shared, user: Caller, query: Annotated[TrafficHistoryParameters, Query()]
) -> Response:
    """Traffic by class of addresses: of each hour in the last 14 days, of each day before. Rights are those of
    `/v1/traffic`: every authenticated user may read sums, those of single runs need the right to list runs."""
    history, now = history_of(api), int(api.now().timestamp())
    since, until = span_of(query.since, query.until, TRAFFIC_SINCE, now)
    if query.namespace:
        await readable_namespaces(api, user, query.namespace)
        require_by_run(query.by, query.namespace)
    since = since // HOUR * HOUR
    order = order_class(api, query.class_)
    records = await history.traffic(query.by, since, until)
    hidden = 0
    if query.by == "run":
        shown = await _listable(api, user, query.namespace, records)
        records, hidden = shown, 0 if query.namespace else len(records) - len(shown)
    if query.name:
        records = [item for item in records if _name_of(item[0]) == query.name]
    seconds = interval_seconds(since, now)
    points = await _points(history, query, records, (since, until, seconds))
    rows = _largest_first(records, order)
    return answer(
        TrafficHistory(
            by=query.by,
            name=query.name,
            since=time_text(since),
            until=time_text(until),
            interval_seconds=seconds,
            order_class=order,
            items=[_row(made, amounts) for amounts, made in rows[: query.limit]],
            total=len(rows),
            points=[TrafficPointView(time_text(point.at), _classes_at(point)) for point in points],
            hidden=hidden,
        )
    )


@router.get("/v1/networks/forecast", responses=describes(AddressForecasts), summary="When addresses run out")
async def forecast_addresses(api: Shared, user: Caller) -> Response:
    """Extends the trend of the last 90 days, which a few unusual days do not change. Says so if there is no growth that
    differs from chance, or fewer than 14 days are known."""
    history, today = history_of(api), int(api.now().timestamp()) // DAY
    days_by_pool = await history.address_use(today - TREND_DAYS)
    return answer(AddressForecasts(items=[_forecast(pool, days_by_pool, today) for pool in await address_pools(api)]))


async def _listable(api: Api, user: User, namespace: str, records: list[Records]) -> list[Records]:
    """Return the records of runs that the user may list."""
    namespaces = await readable_namespaces(api, user, namespace, {made.record.namespace for made, _ in records})
    return [item for item in records if namespaces is None or item[0].record.namespace in namespaces]


def _largest_first(records: list[Records], class_: str) -> list[tuple[Bytes, HourRecord]]:
    """Return the bytes of each subject that moved any, ordered by those with addresses of one class."""
    sums = [(amounts_between(made.record, earlier), made) for made, earlier in records]
    return sorted((row for row in sums if row[0]), key=lambda row: (-_moved(row[0], class_), row[1].key))


async def _points(
    history: History,
    query: TrafficHistoryParameters,
    records_of_subjects: list[Records],
    span: tuple[int, int, int],
) -> list[TrafficPoint]:
    since, until, seconds = span
    records: list[HourRecord] = []
    earlier: TrafficRecord | None = None
    if not query.name:
        records, earlier = await history.traffic_of("cluster", "", since, until)
    elif records_of_subjects:  # several runs may have had this name one after the other
        key = max((made for made, _ in records_of_subjects), key=lambda made: made.at).key
        records, earlier = await history.traffic_of(query.by, key, since, until)
    times = await history.traffic_recorded_at(since, until)
    return points_between(records, earlier, times, since, until, seconds)


def _forecast(pool: AddressPool, days_by_pool: Mapping[str, Sequence[DayUse]], today: int) -> AddressForecast:
    samples = [sample for sample in days_by_pool.get(pool.name, ()) if sample.day != today]
    highest = max([pool.used, *(sample.used for sample in days_by_pool.get(pool.name, ()) if sample.day == today)])
    samples.append(DayUse(today, highest))
    trend = exhaustion(samples, pool.capacity, today)
    return AddressForecast(
        kind=pool.kind,
        cidr=pool.cidr,
        cluster=pool.cluster,
        unit=pool.unit,
        used=pool.used,
        capacity=pool.capacity,
        state=trend.state,
        days_known=trend.days_known,
        per_day=round(trend.per_day, 3),
        at=_date(trend.day),
        earliest=_date(trend.earliest),
        latest=_date(trend.latest),
        history=[AddressDay(at=time_text(sample.day * DAY), used=sample.used) for sample in samples],
    )


def _date(day: float | None) -> str:
    return time_text(None if day is None else round(day * DAY))


def _name_of(made: HourRecord) -> str:
    return made.key if made.group != "run" else f"{made.record.namespace}/{made.record.run}"


def _row(made: HourRecord, amounts: Bytes) -> TrafficSumRow:
    record = made.record
    if made.group != "run":
        return TrafficSumRow(name=made.key, classes=_classes(amounts))
    return TrafficSumRow(
        name=record.run,
        classes=_classes(amounts),
        namespace=record.namespace,
        run_id=run_id(made.key),
        user=record.user,
    )


def _classes_at(point: TrafficPoint) -> list[ClassBytes] | None:
    return None if point.amounts is None else _classes(point.amounts)


def _classes(amounts: Bytes) -> list[ClassBytes]:
    names = sorted({kind.rpartition(".")[0] for kind in amounts})
    return [ClassBytes(name, amounts.get(f"{name}.in", 0), amounts.get(f"{name}.out", 0)) for name in names]


def _moved(amounts: Bytes, name: str) -> int:
    return amounts.get(f"{name}.in", 0) + amounts.get(f"{name}.out", 0)
