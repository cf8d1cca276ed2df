"""Writes runs to history: after each change, and before the object of a run is deleted. A new leader writes all runs
that history lacks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from kajitori.blobs.history_outbox import HistoryOutbox
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.recording import (
    Facts,
    closed_now,
    decisions_of,
    facts_of,
    removal_of,
    state_of,
    was_never_started,
)
from kajitori.controllers.workqueue import Key
from kajitori.core.backoff import Backoff
from kajitori.core.spec.status import RunStatus
from kajitori.core.usage.records import AuditEntry, RunState
from kajitori.errors import KajitoriError
from kajitori.history.store import History
from kajitori.kube.resources import Resource
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

TOGETHER = 200
"""Most runs in one transaction."""
GATHER_SECONDS = 0.25
"""Pause before changes are written, so that one transaction takes many of them."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
"""Longest pause before a database that does not answer is asked again."""
ASK_AGAIN = timedelta(seconds=2)
"""Time until the removal of a run that waits for history is tried again."""
END_SECONDS = 5.0
"""Longest wait for the database while a run is to be removed; other work of the run waits meanwhile."""
OUTBOX_AFTER_SECONDS = 30.0
"""If the database has not answered for this long, the record of a run that is to be removed goes to the outbox."""
OUTBOX_SECONDS = 60.0
"""Time between two looks into the outbox."""


@dataclass(frozen=True, slots=True)
class _RunNews:
    """News about one run for history."""

    key: Key
    run: RunObject
    state: RunState
    is_gone: bool = False
    """Whether the run's object has disappeared."""


