"""Events about one run and its members, and about all runs of a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    PageParameters,
    Parameters,
    ShortName,
    decode_token,
    encode_token,
    words_of,
)
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.identity.routes import namespaces_for
from kajitori.api.lookup import find_run, require_definition
from kajitori.api.rights import User
from kajitori.api.runs.tracking import RunTracker
from kajitori.api.streams.answers import HEARTBEAT_SECONDS, NDJSON, Chunks
from kajitori.api.streams.event_feed import event_view, run_of, sort_key, time_of
from kajitori.api.views.runs import EventList, EventView
from kajitori.cluster.objects import Event
from kajitori.cluster.run_object import RunObject
from kajitori.core.naming import names

router = APIRouter(tags=["runs"])

INTERVAL_SECONDS = 0.2
"""Shortest time between two batches of new Events."""

LAST_EVENTS_SECONDS = 2.0
"""Time to wait for Events about a run's end, which are written just after the end itself."""


class EventParameters(Parameters):
    follow: bool = False
    """Continue until the run is final."""


class EventListParameters(PageParameters):
    namespace: ShortName = ""
    """Default: the server's own, or all with `everywhere`."""
    everywhere: bool = False
    """Whether to list the events of all namespaces in which the caller may list runs, up to 64."""
    search: str = Field(default="", max_length=1024)
    """Words that the namespace, object, reason or message has to contain, in any order."""
    warnings: bool = False
    """Only warnings."""


class EventWatchParameters(Parameters):
    namespace: str = Field(default="", max_length=253)
    """Default: the server's own."""
    limit: int = Field(default=DEFAULT_LIMIT, ge=0, le=MAX_LIMIT)
    """Largest number of earlier events that the stream begins with."""


@router.get("/v1/events", responses=describes(EventList), summary="Events of all runs, the newest first")
async def list_all_events(api: Shared, user: Caller, query: Annotated[EventListParameters, Query()]) -> Response:
    """Events of runs and their members in a namespace, or in all. Kubernetes deletes Events after an hour."""
    namespaces, left_out = await _listed_namespaces(api, user, query)
    require_definition(api)
    after = decode_token(query.continue_, tuple[str, int, str, str]) if query.continue_ else None
    words = words_of(query.search)
    found = await asyncio.gather(*(_events_in(api, namespace) for namespace in namespaces))
    events = [event for events in found for event in events if _fits(event, words, query)]
    events.sort(key=sort_key, reverse=True)
    if after is not None:
        events = [event for event in events if sort_key(event) < after]
    page = events[: query.limit]
    following = encode_token(sort_key(page[-1])) if len(events) > len(page) else None
    items = [event_view(event) for event in page]
    return answer(EventList(items=items, continue_=following, left_out=left_out))


async def _listed_namespaces(api: Api, user: User, query: EventListParameters) -> tuple[list[str], int]:
    """Return the namespaces of a list, and the number of those that it leaves out. Raises Forbidden if the caller may
    list runs in none of them."""
    if query.namespace or not query.everywhere:
        await user.require("list", query.namespace or api.namespace)
        return [query.namespace or api.namespace], 0
    known = await namespaces_for(api, user)
    allowed = await asyncio.gather(*(user.may("list", name) for name in known.first))
    found = [name for name, is_allowed in zip(known.first, allowed, strict=True) if is_allowed]
    if not found:
        await user.require("list", api.namespace)
    # In the others the caller has no team, run or RoleBinding, so only a right in all namespaces reaches them.
    sees_others = known.others_beyond > 0 and await user.may("list", "")
    return found, known.own_beyond + (known.others_beyond if sees_others else 0)


async def _events_in(api: Api, namespace: str) -> list[Event]:
    async with api.runs.events.reading(namespace) as feed:
        return list(feed.of_all_runs(_runs_of(api, namespace)))


def _fits(event: Event, words: list[str], query: EventListParameters) -> bool:
    if query.warnings and event.type != "Warning":
        return False
    view = event_view(event)
    said = f"{view.namespace} {view.object} {view.reason} {view.message}".casefold()
    return all(word in said for word in words)


