"""The audit trail while its database is slow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import pytest

from kajitori.api import audit
from kajitori.api.audit import AuditTrail
from kajitori.core.usage.records import AuditEntry
from kajitori.history.store import History


class SlowHistory(History):
    """Calls `meanwhile` during its first write."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__("sqlite:///nowhere")
        self.meanwhile = meanwhile
        self.written: list[str] = []
        self.has_written = asyncio.Event()

    async def note(self, entries: Iterable[AuditEntry]) -> None:
        if not self.has_written.is_set():
            self.meanwhile()
        self.written += [entry.object for entry in entries]
        self.has_written.set()


async def test_entries_that_come_during_a_write_are_written_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if so many come that there is no more room for those that are being written."""
    monkeypatch.setattr(audit, "MOST_WAITING", 3)
    monkeypatch.setattr(audit, "FLUSH_SECONDS", 0.0)

    def note(*names: str) -> None:
        for name in names:
            trail.note({"type": "http"}, "ana", "stop run", namespace="vision", object=name)

    history = SlowHistory(lambda: note("d", "e"))
    trail = AuditTrail(history, lambda: datetime(2026, 11, 21, tzinfo=UTC))
    note("a", "b", "c")
    writing = asyncio.create_task(trail.write_forever())
    async with asyncio.timeout(30):
        await history.has_written.wait()
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing
    assert history.written == ["a", "b", "c", "d", "e"]
