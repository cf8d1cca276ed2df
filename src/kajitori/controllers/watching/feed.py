"""The feed of telemetry: once a minute the leading controller reads the new bands of all running runs from history and
hands them to its watchers.

History is the only source. The Web API's servers write the bands of each minute there, up to a minute after its end. A
minute is handed out once, in the order of time, SETTLE_SECONDS after its end, when late reports have arrived. While no
server can write bands, nothing is handed out; what the servers write later is handed out then.

What watchers know of each run is kept in the blob store every few minutes, so that a new leader continues there instead
of reading a day of history again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec
import zstandard

from kajitori.blobs.stores.blobs import Blobs
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.reasons import Phase
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MINUTE_SECONDS
from kajitori.errors import KajitoriError, NotFound
from kajitori.history.store import History
from kajitori.monitoring.lasting_failure import LastingFailure

log = logging.getLogger(__name__)

SETTLE_SECONDS = 110
"""Time after the end of a minute at which it is handed out. Agents send each minute twice, the second time up to 92
seconds after its end, and servers make its bands 51 seconds after its end, or as soon as a late report has arrived."""
LOOKBACK_SECONDS = 24 * 3600
"""Time of a run that watchers are given when the feed first sees it."""
MISSED_SECONDS = 3600
"""Time without bands after which every run is read anew, instead of minute by minute."""
READ_SECONDS = 10.0
"""Time in a minute that is spent on the past of runs that the feed has not seen. The others follow in later minutes."""
INTERVALS_AT_ONCE = 2000
"""Intervals of the past that are handed out together, about ten megabytes of them."""
STATES_KEY = "watching/state"
"""Blob with what watchers know of each run."""
STATES_SECONDS = 300
"""Time of telemetry after which the blob is written again."""
STATES_VERSION = 1
"""Increase it if the form or meaning of a watcher's state changes: a new leader ignores states of another version."""
MAX_MEMORY_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Round:
    """New intervals of some running runs. A minute of many runs is handed out in several rounds."""

    now: float
    """Seconds since 1970."""
    until: int
    """End of the newest minute that was read. Nothing is known of the time after it: measure quiet or idle time up to
    here, not up to `now`."""
    runs: Mapping[str, RunObject]
    """All running runs that the feed has read, by UID. Forget what is known of others: if one of them comes again, its
    past comes again as well."""
    fresh: Mapping[str, Sequence[Interval]]
    """The new intervals of each run, by its UID, in the order of time. Each interval comes in one round only.

    The first ones of a run are those of the last LOOKBACK_SECONDS and may be longer than a minute. Those of a restarted
    run belong to several attempts. A run whose nodes do not report has none.
    """


class WatcherStates(msgspec.Struct, frozen=True, array_like=True):
    """The states of all watchers, as they are stored for the next leader."""

    version: int
    until: int
    """End of the newest minute in it."""
    uids: tuple[str, ...]
    """Runs that the states cover."""
    states: dict[str, bytes]
    """By name of the watcher."""


class Watcher(Protocol):
    """One judgement about running runs, such as whether they are stuck. A watcher holds the state that it needs of each
    run."""

    async def watch(self, seen: Round) -> None:
        """Take the new intervals of running runs. Each interval comes once.

        A watcher stores what it decides in the Run's status, and compares with the status before it acts: the next
        leader's watchers know less than this one, and may be given the last day of each run again.
        """
        ...

    def save_state(self) -> bytes:
        """Return the watcher's state about all runs, for the next leader; empty if the watcher needs none."""
        ...

    def restore_state(self, state: bytes) -> None:
        """Replace the watcher's state by one that another leader's watcher saved; empty stands for no state. Raises
        msgspec's errors."""
        ...