@router.get(
    "/v1/events/watch",
    responses=describes(EventView, media_type=NDJSON),
    summary="Watch the events of all runs",
)
async def watch_all_events(api: Shared, user: Caller, query: Annotated[EventWatchParameters, Query()]) -> Response:
    """Events of a namespace's runs and their members, one per line; the stream does not end. Empty lines only keep the
    connection open."""
    namespace = query.namespace or api.namespace
    await user.require("list", namespace)
    require_definition(api)
    async with api.runs.events.reading(namespace):
        pass  # raises the API server's refusal before the answer begins; the feed stays open for a while
    return api.streams.stream(_all_events(api, namespace, query.limit), kind="events", media_type=NDJSON)


async def _all_events(api: Api, namespace: str, limit: int) -> Chunks:
    fresh: dict[str, Event] = {}  # by name, so that an Event that recurs between two batches is sent once
    changed = asyncio.Event()

    def note(event: Event | None) -> None:
        if event is not None:
            fresh[event.metadata.name] = event
        changed.set()

    async with api.runs.events.reading(namespace, reader=note) as feed:
        is_run = _runs_of(api, namespace)
        fresh.clear()
        batch = sorted(feed.of_all_runs(is_run), key=sort_key)[-limit:] if limit else []
        while True:
            if batch:
                yield _lines(batch)
                await asyncio.sleep(INTERVAL_SECONDS)
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await changed.wait()
            except TimeoutError:
                yield b"\n"
            if feed.failure is not None:
                raise feed.failure
            changed.clear()
            about_runs = (event for event in fresh.values() if feed.knows(run_of(event) or "", is_run))
            batch = sorted(about_runs, key=sort_key)
            fresh.clear()


def _runs_of(api: Api, namespace: str) -> Callable[[str], bool]:
    return lambda name: (namespace, name) in api.mirror.runs


def _lines(events: Iterable[Event]) -> bytes:
    return b"".join(msgspec.json.encode(event_view(event)) + b"\n" for event in events)


@router.get(
    "/v1/runs/{namespace}/{name}/events",
    responses=describes(EventView, media_type=NDJSON),
    summary="Events of a run and its members, the oldest first",
)
async def list_events(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[EventParameters, Query()]
) -> Response:
    """One Event per line. Kubernetes deletes Events after an hour. Empty lines only keep the connection open."""
    run = await find_run(api, user, namespace, name)
    async with api.runs.events.reading(run.metadata.namespace):
        pass  # raises the API server's refusal before the answer begins; the feed stays open for a while
    return api.streams.stream(_events(api, user, run, follow=query.follow), kind="events", media_type=NDJSON)


async def _events(api: Api, user: User, run: RunObject, *, follow: bool) -> Chunks:
    sent: dict[str, str] = {}  # resource versions of the Events that the reader has, by name
    ended = False
    namespace, name = run.metadata.namespace, run.metadata.name
    with RunTracker(api, user, run) as tracker:
        async with api.runs.events.reading(namespace, name, lambda _: tracker.event.set()) as feed:
            while True:
                events = feed.of_run(name)
                fresh = [
                    event
                    for event in events.values()
                    if sent.get(event.metadata.name) != event.metadata.resource_version and _is_about(event, run)
                ]
                sent = {name: version for name, version in sent.items() if name in events}
                sent |= {event.metadata.name: event.metadata.resource_version for event in fresh}
                if fresh:
                    yield _lines(sorted(fresh, key=sort_key))
                if feed.failure is not None:
                    raise feed.failure
                if not follow or ended:
                    return
                tracker.look()
                ended = tracker.is_over
                if ended:
                    await asyncio.sleep(LAST_EVENTS_SECONDS)
                    continue
                await asyncio.sleep(INTERVAL_SECONDS)
                if not await tracker.changed(HEARTBEAT_SECONDS):
                    yield b"\n"


def _is_about(event: Event, run: RunObject) -> bool:
    """Whether an Event is about this run, not about an earlier run of the same name."""
    about = event.involved_object
    if about.kind == names.KIND:
        return not about.uid or about.uid == run.metadata.uid
    return time_of(event) >= run.metadata.creation_timestamp
