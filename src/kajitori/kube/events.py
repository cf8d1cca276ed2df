"""Records Events, in which controllers and kubelets tell people what happened. They are written in the background."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from kajitori import errors
from kajitori.core.formats.times import format_time
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import EVENTS, Resource

log = logging.getLogger(__name__)

QUEUE_LIMIT = 10_000
REMEMBERED = 4_096
WRITERS = 4
PAUSE_FACTOR = 4
"""After each write, a writer pauses for this multiple of its duration, so that a busy API server gets fewer Events.
When thousands of runs started and ended in a minute, Events were a third of its writes."""

LONGEST_PAUSE_SECONDS = 5.0


class Writer(Protocol):
    """The methods of a client that are used here."""

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> Any: ...

    async def patch(
        self, resource: Resource, name: str, patch: Mapping[str, Any], namespace: str | None = None
    ) -> Any: ...


class HasMetadata(Protocol):
    """A Pod of any type: only its metadata is used."""

    @property
    def metadata(self) -> ObjectMeta: ...


@dataclass(frozen=True, slots=True)
class About:
    """The object that an Event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class EventContent:
    """The content of an Event. Two occurrences with the same content are one Event with a count."""

    about: About
    type: str
    reason: str
    message: str


class EventRecorder:
    """Writes Events in the background. If the same content occurs again, the count of the written Event is raised.

    If too many Events wait, the oldest are dropped, since no state depends on them.
    """

    def __init__(
        self,
        client: Writer,
        component: str,
        *,
        host: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`component` and, for a kubelet, `host` name the source of the Events."""
        self.client = client
        self.component = component
        self.host = host
        self._clock, self._monotonic, self._sleep = clock, monotonic, sleep
        self._waiting: OrderedDict[EventContent, int] = OrderedDict()
        self._written: OrderedDict[EventContent, tuple[str, int]] = OrderedDict()
        self._wake = asyncio.Event()
        self._numbers = itertools.count(time.time_ns())

    def pod(self, pod: HasMetadata, kind: str, reason: str, message: str) -> None:
        """Record an Event about a Pod; `kind` is Normal or Warning."""
        meta = pod.metadata
        self.emit(About("Pod", meta.name, meta.uid, meta.namespace), kind, reason, message)

    def emit(self, about: About, kind: str, reason: str, message: str) -> None:
        """Record an Event; `kind` is Normal or Warning. It is written later, in the background."""
        content = EventContent(about, kind, reason, message[:1024])
        self._waiting[content] = self._waiting.get(content, 0) + 1
        if len(self._waiting) > QUEUE_LIMIT:
            self._waiting.popitem(last=False)
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as writers:
            for _ in range(WRITERS):
                writers.create_task(self._write_forever())

    async def _write_forever(self) -> None:
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            content, times = self._waiting.popitem(last=False)
            began = self._monotonic()
            try:
                await self.write(content, times)
            except errors.KajitoriError as cause:
                log.debug(
                    "event %s about %s/%s not written: %s",
                    content.reason,
                    content.about.kind,
                    content.about.name,
                    cause,
                )
            await self._sleep(min(PAUSE_FACTOR * (self._monotonic() - began), LONGEST_PAUSE_SECONDS))

    async def write(self, content: EventContent, times: int = 1) -> None:
        """Write an Event now. If it was written before, raise its count."""
        now = format_time(self._clock())
        namespace = content.about.namespace or "default"
        before = self._written.pop(content, None)
        if before is not None:
            name, count = before
            try:
                patch = {"count": count + times, "lastTimestamp": now}
                await self.client.patch(EVENTS, name, patch, namespace)
            except errors.NotFound:
                before = None
            else:
                self._remember(content, name, count + times)
        if before is None:
            name = f"{content.about.name}.{next(self._numbers):x}"
            await self.client.create(EVENTS, self._event_body(content, name, namespace, times, now), namespace)
            self._remember(content, name, times)

    def _remember(self, content: EventContent, name: str, count: int) -> None:
        self._written[content] = (name, count)
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def _event_body(self, content: EventContent, name: str, namespace: str, times: int, now: str) -> dict[str, Any]:
        about = content.about
        involved = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
        if about.namespace:
            involved["namespace"] = about.namespace
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": content.type,
            "reason": content.reason,
            "message": content.message,
            "source": {"component": self.component, "host": self.host} if self.host else {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": self.host or self.component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": times,
        }