class Feed:
    """Reads the bands of running runs from history and hands them to watchers."""

    def __init__(
        self,
        history: History,
        mirror: Mirror,
        watchers: Sequence[Watcher],
        now: Callable[[], datetime],
        blobs: Blobs | None = None,
    ) -> None:
        """Without `blobs` a new leader reads the last day of each run."""
        self._history = history
        self._mirror = mirror
        self._watchers = watchers
        self._now = now
        self._blobs = blobs
        self._kept_until: int | None = None
        """End of the newest minute in the blob; None before it was looked for."""
        self._until: int | None = None
        """End of the newest minute that was read."""
        self._known: set[str] = set()
        """UIDs of the running runs that watchers know up to `_until`."""

    async def follow(self) -> None:
        """Look once a minute until cancelled, as soon as the next minute has settled."""
        failure = LastingFailure(log, "running runs cannot be watched now; it is tried again: %s")
        while True:
            try:
                await self.look()
                failure.end()
            except KajitoriError as error:
                failure.note(str(error))
            past = (self._now().timestamp() - SETTLE_SECONDS) % MINUTE_SECONDS
            await asyncio.sleep(MINUTE_SECONDS - past + 1)

    async def look(self) -> None:
        """Hand out everything that is new in history. Raises the errors of the database."""
        now = self._now().timestamp()
        newest = await self._history.newest_minute(int(now) - SETTLE_SECONDS - MINUTE_SECONDS + 1)
        if newest is None:
            return
        until = newest + MINUTE_SECONDS
        if self._kept_until is None:
            self._kept_until = await self._restore_states(until)
        if self._until is None or until - self._until > MISSED_SECONDS:
            self._known.clear()
            self._until = until
            await self._hand_out(now, [])
        for start in range(self._until, until, MINUTE_SECONDS):
            runs = self._running_runs()
            self._known &= runs.keys()
            self._known |= {uid for uid in runs.keys() - self._known if _started_at(runs[uid]) >= start}
            async for intervals in self._history.telemetry_minute(start, self._known):
                self._until = start + MINUTE_SECONDS
                await self._hand_out(now, intervals)
        await self._read_past(now, self._until)
        if self._until - self._kept_until >= STATES_SECONDS:
            await self._save_states(self._until)

    async def _restore_states(self, until: int) -> int:
        """Continue with the states that another leader saved, if they can be used. Return the end of the newest minute
        in them; else 0."""
        if self._blobs is None:
            return 0
        try:
            packed = await self._blobs.read(STATES_KEY, limit_bytes=MAX_MEMORY_BYTES)
            saved = await asyncio.to_thread(_unpack, packed)
            if saved.version != STATES_VERSION or not 0 <= until - saved.until <= MISSED_SECONDS:
                return 0
            for watcher in self._watchers:
                watcher.restore_state(saved.states.get(type(watcher).__name__, b""))
        except NotFound:
            return 0
        except (KajitoriError, msgspec.MsgspecError, zstandard.ZstdError) as error:
            log.warning("what the last leader knew of running runs cannot be read; history is read instead: %s", error)
            for watcher in self._watchers:
                watcher.restore_state(b"")
            return 0
        self._until, self._known = saved.until, set(saved.uids) & self._running_runs().keys()
        return saved.until

    async def _save_states(self, until: int) -> None:
        """Store the states of the watchers for the next leader."""
        self._kept_until = until
        if self._blobs is None:
            return
        states = {type(watcher).__name__: watcher.save_state() for watcher in self._watchers}
        saved = WatcherStates(STATES_VERSION, until, tuple(sorted(self._known)), states)
        try:
            await self._blobs.put(STATES_KEY, await asyncio.to_thread(_pack, saved))
        except KajitoriError as error:
            log.warning("a new leader will read a day of history of each run: %s", error)

    async def _read_past(self, now: float, until: int) -> None:
        """Hand out the past of runs that the feed has not seen, for as long as a round may take."""
        clock = asyncio.get_running_loop().time
        ends = clock() + READ_SECONDS
        several: list[Interval] = []
        unread = [(uid, run) for uid, run in self._running_runs().items() if uid not in self._known]
        for uid, _ in sorted(unread, key=_members_of, reverse=True):
            several += await self._history.telemetry(uid, until - LOOKBACK_SECONDS, until)
            self._known.add(uid)
            if len(several) >= INTERVALS_AT_ONCE:
                await self._hand_out(now, several)
                several = []
            if clock() >= ends:
                break
        if several:
            await self._hand_out(now, several)

    async def _hand_out(self, now: float, intervals: Sequence[Interval]) -> None:
        assert self._until is not None
        runs = {uid: run for uid, run in self._running_runs().items() if uid in self._known}
        fresh: dict[str, list[Interval]] = {}
        for each in sorted(intervals, key=lambda each: (each.start, each.attempt)):
            if each.run_uid in runs:
                fresh.setdefault(each.run_uid, []).append(each)
        seen = Round(now, self._until, runs, fresh)
        for watcher in self._watchers:
            try:
                await watcher.watch(seen)
            except KajitoriError as error:
                log.warning("%s could not do all that follows from telemetry: %s", type(watcher).__name__, error)

    def _running_runs(self) -> dict[str, RunObject]:
        return {
            run.metadata.uid: run
            for run in self._mirror.runs.values()
            if run.status is not None and run.status.phase is Phase.RUNNING
        }


def _members_of(entry: tuple[str, RunObject]) -> int:
    status = entry[1].status
    return status.members.total if status is not None else 0


def _pack(states: WatcherStates) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(states))


def _unpack(packed: bytes) -> WatcherStates:
    """Return the saved states. Raises ZstdError or msgspec's errors if they cannot be read."""
    plain = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_MEMORY_BYTES)
    return msgspec.msgpack.decode(plain, type=WatcherStates)


def _started_at(run: RunObject) -> float:
    started = parse_time(run.status.started_at) if run.status is not None else None
    return started.timestamp() if started is not None else 0.0
