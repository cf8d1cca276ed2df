"""What happened to a run and its members."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from kajitori.api.auth import Caller, User
from kajitori.api.context import Api, Shared, describes
from kajitori.api.event_feed import event_view, time_of
from kajitori.api.lookup import find_run
from kajitori.api.paging import Parameters
from kajitori.api.streams import HEARTBEAT_SECONDS, NDJSON, Chunks
from kajitori.api.tracking import RunTracker
from kajitori.api.views import EventView
from kajitori.core import names
from kajitori.kube.objects import Event, RunObject

router = APIRouter(tags=["runs"])

INTERVAL_SECONDS = 0.2
"""New Events of a run are looked for at most this often."""

LAST_WORDS_SECONDS = 2.0
"""Events about a run's end are written just after the end itself: so long they are waited for."""


class EventParameters(Parameters):
    follow: bool = False
    """Go on until the run is final."""


@router.get(
    "/v1/runs/{namespace}/{name}/events",
    responses=describes(EventView, media_type=NDJSON),
    summary="What happened to a run and its members, the oldest first",
)
async def list_events(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[EventParameters, Query()]
) -> Response:
    """One Event a line. Kubernetes forgets Events after an hour. Empty lines mean that nothing is new."""
    run = await find_run(api, user, namespace, name)
    async with api.events.reading(run.metadata.namespace, run.metadata.name, asyncio.Event()):
        pass  # what the API server refuses is said before the answer begins; the feed lingers
    return api.streams.stream(_events(api, user, run, follow=query.follow), kind="events", media_type=NDJSON)


async def _events(api: Api, user: User, run: RunObject, *, follow: bool) -> Chunks:
    told: dict[str, str] = {}
    ended = False
    key = (run.metadata.namespace, run.metadata.name)
    with RunTracker(api, user, run) as tracker:
        async with api.events.reading(*key, tracker.event) as feed:
            while True:
                known = feed.of_run(key[1])
                fresh = [
                    event
                    for event in known.values()
                    if told.get(event.metadata.name) != event.metadata.resource_version and _is_about(event, run)
                ]
                told = {name: version for name, version in told.items() if name in known}
                told |= {event.metadata.name: event.metadata.resource_version for event in fresh}
                if fresh:
                    fresh.sort(key=lambda event: (time_of(event), event.metadata.name))
                    yield b"".join(msgspec.json.encode(event_view(event)) + b"\n" for event in fresh)
                if not follow or ended:
                    return
                tracker.look()
                ended = tracker.is_over
                if ended:
                    await asyncio.sleep(LAST_WORDS_SECONDS)
                    continue
                await asyncio.sleep(INTERVAL_SECONDS)
                if not await tracker.changed(HEARTBEAT_SECONDS):
                    yield b"\n"


def _is_about(event: Event, run: RunObject) -> bool:
    """Not about an earlier run of the same name."""
    about = event.involved_object
    if about.kind == names.KIND:
        return not about.uid or about.uid == run.metadata.uid
    return time_of(event) >= run.metadata.creation_timestamp
