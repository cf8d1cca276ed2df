"""Routes about lost time: of one run, and of all runs of some days, by cause, team, owner or node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters, span_of, time_text
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.history.routes import readable_of
from kajitori.api.lookup import find_run_or_record, history_of
from kajitori.api.rendering.runs import phase_of
from kajitori.api.views.history import CauseView, CheckpointsView, RunTimeView, TimeOf, TimeReport, TimeSum
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.lost_time import closed_parts, left_out, lifetime, marks_of, open_parts
from kajitori.core.usage.daily import DAY, TimeAmount, TimedPart, TimeKey, TimeLevel, daily_times
from kajitori.core.usage.lost_time.checkpoints import checkpoints_of
from kajitori.core.usage.lost_time.run_time import RunTime, ratio_of, time_of_run
from kajitori.core.usage.lost_time.sentences import describe
from kajitori.core.usage.lost_time.slices import NO_CHECKPOINT, Category, Held, Mark, Slice, divide
from kajitori.errors import Forbidden, InvalidInput
from kajitori.history.lost_time import add_days

router = APIRouter(tags=["history"])

REPORT_SINCE = timedelta(days=30)
"""Beginning of a report that names none."""


class TimeBy(StrEnum):
    """Groupings of a report about time."""

    CAUSE = "cause"
    TEAM = "team"
    OWNER = "owner"
    NODE = "node"


class ReportParameters(Parameters):
    by: TimeBy = TimeBy.CAUSE
    """Grouping of the sums: cause, team (namespace), owner, or node of the member that failed."""
    since: str = Field(default="", max_length=40)
    """A time (RFC 3339) on the first day; 30 days ago if it is left out. Whole days (UTC) count."""
    until: str = Field(default="", max_length=40)
    """A time on the last day; now if it is left out."""
    namespace: str = Field(default="", max_length=253)
    """Only this namespace; else all that the caller may read."""
    owner: str = Field(default="", max_length=1024)
    """Only runs of this user; `@me` is the caller. Not for sums by node."""
    cluster: bool = False
    """All namespaces, or nothing: 403 if the caller may not list all runs. Needed for sums by node."""


@router.get(
    "/v1/runs/{namespace}/{name}/report", responses=describes(RunTimeView), summary="Where the time of a run went"
)
async def report_run(api: Shared, user: Caller, namespace: str, name: str) -> Response:
    """Every second of the run since its submission is in one category; the GPU-seconds are those of the usage ledger.
    Also of a removed run, by its name or UID."""
    run = await find_run_or_record(api, user, namespace, name)
    time, parts, marks = await time_of(api, run)
    checkpoints = checkpoints_of(parts, marks)
    can_save = any(held.saves_every != NO_CHECKPOINT for held in parts) or checkpoints.count > 0
    return answer(
        RunTimeView(
            run=run.metadata.name,
            namespace=run.metadata.namespace,
            phase=phase_of(run).value,
            since=time_text(time.since),
            until=time_text(time.until),
            ratio=time.ratio,
            while_held=time.while_held,
            categories=_categories(time),
            causes=[
                CauseView(
                    cause=cause, times=cost.times, gpu_seconds=cost.gpu_seconds, member_seconds=cost.member_seconds
                )
                for cause, cost in sorted(time.causes.items(), key=lambda item: -item[1].member_seconds)
            ],
            checkpoints=CheckpointsView(
                count=checkpoints.count,
                last_at=time_text(checkpoints.last),
                times=[time_text(time) for time in checkpoints.times],
                every_seconds=checkpoints.every_seconds,
                cost_seconds=checkpoints.cost_seconds,
                failures=checkpoints.failures,
                between_failures=checkpoints.between_failures,
                best_seconds=checkpoints.best_seconds,
            ),
            words=describe(time, checkpoints, can_save=can_save),
        )
    )


@router.get("/v1/report", responses=describes(TimeReport), summary="Where the time of nodes went, by cause")
async def report_cluster(api: Shared, user: Caller, query: Annotated[ReportParameters, Query()]) -> Response:
    """Sums only, without the names of runs. Runs that still have nodes count until now; what they do then is productive
    unless something is known of it."""
    history, now = history_of(api), int(api.now().timestamp())
    since, until = span_of(query.since, query.until, REPORT_SINCE, now)
    if query.owner and query.by is TimeBy.NODE:
        raise InvalidInput.one("owner", "is not known of nodes", value=query.owner, hint="leave out owner, or by")
    owner = user.name if query.owner == "@me" else query.owner
    names = await readable_of(api, user, query.namespace)
    if names is not None and (query.cluster or query.by is TimeBy.NODE):
        raise Forbidden(f"{user.name} may not list the runs of all namespaces", hint="ask for one namespace: -N TEAM")
    now_held = daily_times(await _held_now(api, names))

    async def sums_of(level: TimeLevel) -> dict[TimeKey, TimeAmount]:
        amounts = await history.times(level, since, until, names)
        add_days(amounts, now_held, level, since // DAY, until // DAY, names)
        return {key: amount for key, amount in amounts.items() if owner in ("", key.owner)}

    level = TimeLevel.OWNER if owner else _LEVELS.get(query.by, TimeLevel.TEAM)
    sums = await sums_of(level)
    total = _sum("", (sums if level is not TimeLevel.NODE else await sums_of(TimeLevel.TEAM)).items())
    items = _items(query.by, sums)
    return answer(
        TimeReport(
            by=query.by.value,
            since=time_text(since // DAY * DAY),
            until=time_text(until),
            ratio=_ratio(total),
            total=total,
            items=sorted(items, key=lambda item: (-item.gpu_seconds, -item.member_seconds, item.key)),
        )
    )


async def time_of(api: Api, run: RunObject) -> tuple[RunTime, list[Held], list[Mark]]:
    """Return where the time of a run went, and the parts and marks that this was made of."""
    now = api.now()
    parts, marks = await _parts_of(api, run)
    since, until = lifetime(run, now)
    since = min([since, *(held.since for held in parts if not held.loose_seconds)])  # clocks of two machines
    rested = run.status.rested_seconds if run.status is not None else 0
    return time_of_run([(held, divide(held, marks)) for held in parts], since, until, rested=rested), parts, marks


async def _parts_of(api: Api, run: RunObject) -> tuple[list[Held], list[Mark]]:
    """Return the parts of a run's time that are known from its status and from history."""
    status, history = run.current_status, api.stores.history
    segments, from_status = closed_parts(status), marks_of(status, api.now())
    if history is None:
        return [*segments.values(), *left_out(status), *open_parts(status, api.now())], [*from_status]
    recorded, marks = await history.time_of_run(run.metadata.uid)
    return [*(segments | recorded).values(), *open_parts(status, api.now())], [*marks, *from_status]


