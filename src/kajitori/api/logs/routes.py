"""The route that reads the logs of a run's members."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, describes
from kajitori.api.logs.encoding import FRAMES, Encoding, as_frame, as_text, documents
from kajitori.api.logs.merge import RankedBatch, merged
from kajitori.api.logs.request import Cursor, LogRequest, OutputStream
from kajitori.api.logs.source import MemberLog
from kajitori.api.lookup import find_run_or_record
from kajitori.api.rights import User
from kajitori.api.runs.members.ranks import MAX_RANKS, ranks_of
from kajitori.api.runs.tracking import RunTracker
from kajitori.api.streams.answers import NDJSON, TEXT, Chunks
from kajitori.blobs.logs import LogsOfRun
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import show
from kajitori.core.formats.quantities import QuantityError, parse_duration_seconds
from kajitori.errors import InvalidInput, NotFound
from kajitori.kube.resources import PODS

router = APIRouter(tags=["runs"])

OPENED_AT_ONCE = 16
"""Largest number of logs of a request that are opened at the same time."""


class LogParameters(Parameters):
    rank: list[Annotated[int, Field(ge=0, le=99_999)]] = Field(default_factory=list, max_length=MAX_RANKS)
    """The member's rank, default 0; may be repeated. In a sweep the member's index, default the first."""
    all_ranks: bool = False
    """All members."""
    attempt: int | None = Field(default=None, ge=1, le=10**9)
    """Only this attempt. Default: the newest."""
    follow: bool = False
    """Continue until the run is final, also across restarts."""
    from_attempt: int | None = Field(default=None, ge=1, le=10**9)
    """With follow: begin with this attempt, not the newest, and continue with later ones. tail and since apply to this
    attempt. For clients whose connection broke while they read it."""
    tail: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Only this many of the last lines of each member."""
    since: str = Field(default="", max_length=64)
    """Only lines younger than this duration (`10m`), or written since this time (RFC 3339)."""
    timestamps: bool = False
    """Begin each line with its time; newline-delimited JSON always has it."""
    documents: bool = False
    """Newline-delimited JSON even for one member; it contains the attempt of each line."""
    frames: bool = False
    """Frames of many lines, for programs: a LogFrame as a line of JSON, then the number of bytes of the log that it
    names. A frame may end inside a line."""
    exact_end: bool = False
    """With the text of one member: do not end the last line if the program has not, as for a file that it printed."""
    stream: OutputStream | None = None
    """Only lines that the program wrote to this stream. Stored logs, and those of an API server without the feature
    PodLogsQuerySplitStreams, do not tell streams apart: all of their lines count as stdout. Not with tail."""
    resume: list[Annotated[str, Field(max_length=128)]] = Field(default_factory=list, max_length=MAX_RANKS)
    """With frames and follow: the cursor of each member's last frame, to continue after a broken connection."""


@router.get(
    "/v1/runs/{namespace}/{name}/logs",
    responses={
        **describes(None, media_type="text/plain"),
        200: {
            "description": "The lines of one member as text; for several members or with `documents`, one LogLine per "
            "line; with `frames`, frames.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                NDJSON: {"schema": {"$ref": "#/components/schemas/LogLine"}},
                FRAMES: {"schema": {"$ref": "#/components/schemas/LogFrame"}},
            },
        },
    },
    summary="Logs of a run's members",
)
async def read_logs(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[LogParameters, Query()]
) -> Response:
    """With `follow`, the stream waits for members that have not started, and continues with the next attempt after a
    restart."""
    since = read_since(query.since, api.now()) if query.since else None
    run = await find_run_or_record(api, user, namespace, name)
    ranks = ranks_of(run, query.rank, all_ranks=query.all_ranks)
    several = query.all_ranks or len(query.rank) > 1
    requests = _requests(query, ranks, since, as_text=not several and not query.documents)
    meta = run.metadata
    if query.follow:
        await user.may("get", meta.namespace, resource=PODS, subresource="log")  # a recorded right is checked again
    kept = LogsOfRun(api.stores.logs, meta.namespace, meta.uid) if api.stores.logs is not None else None
    logs = [MemberLog(api, user, run, rank, request, kept) for rank, request in zip(ranks, requests, strict=True)]
    logs = await _open(logs)
    encode, media_type = _encoding(query, several=several)
    chunks = _chunks(api, user, run, logs, encode, query)
    return api.streams.stream(chunks, kind="logs", media_type=media_type, cleanup=lambda: _close(logs))


