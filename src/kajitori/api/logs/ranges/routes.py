"""Routes that read a part of a log: a window of lines for a page, and a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.logs.lines import UNKNOWN_TIME, stamp_of, utc_time
from kajitori.api.logs.pods import LOOKED_AT_BY_NAME, MemberPods, attempt_of, has_log
from kajitori.api.logs.ranges.attempt_logs import AttemptLog, PodLog, StoredLog
from kajitori.api.logs.ranges.expressions import Expression
from kajitori.api.logs.ranges.search import SearchQuery, search
from kajitori.api.logs.ranges.windows import (
    Line,
    Window,
    last_window,
    window_after,
    window_around,
    window_at_line,
    window_before,
    window_since,
)
from kajitori.api.logs.request import Cursor, no_such_attempt
from kajitori.api.logs.routes import read_since
from kajitori.api.lookup import find_run_or_record
from kajitori.api.rights import User
from kajitori.api.runs.members.ranks import MAX_RANKS, ranks_of
from kajitori.api.streams.answers import NDJSON, Chunks
from kajitori.api.views.logs import LogMatch, LogSearchState, LogWindow, LogWindowLine
from kajitori.blobs.logs import LogsOfRun
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import started_at_of
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.errors import Fault, InvalidInput, NotFound
from kajitori.kube.resources import PODS

router = APIRouter(tags=["runs"])

LONGEST_LINE_BYTES = 16 * 1024
"""Longer lines are cut in answers, so that a window has a bounded size."""


class WindowParameters(Parameters):
    rank: int | None = Field(default=None, ge=0, le=99_999)
    """The member's rank, default 0. In a sweep the member's index, default the first."""
    attempt: int | None = Field(default=None, ge=1, le=10**9)
    """The attempt. Default: that of the position, else the newest with a log."""
    before: str = Field(default="", max_length=128)
    """The lines before this position, which an earlier answer named."""
    to: str = Field(default="", max_length=128)
    """The lines up to this position, with its own."""
    after: str = Field(default="", max_length=128)
    """The lines after this position."""
    at: str = Field(default="", max_length=128)
    """The lines around this position."""
    since: str = Field(default="", max_length=64)
    """The lines from this time on (RFC 3339), or from this duration ago on (`10m`)."""
    line: int | None = Field(default=None, ge=1, le=10**12)
    """The lines from this number on, counted from 1."""
    limit: int = Field(default=500, ge=1, le=5000)
    """Largest number of lines."""


class SearchParameters(Parameters):
    text: str = Field(default="", max_length=1000)
    """Lines that contain this text. Empty: all lines."""
    regex: bool = False
    """Take the text as a regular expression in the syntax of RE2. `^` and `$` match at the ends of lines."""
    rank: list[Annotated[int, Field(ge=0, le=99_999)]] = Field(default_factory=list, max_length=MAX_RANKS)
    """The member's rank, default 0; may be repeated. In a sweep the member's index, default the first."""
    all_ranks: bool = False
    """All members."""
    attempt: int | None = Field(default=None, ge=1, le=10**9)
    """The attempt. Default: of each member the newest with a log."""
    ignore_case: bool = False
    """Take upper and lower case as the same."""
    since: str = Field(default="", max_length=64)
    """Only lines younger than this duration (`10m`), or written since this time (RFC 3339)."""
    until: str = Field(default="", max_length=64)
    """Only lines older than this duration, or written before this time."""
    after: str = Field(default="", max_length=128)
    """Only lines after this position, to go on with the search of one member."""
    brief: bool = False
    """Leave out the text of the lines that are found."""
    limit: int = Field(default=1000, ge=0, le=1_000_000)
    """Largest number of lines in the answer, over all members; further ones are counted."""


@router.get(
    "/v1/runs/{namespace}/{name}/logs/window",
    responses=describes(LogWindow),
    summary="Read some lines of a member's log",
)
async def read_window(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[WindowParameters, Query()]
) -> Response:
    """Return the last lines, or those that one of `before`, `to`, `after`, `at`, `since` and `line` selects. The server
    reads only this part of the log. The answer has no lines if the member has not started or its log was removed."""
    named = [field for field in ("before", "to", "after", "at", "since", "line") if getattr(query, field)]
    if len(named) > 1:
        raise InvalidInput(
            [Fault(field, f"cannot be combined with {named[0]}", hint="name one place") for field in named[1:]]
        )
    since = read_since(query.since, api.now()) if query.since else None
    cursors = {
        field: Cursor.parse(getattr(query, field)) for field in named if field in ("before", "to", "after", "at")
    }
    run = await find_run_or_record(api, user, namespace, name)
    (rank,) = ranks_of(run, [] if query.rank is None else [query.rank])
    with api.callers.logs.one():
        attempt = query.attempt or next((cursor.attempt for cursor in cursors.values()), None)
        try:
            (log,) = await find_logs(api, user, run, [rank], attempt)
        except NotFound as error:
            return answer(LogWindow(rank, attempt or 0, [], at_end=True, missing=error.message))
        return answer(_view(log, await _selected_window(log, query, cursors, since)))


async def _selected_window(
    log: AttemptLog, query: WindowParameters, cursors: Mapping[str, Cursor], since: datetime | None
) -> Window:
    """Return the window that a query selects. `cursors` holds the one position that it names, by the parameter."""
    for name, cursor in cursors.items():
        place = cursor.position
        match name:
            case "before":
                return await window_before(log, place, query.limit)
            case "to":
                return await window_before(log, replace(place, count=place.count + 1), query.limit)
            case "after":
                return await window_after(log, place, query.limit)
            case _:
                return await window_around(log, place, query.limit)
    if query.line is not None:
        return await window_at_line(log, query.line, query.limit)
    if since is not None:
        return await window_since(log, stamp_of(since), query.limit)
    return await last_window(log, query.limit)


@router.get(
    "/v1/runs/{namespace}/{name}/logs/search",
    responses={
        **describes(None, media_type=NDJSON),
        200: {
            "description": "For each line that was found a LogMatch; and from time to time a LogSearchState, the last "
            "for each member with `done`.",
            "content": {
                NDJSON: {
                    "schema": {
                        "oneOf": [
                            {"$ref": "#/components/schemas/LogMatch"},
                            {"$ref": "#/components/schemas/LogSearchState"},
                        ]
                    }
                }
            },
        },
    },
    summary="Search the logs of a run's members",
)
async def search_logs(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[SearchParameters, Query()]
) -> Response:
    """Members are searched one after the other, each from the beginning of its log. The search ends when the caller
    disconnects. One call searches at most 128 MiB of a log, with `regex` for at most ten seconds, and then names the
    position to go on."""
    faults = []
    if "\n" in query.text:
        faults.append(Fault("text", "contains a line end", hint="search for a part of one line"))
    if query.after and (query.all_ranks or len(query.rank) > 1):
        faults.append(Fault("after", "is the position in the log of one member", hint="name one rank"))
    if faults:
        raise InvalidInput(faults)
    now = api.now()
    wanted = SearchQuery(
        text=query.text.encode(errors="surrogatepass"),
        expression=_expression_of(query),
        ignores_case=query.ignore_case,
        since=stamp_of(read_since(query.since, now)) if query.since else b"",
        until=stamp_of(read_since(query.until, now, "until")) if query.until else b"",
        after=Cursor.parse(query.after).position if query.after else None,
        limit=query.limit,
    )
    run = await find_run_or_record(api, user, namespace, name)
    logs = await find_logs(api, user, run, ranks_of(run, query.rank, all_ranks=query.all_ranks), query.attempt)
    return api.streams.stream(
        _search_results(api, logs, wanted, brief=query.brief), kind="log searches", media_type=NDJSON
    )


def _expression_of(query: SearchParameters) -> Expression | None:
    """Return the expression of a search; also that of a plain text if its case does not matter and it has other letters
    than A to Z, which bytes alone do not tell apart. None for all other texts."""
    if query.regex and query.text:
        return Expression(query.text, ignores_case=query.ignore_case)
    if query.ignore_case and not query.text.isascii() and query.text.isprintable():
        return Expression.of_text(query.text, ignores_case=True)
    return None


async def find_logs(
    api: Api, user: User, run: RunObject, ranks: Sequence[int], attempt: int | None
) -> list[AttemptLog]:
    """Return the logs of these members, of one attempt or each member's newest one with a log.

    Members without a log are left out. Raises NotFound if none has one, and Forbidden if the user may not read them.
    """
    meta = run.metadata
    await user.require("get", meta.namespace, resource=PODS, subresource="log")
    newest = run.status.attempts if run.status is not None else 0
    if attempt is not None and attempt > newest:
        raise no_such_attempt(meta.name, newest, attempt)
    kept = LogsOfRun(api.stores.logs, meta.namespace, meta.uid) if api.stores.logs is not None else None
    logs: list[AttemptLog] = []
    for rank in ranks:
        log = _pods_log(api, user, run, rank, attempt) or await _kept_log(kept, rank, attempt)
        if log is not None:
            logs.append(log)
    if not logs:
        which = f"rank {compress_ranks(ranks)}" if len(ranks) > 1 else f"rank {ranks[0]}"
        where = f" in attempt {attempt}" if attempt is not None else ""
        hint = f"see what happened to it: kaji events {meta.name}"
        raise NotFound(f"{meta.name} has no log of {which}{where}", hint=hint)
    return logs


def _pods_log(api: Api, user: User, run: RunObject, rank: int, attempt: int | None) -> PodLog | None:
    """Return the log of the member's newest Pod that has one; None if there is none."""
    pods = MemberPods(api.mirror, run, rank)
    newest = run.status.attempts if run.status is not None else 0
    candidates = pods.of_attempts(attempt or max(1, newest - LOOKED_AT_BY_NAME), attempt or newest)
    pod = max((pod for pod in candidates if has_log(pod)), key=attempt_of, default=None)
    if pod is None:
        return None
    started_at = started_at_of(pod)
    return PodLog(user, pod, api.runs.log_indexes, utc_time(started_at.encode()).encode() if started_at else b"")


