"""A watch that does not end: nested generators, each of which knows one way to fail.

    watch       lists, then follows; 410: lists again and says only what differs
    _followed   disconnects, silence, 429 and 5xx: goes on from the last resource version, after a pause where needed
    _once       one request: events as the server sends them, bookmarks, the server's ERROR events
    _lines      whole lines out of the pieces that arrive

Told by the server what is, never what happened: a consumer that was slow or away sees the latest state of each object.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kajitori.core.words import names
from kajitori.errors import Conflict, Forbidden, KajitoriError, NotFound, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.decoding import EventKind, WatchEvent, decode_events
from kajitori.kube.errors import ApiError, ConnectionFailed, GoneError
from kajitori.kube.objects import ObjectMeta
from kajitori.kube.resources import Resource
from kajitori.kube.retry import jittered
from kajitori.kube.streams import ByteStream

log = logging.getLogger(__name__)


class Watched(Protocol):
    """Any object of the API, decoded to a type of its own."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Watched)


class Added(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """There is an object that was not known."""

    object: T


class Modified(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object is another than it was."""

    object: T
    old: T
    """What was known of it before."""


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object is there no more."""

    object: T
    """What was known of it last."""
    missed: bool = False
    """Nobody told that it was deleted: a list lacks it. So it is where a server came back with the data of a backup."""


Change = Added[T] | Modified[T] | Deleted[T]


@dataclass(frozen=True, slots=True)
class Synced:
    """All that the server held at this resource version has been told."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Times in seconds."""

    request_seconds: int = 300
    """A watch request is ended by the server after once to twice this time, so that watchers spread over servers."""
    silence_seconds: float = 90.0
    """A connection on which nothing arrives for so long is dead: servers send a bookmark every minute."""
    base_seconds: float = 0.5
    cap_seconds: float = 5.0
    """Pauses after failures in a row are drawn between nothing and base·2ⁿ, at most this: whoever watches is blind as
    long as he waits, and few do."""


HEALTHY_SECONDS = 1.0
"""A watch request that lasted so long ends a row of failures."""


@dataclass(slots=True)
class _Position:
    """Where a watch stands: what it resumes from, and how often in a row it failed."""

    resource_version: str = ""
    failures: int = 0
    synced: bool = False
    doubtful: bool = False
    """The server was away: it may come back with the data of a backup."""


@dataclass(frozen=True, slots=True)
class Watcher(Generic[T]):
    """What is watched, and how.

    type: what objects are decoded to; shrink: makes an object smaller before it is kept, given what was known of it;
    store: holds what is known, is kept up to date, and may be read by anybody; keyed by name for kinds without a
    namespace, else by (namespace, name); on_trouble: told of each failure, and None when things go well again.
    """

    client: KubeClient
    resource: Resource
    type: type[T]
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    page_size: int = 1000
    shrink: Callable[[T, T | None], None] = lambda thing, old: None
    store: MutableMapping[Any, T] = field(default_factory=dict)
    settings: WatchSettings = WatchSettings()
    on_trouble: Callable[[Exception | None], None] = lambda error: None

    def key(self, meta: ObjectMeta) -> Any:
        """What an object stands under in the store."""
        return (meta.namespace, meta.name) if self.resource.namespaced else meta.name


def watch(client: KubeClient, resource: Resource, type: type[T], **options: Any) -> AsyncGenerator[Synced | Change[T]]:
    """All objects of a kind, now and as they change, for as long as one asks; options are the fields of Watcher.

    First what is there as Added, then Synced, then changes. After it lost track of the server, only what differs, and
    Synced again. Raises ApiError where the server refuses for good (401, 403, 404, …) before the first Synced; later,
    and for everything that may pass, it tries again without end.
    """
    return follow(Watcher(client, resource, type, **options))


def watch_ours(
    client: KubeClient, resource: Resource, type: type[T], store: MutableMapping[Any, T]
) -> AsyncGenerator[Synced | Change[T]]:
    """As `watch`, of what Kajitori made, of a kind that a cluster may lack, or not let it read: raises NotFound or
    Forbidden also when that becomes so later."""

    def end_where_it_is_gone(error: Exception | None) -> None:
        if isinstance(error, NotFound | Forbidden):
            raise error

    ours = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
    return watch(client, resource, type, label_selector=ours, store=store, on_trouble=end_where_it_is_gone)


async def follow(watcher: Watcher[T]) -> AsyncGenerator[Synced | Change[T]]:
    """As `watch`, for a Watcher."""
    position = _Position()
    while True:
        async with aclosing(_listed(watcher, position)) as differences:
            async for difference in differences:
                yield difference
        position.synced = True
        yield Synced(position.resource_version)
        try:
            async with aclosing(_followed(watcher, position)) as blocks:
                async for block in blocks:
                    for event in block:
                        for change in _applied(watcher, event):
                            yield change
        except GoneError as error:
            log.info("%s are listed anew: %s", watcher.resource.plural, error)


def _applied(watcher: Watcher[T], event: WatchEvent[T]) -> tuple[Change[T], ...]:
    """What an event changes in the store, which follows."""
    if event.type is EventKind.DELETED:
        old = watcher.store.pop(watcher.key(event.object.metadata), None)
        return (Deleted(old),) if old is not None else ()
    return _put(watcher, event.object)


def _put(watcher: Watcher[T], thing: T) -> tuple[Change[T], ...]:
    """What a present object changes in the store, which follows."""
    store = watcher.store
    key = watcher.key(thing.metadata)
    old = store.get(key)
    if old is None:
        watcher.shrink(thing, None)
        store[watcher.key(thing.metadata)] = thing
        return (Added(thing),)
    if old.metadata.resource_version == thing.metadata.resource_version:
        return ()
    if old.metadata.uid == thing.metadata.uid:
        watcher.shrink(thing, old)
        store[key] = thing
        return (Modified(thing, old),)
    watcher.shrink(thing, None)
    del store[key]
    store[watcher.key(thing.metadata)] = thing
    return (Deleted(old), Added(thing))


# ---------------------------------------------------------------------------------------------- listing


async def _listed(watcher: Watcher[T], position: _Position) -> AsyncGenerator[Change[T]]:
    """How the server's list differs from the store, object by object; the store follows. Failures: begins again."""
    while True:
        try:
            async with aclosing(_listed_once(watcher, position)) as differences:
                async for difference in differences:
                    yield difference
        except KajitoriError as error:
            await _pause(watcher, position, error)
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
            for thing in page.items:
                missing.discard(watcher.key(thing.metadata))
                for change in _put(watcher, thing):
                    yield change
            position.resource_version = page.resource_version
    for key in missing:
        yield Deleted(watcher.store.pop(key), missed=True)


# ---------------------------------------------------------------------------------------------- following


async def _followed(watcher: Watcher[T], position: _Position) -> AsyncGenerator[list[WatchEvent[T]]]:
    """Events from where the list ended, over as many requests as it takes. Raises GoneError where that is too old."""
    clock = watcher.client.environment.clock
    while True:
        began = clock()
        failure: KajitoriError | None = None
        try:
            async with aclosing(_once(watcher, position)) as blocks:
                async for block in blocks:
                    yield block
        except TimeoutError:
            silence = watcher.settings.silence_seconds
            log.info("watching %s: nothing heard for %.0f s, connecting again", watcher.resource.plural, silence)
        except KajitoriError as error:
            failure = error
        if clock() - began >= HEALTHY_SECONDS:
            position.failures = 0
            if failure is None:
                continue
        failure = failure or ConnectionFailed("the server ended the watch at once")
        position.doubtful = not isinstance(failure, GoneError)
        await _pause(watcher, position, failure)
        if isinstance(failure, GoneError):
            raise failure


async def _once(watcher: Watcher[T], position: _Position) -> AsyncGenerator[list[WatchEvent[T]]]:
    """The events of one request, in blocks as they arrive; the position follows. Raises what the server says."""
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
    async with stream, aclosing(_lines(stream)) as blocks:
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
    """Raises GoneError where the server knows less than it once told, as after a restored backup: such a watch would
    be silent until the server has caught up, and what is gone would never be told."""
    pages = watcher.client.list_pages(watcher.resource, watcher.namespace, page_size=1, type=watcher.type)
    async with aclosing(pages):
        page = await anext(aiter(pages))
    now, last = page.resource_version, position.resource_version
    if now.isdecimal() and last.isdecimal() and int(now) < int(last):
        raise GoneError(f"the server is at resource version {now}, and told {last} before", status=410)


async def _lines(stream: ByteStream) -> AsyncGenerator[bytes]:
    """Whole lines, as many at a time as have arrived. A line cut off by the end of the stream is dropped."""
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


async def _pause(watcher: Watcher[Any], position: _Position, error: KajitoriError) -> None:
    """Waits after a failure, longer each time; raises it instead where waiting would not help."""
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
