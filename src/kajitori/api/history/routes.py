"""Routes for runs of all times, usage, and the audit trail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import (
    PageParameters,
    Parameters,
    decode_token,
    encode_token,
    seconds_of,
    span_of,
    time_text,
    words_of,
)
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.history.search import place_of, search_runs
from kajitori.api.lookup import history_of, recorded_run
from kajitori.api.rendering.runs import run_view
from kajitori.api.rights import User
from kajitori.api.runs.routes import readable_namespaces
from kajitori.api.views.history import (
    AuditAnswer,
    AuditRow,
    RecordedAttempt,
    RecordedRun,
    RecordedRuns,
    RecordedRunView,
    UsageAnswer,
    UsageRow,
)
from kajitori.api.views.runs import RunView
from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.node_lists import expand
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.reasons import Phase
from kajitori.core.usage.ledger import members_of, nodes_of
from kajitori.core.usage.over_time import named_shares, names_of
from kajitori.core.usage.records import RunRecord
from kajitori.core.usage.sums import GIB, By, MemberTime, UsageSum, add_up
from kajitori.errors import InvalidInput
from kajitori.history.audit import AuditFilter
from kajitori.history.runs import RunFilter
from kajitori.kube.decoding import decode

router = APIRouter(tags=["history"])

USAGE_SINCE = timedelta(days=30)
"""Beginning of a sum of usage that names none."""
MAX_USAGE_ROWS = 1_000_000
MAX_HOURS_SPAN = timedelta(days=32)
"""Longest time for which usage is counted by hour."""


class HistoryParameters(PageParameters):
    namespace: str = Field(default="", max_length=253)
    """Only this namespace; else all that the caller may read."""
    owner: str = Field(default="", max_length=1024)
    """Only runs that this user submitted; `@me` is the caller."""
    phase: list[Phase] = Field(default_factory=list, max_length=16)
    """Only runs whose last phase was one of these."""
    name: str = Field(default="", max_length=253)
    """Only runs whose names begin with it."""
    since: str = Field(default="", max_length=40)
    """Only runs that were created at this time (RFC 3339) or later."""
    until: str = Field(default="", max_length=40)
    """Only runs that were created before this time."""
    search: str = Field(default="", max_length=1024)
    """Only runs with each of these words in their name, namespace, owner, image, labels or note, in upper or lower
    case. One answer looks through at most 2,000 runs, so it may have fewer runs than `limit` and still `continue`."""
    details: bool = False
    """Also each run's last spec and status, as the list of runs shows them."""


class UsageParameters(Parameters):
    by: By = By.TEAM
    """Grouping of the sums: team (namespace), owner, type (of GPU), run, node, day or hour. Days and hours are those of
    UTC."""
    since: str = Field(default="", max_length=40)
    """Beginning (RFC 3339); 30 days before the end if it is left out."""
    until: str = Field(default="", max_length=40)
    """End; now if it is left out."""
    namespace: str = Field(default="", max_length=253)
    """Only this namespace; else all that the caller may read."""
    owner: str = Field(default="", max_length=1024)
    """Only runs of this user; `@me` is the caller."""
    limit: int | None = Field(default=None, ge=1, le=MAX_USAGE_ROWS)
    """Only this many of the largest, or of the newest days or hours; all if it is left out. The total is that of
    all."""


class AuditParameters(PageParameters):
    namespace: str = Field(default="", max_length=253)
    """Only this namespace. Default: all whose runs the caller may list; callers who may list all runs also see changes
    to the cluster."""
    actor: str = Field(default="", max_length=1024)
    """Only changes by this user; `@me` is the caller."""
    object: str = Field(default="", max_length=300)
    """Only changes of this object, for example `run bert`; `bert` stands for objects of any kind."""
    outcome: str = Field(default="", pattern="^(done|refused|failed)?$")
    """done, refused or failed."""
    since: str = Field(default="", max_length=40)
    """Only changes at this time (RFC 3339) or later."""
    until: str = Field(default="", max_length=40)
    """Only changes before this time."""


