"""Routes for lists of runs: pages that the server filters and sorts, and a stream of their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, nullcontext
from functools import partial
from typing import Annotated, Any, Literal, get_args

import msgspec
from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import (
    SUMMARY,
    Parameters,
    Place,
    ShortName,
    SinceParameters,
    TableParameters,
    UserName,
    labels_of,
    narrowed,
    page_of,
    place_after,
    words_of,
)
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes, describes_table
from kajitori.api.lookup import require_definition
from kajitori.api.queue.lists import outcome
from kajitori.api.rights import User
from kajitori.api.runs.routes import readable_namespaces
from kajitori.api.streams.answers import SERVER_SENT_EVENTS, Chunks
from kajitori.api.streams.live_rows import OPENING
from kajitori.api.streams.run_rows import RunFilter, RunRow, RunRows
from kajitori.api.views.runs import RunChanges, RunList, RunTable, RunTableRow
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import InvalidInput

router = APIRouter(tags=["runs"])

RunField = Literal["name", "namespace", "uid", "owner", "labels", "createdAt", "spec", "status", "nodes", "deleting"]
# fmt: off
RunSort = Literal[
    "name", "namespace", "owner", "phase", "reason", "gpus", "members", "restarts",
    "createdAt", "queuedAt", "startsAt", "startedAt", "finishedAt",
    "-name", "-namespace", "-owner", "-phase", "-reason", "-gpus", "-members", "-restarts",
    "-createdAt", "-queuedAt", "-startsAt", "-startedAt", "-finishedAt",
]
# fmt: on

_PHASES = {phase: f"{place}" for place, phase in enumerate(Phase)}

_STARTS = ("startsAt", "-startsAt")

_SORT_KEYS: dict[str, Callable[[RunTableRow], str]] = {
    "name": lambda run: run.name,
    "namespace": lambda run: run.namespace,
    "owner": lambda run: run.owner,
    "phase": lambda run: _PHASES[run.phase],
    "reason": lambda run: run.reason,
    "gpus": lambda run: f"{run.gpus:012d}",
    "members": lambda run: f"{run.members.total:012d}",
    "restarts": lambda run: f"{run.restarts:012d}",
    "createdAt": lambda run: run.created_at,
    "queuedAt": lambda run: run.queued_at,
    "startedAt": lambda run: run.started_at,
    "finishedAt": lambda run: run.finished_at,
    "startsAt": lambda run: run.starts_at or "~",
    "-startsAt": lambda run: run.starts_at or "",
}
"""Sort keys by the name of the order. Runs without a value come last if the order also has an entry with a dash."""


class FilterParameters(Parameters):
    namespace: list[ShortName] = Field(default_factory=list, max_length=64)
    """Only these namespaces; else all that the caller may read."""
    team: list[ShortName] = Field(default_factory=list, max_length=64)
    """Only namespaces of these teams of the policy, as far as the caller may read them."""
    owner: list[UserName] = Field(default_factory=list, max_length=64)
    """Only runs that these users submitted; `@me` is the caller."""
    uid: list[ShortName] = Field(default_factory=list, max_length=64)
    """Only runs with these UIDs."""
    phase: list[Phase] = Field(default_factory=list, max_length=16)
    """Only runs in one of these phases."""
    active: bool = False
    """Only runs that have not ended."""
    sweep: bool = False
    """Only sweeps."""
    notebook: bool = False
    """Only notebooks."""
    label_selector: str = Field(default="", max_length=4096)
    """Label selector such as `team=vision,stage in (train,tune)`."""
    search: str = Field(default="", max_length=1024)
    """Only runs with each of these words in their name, namespace, owner, image, labels or note, in upper or lower
    case."""
    starts: bool = False
    """Rows of a table with `startsAt`, the expected start of a waiting run. It is worked out for the whole queue,
    and may be ten seconds old."""


class ListParameters(TableParameters, FilterParameters):
    name: ShortName = ""
    """The run with this name, or runs whose names begin with it if there is none."""
    sort: RunSort | None = None
    """Order of the list; a dash turns it around, and namespace and name decide among equals. Phases are in the order of
    a run's life. By `startsAt`, waiting runs come in the order of their expected starts; runs without one come last in
    both directions. A run whose expected start changes between two pages may be missed or shown twice. Left out: newest
    first, in the order of submission."""
    fields: list[RunField | Literal["summary"]] = Field(default_factory=list, max_length=16)
    """Only these fields of each run. `summary` alone answers a RunTable: what a table of runs shows."""


class ChangesParameters(SinceParameters, FilterParameters):
    pass


@router.get("/v1/runs", responses=describes_table(RunList, RunTable), summary="List runs, newest first")
async def list_runs(api: Shared, user: Caller, query: Annotated[ListParameters, Query()]) -> Response:
    """Pages by `continue` stay consistent while runs come and go: none is shown twice, and none that stays is missed.
    `counts` tells how many runs match."""
    after = place_after(query, get_args(RunSort))
    run_filter = await filter_of(api, user, query)
    if query.starts or query.sort in _STARTS:
        await api.tables.queue.update(partial(outcome, api))
        rows = api.runs.rows_with_starts
    else:
        rows = api.runs.rows
    covered = [row for row in rows.rows() if row.summary.name.startswith(query.name) and run_filter.covers(row)]
    matching = [row for row in covered if run_filter.allows(row.summary.phase)]
    if query.name:
        exact = [row for row in matching if row.summary.name == query.name]
        matching = covered = exact if len(exact) == 1 else matching
    descending = query.sort is None or query.sort.startswith("-")
    page, following = page_of(matching, _place_of(query), query, after, descending=descending)
    counts = run_filter.counts(Counter(row.summary.phase for row in covered))
    document: dict[str, Any] = {"items": [], "counts": counts} | ({"continue": following} if following else {})
    if SUMMARY in query.fields:
        document["items"] = [msgspec.Raw(row.json) for row in page]
        return answer(document | {"version": rows.token(run_filter)})
    document["items"] = [narrowed(api.runs.renderer.render(row.run), query.fields) for row in page]
    return answer(document)


@router.get(
    "/v1/runs/changes",
    responses=describes(RunChanges, media_type=SERVER_SENT_EVENTS),
    summary="Stream changes to a list of runs",
)
async def watch_runs(
    api: Shared,
    user: Caller,
    query: Annotated[ChangesParameters, Query()],
    last_event_id: Annotated[str, Header(max_length=256)] = "",
) -> Response:
    """Server-sent events: `snapshot` (a RunSnapshot) and `changes` (RunChanges), at most one a second. The
    stream begins with a snapshot, or with the changes since `Last-Event-ID` or `since`. A client that is too far behind
    gets a snapshot again. `heartbeat` keeps the connection open and tells that it lives: a
    client that hears nothing for 40 s should connect again."""
    namespaces = frozenset(_rows(api, query).namespaces)
    run_filter = await filter_of(api, user, query)
    chunks = _changes(api, user, query, run_filter, namespaces, last_event_id or query.since)
    return api.streams.stream(chunks, kind="runs", media_type=SERVER_SENT_EVENTS)


async def _changes(
    api: Api, user: User, query: ChangesParameters, run_filter: RunFilter, namespaces: frozenset[str], token: str
) -> Chunks:
    """Yield the events. `namespaces` are the namespaces with runs before the caller's rights were asked for."""
    yield OPENING
    rows = _rows(api, query)
    async with api.tables.queue.kept_current(partial(outcome, api)) if query.starts else nullcontext():
        while True:
            with rows.selecting(run_filter) as selection:
                is_current = partial(_is_current, rows, run_filter, namespaces)
                async with aclosing(rows.follow(selection, token, items=query.items, goes_on=is_current)) as pieces:
                    async for at, piece in pieces:
                        yield piece
                        token = at
            namespaces = frozenset(rows.namespaces)
            run_filter = await filter_of(api, user, query)  # the caller may be allowed to read a namespace that is new


