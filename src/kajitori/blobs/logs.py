"""Kept logs: the last part of each member's log, stored before its Pod is deleted and kept while the run exists."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from kajitori.blobs.log_indexes import LogIndexes
from kajitori.blobs.results import KeptResults
from kajitori.blobs.run_blobs import forget_run, run_uid_of
from kajitori.blobs.stacks import KeptStacks
from kajitori.blobs.stores.blobs import Blob, Blobs

log = logging.getLogger(__name__)

PREFIX = "logs"
MIN_BYTES = 4096
"""A smaller log counts as this size, since a file takes a block and a name."""
NEW_RUN = timedelta(hours=1)
"""A younger log is never removed as a leftover: the collector may not have seen its run yet."""


@dataclass(frozen=True, slots=True)
class MemberLogName:
    """The member and attempt of a log."""

    namespace: str
    run_uid: str
    attempt: int
    rank: int

    @property
    def key(self) -> str:
        return f"{PREFIX}/{self.namespace}/{self.run_uid}/{self.attempt}/{self.rank}"


@dataclass(frozen=True, slots=True)
class KeptLog:
    """A log that is kept."""

    attempt: int
    rank: int
    size_bytes: int


Times = dict[int, tuple[int, bytes] | None]
"""By place in a log: place and time of the first line behind it that has a time; None if no line near it has one."""


class RecentTimes:
    """Caches the times at places in kept logs, for the logs that were used last."""

    MOST_LOGS = 256
    MOST_PLACES = 4096

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], Times] = {}

    def of(self, log: Blob) -> Times:
        """Return the known times of a log in its present version. The caller adds times to the dictionary."""
        key = log.key, log.size_bytes, log.modified_at.isoformat()
        known = self._known.pop(key, None)
        if known is None or len(known) > self.MOST_PLACES:
            known = {}
        self._known[key] = known
        while len(self._known) > self.MOST_LOGS:
            del self._known[next(iter(self._known))]
        return known


class KeptLogs:
    """Logs in a store of blobs. Lines begin with the time and a blank, as a kubelet writes them with timestamps."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.results = KeptResults(blobs)
        """The results of members of sweeps, in the same store."""
        self.stacks = KeptStacks(blobs)
        """Stacks of ranks, in the same store; they are removed with the logs."""
        self.indexes = LogIndexes(blobs)
        """Indexes of the logs, in the same store; they are removed with the logs."""
        self.times = RecentTimes()

    async def keep(self, name: MemberLogName, content: bytes) -> None:
        """Store the end of a member's log; it replaces an earlier end."""
        await self._blobs.put(name.key, content)

    def read(self, name: MemberLogName) -> AsyncGenerator[bytes, None]:
        """Yield a kept log, piece by piece. Raises NotFound before the first piece if there is none."""
        return self._blobs.get(name.key)

    async def head(self, name: MemberLogName) -> Blob:
        """Return the properties of a kept log. Raises NotFound."""
        return await self._blobs.head(name.key)

    def read_range(self, log: Blob, start: int, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield a part of a kept log, from the byte `start` on, at most `length` bytes. Raises NotFound."""
        return self._blobs.get(log.key, start=start, length=length)

    async def of_run(self, namespace: str, run_uid: str) -> list[KeptLog]:
        """Return the kept logs of a run, by attempt and rank."""
        found = []
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            async for blob in blobs:
                attempt, rank = blob.key.split("/")[3:]
                found.append(KeptLog(int(attempt), int(rank), blob.size_bytes))
        return sorted(found, key=lambda kept: (kept.attempt, kept.rank))

    async def forget(self, namespace: str, run_uid: str, *, up_to_attempt: int | None = None) -> None:
        """Remove the logs and stacks of a run, or only of its oldest attempts."""
        await forget_run(self._blobs, PREFIX, namespace, run_uid, up_to_attempt=up_to_attempt)
        await self.indexes.forget(namespace, run_uid, up_to_attempt=up_to_attempt)
        await self.stacks.forget(namespace, run_uid, up_to_attempt=up_to_attempt)

    async def collect(
        self,
        runs: Collection[str],
        keep_for: timedelta,
        namespace_bytes: int | None = None,
        *,
        least_age: timedelta = NEW_RUN,
    ) -> int:
        """Remove logs and stacks that are no longer needed; return their number.

        These are logs and stacks older than `keep_for`, those that are older than `least_age` and belong to no run in
        `runs` (UIDs), and the oldest logs of each namespace that has more than `namespace_bytes`.
        """
        now = await self._blobs.now()
        removed: list[str] = []
        kept: dict[str, list[Blob]] = defaultdict(list)
        async with aclosing(self._blobs.under(PREFIX)) as blobs:
            async for blob in blobs:
                age = now - blob.modified_at
                if age > keep_for or (age > least_age and run_uid_of(blob) not in runs):
                    removed.append(blob.key)
                elif namespace_bytes is not None:
                    kept[blob.key.split("/")[1]].append(blob)
        for namespace, logs in kept.items():
            excess = list(_oldest_over_limit(logs, namespace_bytes or 0))
            if excess:
                log.info("removing %d logs of namespace %s: it has more than policy allows", len(excess), namespace)
            removed += excess
        if removed:
            await self._blobs.delete(*removed)
        await self.indexes.collect(runs, keep_for, least_age=least_age)
        return len(removed) + await self.stacks.collect(runs, keep_for, least_age=least_age)


class LogsOfRun:
    """The kept logs of one run, for one reader. They are listed once, even if the reader asks for many members."""

    def __init__(self, kept: KeptLogs, namespace: str, run_uid: str) -> None:
        self._kept = kept
        self._run = namespace, run_uid
        self._listed: list[KeptLog] | None = None
        self._listing = asyncio.Lock()

    async def listed(self, *, refresh: bool = False) -> list[KeptLog]:
        """Return the kept logs, by attempt and rank; with `refresh`, list them again."""
        async with self._listing:
            if self._listed is None or refresh:
                self._listed = await self._kept.of_run(*self._run)
        return self._listed

    def read(self, attempt: int, rank: int) -> AsyncGenerator[bytes, None]:
        """Yield a kept log, like KeptLogs.read."""
        return self._kept.read(MemberLogName(*self._run, attempt, rank))

    async def head(self, attempt: int, rank: int) -> Blob:
        """Return the properties of a kept log. Raises NotFound."""
        return await self._kept.head(MemberLogName(*self._run, attempt, rank))

    @property
    def logs(self) -> KeptLogs:
        """The store."""
        return self._kept


def _oldest_over_limit(logs: Sequence[Blob], limit_bytes: int) -> Iterator[str]:
    """Yield the keys of the oldest logs that have to be removed so that the others are within the limit."""
    excess = sum(max(blob.size_bytes, MIN_BYTES) for blob in logs) - limit_bytes
    for blob in sorted(logs, key=lambda blob: (blob.modified_at, blob.key)):
        if excess <= 0:
            return
        excess -= max(blob.size_bytes, MIN_BYTES)
        yield blob.key
