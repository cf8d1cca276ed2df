"""Stores the end of a member's log before its Pod is deleted (rule 11)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import aclosing, nullcontext
from datetime import timedelta

from kajitori.blobs.logs import NEW_RUN, KeptLogs, MemberLogName
from kajitori.controllers.runs.attempts import RunReference
from kajitori.controllers.workqueue import Key
from kajitori.core.backoff import Backoff
from kajitori.core.formats.quantities import format_duration
from kajitori.core.gang import Action, DeleteMember, DeleteMembers, Member
from kajitori.core.logs.kept import logs_to_keep, terminating_logs
from kajitori.core.logs.notices import UNKNOWN_TIME, missing_beginning, only_end_kept
from kajitori.core.naming import names
from kajitori.core.policy.model import Logs
from kajitori.errors import InvalidInput, KajitoriError, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventRecorder
from kajitori.monitoring.controller import ControllerMetrics

log = logging.getLogger(__name__)

READ_SECONDS = 30.0
"""Time limit of one attempt to read the log of an ended member."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
"""Longest pause between such attempts; policy's `logs.keepWithin` limits the time for all of them."""
WAIT_SECONDS = 1.0
"""Time for which the deletion of an ended Pod waits for its log. If reading takes longer, the Pod is deleted later."""
REPORT_AFTER_SECONDS = 10.0
"""Time without success after which an Event reports that a log is not kept yet."""

BEFORE_END_SECONDS = 3.0
"""Time for reading the logs of running members before they are told to end; it is short because other runs wait for
their nodes. The rest is read while they end."""
TRY_AGAIN_SECONDS = 0.25
"""Pause before the log of a running member is read again after a failure: a kubelet that was just restarted serves no
logs for a moment."""
AFTER_GRACE_SECONDS = 10.0
"""How long the log of an ending member is still read after the member's grace."""

READS_AT_ONCE = 32
"""Number of logs that are read at the same time, each of ended and of running members."""
MOST_FOLLOWED = 256
"""Most logs of ending members, over all runs, that are followed to their end at the same time."""

BYTES_PER_LINE = 64
"""Assumed length of a line. An API server counts from the end of a log in lines only, so the wanted bytes are divided
by this. If lines are longer, more is read, but only the wanted end is held in memory."""