async def _kept_log(kept: LogsOfRun | None, rank: int, attempt: int | None) -> StoredLog | None:
    """Return the newest stored log of a member; None if there is none."""
    if kept is None:
        return None
    listed = [log.attempt for log in await kept.listed() if log.rank == rank and attempt in (None, log.attempt)]
    if not listed:
        return None
    newest = max(listed)
    try:
        return StoredLog(kept.logs, await kept.head(newest, rank), rank, newest)
    except NotFound:
        return None


def _view(log: AttemptLog, window: Window) -> LogWindow:
    """Return the answer with a window."""
    lines = window.lines
    return LogWindow(
        rank=log.rank,
        attempt=log.attempt,
        lines=[_window_line(line) for line in lines],
        live=log.is_live,
        before=_cursor(log, lines[0]) if lines and not window.is_at_beginning else "",
        after=_cursor(log, lines[-1]) if lines else "",
        at_end=window.is_at_end,
        first=window.first,
    )


async def _search_results(api: Api, logs: Sequence[AttemptLog], query: SearchQuery, *, brief: bool) -> Chunks:
    for log in logs:
        with api.callers.logs.one():
            async with aclosing(search(log, query)) as parts:
                async for part in parts:
                    views: list[LogMatch | LogSearchState] = [
                        _match(log, line, number, brief=brief) for line, number in part.lines
                    ]
                    query = replace(query, limit=query.limit - len(part.lines))
                    next_cursor = str(Cursor(log.rank, log.attempt, part.next)) if part.next is not None else ""
                    views.append(
                        LogSearchState(
                            log.rank, log.attempt, part.matches, part.searched_bytes, part.is_over, next_cursor
                        )
                    )
                    yield b"".join(msgspec.json.encode(view) + b"\n" for view in views)


def _match(log: AttemptLog, line: Line, number: int | None, *, brief: bool) -> LogMatch:
    text, cut = ("", False) if brief else _text(line)
    return LogMatch(log.rank, log.attempt, _time(line), text, _cursor(log, line), line.nth, number, cut)


def _window_line(line: Line) -> LogWindowLine:
    text, cut = _text(line)
    return LogWindowLine(_time(line), text, line.nth, cut)


def _cursor(log: AttemptLog, line: Line) -> str:
    return str(Cursor(log.rank, log.attempt, line.position))


def _time(line: Line) -> str:
    return line.time.decode() if line.time != UNKNOWN_TIME else ""


def _text(line: Line) -> tuple[str, bool]:
    """Return the text of a line, and whether it was cut."""
    return line.text[:LONGEST_LINE_BYTES].decode(errors="replace"), len(line.text) > LONGEST_LINE_BYTES
