"""The end of a member's log, kept before its Pod is deleted (rule 11)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import aclosing
from datetime import timedelta

from kajitori.core import names
from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member
from kajitori.core.kept_logs import logs_to_keep
from kajitori.core.policy_model import Logs
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.store.logs import KeptLogs, MemberLogName

log = logging.getLogger(__name__)

READ_SECONDS = 3.0
"""All logs of one deletion are read within this time, or what was not read by then is lost: nodes that are slow to
answer do not hold up a restart."""

LAST_WORDS_SECONDS = 10.0
"""How long past its grace a member is listened to that was told to end."""

AT_ONCE = 32
LISTENED_TO = 256
"""Members whose last words are waited for at once, of all runs together."""

BYTES_PER_LINE = 64
"""To get so many bytes from the end of a log, that many lines are asked for: an API server counts from the end in lines
only. Logs of longer lines are read to their end, and only the end is held in memory."""


class LogKeeper:
    """Reads logs and stores their ends. What cannot be read or stored is a loss that is logged, never an obstacle."""

    def __init__(self, client: KubeClient, kept: KeptLogs) -> None:
        self._client = client
        self._kept = kept
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._listening: set[asyncio.Task[None]] = set()

    async def before(
        self,
        namespace: str,
        run_uid: str,
        actions: Sequence[Action],
        members: Sequence[Member],
        rules: Logs,
        *,
        of_sweep: bool = False,
    ) -> None:
        """Keeps what policy wants kept of the members that these actions delete, and lets go of the oldest attempts;
        not of a sweep's, where each is the last one of some of its members."""
        wanted = logs_to_keep(actions, members, rules.members)
        if not wanted:
            return
        grace_seconds = max(each.grace_seconds for each in actions if isinstance(each, DeleteMembers | DeleteMember))
        await self.keep(namespace, run_uid, wanted, size_bytes=rules.per_member_bytes, grace_seconds=grace_seconds)
        oldest = max(member.attempt for member in wanted) - rules.attempts
        if oldest > 0 and not of_sweep:
            await self.forget(namespace, run_uid, up_to_attempt=oldest)

    async def keep(
        self, namespace: str, run_uid: str, members: Iterable[Member], *, size_bytes: int, grace_seconds: int
    ) -> None:
        """Stores what these members have said so far; what they say while they end is added afterwards."""
        wanted = [(member, MemberLogName(namespace, run_uid, member.attempt, member.rank)) for member in members]
        refused: list[KajitoriError] = []
        try:
            async with asyncio.timeout(READ_SECONDS):
                await asyncio.gather(*(self._keep(member, name, size_bytes, refused) for member, name in wanted))
        except TimeoutError:
            log.warning("run %s in %s: some logs could not be read in time and are lost", run_uid, namespace)
        if refused:
            first, lost = refused[0], _logs(len(refused))
            log.warning("run %s in %s: %s could not be stored and may be lost: %s", run_uid, namespace, lost, first)
        for member, name in wanted:
            if not member.is_over and len(self._listening) < LISTENED_TO:
                seconds = grace_seconds + LAST_WORDS_SECONDS
                task = asyncio.create_task(self._last_words(member, name, size_bytes, seconds))
                self._listening.add(task)
                task.add_done_callback(self._listening.discard)

    async def last_attempt(self, namespace: str, run_uid: str) -> int:
        """The highest attempt of which a log is kept; 0 if there is none, or the store does not answer."""
        try:
            return max((kept.attempt for kept in await self._kept.of_run(namespace, run_uid)), default=0)
        except KajitoriError as error:
            log.info("kept logs of run %s in %s could not be looked at: %s", run_uid, namespace, error)
            return 0

    async def forget(self, namespace: str, run_uid: str, *, up_to_attempt: int | None = None) -> None:
        """Removes what was kept of a run, or of its oldest attempts."""
        try:
            await self._kept.forget(namespace, run_uid, up_to_attempt=up_to_attempt)
        except KajitoriError as error:  # it is found as left over later
            log.info("kept logs of run %s in %s could not be removed: %s", run_uid, namespace, error)

    async def collect(self, runs: Collection[str], rules: Logs) -> None:
        """Removes what belongs to none of these runs (their UIDs), results too, and logs that are too old or many."""
        keep_for = timedelta(seconds=rules.keep_for_seconds)
        try:
            removed = await self._kept.collect(runs, keep_for, rules.namespace_bytes)
            removed += await self._kept.results.collect(runs)
        except KajitoriError as error:
            log.warning("kept logs were not tidied up: %s", error)
        else:
            log.debug("%d kept logs and results were removed", removed)

    async def close(self) -> None:
        """Listens to nobody any longer."""
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)

    async def _keep(self, member: Member, name: MemberLogName, size_bytes: int, refused: list[KajitoriError]) -> None:
        """`refused` is told why the store did not take it: whoever runs that has to know, before he is asked."""
        try:
            async with self._slots:
                end = await self._read_end(member, name.namespace, size_bytes, follow=False)
        except KajitoriError as error:
            log.info("the log of Pod %s/%s is not kept: %s", name.namespace, member.pod, error)
            return
        if not end:
            return
        try:
            await self._kept.keep(name, end)
        except KajitoriError as error:
            refused.append(error)

    async def _last_words(self, member: Member, name: MemberLogName, size_bytes: int, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                end = await self._read_end(member, name.namespace, size_bytes, follow=True)
                if end:
                    await self._kept.keep(name, end)
        except TimeoutError:
            log.info("Pod %s/%s did not end in time: what it said last is not kept", name.namespace, member.pod)
        except KajitoriError as error:
            log.debug("Pod %s/%s was not listened to until its end: %s", name.namespace, member.pod, error)

    async def _read_end(self, member: Member, namespace: str, size_bytes: int, *, follow: bool) -> bytes:
        """The last bytes of a member's log, in whole lines."""
        stream = await self._client.open_log(
            namespace,
            member.pod,
            container=names.MEMBER_CONTAINER,
            follow=follow,
            tail_lines=max(1, size_bytes // BYTES_PER_LINE),
            timestamps=True,
        )
        pieces: list[bytes] = []
        size = 0
        cut = False
        async with stream, aclosing(aiter(stream)) as chunks:
            async for chunk in chunks:
                pieces.append(chunk)
                size += len(chunk)
                while size - len(pieces[0]) >= size_bytes:
                    size -= len(pieces.pop(0))
                    cut = True
        end = b"".join(pieces)
        if len(end) > size_bytes:
            end, cut = end[-size_bytes:], True
        return end[end.find(b"\n") + 1 :] if cut else end


def _logs(count: int) -> str:
    return "the log of a member" if count == 1 else f"the logs of {count} members"
