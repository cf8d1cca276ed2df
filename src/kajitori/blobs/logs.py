"""Logs of members whose Pods are gone: the end of each, by run, attempt and rank, as long as the run exists."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from kajitori.blobs.blobs import Blob, Blobs
from kajitori.blobs.results import KeptResults

log = logging.getLogger(__name__)

PREFIX = "logs"
LEAST_BYTES = 4096
"""What a log counts for at least: a file takes a block and a name."""
NEW_RUN = timedelta(hours=1)
"""What is younger is never taken for left over: its run may not have been seen by whoever tidies up."""


@dataclass(frozen=True, slots=True)
class MemberLogName:
    """Whose log it is."""

    namespace: str
    run_uid: str
    attempt: int
    rank: int

    @property
    def key(self) -> str:
        return f"{PREFIX}/{self.namespace}/{self.run_uid}/{self.attempt}/{self.rank}"


@dataclass(frozen=True, slots=True)
class KeptLog:
    """One that is there."""

    attempt: int
    rank: int
    size_bytes: int


class KeptLogs:
    """Logs in a store of blobs. Lines begin with the time and a blank, as a kubelet writes them with timestamps."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.results = KeptResults(blobs)
        """What members of sweeps said as their results, in the same store."""

    async def keep(self, name: MemberLogName, content: bytes) -> None:
        """Stores the end of a member's log in place of what was kept of it before."""
        await self._blobs.put(name.key, content)

    def read(self, name: MemberLogName) -> AsyncGenerator[bytes, None]:
        """What was kept, piece by piece. Raises NotFound before the first where nothing was."""
        return self._blobs.get(name.key)

    async def of_run(self, namespace: str, run_uid: str) -> list[KeptLog]:
        """What there is of a run, by attempt and rank."""
        found = []
        async with aclosing(self._blobs.under(f"{PREFIX}/{namespace}/{run_uid}")) as blobs:
            async for blob in blobs:
                attempt, rank = blob.key.split("/")[3:]
                found.append(KeptLog(int(attempt), int(rank), blob.size_bytes))
        return sorted(found, key=lambda kept: (kept.attempt, kept.rank))

    async def forget(self, namespace: str, run_uid: str, *, up_to_attempt: int | None = None) -> None:
        """Removes what was kept of a run, or only of its oldest attempts."""
        keys = [
            MemberLogName(namespace, run_uid, kept.attempt, kept.rank).key
            for kept in await self.of_run(namespace, run_uid)
            if up_to_attempt is None or kept.attempt <= up_to_attempt
        ]
        if keys:
            await self._blobs.delete(*keys)

    async def collect(self, runs: Collection[str], keep_for: timedelta, namespace_bytes: int | None = None) -> int:
        """Removes what no run of these UIDs has, what is older than `keep_for`, and of namespaces that have more than
        `namespace_bytes` the oldest; answers how many logs went."""
        now = await self._blobs.now()
        left: list[str] = []
        held: dict[str, list[Blob]] = defaultdict(list)
        async with aclosing(self._blobs.under(PREFIX)) as blobs:
            async for blob in blobs:
                age = now - blob.modified_at
                if age > keep_for or (age > NEW_RUN and _run_uid(blob) not in runs):
                    left.append(blob.key)
                elif namespace_bytes is not None:
                    held[blob.key.split("/")[1]].append(blob)
        for namespace, theirs in held.items():
            excess = list(_oldest_beyond(theirs, namespace_bytes or 0))
            if excess:
                log.info("%d kept logs of namespace %s go: it has more than policy allows", len(excess), namespace)
            left += excess
        if left:
            await self._blobs.delete(*left)
        return len(left)


class LogsOfRun:
    """What was kept of one run, for one reader: listed once, however many of its members he asks for."""

    def __init__(self, kept: KeptLogs, namespace: str, run_uid: str) -> None:
        self._kept = kept
        self._run = namespace, run_uid
        self._listed: list[KeptLog] | None = None
        self._listing = asyncio.Lock()

    async def listed(self, *, anew: bool = False) -> list[KeptLog]:
        """What there is, by attempt and rank; `anew`: what is there now."""
        async with self._listing:
            if self._listed is None or anew:
                self._listed = await self._kept.of_run(*self._run)
        return self._listed

    def read(self, attempt: int, rank: int) -> AsyncGenerator[bytes, None]:
        """As KeptLogs.read."""
        return self._kept.read(MemberLogName(*self._run, attempt, rank))


def _oldest_beyond(logs: Sequence[Blob], limit_bytes: int) -> Iterator[str]:
    """The keys of the oldest logs, without which the others keep to the limit."""
    excess = sum(max(blob.size_bytes, LEAST_BYTES) for blob in logs) - limit_bytes
    for blob in sorted(logs, key=lambda blob: (blob.modified_at, blob.key)):
        if excess <= 0:
            return
        excess -= max(blob.size_bytes, LEAST_BYTES)
        yield blob.key


def _run_uid(blob: Blob) -> str:
    return blob.key.split("/")[2]