@router.get("/v1/history", responses=describes(RecordedRuns), summary="List runs of all times, newest first")
async def list_history(api: Shared, user: Caller, query: Annotated[HistoryParameters, Query()]) -> Response:
    """Also runs that are removed. A user who may list the runs of a namespace may list its history."""
    history = history_of(api)
    wanted = RunFilter(
        namespaces=await readable_of(api, user, query.namespace),
        owner=user.name if query.owner == "@me" else query.owner,
        phases=tuple(phase.value for phase in query.phase),
        name=query.name,
        since=seconds_of("since", query.since),
        until=seconds_of("until", query.until),
    )
    after = decode_token(query.continue_, tuple[int, str]) if query.continue_ else None
    if words := words_of(query.search):
        page, last = await search_runs(history, wanted, words, query.limit, after)
    else:
        records = await history.runs(wanted, query.limit + 1, after)
        page = records[: query.limit]
        last = place_of(page[-1]) if len(records) > len(page) else None
    following = encode_token(last) if last is not None else None
    documents = await history.documents([run.uid for run in page]) if query.details else {}
    items = await asyncio.to_thread(lambda: [_recorded(run, documents.get(run.uid)) for run in page])
    return answer(RecordedRuns(items=items, continue_=following))


@router.get(
    "/v1/history/{namespace}/{name}", responses=describes(RecordedRunView), summary="One run, also a removed one"
)
async def get_history(api: Shared, user: Caller, namespace: str, name: str) -> Response:
    """`name` is the run's name, for the newest run of that name, or its UID."""
    await user.require("get", namespace, name)
    record, run = await recorded_run(api, namespace, name)
    view = _view(run)
    attempts = [
        RecordedAttempt(**{field: getattr(past, field) for field in RecordedAttempt.__struct_fields__})
        for past in await history_of(api).attempts(run.metadata.uid)
    ]
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return answer(RecordedRunView(**fields, removed_at=time_text(record.removed_at), attempts=attempts))


@router.get("/v1/usage", responses=describes(UsageAnswer), summary="Usage by team, owner, run, node or day")
async def show_usage(api: Shared, user: Caller, query: Annotated[UsageParameters, Query()]) -> Response:
    """Counts to the second how long members had their nodes. Runs that still have nodes count until now. If history
    keeps only daily sums of the first or last day, the whole day counts; the answer contains the times that were
    used. By run, all but the 10,000 largest runs share the key `(others)` if there are more than 100,000 segments. By
    day or hour, every day or hour of the time has an item, in their order; hours of at most 32 days are counted."""
    history, policy, now = history_of(api), api.cluster.policy.prices, int(api.now().timestamp())
    since, until = await history.countable(*span_of(query.since, query.until, USAGE_SINCE, now))
    if query.by is By.HOUR and until - since > MAX_HOURS_SPAN.total_seconds():
        message = f"hours of more than {MAX_HOURS_SPAN.days} days are not counted"
        raise InvalidInput.one("by", message, value=query.by.value, hint="choose a shorter time, or by=day")
    readable = await readable_of(api, user, query.namespace)
    owner = user.name if query.owner == "@me" else query.owner
    sums = await sums_of(api, query.by, since, until, readable=readable, owner=owner)
    order = _ordered(query.by, sums, since, until)
    total = UsageSum()
    for _, used in order:
        total.add(used)
    shown = order[-(query.limit or len(order)) :] if query.by.is_time else order[: query.limit]
    return answer(
        UsageAnswer(
            by=query.by.value,
            since=time_text(since),
            until=time_text(until),
            currency=policy.currency if not policy.prices.is_free else "",
            items=[_row(key, used) for key, used in shown],
            count=len(order),
            total=_row("", total),
        )
    )


def _ordered(by: By, sums: dict[str, UsageSum], since: int, until: int) -> list[tuple[str, UsageSum]]:
    """Return the sums in the order of the answer. Days and hours without usage have a sum of 0."""
    if not by.is_time:
        return sorted(sums.items(), key=lambda item: (-item[1].gpu_seconds, -item[1].cpu_milli_seconds, item[0]))
    names = names_of(by, since, until)
    others = [key for key in sums if key not in set(names)]
    return [(name, sums.get(name, UsageSum())) for name in [*others, *names]]


