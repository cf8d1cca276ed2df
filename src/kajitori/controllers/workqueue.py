"""Work on many things, one piece at a time on each: what changed, what is due, what failed and is tried again."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Coroutine, Iterable, KeysView
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from kajitori.errors import Conflict, KajitoriError, NotFound

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.02
"""Changes come in bursts; one look at the end of a burst is enough."""

REST = 4
"""Looking at one thing that is large rests for this many times as long as it took: at most a fifth of a core."""

RETRY_MAX_SECONDS = 30.0

TAKEN_OF_BURST = 50
"""They are looked at in some fortieth of a second."""

MOST_STALE = 1024
"""Alarms that do not count any more are thrown away when they are so many and as many as those that do."""

Key = tuple[str, str]
"""Namespace and name of a Run."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""One piece of work. Made when it begins: a task that is cancelled before that leaves nothing behind."""


class WorkQueue:
    """Keys that are to be looked at, and what is being done about them."""

    def __init__(self, now: Callable[[], datetime], on_done: Callable[[Key], None] = lambda key: None) -> None:
        """`on_done` is told of each key whose piece of work is over, however it ended."""
        self._now = now
        self._on_done = on_done
        self._changed: dict[Key, None] = {}
        """In the order in which they did."""
        self._is_burst = False
        """Some of these were left when others were taken."""
        self._changed_meanwhile: set[Key] = set()
        self._wake_at: dict[Key, datetime] = {}
        self._alarms: list[tuple[datetime, Key]] = []
        """A heap of these, and of some that do not count any more."""
        self._working: dict[Key, asyncio.Task[None]] = {}
        self._failures: dict[Key, int] = {}
        """In a row."""
        self._rests_until: dict[Key, float] = {}
        """Before this time of the event loop it is not looked at again."""
        self._something = asyncio.Event()

    @property
    def busy(self) -> KeysView[Key]:
        """What is being worked on."""
        return self._working.keys()

    def add(self, *keys: Key) -> None:
        """These changed."""
        self._changed.update(dict.fromkeys(keys))
        self._something.set()

    def nudge(self) -> None:
        """Something else changed: whoever waits is to look."""
        self._something.set()

    def wake(self, key: Key, after: timedelta) -> None:
        """It is looked at again after a while, or earlier."""
        self.wake_at(key, self._now() + after)

    def wake_at(self, key: Key, moment: datetime) -> None:
        """It is looked at again at that moment, or earlier."""
        known = self._wake_at.get(key)
        if known is None or moment < known:
            self._wake_at[key] = moment
            heapq.heappush(self._alarms, (moment, key))
            if len(self._alarms) > MOST_STALE + 2 * len(self._wake_at):
                self._alarms = [(due, each) for each, due in self._wake_at.items()]
                heapq.heapify(self._alarms)

    def rest(self, key: Key, seconds: float) -> None:
        """Looking at it took so long: it is left alone for a multiple of that."""
        self._rests_until[key] = asyncio.get_running_loop().time() + REST * seconds

    def forget(self, key: Key) -> None:
        """It is gone."""
        for facts in (self._wake_at, self._failures, self._rests_until):
            facts.pop(key, None)

    async def wait(self, stopping: asyncio.Task[bool], moments: Iterable[datetime], seconds: float | None) -> None:
        """Until something changed or is due, at one of `moments` or after `seconds` at the latest, or until `stopping`
        is done; then for the burst to settle."""
        due = [each for each in (self._first_alarm(), *moments) if each is not None]
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
        """What changed or is due, but what is still being worked on or rests: these come later.

        Of those that `may_wait` some are taken at a time, the first: nothing else is to wait for all of a burst.
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
        """When something is due next."""
        while self._alarms and self._wake_at.get(self._alarms[0][1]) != self._alarms[0][0]:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def begin(self, key: Key, work: Work) -> None:
        """Begins a piece of work; there is none in progress on this key."""
        self._working[key] = asyncio.create_task(self._guarded(key, work))

    async def close(self) -> None:
        """Gives up what was begun."""
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._working.clear()  # one that was cancelled before it began never said that it is over

    async def _guarded(self, key: Key, work: Work) -> None:
        """Does one piece of work; whatever goes wrong is tried again later, slower each time."""
        try:
            await work()
            self._failures.pop(key, None)
        except (Conflict, NotFound) as error:
            log.debug("run %s/%s changed meanwhile: %s", *key, error)
            self._try_again(key, 0.1)  # where the mirror cannot follow, this does not pass by itself
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
        pause = min(unit_seconds * 2.0 ** min(failures, 16), RETRY_MAX_SECONDS)
        self.wake(key, timedelta(seconds=pause))
        return pause
