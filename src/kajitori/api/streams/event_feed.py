"""Kubernetes Events about runs and their Pods, with at most one watch per namespace, and none without readers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager

from kajitori.api.answers.problems import own_failure
from kajitori.api.views.runs import EventView
from kajitori.cluster.objects import Event
from kajitori.core.naming import names
from kajitori.errors import KajitoriError, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import EVENTS
from kajitori.kube.watch import Deleted, Synced, Watcher, follow

log = logging.getLogger(__name__)

LINGER_SECONDS = 30.0
"""Time for which a feed without readers is kept, since users often look again."""

SYNC_SECONDS = 20.0

EventKey = tuple[str, str]

Reader = Callable[[Event | None], None]
"""Called with each new Event, and again when its count rises; with None when no more will come."""

_ALL = ""
"""Stands for all runs of the namespace in place of a run's name."""


class EventFeed:
    """The Events of one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.users = 0
        self.synced = asyncio.Event()
        self.failure: KajitoriError | None = None
        self._by_run: dict[str, dict[str, Event]] = {}
        self._certain: set[str] = set()
        self.readers: dict[str, set[Reader]] = {}
        self.expiry: asyncio.TimerHandle | None = None
        self._store: dict[EventKey, Event] = {}
        self._watcher: Watcher[Event] = Watcher(client, EVENTS, Event, namespace=namespace, store=self._store)
        self.task = asyncio.create_task(self._run(), name=f"events-{namespace}")

    def of_run(self, run: str) -> Mapping[str, Event]:
        """Return the current Events about runs of that name and their Pods, by name."""
        return self._by_run.get(run, {})

    def of_all_runs(self, is_run: Callable[[str], bool]) -> Iterator[Event]:
        """Yield the current Events about all runs and their Pods; see `knows`."""
        for run, events in self._by_run.items():
            if self.knows(run, is_run):
                yield from events.values()

    def knows(self, run: str, is_run: Callable[[str], bool]) -> bool:
        """Whether a run of that name exists or existed. A foreign Pod may have a name like a member's."""
        return run in self._certain or is_run(run)

    async def _run(self) -> None:
        try:
            async with aclosing(follow(self._watcher)) as changes:
                async for change in changes:
                    if isinstance(change, Synced):
                        self.synced.set()
                        continue
                    event = change.object
                    run = run_of(event)
                    if run is None:
                        continue
                    if isinstance(change, Deleted):
                        self._drop(run, event.metadata.name)
                        continue
                    self._by_run.setdefault(run, {})[event.metadata.name] = event
                    if event.involved_object.kind == names.KIND:
                        self._certain.add(run)
                    for reader in (*self.readers.get(run, ()), *self.readers.get(_ALL, ())):
                        reader(event)
        except KajitoriError as error:
            self.failure = own_failure(error)
            self.synced.set()
            for readers in self.readers.values():
                for reader in tuple(readers):
                    reader(None)

    def _drop(self, run: str, name: str) -> None:
        events = self._by_run.get(run)
        if events is not None:
            events.pop(name, None)
            if not events:
                del self._by_run[run]
                self._certain.discard(run)


def _ignore(_event: Event | None) -> None:
    """Ignore an Event: the reader of a feed that is read only once."""


class EventFeeds:
    """The Event feeds of all namespaces that have readers."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._feeds: dict[str, EventFeed] = {}

    @asynccontextmanager
    async def reading(self, namespace: str, run: str = _ALL, reader: Reader = _ignore) -> AsyncIterator[EventFeed]:
        """Yield the feed of a namespace once its Events are read. `reader` gets later Events of one run or of all.

        Raises the API server's error if it refuses the watch, and Unavailable after `SYNC_SECONDS`.
        """
        feed = self._feeds.get(namespace)
        if feed is None or feed.failure is not None:
            feed = self._feeds[namespace] = EventFeed(self._client, namespace)
        if feed.expiry is not None:
            feed.expiry.cancel()
            feed.expiry = None
        feed.users += 1
        feed.readers.setdefault(run, set()).add(reader)
        try:
            try:
                async with asyncio.timeout(SYNC_SECONDS):
                    await feed.synced.wait()
            except TimeoutError:
                message = f"cannot read the Events of namespace {namespace} within {SYNC_SECONDS:.0f} s"
                raise Unavailable(message, hint="the API server may be overloaded; try again later") from None
            if feed.failure is not None:
                raise feed.failure
            yield feed
        finally:
            readers = feed.readers[run]
            readers.discard(reader)
            if not readers:
                del feed.readers[run]
            feed.users -= 1
            if feed.users == 0:
                loop = asyncio.get_running_loop()
                feed.expiry = loop.call_later(LINGER_SECONDS, self._expire, namespace, feed)

    async def close(self) -> None:
        """End all watches."""
        feeds = list(self._feeds.values())
        self._feeds.clear()
        for feed in feeds:
            if feed.expiry is not None:
                feed.expiry.cancel()
            feed.task.cancel()
        await asyncio.gather(*(feed.task for feed in feeds), return_exceptions=True)

    def _expire(self, namespace: str, feed: EventFeed) -> None:
        if feed.users == 0:
            feed.task.cancel()
            if self._feeds.get(namespace) is feed:
                del self._feeds[namespace]


def run_of(event: Event) -> str | None:
    """Return the name of the run that an Event, or the Event's Pod, belongs to; None for all other Events."""
    about = event.involved_object
    if about.kind == names.KIND:
        return about.name
    if about.kind == "Pod":
        parts = about.name.rsplit("-", 2)
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
            return parts[0]
    return None


def time_of(event: Event) -> str:
    """Return the time of an Event's last occurrence."""
    return event.last_timestamp or event.event_time or event.first_timestamp or event.metadata.creation_timestamp


def sort_key(event: Event) -> tuple[str, int, str, str]:
    """Return the key that sorts Events by time, and within a second by resource version if that is a number."""
    version = event.metadata.resource_version
    return time_of(event), int(version) if version.isdigit() else 0, event.metadata.name, event.metadata.namespace


def event_view(event: Event) -> EventView:
    """Return the view of an Event."""
    about = event.involved_object
    return EventView(
        namespace=event.metadata.namespace,
        time=time_of(event),
        type=event.type,
        reason=event.reason,
        object=f"{about.kind}/{about.name}",
        message=event.message,
        count=max(1, event.count),
    )