class HistoryKeeper:
    """Follows the mirror, and writes to history what changed. Only the removal of a run waits for this, never the run
    itself."""

    def __init__(
        self,
        history: History,
        mirror: Mirror,
        *,
        now: Callable[[], datetime],
        outbox: HistoryOutbox | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """Without `outbox`, the removal of runs waits for as long as the database does not answer."""
        self.history = history
        self._mirror = mirror
        self._now = now
        self._outbox = outbox
        self._metrics = metrics or ControllerMetrics.unread()
        self._changed: dict[Key, None] = {}
        self._shown: dict[Key, RunObject] = {}
        """Each run as the mirror showed it when history recorded it."""
        self._recorded: dict[str, tuple[Facts, int]] = {}
        """By UID: the last recorded facts, and the number of the last recorded segment."""
        self._noted: dict[str, set[str]] = {}
        """By UID: keys of decisions that the audit trail has, or `_entries`."""
        self._entries: dict[str, AuditEntry] = {}
        """Decisions that the audit trail does not have yet."""
        self._has_told = False
        """Whether history was brought up to date once."""
        self._ended: set[str] = set()
        """UIDs of runs with a removal that history or the outbox has recorded."""
        self._waiting_since: dict[str, float] = {}
        self._wake = asyncio.Event()

    @property
    def trouble(self) -> str:
        """Why history could not be written; empty if it could."""
        return self.history.trouble

    @property
    def is_current(self) -> bool:
        """Whether history has everything that the mirror shows."""
        return self._has_told and not self._changed and not self._entries

    def confirmed(self, run: RunObject) -> int:
        """Return the number of the last closed segment of a run that history has; 0 if that is not known."""
        return self._last_stored_segment(run.metadata.uid) or 0

    async def follow(self) -> None:
        """Write to history what the mirror shows, until cancelled."""
        unsubscribe = self._mirror.on_change(self._note)
        try:
            await self._mirror.wait_synced()
            self._changed |= dict.fromkeys(self._mirror.runs)
            self._wake.set()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._empty_outbox_forever())
                await self._write_forever()
        finally:
            unsubscribe()

    async def keep_end(self, run: RunObject, status: RunStatus, *, removed: bool, rule: str = "") -> bool:
        """Record the last state of a run's object before it is deleted; return whether that is done. If False, the
        object has to stay, and the caller asks again after `ASK_AGAIN`. `rule` names for the audit trail what removes
        the run. With `removed`, the object is deleted right after this.
        """
        uid = run.metadata.uid
        if uid in self._ended or was_never_started(run):
            return True
        state = state_of(run, status, self._now(), confirmed=self._last_stored_segment(uid), removed=removed)
        if removed:  # no further entry about the run: a newer one would not contain the removal
            self._ended.add(uid)
        try:
            async with asyncio.timeout(END_SECONDS):
                await self.history.record([state])
                if rule:
                    await self.history.note([removal_of(run, self._now(), rule)])
        except (KajitoriError, TimeoutError) as error:
            self._metrics.history_failures.inc()
            why = error.message if isinstance(error, KajitoriError) else "it takes too long"
            log.warning("run %s/%s is not in history yet: %s", run.metadata.namespace, run.metadata.name, why)
            self._ended.discard(uid)
            return removed and await self._put_into_outbox(state)
        self._waiting_since.pop(uid, None)
        self._recorded[uid] = facts_of(run), state.last
        return True

    def describe_wait(self) -> str:
        """Return why the removal of a run waits, for its status."""
        after = f"; without it, the run is kept aside after {OUTBOX_AFTER_SECONDS:g} s" if self._outbox else ""
        return f"its object stays until history has its record: {self.trouble or 'it was not stored yet'}{after}"

    async def _put_into_outbox(self, state: RunState) -> bool:
        """Put a record into the outbox if the database has not answered for long enough."""
        uid = state.run.uid
        now = asyncio.get_running_loop().time()
        since = self._waiting_since.setdefault(uid, now)
        if self._outbox is None or now - since < OUTBOX_AFTER_SECONDS:
            return False
        try:
            await self._outbox.put(uid, msgspec.json.encode(state))
        except KajitoriError as error:
            log.warning("the record of run %s/%s can't be kept: %s", state.run.namespace, state.run.name, error)
            return False
        self._waiting_since.pop(uid, None)
        self._ended.add(uid)
        return True

    # ------------------------------------------------------------------------------------------ changes

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._changed[namespace, name] = None
            self._wake.set()

    async def _write_forever(self) -> None:
        backoff, is_first = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), True
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            try:
                if is_first:
                    await self._mark_removed()
                    is_first = False
                while self._changed or self._entries:
                    await self._write_changes()
                self._has_told = True
            except KajitoriError as error:
                self._metrics.history_failures.inc()
                log.warning("history is behind by %d runs: %s", len(self._changed), error)
                self._wake.set()
                await asyncio.sleep(backoff.next_seconds())
            else:
                backoff.reset()
            self._metrics.history_waiting.set(len(self._changed))

    async def _write_changes(self) -> None:
        """Write the runs that changed to history, at most `TOGETHER` of them."""
        keys = list(self._changed)[:TOGETHER]
        for key in keys:
            del self._changed[key]
        try:
            news = [item for key in keys for item in self._news_of(key)]
            if news:
                await self.history.record(item.state for item in news)
        except BaseException:
            self._changed = dict.fromkeys(keys) | self._changed
            raise
        for item in news:
            self._note_recorded(item)
        entries = list(self._entries.values())
        if entries:
            await self.history.note(entries)
            for entry in entries:
                self._entries.pop(entry.key, None)

    def _news_of(self, key: Key) -> list[_RunNews]:
        """Return the news for history about the runs that have, or had, this name."""
        found: list[_RunNews] = []
        before, run = self._shown.get(key), self._mirror.runs.get(key)
        if before is not None and (run is None or run.metadata.uid != before.metadata.uid):
            uid, now = before.metadata.uid, self._now()
            if uid in self._ended:
                self._forget_run(key, uid)
            else:  # its object disappeared without the controller: a user removed the finalizer
                state = state_of(
                    before, closed_now(before, now), now, confirmed=self._last_stored_segment(uid), removed=True
                )
                found.append(_RunNews(key, before, state, is_gone=True))
        if run is not None and run.metadata.uid not in self._ended and not was_never_started(run):
            recorded = self._recorded.get(run.metadata.uid)
            if recorded is None or recorded[0] != facts_of(run):
                state = state_of(
                    run, run.current_status, self._now(), confirmed=self._last_stored_segment(run.metadata.uid)
                )
                found.append(_RunNews(key, run, state))
            elif not found:
                self._shown[key] = run
        return found

    def _note_recorded(self, news: _RunNews) -> None:
        """Record what history has now."""
        uid = news.run.metadata.uid
        if news.is_gone:
            self._forget_run(news.key, uid)
            return
        self._shown[news.key] = news.run
        self._recorded[uid] = facts_of(news.run), news.state.last
        noted = self._noted.setdefault(uid, set())
        for entry in decisions_of(news.run):
            if entry.key not in noted:
                noted.add(entry.key)
                self._entries[entry.key] = entry

    def _last_stored_segment(self, uid: str) -> int | None:
        """Return the number of the last segment of a run that history has; None if that is not known."""
        recorded = self._recorded.get(uid)
        return recorded[1] or None if recorded is not None else None

    def _forget_run(self, key: Key, uid: str) -> None:
        self._shown.pop(key, None)
        self._recorded.pop(uid, None)
        self._noted.pop(uid, None)
        self._ended.discard(uid)

    async def _mark_removed(self) -> None:
        """Mark runs as removed if their objects disappeared while no controller was running."""
        await self._mirror.wait_fresh()
        present = {run.metadata.uid for run in self._mirror.runs.values()}
        gone = [uid for uid in await self.history.present() if uid not in present]
        await self.history.mark_removed(gone, int(self._now().timestamp()))

    # ------------------------------------------------------------------------------------------ outbox

    async def _empty_outbox_forever(self) -> None:
        while self._outbox is not None:
            try:
                async for uid, content in self._outbox.waiting():
                    await self.history.record([msgspec.json.decode(content, type=RunState)])
                    await self._outbox.remove(uid)
                    log.info("the record of run %s was taken from the outbox to history", uid)
            except (KajitoriError, msgspec.DecodeError) as error:
                log.info("the outbox of history is not emptied: %s", error)
            await asyncio.sleep(OUTBOX_SECONDS)