async def sums_of(
    api: Api, by: By, since: int, until: int, *, readable: frozenset[str] | None = None, owner: str = ""
) -> dict[str, UsageSum]:
    """Return what runs of these namespaces (None: of all) and of this owner (empty: of all) used between two times,
    which have to be `countable`. Runs that still have nodes count until `until`."""
    prices = api.cluster.policy.prices.prices
    sums = await history_of(api).usage(by, since, until, prices, namespaces=readable, owner=owner)
    held = (
        part
        for run in api.mirror.runs.values()
        if (readable is None or run.metadata.namespace in readable) and owner in ("", run.owner)
        for part in _held(run, by, since, until)
    )
    return add_up(held, prices, sums)


@router.get("/v1/audit", responses=describes(AuditAnswer), summary="The audit trail, newest entry first")
async def list_audit(api: Shared, user: Caller, query: Annotated[AuditParameters, Query()]) -> Response:
    """Changes through this API and decisions of the controller, also refused ones. A user who may list the runs of a
    namespace sees what was changed there."""
    history = history_of(api)
    since, until = seconds_of("since", query.since), seconds_of("until", query.until)
    readable = await readable_of(api, user, query.namespace)
    wanted = AuditFilter(
        namespaces=readable,
        actor=user.name if query.actor == "@me" else query.actor,
        object=query.object,
        outcome=query.outcome,
        since=since * 1000 if since is not None else None,
        until=until * 1000 if until is not None else None,
    )
    after = decode_token(query.continue_, tuple[int, int]) if query.continue_ else None
    entries = await history.audit(wanted, query.limit + 1, after)
    page = entries[: query.limit]
    rows = [
        AuditRow(
            at=time_text(entry.at // 1000),
            **{name: getattr(entry, name) for name in AuditRow.__struct_fields__ if name != "at"},
        )
        for _, entry in page
    ]
    following = encode_token((page[-1][1].at, page[-1][0])) if len(entries) > len(page) else None
    namespaces = sorted(readable) if readable is not None else None
    return answer(AuditAnswer(items=rows, namespaces=namespaces, continue_=following))


async def readable_of(api: Api, user: User, namespace: str) -> frozenset[str] | None:
    """Return the namespaces whose history the caller may list; None means all. The API server decides."""
    others = () if namespace else await history_of(api).namespaces()
    return await readable_namespaces(api, user, namespace, others)


def _held(run: RunObject, by: By, since: int, until: int) -> Iterator[MemberTime]:
    """Yield the resources that a run holds now, for the part of its time between two times."""
    status, meta = run.status, run.metadata
    for part in status.usage.open if status is not None and status.usage is not None else ():
        start = parse_time(part.since)
        seconds = until - max(since, int(start.timestamp())) if start is not None else 0
        amounts = part.gpu_type, part.gpus, part.cpu_millis, part.memory_bytes
        if seconds <= 0 or status is None:
            continue
        if by is By.NODE:
            for node in expand(nodes_of(part, status.attempt)):
                yield MemberTime(node, *amounts, seconds)
            continue
        if by.is_time:
            for name, share in named_shares(by, until - seconds, until):
                yield MemberTime(name, *amounts, share * members_of(part))
            continue
        keys = {By.TEAM: meta.namespace, By.OWNER: run.owner, By.TYPE: part.gpu_type}
        key = keys.get(by, f"{meta.namespace}/{meta.name}/{meta.uid}")
        yield MemberTime(key, *amounts, seconds * members_of(part))


def _recorded(run: RunRecord, document: bytes | None) -> RecordedRun:
    fields: dict[str, Any] = {name: getattr(run, name) for name in RecordedRun.__struct_fields__ if name != "run"}
    times = ("created_at", "started_at", "ended_at", "removed_at")
    view = _view(decode(document, RunObject)) if document is not None else None
    return RecordedRun(**fields | {name: time_text(fields[name]) for name in times}, run=view)


def _view(run: RunObject) -> RunView:
    attempt = run.status.attempt if run.status is not None else None
    return run_view(run, attempt.nodes if attempt is not None else "")


def _row(key: str, used: UsageSum) -> UsageRow:
    return UsageRow(
        key=key,
        gpu_seconds=used.gpu_seconds,
        core_seconds=used.cpu_milli_seconds / 1000,
        memory_gib_seconds=used.byte_seconds / GIB,
        member_seconds=used.member_seconds,
        cost=round(used.cost, 6),
    )
