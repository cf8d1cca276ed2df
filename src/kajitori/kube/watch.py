"""A watch without end: nested generators, each of which handles one kind of failure.

    watch           lists, then follows; 410: lists again and yields only differences
    _follow_events  disconnects, silence, 429 and 5xx: continues from the last resource version, after a pause if needed
    _follow_once    one request: events as the server sends them, bookmarks, the server's ERROR events
    _whole_lines    whole lines out of the pieces that arrive

A watch reports states, not events: a consumer that was slow or away sees the latest state of each object.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kajitori.errors import Conflict, Forbidden, KajitoriError, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.retry import jittered
from kajitori.kube.decoding import EventKind, WatchEvent, decode_events
from kajitori.kube.errors import ApiError, ConnectionFailed, GoneError
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import Resource
from kajitori.kube.streams import ByteStream

log = logging.getLogger(__name__)


class Watched(Protocol):
    """Any object of the API, decoded to a type of its own."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Watched)


class Added(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A new object."""

    object: T


class Modified(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object has changed."""

    object: T
    old: T
    """The object before the change."""


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object was deleted."""

    object: T
    """The object in its last known state."""
    missed: bool = False
    """True if no event reported the deletion, but the object is missing in a list. This happens after a server was
    restored from a backup."""


Change = Added[T] | Modified[T] | Deleted[T]


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that the server held at this resource version has been yielded."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Settings of a watch; times in seconds."""

    request_seconds: int = 300
    """The server ends a watch request after a random time between once and twice this, so that watchers spread over
    servers."""
    silence_seconds: float = 90.0
    """A connection is dead after this silence: servers send a bookmark every minute."""
    base_seconds: float = 0.5
    cap_seconds: float = 5.0
    """After n failures in a row, the pause is drawn between zero and base·2ⁿ, but is at most this. It is short, since a
    watcher sees nothing while it waits, and there are few watchers."""


HEALTHY_SECONDS = 1.0
"""After a watch request of at least this duration, failures are counted from zero again."""


@dataclass(slots=True)
class _Position:
    """The position of a watch: the resource version to resume from, and the failures in a row."""

    resource_version: str = ""
    failures: int = 0
    synced: bool = False
    doubtful: bool = False
    """The server was away, and may have been restored from a backup."""


@dataclass(frozen=True, slots=True)
class Watcher(Generic[T]):
    """The objects to watch, and how to watch them.

    - `type`: what objects are decoded to.
    - `shrink`: makes an object smaller before it is kept, given its previous state.
    - `store`: holds the known objects and is kept up to date; anyone may read it. Its keys are (namespace, name), or
      the name for kinds without a namespace.
    - `on_trouble`: called with each failure, and with None when the watch works again.
    """

    client: KubeClient
    resource: Resource
    type: type[T]
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    page_size: int = 1000
    shrink: Callable[[T, T | None], None] = lambda obj, old: None
    store: MutableMapping[Any, T] = field(default_factory=dict)
    settings: WatchSettings = WatchSettings()
    on_trouble: Callable[[Exception | None], None] = lambda error: None

    def key(self, meta: ObjectMeta) -> Any:
        """Return an object's key in the store."""
        return (meta.namespace, meta.name) if self.resource.namespaced else meta.name


def watch(client: KubeClient, resource: Resource, type: type[T], **options: Any) -> AsyncGenerator[Synced | Change[T]]:
    """Yield all objects of a kind, now and as they change, without end; options are the fields of Watcher.

    The existing objects come first, as Added, then Synced, then changes. If the watch has to list again, only the
    differences come, and Synced again. Raises ApiError if the server refuses for good (401, 403, 404, …) before the
    first Synced. Later, and after failures that may pass, it tries again without end.
    """
    return follow(Watcher(client, resource, type, **options))


def watch_if_allowed(
    client: KubeClient,
    resource: Resource,
    type: type[T],
    store: MutableMapping[Any, T],
    *,
    namespace: str | None = None,
    label_selector: str,
) -> AsyncGenerator[Synced | Change[T]]:
    """Watch the objects with these labels, of a kind that the cluster may not serve or not allow to read.

    Raises NotFound or Forbidden if the server refuses, even if it refuses only later.
    """

    def stop_if_refused(error: Exception | None) -> None:
        if isinstance(error, NotFound | Forbidden):
            raise error

    return watch(
        client,
        resource,
        type,
        namespace=namespace,
        label_selector=label_selector,
        store=store,
        on_trouble=stop_if_refused,
    )


async def follow(watcher: Watcher[T]) -> AsyncGenerator[Synced | Change[T]]:
    """Like `watch`, for a Watcher."""
    position = _Position()
    while True:
        async with aclosing(_list_differences(watcher, position)) as differences:
            async for difference in differences:
                yield difference
        position.synced = True
        yield Synced(position.resource_version)
        try:
            async with aclosing(_follow_events(watcher, position)) as blocks:
                async for block in blocks:
                    for event in block:
                        for change in _apply_event(watcher, event):
                            yield change
        except GoneError as error:
            log.info("%s are listed again: %s", watcher.resource.plural, error)


def _apply_event(watcher: Watcher[T], event: WatchEvent[T]) -> tuple[Change[T], ...]:
    """Apply an event to the store. Return the changes."""
    if event.type is EventKind.DELETED:
        old = watcher.store.pop(watcher.key(event.object.metadata), None)
        return (Deleted(old),) if old is not None else ()
    return _put_object(watcher, event.object)


def _put_object(watcher: Watcher[T], obj: T) -> tuple[Change[T], ...]:
    """Put an existing object into the store. Return the changes."""
    store = watcher.store
    key = watcher.key(obj.metadata)
    old = store.get(key)
    if old is None:
        watcher.shrink(obj, None)
        store[watcher.key(obj.metadata)] = obj
        return (Added(obj),)
    if old.metadata.resource_version == obj.metadata.resource_version:
        return ()
    if old.metadata.uid == obj.metadata.uid:
        watcher.shrink(obj, old)
        store[key] = obj
        return (Modified(obj, old),)
    watcher.shrink(obj, None)
    del store[key]
    store[watcher.key(obj.metadata)] = obj
    return (Deleted(old), Added(obj))


# ---------------------------------------------------------------------------------------------- listing


async def _list_differences(watcher: Watcher[T], position: _Position) -> AsyncGenerator[Change[T]]:
    """Yield the differences between the server's list and the store, and update the store. Starts again after
    failures."""
    while True:
        try:
            async with aclosing(_listed_once(watcher, position)) as differences:
                async for difference in differences:
                    yield difference
        except KajitoriError as error:
            await _pause_after_failure(watcher, position, error)
        else:
            watcher.on_trouble(None)
            return


async def _listed_once(watcher: Watcher[T], position: _Position) -> AsyncGenerator[Change[T]]:
    missing: set[Any] = set()
    pages = watcher.client.list_pages(
        watcher.resource,
        watcher.namespace,
        label_selector=watcher.label_selector,
        field_selector=watcher.field_selector,
        page_size=watcher.page_size,
        type=watcher.type,
    )
    async with aclosing(pages):
        async for page in pages:
            if page.first:
                missing = set(watcher.store)
            for obj in page.items:
                missing.discard(watcher.key(obj.metadata))
                for change in _put_object(watcher, obj):
                    yield change
            position.resource_version = page.resource_version
    for key in missing:
        yield Deleted(watcher.store.pop(key), missed=True)


# ---------------------------------------------------------------------------------------------- following


async def _follow_events(watcher: Watcher[T], position: _Position) -> AsyncGenerator[list[WatchEvent[T]]]:
    """Yield the events after the list, over any number of requests. Raises GoneError if the resource version is too
    old."""
    clock = watcher.client.environment.clock
    while True:
        began = clock()
        failure: KajitoriError | None = None
        try:
            async with aclosing(_follow_once(watcher, position)) as blocks:
                async for block in blocks:
                    yield block
        except TimeoutError:
            silence = watcher.settings.silence_seconds
            log.info("watching %s: no data for %.0f s, connecting again", watcher.resource.plural, silence)
        except KajitoriError as error:
            failure = error
        if clock() - began >= HEALTHY_SECONDS:
            position.failures = 0
            if failure is None:
                continue
        failure = failure or ConnectionFailed("the server ended the watch at once")
        position.doubtful = not isinstance(failure, GoneError)
        await _pause_after_failure(watcher, position, failure)
        if isinstance(failure, GoneError):
            raise failure


async def _follow_once(watcher: Watcher[T], position: _Position) -> AsyncGenerator[list[WatchEvent[T]]]:
    """Yield the events of one request, in blocks as they arrive, and update the position. Raises the server's
    errors."""
    settings = watcher.settings
    if position.doubtful:
        await _check_not_restored(watcher, position)
        position.doubtful = False
    spread = 1.0 + watcher.client.environment.chance()
    stream = await watcher.client.watch_once(
        watcher.resource,
        watcher.namespace,
        resource_version=position.resource_version,
        label_selector=watcher.label_selector,
        field_selector=watcher.field_selector,
        timeout_seconds=int(settings.request_seconds * spread),
        silence_seconds=settings.silence_seconds,
    )
    async with stream, aclosing(_whole_lines(stream)) as blocks:
        watcher.on_trouble(None)
        async for lines in blocks:
            block = decode_events(lines, watcher.type)
            if block.resource_version:
                position.resource_version = block.resource_version
            if block.events:
                yield block.events
            if block.error is not None:
                raise block.error


async def _check_not_restored(watcher: Watcher[Any], position: _Position) -> None:
    """Raise GoneError if the server is at an older resource version than before, as after a restored backup.

    The watch would otherwise be silent until the server has reached the older version, and would never report objects
    that the restore removed.
    """
    pages = watcher.client.list_pages(watcher.resource, watcher.namespace, page_size=1, type=watcher.type)
    async with aclosing(pages):
        page = await anext(aiter(pages))
    now, last = page.resource_version, position.resource_version
    if now.isdecimal() and last.isdecimal() and int(now) < int(last):
        raise GoneError(f"the server is at resource version {now}, and was at {last} before", status=410)


async def _whole_lines(stream: ByteStream) -> AsyncGenerator[bytes]:
    """Yield whole lines, as many at a time as have arrived. A line cut off by the end of the stream is dropped."""
    pieces: list[bytes] = []
    async with aclosing(aiter(stream)) as chunks:
        async for chunk in chunks:
            end = chunk.rfind(b"\n") + 1
            if not end:
                pieces.append(chunk)
                continue
            pieces.append(chunk[:end])
            yield b"".join(pieces)
            pieces = [chunk[end:]] if end < len(chunk) else []


async def _pause_after_failure(watcher: Watcher[Any], position: _Position, error: KajitoriError) -> None:
    """Wait after a failure, longer each time; raise it instead if waiting would not help."""
    if not position.synced and not isinstance(error, Unavailable | Conflict):
        raise error
    settings, environment = watcher.settings, watcher.client.environment
    pause = jittered(settings.base_seconds, settings.cap_seconds, position.failures, environment.chance())
    if isinstance(error, ApiError) and error.retry_after_seconds is not None:
        pause += min(error.retry_after_seconds, settings.cap_seconds)
    position.failures += 1
    watcher.on_trouble(error)
    level = logging.WARNING if position.failures > 1 else logging.INFO
    log.log(level, "watching %s: %s; tried again in %.1f s", watcher.resource.plural, error, pause)
    await environment.sleep(pause)
