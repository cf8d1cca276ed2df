"""Docker's events: what happened to containers, as the bridge sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from kajitori.core.spec.reasons import Phase
from kajitori.docker.platform import Platform
from kajitori.docker.translation.filters import Filters, has_labels
from kajitori.errors import KajitoriError, NotFound

log = logging.getLogger(__name__)

REMEMBERED = 256
"""Events that are kept for clients that ask for the past, as many as Docker's daemon keeps."""
RETRY_SECONDS = 5.0

EVENT_FILTERS = frozenset(
    {"config", "container", "daemon", "event", "image", "label", "network", "node", "plugin", "scope", "type", "volume"}
)

Event = dict[str, Any]
Row = Mapping[str, Any]


class EventLog:
    """The latest events, and those to come."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=REMEMBERED)
        self._readers: set[asyncio.Queue[Event]] = set()
        self._foretold: set[tuple[str, str]] = set()
        """Action and id of events that this bridge sent at once, and that the runs will show later."""
        self._seen_first: set[str] = set()
        """Ids of containers that were seen among the runs before their `create` event was announced."""
        self.replaced: set[str] = set()
        """UIDs of runs that were made again under another name; their end is no event."""

    def foretell(self, action: str, id: str, attributes: Mapping[str, str]) -> None:
        """Add an event of something that was done through this bridge, before the runs show it."""
        if action == "create" and id in self._seen_first:  # the runs were faster than the answer
            self._seen_first.discard(id)
            return
        self.expect(action, id)
        self.add(action, id, attributes)

    def expect(self, action: str, id: str) -> None:
        """Suppress the next such event from the runs, because it was sent already."""
        self._foretold.add((action, id))

    def forget(self, action: str, id: str) -> None:
        """Suppress no such event any more: a run that was stopped before it ran has no end."""
        self._foretold.discard((action, id))

    def add_seen(self, action: str, id: str, attributes: Mapping[str, str]) -> None:
        """Add an event that the runs show, unless it was foretold."""
        if (action, id) in self._foretold:
            self._foretold.discard((action, id))
            return
        if action == "create":
            self._seen_first.add(id)
        if action == "destroy":
            self._seen_first.discard(id)
            self._foretold -= {("create", id), ("start", id), ("die", id)}
        self.add(action, id, attributes)

    def add(self, action: str, id: str, attributes: Mapping[str, str], kind: str = "container") -> None:
        nanoseconds = time.time_ns()
        event = {
            "Type": kind,
            "Action": action,
            "Actor": {"ID": id, "Attributes": dict(attributes)},
            "scope": "local",
            "time": nanoseconds // 10**9,
            "timeNano": nanoseconds,
            "status": action,
            "id": id,
            "from": attributes.get("image", ""),
        }
        self._events.append(event)
        for reader in self._readers:
            if reader.full():  # a client that does not read must not take all memory
                reader.get_nowait()
            reader.put_nowait(event)

    async def follow(self, since: float, until: float | None) -> AsyncGenerator[Event]:
        """Yield events from a time on, in seconds since the epoch; up to `until`, or for ever if that is None."""
        queue: asyncio.Queue[Event] = asyncio.Queue(10_000)
        self._readers.add(queue)
        try:
            for event in list(self._events):
                if event["timeNano"] >= since * 1e9 and (until is None or event["timeNano"] <= until * 1e9):
                    yield event
            while until is None or time.time() < until:
                left = None if until is None else max(0.0, until - time.time())
                try:
                    async with asyncio.timeout(left):
                        event = await queue.get()
                except TimeoutError:
                    return
                yield event
        finally:
            self._readers.discard(queue)


def passes(event: Event, filters: Filters) -> bool:
    """Whether an event passes all filters."""
    attributes, id = event["Actor"]["Attributes"], event["Actor"]["ID"]
    tests = {
        "type": lambda wanted: event["Type"] in wanted,
        "event": lambda wanted: event["Action"] in wanted or event["Action"].partition(":")[0] in wanted,
        "container": lambda wanted: any(one == attributes.get("name") or id.startswith(one) for one in wanted),
        "image": lambda wanted: any(attributes.get("image", "").startswith(one) for one in wanted),
        "label": lambda wanted: has_labels(attributes, wanted),
        "scope": lambda wanted: "local" in wanted,
    }
    return all(tests[key](wanted) if key in tests else False for key, wanted in filters.items())


class RunWatcher:
    """Turns changes of the user's runs into events: also of those that `kaji` or another bridge made."""

    def __init__(self, platform: Platform, events: EventLog) -> None:
        self._platform = platform
        self._events = events
        self._rows: dict[str, Row] = {}

    async def run(self) -> None:
        """Follow the runs until cancelled."""
        while True:
            with contextlib.suppress(KajitoriError, ValueError):
                await self._follow()
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        params: dict[str, Any] = {"owner": "@me"}
        params |= {"namespace": self._platform.namespace} if self._platform.namespace else {}
        async with aclosing(self._platform.chunks("/v1/runs/changes", params)) as chunks:
            text = b""
            is_first = not self._rows
            async for chunk in chunks:
                *messages, text = (text + chunk).split(b"\n\n")
                for message in messages:
                    name, data = _parsed(message)
                    if name == "snapshot":
                        await self._replace(data["items"], silently=is_first)
                        is_first = False
                    elif name == "changes":
                        await self._change(data)

    async def _replace(self, rows: list[Row], *, silently: bool) -> None:
        by_uid = {row["uid"]: row for row in rows}
        if not silently:
            gone = [row for uid, row in self._rows.items() if uid not in by_uid]
            await self._change({"added": [], "changed": rows, "removed": gone})
        self._rows = by_uid

    async def _change(self, data: Mapping[str, Any]) -> None:
        for row in (*data["added"], *data["changed"]):
            before = self._rows.get(row["uid"])
            self._rows[row["uid"]] = row
            for action in actions(before, row):
                await self._tell(action, row)
        for key in data["removed"]:
            row = self._rows.pop(key["uid"], None)
            if row is None or key["uid"] in self._events.replaced:
                continue
            id = self._platform.id_of(row["uid"])
            if row["startedAt"] and not Phase(row["phase"]).is_final:  # its end lay between two looks
                self._events.add_seen("die", id, {"name": row["name"]})
            self._events.add_seen("destroy", id, {"name": row["name"]})

    async def _tell(self, action: str, row: Row) -> None:
        attributes = {"name": str(row["name"])}
        id = self._platform.id_of(row["uid"])
        try:
            container = await self._platform.find(id)
        except (KajitoriError, NotFound):
            pass
        else:
            attributes |= container.labels | {"name": container.name, "image": str(container.spec.get("image", ""))}
            if action == "die":
                attributes["exitCode"] = str(container.exit_code)
        self._events.add_seen(action, id, attributes)


