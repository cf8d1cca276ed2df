"""The work queue of the run controller: keys that changed, are due or failed, with one task at a time for each key."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Coroutine, Iterable, KeysView
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from kajitori.core.backoff import backoff_seconds
from kajitori.errors import Conflict, KajitoriError, NotFound

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.02
"""Time to wait for further changes, because changes come in bursts."""

REST = 4
"""Pause of a key after its reconciliation, as a multiple of the time that took: one key uses a fifth of a core at
most."""

RETRY_MAX_SECONDS = 30.0

TAKEN_OF_BURST = 50
"""Number of keys that are taken from a burst at a time, if they may wait; reconciling them takes about 25 ms."""

MOST_STALE = 1024
"""Number of outdated alarms, beside one for each valid one, at which they are removed."""

Key = tuple[str, str]
"""Namespace and name of a Run."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""Returns the coroutine of one reconciliation. It is called when the task begins: a coroutine of a task that is
cancelled before it begins would never be awaited."""


class WorkQueue:
    """Keys to be reconciled, and the tasks that reconcile them."""

    def __init__(self, now: Callable[[], datetime], on_done: Callable[[Key], None] = lambda key: None) -> None:
        """`on_done` is called with a key when its task has ended, after a success or a failure."""
        self._now = now
        self._on_done = on_done
        self._changed: dict[Key, None] = {}
        """Changed keys in the order of their changes."""
        self._is_burst = False
        """Whether changed keys stayed in the queue when others were taken from it."""
        self._changed_meanwhile: set[Key] = set()
        self._wake_at: dict[Key, datetime] = {}
        self._alarms: list[tuple[datetime, Key]] = []
        """A heap of the alarms in `_wake_at`, and of outdated ones."""
        self._working: dict[Key, asyncio.Task[None]] = {}
        self._failures: dict[Key, int] = {}
        """Numbers of failures in a row."""
        self._rests_until: dict[Key, float] = {}
        """Time of the event loop before which a key is not reconciled again."""
        self._something = asyncio.Event()

    @property
    def busy(self) -> KeysView[Key]:
        """The keys that have a running task."""
        return self._working.keys()

    def add(self, *keys: Key) -> None:
        """Queue these keys."""
        self._changed.update(dict.fromkeys(keys))
        self._something.set()

    def nudge(self) -> None:
        """End a `wait`, because something other than a key changed."""
        self._something.set()

    def wake(self, key: Key, after: timedelta) -> None:
        """Queue the key again after this time at the latest."""
        self.wake_at(key, self._now() + after)

    def wake_at(self, key: Key, moment: datetime) -> None:
        """Queue the key again at this moment at the latest."""
        known = self._wake_at.get(key)
        if known is None or moment < known:
            self._wake_at[key] = moment
            heapq.heappush(self._alarms, (moment, key))
            if len(self._alarms) > MOST_STALE + 2 * len(self._wake_at):
                self._alarms = [(due, waiting) for waiting, due in self._wake_at.items()]
                heapq.heapify(self._alarms)

    def rest(self, key: Key, seconds: float) -> None:
        """Pause the key for a multiple of the time that its reconciliation took."""
        self._rests_until[key] = asyncio.get_running_loop().time() + REST * seconds

    def forget(self, key: Key) -> None:
        """Forget a deleted run."""
        for facts in (self._wake_at, self._failures, self._rests_until):
            facts.pop(key, None)

    async def wait(self, stopping: asyncio.Task[bool], moments: Iterable[datetime], seconds: float | None) -> None:
        """Wait until a key is queued or due, until one of `moments`, for `seconds`, or until `stopping` is done; then
        for the end of a burst."""
        due = [moment for moment in (self._first_alarm(), *moments) if moment is not None]
        timeouts = [(min(due) - self._now()).total_seconds()] if due else []
        timeouts += [] if seconds is None else [seconds]
        waiting = asyncio.create_task(self._something.wait())
        try:
            timeout = max(0.0, min(timeouts)) if timeouts else None
            await asyncio.wait({waiting, stopping}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._something.is_set() and not self._is_burst:
            await asyncio.sleep(SETTLE_SECONDS)
        self._something.clear()

    def take(self, may_wait: Callable[[Key], bool] = lambda key: False) -> set[Key]:
        """Take the keys that are queued or due. Keys that have a task or pause stay for later.

        Of a burst, only the first keys that `may_wait` are taken, so that other keys do not wait for the whole burst.
        """
        now, moment = self._now(), asyncio.get_running_loop().time()
        while (first := self._first_alarm()) is not None and first <= now:
            key = heapq.heappop(self._alarms)[1]
            del self._wake_at[key]
            self._changed[key] = None
        left = (
            islice(filter(may_wait, self._changed), TAKEN_OF_BURST, None) if len(self._changed) > TAKEN_OF_BURST else ()
        )
        kept = dict.fromkeys(left)
        taken, self._changed, self._is_burst = self._changed.keys() - kept.keys(), kept, bool(kept)
        if kept:
            self._something.set()
        self._changed_meanwhile.update(taken & self.busy)
        taken -= self.busy
        for key in [key for key in taken if self._rests_until.get(key, 0.0) > moment]:
            self.wake(key, timedelta(seconds=self._rests_until[key] - moment))
            taken.discard(key)
        return taken

    def _first_alarm(self) -> datetime | None:
        """Return the time of the next valid alarm."""
        while self._alarms and self._wake_at.get(self._alarms[0][1]) != self._alarms[0][0]:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def begin(self, key: Key, work: Work) -> None:
        """Start the task of a key, which must have none."""
        self._working[key] = asyncio.create_task(self._run_guarded(key, work))

    async def close(self) -> None:
        """Cancel all tasks."""
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._working.clear()  # a task that is cancelled before it begins does not remove itself

    async def _run_guarded(self, key: Key, work: Work) -> None:
        """Run one reconciliation. A failed one is requeued with exponential backoff."""
        try:
            await work()
            self._failures.pop(key, None)
        except (Conflict, NotFound) as error:
            log.debug("run %s/%s changed meanwhile: %s", *key, error)
            self._try_again(key, 0.1)  # the mirror may be unable to follow, so no change would requeue it
        except KajitoriError as error:
            pause = self._try_again(key, 0.5)
            log.warning("run %s/%s: %s; tried again in %.0f s", *key, error, pause)
        except Exception:
            log.exception("run %s/%s: this is a bug", *key)
            self._try_again(key, RETRY_MAX_SECONDS)
        finally:
            self._working.pop(key, None)
            if key in self._changed_meanwhile:
                self._changed_meanwhile.discard(key)
                self._changed[key] = None
            self._on_done(key)
            self._something.set()

    def _try_again(self, key: Key, unit_seconds: float) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = backoff_seconds(failures, 2 * unit_seconds, RETRY_MAX_SECONDS)
        self.wake(key, timedelta(seconds=pause))
        return pause
