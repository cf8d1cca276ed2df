"""Streams of changes, as a browser reads them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2


class Events:
    """The events of a stream, and the ID of the last one."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last_id = ""

    async def next(self) -> tuple[str, dict[str, Any]]:
        """Return kind and data of the next event that is no heartbeat."""
        kind = ""
        async for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                kind = value
            elif field == "data" and kind != "heartbeat":
                return kind, json.loads(value)
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def change_events(
    http: httpx2.AsyncClient, last_id: str = "", *, path: str, **params: Any
) -> AsyncIterator[Events]:
    """Open a stream of changes."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with http.stream("GET", path, params=params, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response.aiter_lines())