def actions(before: Row | None, row: Row) -> list[str]:
    """Return the events that lie between two states of a run; `before` is None for a new one."""
    happened = ["create"] if before is None else []
    phase_before = Phase(before["phase"]) if before is not None else None
    phase = Phase(row["phase"])
    has_run = bool(row["startedAt"])
    # A short run may start and end between two looks: it starts again if its start is another one.
    is_new_start = has_run and (before is None or before["startedAt"] != row["startedAt"])
    is_queued_again = phase in (Phase.QUEUED, Phase.STARTING) and not has_run  # its end lay between two looks
    if (
        phase_before is Phase.RUNNING
        and before is not None
        and before["startedAt"]
        and (is_new_start or is_queued_again)
    ):
        happened.append("die")
    if is_new_start or (phase is Phase.RUNNING and phase_before is Phase.RESTARTING):
        happened.append("start")
    if has_run and (
        (phase.is_final and (phase_before is None or not phase_before.is_final or is_new_start))
        or (phase is Phase.RESTARTING and phase_before is Phase.RUNNING)
    ):
        happened.append("die")
    health = row.get("health") or ""
    is_new = is_new_start or before is None or before.get("health") != health
    if is_new and health in _TOLD and phase is Phase.RUNNING:
        happened.append(f"health_status: {health}")
    return happened


_TOLD = ("healthy", "unhealthy")
"""Healths that are events: as with Docker, a start is none."""


def _parsed(message: bytes) -> tuple[str, Any]:
    name, data = "", ""
    for line in message.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key == "event":
            name = value.strip()
        elif key == "data":
            data += value.strip()
    return name, json.loads(data) if data else None