async def _held_now(api: Api, names: frozenset[str] | None) -> list[tuple[TimedPart, list[Slice]]]:
    """Return the time of members that hold nodes, divided."""
    now, holding = api.now(), []
    for run in api.mirror.runs.values():
        parts = open_parts(run.status, now) if run.status is not None else []
        if parts and (names is None or run.metadata.namespace in names):
            holding.append((run, parts))
    marks = await history_of(api).marks([run.metadata.uid for run, _ in holding])
    return [
        (
            TimedPart(namespace=run.metadata.namespace, owner=run.owner, held=held),
            divide(held, [*marks.get(run.metadata.uid, ()), *marks_of(run.current_status, now)]),
        )
        for run, parts in holding
        for held in parts
    ]


_LEVELS = {TimeBy.OWNER: TimeLevel.OWNER, TimeBy.NODE: TimeLevel.NODE}


def _items(by: TimeBy, sums: Mapping[TimeKey, TimeAmount]) -> list[TimeSum]:
    """Return the sums by cause, team, owner or node."""
    grouped: dict[str, list[tuple[TimeKey, TimeAmount]]] = {}
    for key, amount in sums.items():
        if by is TimeBy.CAUSE:
            if key.cause:
                grouped.setdefault(key.cause, []).append((key, amount))
            continue
        names = {TimeBy.TEAM: key.namespace, TimeBy.OWNER: f"{key.namespace}/{key.owner}"}
        grouped.setdefault(names.get(by, key.owner), []).append((key, amount))
    return [_sum(name, group) for name, group in grouped.items()]


def _sum(name: str, amounts: Iterable[tuple[TimeKey, TimeAmount]]) -> TimeSum:
    whole, parts = TimeAmount(), dict[str, TimeAmount]()
    for key, amount in amounts:
        for target in (whole, parts.setdefault(key.category, TimeAmount())):
            target.add(amount.gpu_seconds, amount.member_seconds, amount.times)
    return TimeSum(
        key=name,
        times=whole.times,
        gpu_seconds=whole.gpu_seconds,
        member_seconds=whole.member_seconds,
        categories=[
            TimeOf(
                category=category.value,
                meaning=category.meaning,
                seconds=0,
                gpu_seconds=parts[category].gpu_seconds,
                member_seconds=parts[category].member_seconds,
            )
            for category in Category
            if category in parts and parts[category].member_seconds
        ],
    )


def _ratio(total: TimeSum) -> float | None:
    """Return the productive share of GPU-seconds, or of the time of members if no run had GPUs."""
    name = "gpu_seconds" if total.gpu_seconds else "member_seconds"
    return ratio_of({Category(each.category): getattr(each, name) for each in total.categories})


def _categories(time: RunTime) -> list[TimeOf]:
    return [
        TimeOf(
            category=category.value,
            meaning=category.meaning,
            seconds=time.seconds.get(category, 0),
            gpu_seconds=time.gpu_seconds.get(category, 0),
            member_seconds=time.member_seconds.get(category, 0),
        )
        for category in Category
    ]