def _requests(query: LogParameters, ranks: list[int], since: datetime | None, *, as_text: bool) -> list[LogRequest]:
    """Return the request for each of these members. Raises InvalidInput for a bad cursor or `resume` without frames."""
    request = LogRequest(
        follow=query.follow,
        tail=query.tail,
        since=since,
        attempt=query.attempt,
        first=query.from_attempt if query.follow and query.attempt is None else None,
        timestamps=not as_text or query.timestamps or query.follow or since is not None,
        stream=query.stream,
    )
    if query.stream is not None and query.tail is not None:
        raise InvalidInput.one(
            "stream", "excludes tail", value=query.stream, hint="read both streams, or the whole log"
        )
    if query.exact_end and (query.frames or not as_text):
        hint = "leave out documents and frames, and name one member"
        raise InvalidInput.one("exactEnd", "needs the text of one member", value="true", hint=hint)
    if query.resume and not (query.follow and query.frames):
        raise InvalidInput.one("resume", "needs frames and follow", hint="add follow=true&frames=true")
    cursors = {cursor.rank: cursor for cursor in map(Cursor.parse, query.resume)}
    return [
        replace(request, first=cursors[rank].attempt, position=cursors[rank].position) if rank in cursors else request
        for rank in ranks
    ]


def _encoding(query: LogParameters, *, several: bool) -> tuple[Encoding, str]:
    """Return the encoder of an answer and its media type. `several`: the answer may have lines of several members."""
    if query.frames:
        return partial(as_frame, timestamps=query.timestamps), FRAMES
    if several or query.documents:
        return documents(), NDJSON
    return partial(as_text, timestamps=query.timestamps), TEXT


def read_since(text: str, now: datetime, field: str = "since") -> datetime:
    """Return the moment that a duration before now or a time stands for. Raises InvalidInput for anything else."""
    hint = "write a duration such as 10m, or a time such as 2026-11-21T10:00:00Z"
    try:
        return now - timedelta(seconds=parse_duration_seconds(text))
    except QuantityError:
        pass
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        message = f"{show(text)!r} is neither a duration nor a time"
        raise InvalidInput.one(field, message, value=show(text), hint=hint) from None


async def _open(logs: list[MemberLog]) -> list[MemberLog]:
    """Open all logs and return those that exist. Raises NotFound if none does.

    After any other error, which is raised, no log stays open.
    """
    limit = asyncio.Semaphore(OPENED_AT_ONCE)

    async def connect(log: MemberLog) -> None:
        async with limit:
            await log.open()

    try:
        results = await asyncio.gather(*(connect(log) for log in logs), return_exceptions=True)
        existing = [log for log, result in zip(logs, results, strict=True) if not isinstance(result, NotFound)]
        failures = [result for result in results if isinstance(result, BaseException)]
        errors = [failure for failure in failures if not isinstance(failure, NotFound)]
        if errors or (failures and not existing):
            raise (errors or failures)[0]
    except BaseException:
        await _close(logs)
        raise
    return existing


async def _close(logs: list[MemberLog]) -> None:
    for log in logs:
        await log.close()


async def _chunks(
    api: Api, user: User, run: RunObject, logs: list[MemberLog], encode: Encoding, query: LogParameters
) -> Chunks:
    if len(logs) == 1:
        line_end = b""  # an added end of a line, which is sent only if another line follows
        with RunTracker(api, user, run, pods=True) as tracker:
            async with aclosing(logs[0].batches(tracker)) as batches:
                async for batch in batches:
                    chunk = encode(RankedBatch(logs[0].rank, batch))
                    if query.exact_end and batch.part.is_added_end:
                        line_end += chunk
                    elif chunk:
                        yield line_end + chunk
                        line_end = b""
        return
    async with AsyncExitStack() as stack:
        tracked = [(log, stack.enter_context(RunTracker(api, user, run, pods=True))) for log in logs]
        lines = await stack.enter_async_context(aclosing(merged(tracked, follow=query.follow)))
        async for taken in lines:
            if chunk := b"".join(map(encode, taken)):
                yield chunk