def _rows(api: Api, query: FilterParameters) -> RunRows:
    return api.runs.rows_with_starts if query.starts else api.runs.rows


def _is_current(rows: RunRows, run_filter: RunFilter, namespaces: frozenset[str]) -> bool:
    """Whether the filter has all namespaces that the caller may read and that have runs."""
    return run_filter.namespaces is None or rows.namespaces.keys() <= namespaces


async def filter_of(api: Api, user: User, query: FilterParameters) -> RunFilter:
    """Return the filter of a request, with only those namespaces that the caller may read.

    Raises Forbidden if it names a namespace that the caller may not read, and InvalidInput.
    """
    owners = {user.name if owner == "@me" else owner for owner in query.owner if owner}
    return RunFilter(
        namespaces=await _namespaces(api, user, query),
        owners=frozenset(owners),
        uids=frozenset(filter(None, query.uid)),
        phases=frozenset(query.phase),
        active=query.active,
        sweep=query.sweep,
        notebook=query.notebook,
        words=frozenset(words_of(query.search)),
        selector_text=query.label_selector,
        selector=labels_of(query.label_selector),
    )


async def _namespaces(api: Api, user: User, query: FilterParameters) -> frozenset[str] | None:
    """Return the namespaces whose runs are shown; None means all."""
    require_definition(api)
    teams = api.policy.current().policy.teams
    for name in query.team:
        if name and name not in teams:
            raise InvalidInput.one(
                "team", f"the policy has no team {name!r:.80}", value=name, hint=did_you_mean(name, teams)
            )
    named = sorted(filter(None, query.namespace))
    for namespace in named:
        await user.require("list", namespace)
    of_teams = {namespace for name in query.team if name for namespace in teams[name].namespaces_of(name)}
    readable = await readable_namespaces(api, user, "", of_teams) if not named or of_teams else frozenset(named)
    for wanted in filter(None, (of_teams, named)):
        readable = frozenset(wanted) if readable is None else readable.intersection(wanted)
    return readable


def _place_of(query: ListParameters) -> Callable[[RunRow], Place]:
    """Return the function that computes a run's place in the order of a list."""
    sort = query.sort or ""
    key = (_SORT_KEYS.get(sort) or _SORT_KEYS[sort.removeprefix("-")]) if sort else None

    def place_of(row: RunRow) -> Place:
        meta = row.run.metadata
        if key is not None:
            return sort, key(row.summary), meta.namespace, meta.name
        # The time of submission comes from the submitter, so it only orders runs that were created in the same second.
        submitted = meta.annotations.get(names.ANNOTATION_SUBMITTED_AT, "")
        return meta.creation_timestamp, submitted, meta.namespace, meta.name

    return place_of