class LogKeeper:
    """Reads logs and stores their ends.

    An ended member keeps its Pod until its log is stored or policy's time for it is over; then an Event and a metric
    report that the log is lost. The Pod holds no resources meanwhile, and the next attempt of its run does not wait.
    """

    def __init__(
        self,
        client: KubeClient,
        kept: KeptLogs,
        *,
        events: EventRecorder | None = None,
        metrics: ControllerMetrics | None = None,
        wake: Callable[[Key, timedelta], None] = lambda *_: None,
    ) -> None:
        """`wake` queues a run once the log of one of its remaining Pods is stored or lost."""
        self._client = client
        self._kept = kept
        self._events = events
        self._metrics = metrics or ControllerMetrics.unread()
        self._wake = wake
        self._slots = asyncio.Semaphore(READS_AT_ONCE)
        self._slots_before_end = asyncio.Semaphore(READS_AT_ONCE)
        self._following: set[asyncio.Task[bool]] = set()
        self._ended: dict[str, dict[str, asyncio.Task[None]]] = {}
        """Tasks that keep logs of ended members, running or finished, by the UIDs of run and Pod."""
        self._followed: dict[str, dict[str, asyncio.Task[bool] | None]] = {}
        """Tasks that follow logs to their end, by the UIDs of run and Pod; None if too many were followed."""
        self._reported_attempts: dict[str, set[int]] = {}
        """By the run's UID: attempts with an Event that reports a log that is not kept yet."""
        self._postponed: dict[str, list[DeleteMember]] = {}
        """By the run's UID: deletions of Pods that wait until the log is kept or given up."""

    async def keep_before(
        self,
        run: RunReference,
        actions: Sequence[Action],
        members: Sequence[Member],
        rules: Logs,
        *,
        of_sweep: bool = False,
    ) -> frozenset[str]:
        """Keep the logs of members that these actions delete; return the UIDs of Pods that must not be deleted yet.

        Policy chooses the members. Logs of the oldest attempts are removed, but not those of a sweep, in which any
        attempt may be the last one of a member.
        """
        self._forget_deleted_pods(run.uid, {member.uid for member in members})
        wanted = logs_to_keep(actions, members, rules.members)
        if not wanted:
            return frozenset()
        # 1. Store the logs of members that have ended; if that takes longer than a moment, it goes on.
        ended = [member for member in wanted if member.is_over]
        if ended:
            await asyncio.wait([self._keep_ended(run, member, rules) for member in ended], timeout=WAIT_SECONDS)
        # 2. Store the logs of running members, and follow them to their end.
        running = [member for member in wanted if not member.is_over]
        if running:
            deletions = (action for action in actions if isinstance(action, DeleteMembers | DeleteMember))
            grace_seconds = max(deletion.grace_seconds for deletion in deletions)
            await self.keep_ending(run, running, size_bytes=rules.per_member_bytes, grace_seconds=grace_seconds)
        # 3. Remove the logs of attempts that are too old.
        oldest = max(member.attempt for member in wanted) - rules.attempts
        if oldest > 0 and not of_sweep:
            await self.forget(run.namespace, run.uid, up_to_attempt=oldest)
        # 4. Postpone the deletion of Pods with logs that are not stored yet.
        unstored = [member for member in ended if not self._ended[run.uid][member.uid].done()]
        self._postpone_deletions(run, unstored)
        return frozenset(member.uid for member in unstored)

    async def keep_terminating(self, run: RunReference, members: Iterable[Member], rules: Logs) -> frozenset[str]:
        """Keep the logs of Pods that are deleted already, and not by this controller: the one before it ended before
        the members did, or somebody else deleted them. Return the UIDs of ended Pods that only our finalizer keeps and
        that must not be let go yet."""
        wanted = terminating_logs(members, rules.members)
        for member in wanted:
            followed = self._followed.get(run.uid, {})
            if not (member.is_over or member.uid in followed or len(followed) >= rules.members):
                self._follow(run, member, rules.per_member_bytes, member.grace_seconds or 0)
        held = [member for member in wanted if member.is_over]
        followed = self._followed.get(run.uid, {})
        following = [task for member in held if (task := followed.get(member.uid)) is not None]
        if following:
            await asyncio.wait(following, timeout=WAIT_SECONDS)
        missing = [member for member in held if not _has_stored(followed.get(member.uid))]
        if not missing:
            return frozenset()
        await asyncio.wait([self._keep_ended(run, member, rules) for member in missing], timeout=WAIT_SECONDS)
        return frozenset(member.uid for member in missing if not self._ended[run.uid][member.uid].done())

    def _postpone_deletions(self, run: RunReference, members: Iterable[Member]) -> None:
        """Add these members to the deletions that `due_deletions` returns later, unless they are there already."""
        postponed = {deletion.uid for deletion in self._postponed.get(run.uid, ())}
        added = [DeleteMember(member.pod, member.uid, 0) for member in members if member.uid not in postponed]
        if added:
            self._postponed.setdefault(run.uid, []).extend(added)

    def due_deletions(self, run: RunReference) -> list[DeleteMember]:
        """Return the deletions that `keep_before` postponed and that are due now: the log is kept or given up."""
        postponed = self._postponed.pop(run.uid, [])
        tasks = self._ended.get(run.uid, {})
        waiting = [deletion for deletion in postponed if (task := tasks.get(deletion.uid)) and not task.done()]
        if waiting:
            self._postponed[run.uid] = waiting
        return [deletion for deletion in postponed if deletion not in waiting]

    async def keep_ended(self, run: RunReference, member: Member, *, size_bytes: int, within_seconds: int) -> None:
        """Store the end of an ended member's log; return once it is stored or given up."""
        clock, backoff = asyncio.get_running_loop().time, Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        began, within = clock(), format_duration(within_seconds)
        self._metrics.logs_waiting.inc()
        try:
            while (why := await self._try_to_keep(run, member, size_bytes)) is not None:
                now, pause = clock(), backoff.next_seconds()
                if now + pause > began + within_seconds:
                    self._metrics.logs_lost.inc()
                    self._report_event(run, member, "LogLost", f"{why}; it is given up after {within}")
                    return
                reported = self._reported_attempts.setdefault(run.uid, set())
                if now - began >= REPORT_AFTER_SECONDS and member.attempt not in reported:
                    reported.add(member.attempt)
                    patience = f"its Pod stays for up to {within} (policy: logs.keepWithin)"
                    self._report_event(run, member, "LogNotKeptYet", f"{why}; {patience}")
                await asyncio.sleep(pause)
        finally:
            self._metrics.logs_waiting.dec()

    async def keep_ending(
        self, run: RunReference, members: Iterable[Member], *, size_bytes: int, grace_seconds: int
    ) -> None:
        """Store the logs of members that will be told to end. Lines that they write while they end are added."""
        wanted = [(member, _log_name(run, member)) for member in members]
        try:
            async with asyncio.timeout(BEFORE_END_SECONDS):
                await asyncio.gather(
                    *(self._keep_running(member, name, size_bytes, follow=False) for member, name in wanted)
                )
        except TimeoutError:
            log.info("run %s in %s: some logs are read while their members end", run.name, run.namespace)
        for member, _ in wanted:
            self._follow(run, member, size_bytes, grace_seconds)

    def _follow(self, run: RunReference, member: Member, size_bytes: int, grace_seconds: int) -> None:
        """Start to follow the log of a member that ends, unless too many others are followed."""
        tasks = self._followed.setdefault(run.uid, {})
        tasks[member.uid] = None
        if len(self._following) >= MOST_FOLLOWED:
            log.warning(
                "the end of Pod %s/%s's log is not kept: too many members end at once", run.namespace, member.pod
            )
            return
        keeping = self._keep_rest(member, _log_name(run, member), size_bytes, grace_seconds + AFTER_GRACE_SECONDS)
        tasks[member.uid] = task = asyncio.create_task(keeping)
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def last_attempt(self, namespace: str, run_uid: str) -> int:
        """Return the highest attempt with a kept log; 0 if there is none, or if the store does not answer."""
        try:
            return max((kept.attempt for kept in await self._kept.of_run(namespace, run_uid)), default=0)
        except KajitoriError as error:
            log.info("kept logs of run %s in %s could not be looked at: %s", run_uid, namespace, error)
            return 0

    def forget_run(self, run_uid: str) -> None:
        """Forget a run after its object was removed, but keep its stored logs."""
        self._forget_deleted_pods(run_uid)
        self._postponed.pop(run_uid, None)
        self._reported_attempts.pop(run_uid, None)

    async def forget(self, namespace: str, run_uid: str, *, up_to_attempt: int | None = None) -> None:
        """Remove the kept logs of a run, or of its oldest attempts."""
        try:
            if up_to_attempt is None:
                self.forget_run(run_uid)
            await self._kept.forget(namespace, run_uid, up_to_attempt=up_to_attempt)
        except KajitoriError as error:  # `collect` removes them later
            log.info("kept logs of run %s in %s could not be removed: %s", run_uid, namespace, error)

    async def collect(self, runs: Collection[str], rules: Logs, *, outlives: bool = False) -> None:
        """Remove logs and results that belong to none of these runs (UIDs), and logs that are too old or too many.

        With `outlives`, logs and results of other runs are removed only when they are too old or too many.
        """
        keep_for = timedelta(seconds=rules.keep_for_seconds)
        try:
            least_age = keep_for if outlives else NEW_RUN
            removed = await self._kept.collect(runs, keep_for, rules.namespace_bytes, least_age=least_age)
            removed += await self._kept.results.collect(runs, least_age=least_age)
        except KajitoriError as error:
            log.warning("kept logs were not tidied up: %s", error)
        else:
            log.debug("%d kept logs and results were removed", removed)

    async def close(self) -> None:
        """Cancel all reading. The next leader keeps the logs that are not kept yet."""
        tasks = [*self._following, *(task for tasks in self._ended.values() for task in tasks.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep_ended(self, run: RunReference, member: Member, rules: Logs) -> asyncio.Task[None]:
        """Return the task that keeps this member's log; start it if there is none."""
        tasks = self._ended.setdefault(run.uid, {})
        if member.uid not in tasks:
            size, within = rules.per_member_bytes, rules.keep_within_seconds
            keeping = self.keep_ended(run, member, size_bytes=size, within_seconds=within)
            tasks[member.uid] = task = asyncio.create_task(keeping)
            task.add_done_callback(lambda _: self._wake((run.namespace, run.name), timedelta(0)))
        return tasks[member.uid]

    def _forget_deleted_pods(self, run_uid: str, present: Collection[str] = ()) -> None:
        """Forget Pods of a run that are deleted."""
        tasks = self._ended.get(run_uid, {})
        for uid in [uid for uid in tasks if uid not in present]:
            tasks.pop(uid).cancel()
        if not tasks:
            self._ended.pop(run_uid, None)
        followed = {uid: task for uid, task in self._followed.pop(run_uid, {}).items() if uid in present}
        if followed:
            self._followed[run_uid] = followed

    async def _try_to_keep(self, run: RunReference, member: Member, size_bytes: int) -> str | None:
        """Try once to keep the log. Return why that failed; None if it is kept or if there is no log."""
        where = f"on {member.node}" if member.node else "where it ran"
        try:
            async with self._slots, asyncio.timeout(READ_SECONDS):
                end = await self._read_end(member, run.namespace, size_bytes, follow=False)
        except InvalidInput as error:  # its container never started
            log.info("the log of Pod %s/%s is not kept: %s", run.namespace, member.pod, error)
            return None
        except TimeoutError:
            return f"its log {where} was not read within {READ_SECONDS:g} s"
        except KajitoriError as error:
            return f"its log {where} can't be read: {error.message}"
        try:
            if end:
                await self._kept.keep(_log_name(run, member), end)
        except KajitoriError as error:
            return f"its log can't be stored: {error.message}"
        return None

    def _report_event(self, run: RunReference, member: Member, reason: str, why: str) -> None:
        message = f"rank {member.rank} of attempt {member.attempt}: {why}"
        log.warning("run %s/%s: %s", run.namespace, run.name, message)
        if self._events is not None:
            about = About(names.KIND, run.name, run.uid, run.namespace, names.API_VERSION)
            self._events.emit(about, "Warning", reason, message)

    async def _keep_rest(self, member: Member, name: MemberLogName, size_bytes: int, seconds: float) -> bool:
        """Store the log of a member that is ending, once it has ended within this time; return whether that was so."""
        try:
            async with asyncio.timeout(seconds):
                return await self._keep_running(member, name, size_bytes, follow=True)
        except TimeoutError:
            log.info("Pod %s/%s did not end in time: the end of its log is not kept", name.namespace, member.pod)
            return False

    async def _keep_running(self, member: Member, name: MemberLogName, size_bytes: int, *, follow: bool) -> bool:
        """Store the log of a member that has not ended; with `follow` up to its end. A kubelet that does not answer is
        asked again until the caller's time limit: the Pod cannot go before it is back. Return whether there is a log.
        """
        while True:
            try:
                async with nullcontext() if follow else self._slots_before_end:
                    end = await self._read_end(member, name.namespace, size_bytes, follow=follow)
                if end:
                    await self._kept.keep(name, end)
                return True
            except (InvalidInput, NotFound) as error:  # it never started, or its Pod is gone
                log.info("the log of Pod %s/%s is not kept: %s", name.namespace, member.pod, error)
                return False
            except KajitoriError as error:
                log.info("the log of Pod %s/%s is not kept yet: %s", name.namespace, member.pod, error)
            await asyncio.sleep(TRY_AGAIN_SECONDS)

    async def _read_end(self, member: Member, namespace: str, size_bytes: int, *, follow: bool) -> bytes:
        """Return the last bytes of a member's log in whole lines, after a notice if earlier lines are left out."""
        lines = max(1, size_bytes // BYTES_PER_LINE)
        stream = await self._client.open_log(
            namespace,
            member.pod,
            container=names.MEMBER_CONTAINER,
            follow=follow,
            tail_lines=lines,
            timestamps=True,
        )
        async with stream, aclosing(aiter(stream)) as chunks:
            end, is_cut = await _last_lines(chunks, size_bytes)
        if is_cut or end.count(b"\n") >= lines:
            notice = only_end_kept(len(end))
        else:
            notice = missing_beginning(member.started_at, end.partition(b"\n")[0], member.node)
        return f"{UNKNOWN_TIME} {notice}\n".encode() + end if notice else end


async def _last_lines(chunks: AsyncIterator[bytes], size_bytes: int) -> tuple[bytes, bool]:
    """Return the last whole lines with at most this size, and whether anything before them was left out."""
    pieces: deque[bytes] = deque()
    size = 0
    is_cut = False
    async for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        while size - len(pieces[0]) >= size_bytes:
            size -= len(pieces.popleft())
            is_cut = True
    end = b"".join(pieces)
    if len(end) > size_bytes:
        end, is_cut = end[-size_bytes:], True
    return (end[end.find(b"\n") + 1 :] if is_cut else end), is_cut


def _has_stored(following: asyncio.Task[bool] | None) -> bool:
    """Return whether the task has stored a whole log."""
    if following is None or not following.done() or following.cancelled() or following.exception():
        return False
    return following.result()


def _log_name(run: RunReference, member: Member) -> MemberLogName:
    return MemberLogName(run.namespace, run.uid, member.attempt, member.rank)
