"""Routes for the queue: the waiting runs in order, pages that the server filters, and a stream of changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, get_args

import msgspec
from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.packed import packed_answer
from kajitori.api.answers.paging import (
    SUMMARY,
    Parameters,
    Place,
    ShortName,
    SinceParameters,
    TableParameters,
    UserName,
    narrowed,
    page_of,
    place_after,
    words_of,
)
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes, describes_table
from kajitori.api.lookup import require_definition
from kajitori.api.queue.dependents import earliest_starts
from kajitori.api.queue.routes import LONGEST_SECONDS, queue_of
from kajitori.api.rights import User
from kajitori.api.streams.answers import SERVER_SENT_EVENTS
from kajitori.api.streams.live_rows import stream_of
from kajitori.api.streams.queue_rows import Outcome, QueueFilter, QueueRow, row_of
from kajitori.api.views.queue import DependentView, QueueChanges, QueuedView, QueueTable, QueueTableRow, QueueView
from kajitori.cluster.occupancy.entries import RunOccupancy
from kajitori.core.formats.node_lists import compress_set, expand
from kajitori.core.formats.times import format_time, parse_time, time_at
from kajitori.core.queue.expected import Source, endless
from kajitori.core.spec.reading.stored import StoredSpec
from kajitori.core.spec.reasons import Reason

router = APIRouter(tags=["cluster"])

ALL_RUNS = 1_000_000
"""Default of `limit`: more runs than a queue can have."""
ROUNDED_SECONDS = 30
"""Expected times are rounded up to multiples of this, so that a stream does not report a change each second."""

# fmt: off
QueueField = Literal[
    "name", "namespace", "owner", "phase", "reason", "priority", "members", "mostMembers", "gpus", "gpuType", "place",
    "behind", "kept", "expectedAt",
]
QueueSort = Literal[
    "place", "name", "namespace", "owner", "gpus", "members", "priority", "queuedAt", "startsAt", "endsAt",
    "-place", "-name", "-namespace", "-owner", "-gpus", "-members", "-priority", "-queuedAt", "-startsAt", "-endsAt",
]
# fmt: on

_SORT_KEYS: dict[str, Callable[[QueueTableRow], str]] = {
    "place": lambda run: f"{run.position:09d}",
    "name": lambda run: run.name,
    "namespace": lambda run: run.namespace,
    "owner": lambda run: run.owner,
    "gpus": lambda run: f"{run.gpus:012d}",
    "members": lambda run: f"{run.members:012d}",
    "priority": lambda run: f"{run.priority + 2**31:012d}",
    "queuedAt": lambda run: run.queued_at,
    "startsAt": lambda run: run.starts_at or "~",
    "endsAt": lambda run: run.ends_at or "~",
}


class QueueFilterParameters(Parameters):
    state: list[Literal["waiting", "running", "dependent"]] = Field(default_factory=list, max_length=3)
    """waiting (also if left out): runs that wait for nodes. running: runs that have nodes. dependent: runs that wait
    for other runs. The last two are only in tables."""
    namespace: list[ShortName] = Field(default_factory=list, max_length=64)
    """Only runs of these namespaces."""
    owner: list[UserName] = Field(default_factory=list, max_length=64)
    """Only runs that these users submitted; `@me` is the caller."""
    gpu_type: list[ShortName] = Field(default_factory=list, max_length=64)
    """Only runs with GPUs of one of these types, or that wait for them; an empty text stands for any type or none."""
    search: str = Field(default="", max_length=1024)
    """Only runs with each of these words in their name, namespace, owner, GPU type, reason or nodes, in upper or lower
    case."""

    def filter(self, user: User) -> QueueFilter:
        """Return the filter that these parameters ask for. Raises InvalidInput."""
        return QueueFilter(
            states=frozenset(self.state or ("waiting",)),
            namespaces=frozenset(filter(None, self.namespace)),
            owners=frozenset(user.name if owner == "@me" else owner for owner in self.owner if owner),
            gpu_types=frozenset(self.gpu_type),
            words=frozenset(words_of(self.search)),
        )


class QueueListParameters(TableParameters, QueueFilterParameters):
    limit: int = Field(default=ALL_RUNS, ge=1, le=ALL_RUNS)
    """Largest number of runs in one answer."""
    sort: QueueSort | None = None
    """Order of the list; a dash turns it around. Left out: the order of the queue."""
    fields: list[QueueField | Literal["summary"]] = Field(default_factory=list, max_length=32)
    """Only these fields of each run. `summary` alone answers a QueueTable: what a table or a timeline shows."""


class QueueChangesParameters(SinceParameters, QueueFilterParameters):
    pass


@router.get(
    "/v1/queue",
    responses=describes_table(QueueView, QueueTable, tagged=True),
    summary="List the waiting runs, in the order of the queue",
)
async def show_queue(
    api: Shared, user: Caller, request: Request, query: Annotated[QueueListParameters, Query()]
) -> Response:
    """Everybody sees all of them, each with the numbers behind its place; all runs unless `limit` is given. A table
    (`fields=summary`) is compressed and has an ETag."""
    require_definition(api)
    if not query.model_fields_set:
        body = await api.remembered.ask("queue", lambda: _body(api), longest_seconds=LONGEST_SECONDS)
        return Response(body, media_type="application/json")
    after, row_filter, rows = place_after(query, get_args(QueueSort)), query.filter(user), api.tables.queue
    await rows.update(partial(outcome, api))
    assert rows.view is not None, "an update sets it"
    covered = [row for row in rows.rows() if row_filter.covers(row)]
    page, following = _page(query, [row for row in covered if row_filter.matches(row)], after)
    more = {"continue": following} if following else {}
    if SUMMARY in query.fields:
        version = rows.token(row_filter)
        shown: dict[str, Any] = {
            "items": [msgspec.Raw(row.json) for row in page],
            "counts": row_filter.counts(Counter(row.state for row in covered)),
            "controller": rows.view.controller,
            "version": version,
        }
        tag = f"{version} {msgspec.json.encode(rows.view.controller)!r}"
        return await packed_answer(request, tag, rows.answers, lambda: msgspec.json.encode(shown | more))
    views = {(view.namespace, view.name): view for view in rows.view.items}
    keys = ((row.summary.namespace, row.summary.name) for row in page)
    items = [narrowed(msgspec.Raw(msgspec.json.encode(views[key])), query.fields) for key in keys if key in views]
    head = {"order": rows.view.order, "formula": rows.view.formula, "controller": rows.view.controller}
    return answer(head | {"items": items} | more)


@router.get(
    "/v1/queue/changes",
    responses=describes(QueueChanges, media_type=SERVER_SENT_EVENTS),
    summary="Stream changes to the queue",
)
async def watch_queue(
    api: Shared,
    user: Caller,
    query: Annotated[QueueChangesParameters, Query()],
    last_event_id: Annotated[str, Header(max_length=256)] = "",
) -> Response:
    """Server-sent events: `snapshot` (a QueueSnapshot), `changes` (QueueChanges) and `heartbeat`, as of
    `GET /v1/runs/changes`. The longer it takes to work out the expected times, the rarer are the changes."""
    require_definition(api)
    rows, token = api.tables.queue, last_event_id or query.since
    kept = rows.kept_current(partial(outcome, api))
    chunks = stream_of(rows, query.filter(user), token, items=query.items, within=kept)
    return api.streams.stream(chunks, kind="queue", media_type=SERVER_SENT_EVENTS)


async def _body(api: Api) -> bytes:
    return msgspec.json.encode(await queue_of(api))


def _page(query: QueueListParameters, rows: list[QueueRow], after: Place | None) -> tuple[list[QueueRow], str]:
    sort = query.sort or ""
    key = _SORT_KEYS[sort.removeprefix("-") or "place"]

    def place_of(row: QueueRow) -> Place:
        return sort, key(row.summary), row.summary.namespace, row.summary.name

    return page_of(rows, place_of, query, after, descending=sort.startswith("-"))


async def outcome(api: Api) -> Outcome:
    """Return the queue, and all waiting and running runs with their expected times."""
    require_definition(api)
    view = await queue_of(api)
    waiting = [row_of(_waiting(api, run)) for run in view.items]
    named = {(row.summary.namespace, row.summary.name) for row in waiting}
    running = (_running(api, held) for held in api.cluster.occupancy.runs())
    rows = [row_of(row) for row in running if row is not None and (row.namespace, row.name) not in named]
    all_rows = [*waiting, *rows]
    ends = {(row.summary.namespace, row.summary.name): parse_time(row.summary.ends_at) for row in all_rows}
    known_ends = {key: at.timestamp() for key, at in ends.items() if at is not None}
    starts = earliest_starts(api, view.dependents, known_ends)
    dependents = (_dependent(api, run, starts.get((run.namespace, run.name), math.inf)) for run in view.dependents)
    return Outcome(view, [*all_rows, *map(row_of, dependents)])


def _dependent(api: Api, dependent: DependentView, starts_at: float) -> QueueTableRow:
    run = api.mirror.runs.get((dependent.namespace, dependent.name))
    spec = api.cluster.specs.of(run) if run is not None else StoredSpec()
    return QueueTableRow(
        namespace=dependent.namespace,
        name=dependent.name,
        uid=run.metadata.uid if run is not None else "",
        owner=dependent.owner,
        state="dependent",
        reason=Reason.WAITING_FOR_RUN.value,
        position=0,
        priority=0,
        members=spec.members,
        gpus=spec.gpus * spec.members,
        gpu_type=spec.gpu_type,
        nodes="",
        queued_at=run.current_status.queued_at if run is not None else "",
        starts_at=_rounded(starts_at),
        ends_at="",
        ends_at_earliest="",
        expected_seconds=0,
        sure=False,
        behind=[],
        after=dependent.after,
    )


def _waiting(api: Api, run: QueuedView) -> QueueTableRow:
    stored = api.mirror.runs.get((run.namespace, run.name))
    expected_at = parse_time(run.expected_at) if isinstance(run.expected_at, str) else None
    starts_at = expected_at.timestamp() if expected_at is not None else math.inf
    place, reserved = run.place, run.kept.nodes if isinstance(run.kept, msgspec.Struct) else ""
    has_end = place.expected_from != "endless"
    sure = has_end and place.expected_sure
    return QueueTableRow(
        namespace=run.namespace,
        name=run.name,
        uid=stored.metadata.uid if stored is not None else "",
        owner=run.owner,
        state="waiting",
        reason=run.reason,
        position=place.position,
        priority=run.priority,
        members=run.members,
        gpus=run.gpus,
        gpu_type=run.gpu_type or (_type_of(api, reserved) if run.gpus else ""),
        nodes=reserved,
        queued_at=stored.status.queued_at if stored is not None and stored.status is not None else "",
        starts_at=_rounded(starts_at),
        ends_at=_rounded(starts_at + place.expected_seconds) if sure else "",
        ends_at_earliest=_rounded(starts_at + place.shortest_seconds) if sure and place.shortest_seconds else "",
        expected_seconds=place.expected_seconds if has_end else 0,
        sure=sure,
        behind=run.behind,
    )


def _type_of(api: Api, nodes: str) -> str:
    """Return the GPU type of the first node of a compact list."""
    table = api.cluster.table()
    first = next(iter(expand(nodes)), "") if nodes else ""
    return table.nodes[table.index[first]].gpu_type if first in table.index else ""


def _running(api: Api, held: RunOccupancy) -> QueueTableRow | None:
    """Return the row of a run that has nodes; None if it has none now."""
    run, table, now = held.run, api.cluster.table(), api.now().timestamp()
    if held.since is not None:
        rows = held.rows.tolist()
        more = api.queue.outlook.past.expect_more(run, held.since, now)
        starts_at = format_time(time_at(held.since))
    else:  # a service, or a gang that is still starting
        rows, more = [table.index[pod.spec.node_name] for pod in held.bound], endless()
        starts_at = run.status.started_at if run.status is not None else ""
    if not rows or held.plan is None:
        return None
    nodes = [table.nodes[row] for row in dict.fromkeys(rows)]
    has_end = more.source is not Source.ENDLESS
    is_sure = has_end and more.sure
    whole = now + more.seconds - (held.since or now)
    return QueueTableRow(
        namespace=run.metadata.namespace,
        name=run.metadata.name,
        uid=run.metadata.uid,
        owner=run.owner,
        state="running",
        reason="",
        position=0,
        priority=0,
        members=len(rows),
        gpus=held.member.gpus * len(rows),
        gpu_type=held.member.gpu_type or (nodes[0].gpu_type if held.member.gpus else ""),
        nodes=compress_set(node.name for node in nodes),
        queued_at=run.status.queued_at if run.status is not None else "",
        starts_at=starts_at,
        ends_at=_rounded(now + more.seconds) if is_sure else "",
        ends_at_earliest=_rounded(now + more.shortest) if is_sure and more.shortest else "",
        expected_seconds=math.ceil(whole / ROUNDED_SECONDS) * ROUNDED_SECONDS if has_end else 0,
        sure=is_sure,
        behind=[],
    )


def _rounded(seconds: float) -> str:
    """Return a time as text, rounded up; empty if it is infinite."""
    if not math.isfinite(seconds):
        return ""
    return format_time(time_at(math.ceil(seconds / ROUNDED_SECONDS) * ROUNDED_SECONDS))
