"""Read the log of one member across its attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from kajitori.api.logs.connection import LogConnection, Unstamped, open_stream, read_first_line
from kajitori.api.logs.kept import KeptMemberLogs
from kajitori.api.logs.lines import Normaliser, Position, Resumption, Text
from kajitori.api.logs.pods import LOOKED_AT_BY_NAME, MemberPods, attempt_of, has_log
from kajitori.api.logs.progress import ReadingProgress
from kajitori.api.logs.request import BEGINNING, Batch, LogRequest, no_such_attempt
from kajitori.blobs.logs import LogsOfRun
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import started_at_of
from kajitori.core.backoff import backoff_seconds
from kajitori.core.formats.rotation_notice import is_about_rotation
from kajitori.core.gang.sweep_ledger import indices_of
from kajitori.core.logs import notices
from kajitori.errors import KajitoriError, NotFound, Unavailable
from kajitori.kube.errors import ApiError, InvalidError

if TYPE_CHECKING:
    from kajitori.api.context import Api
    from kajitori.api.rights import User
    from kajitori.api.runs.tracking import RunTracker

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
"""Shortest and longest pause before a log is opened again that could not be opened."""
IDLE_SECONDS = 60.0
"""Longest time between two looks at a run that does not change."""
STORED_AFTER_SECONDS = 1.0
"""Time after which the store has the last lines of a member that has ended."""
LAST_TRIES = 5
"""Number of failures after which the log of an ended run is given up."""


class MemberLog:
    """The log of one rank. `open` it first, then read `batches` once; `close` it in any case."""

    def __init__(
        self, api: Api, user: User, run: RunObject, rank: int, request: LogRequest, kept: LogsOfRun | None = None
    ) -> None:
        """`kept` is the run's stored logs, shared by all members of the request; None if the server stores no logs."""
        self.rank = rank
        self._api = api
        self._user = user
        self._run = run
        self._request = request
        self._pods = MemberPods(api.mirror, run, rank)
        self._kept = KeptMemberLogs(user, run, rank, kept)
        self._progress = ReadingProgress(request)
        self._opened: LogConnection | None = None
        self._failures = 0
        """Number of failures in a row to open the log."""
        self._kept_batch: Batch | None = None
        """The whole requested log, if it comes from the store alone."""
        self._sent: tuple[int, Position] | None = None
        """The attempt and the position that the reader received last."""

    async def open(self) -> None:
        """Connect to the log if the member has one. Raises the errors of the API server."""
        attempts = self._run.status.attempts if self._run.status is not None else 0
        wanted = self._request.attempt
        may_come = self._request.follow and not self._is_final
        if wanted is not None and wanted > attempts and not may_come:
            raise no_such_attempt(self._run.metadata.name, attempts, wanted)
        pod = self._next(self._run)
        first = self._request.first
        if first is not None and (pod is None or attempt_of(pod) > first):  # `batches` begins with its stored log
            await self._kept.require_right()
        elif pod is not None:
            try:
                self._opened = await self._connect(pod)
            except NotFound:  # the Pod was deleted meanwhile, as those of a sweep's ended members are
                if not await self._kept.read_if_any(attempt_of(pod)):
                    raise
                self._kept_batch = await self._read_kept(attempt_of(pod))
        elif self._is_of_sweep:
            if (attempt := await self._kept_attempt_of_sweep()) is not None:
                self._kept_batch = await self._read_kept(attempt)
        elif (attempt := self._attempt_without_pod()) is not None:
            self._kept_batch = await self._read_kept(attempt)

    async def close(self) -> None:
        """Close the connection."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.stream.aclose()

    async def batches(self, tracker: RunTracker) -> AsyncGenerator[Batch]:
        """Yield the requested part of the log. Raises the API server's errors, and Unavailable if it is down."""
        if self._kept_batch is not None:
            yield self._kept_batch
            return
        async with aclosing(self._all_batches(tracker)) as batches:
            async for batch in batches:
                self._sent = batch.attempt, batch.position
                yield batch

    async def _all_batches(self, tracker: RunTracker) -> AsyncGenerator[Batch]:
        """Yield the log of one attempt after the other; with `follow`, until no other attempt can come."""
        while True:
            # 1. Wait until the member has a Pod to read, or no other can come.
            pod = self._next(tracker.look())
            if (update := self._cursor_update()) is not None:
                yield update
            if pod is None and self._opened is None:
                if self._is_over(tracker):
                    async for batch in self._skipped_attempts(self._newest(tracker.run) + 1):
                        yield batch
                    return
                await tracker.changed(IDLE_SECONDS)
                continue
            # 2. Connect to its log, unless `open` did so already.
            if self._opened is None and pod is not None:
                async for batch in self._open_next(pod, tracker):
                    yield batch
            # 3. Read the log until the connection ends.
            if self._opened is not None:
                async with aclosing(self._read_opened(self._opened, tracker)) as batches:
                    async for batch in batches:
                        yield batch
            if not self._request.follow:
                return

    async def _open_next(self, pod: Pod, tracker: RunTracker) -> AsyncGenerator[Batch]:
        """Yield what is stored of the attempts before this Pod's, then open its log.

        With `follow`, wait a moment if the log cannot be opened yet. Raises the error if it will never be.
        """
        async for batch in self._skipped_attempts(attempt_of(pod)):
            yield batch
        try:
            self._opened = await self._connect(pod)
        except KajitoriError as error:
            self._failures += 1
            if not self._request.follow or not _may_pass(error):
                raise
            if not tracker.is_over or self._failures <= LAST_TRIES:
                await _pause(tracker, self._failures)
                return
            if pod.is_finished:
                raise
            if self._progress.position.time:
                yield self._lost_with_node(pod)
            self._progress.finish(attempt_of(pod))  # its node died, so that no kubelet answers
        else:
            self._failures = 0
            if self._opened is None and self._request.follow:
                await _pause(tracker, 0)  # the member is about to start

    async def _read_opened(self, opened: LogConnection, tracker: RunTracker) -> AsyncGenerator[Batch]:
        """Yield the lines of a connection until it ends, and close it.

        With `follow`, finish the attempt if it has ended, so that the next one follows; else wait a moment before
        its log is opened again.
        """
        has_read = False
        async with aclosing(self._read(opened, tracker)) as batches:
            async for batch in batches:
                has_read = True
                yield batch
        await self.close()
        follow = self._request.follow
        if follow and self._pods.is_gone(opened.pod) and not opened.whole:
            async for batch in self._rest_from_store(opened):
                yield batch
        is_over = opened.finished or self._pods.is_gone(opened.pod) or (tracker.is_over and not has_read)
        is_complete = is_over and (opened.finished or not self._pods.is_finished(opened.pod))
        if (is_complete or not follow) and (end := self._progress.line_end(opened.attempt)) is not None:
            yield end
        if follow and is_complete:
            self._progress.finish(opened.attempt)
        if follow and not is_over:  # the member has ended or restarts, or the connection broke
            await _pause(tracker, 0, until=partial(self._pods.is_finished, opened.pod))

    def _cursor_update(self) -> Batch | None:
        """Return an empty batch with the present cursor if a follower does not have it; else None."""
        if not self._request.follow or (self._progress.newest_first and not self._progress.last_opened):
            return None
        update = self._progress.cursor_update()
        return update if (update.attempt, update.position) != self._sent else None

    # ------------------------------------------------------------------------------------------ choosing the attempt

    @property
    def _is_final(self) -> bool:
        return self._run.status is not None and self._run.status.phase.is_final

    @property
    def _is_of_sweep(self) -> bool:
        return self._run.status is not None and self._run.status.sweep is not None

    def _is_over(self, tracker: RunTracker) -> bool:
        """Whether no Pod will come that belongs to the requested part of the log."""
        wanted = self._request.attempt
        is_read = wanted is not None and self._progress.read_attempts >= wanted
        return not self._request.follow or tracker.is_over or is_read or self._has_ended(tracker.run)

    def _has_ended(self, run: RunObject) -> bool:
        """Whether this is a sweep's member that has ended for good."""
        sweep = run.status.sweep if run.status is not None else None
        return sweep is not None and self.rank in indices_of(sweep.succeeded) | indices_of(sweep.failed)

    def _newest(self, run: RunObject) -> int:
        """Return the newest requested attempt that exists."""
        newest = run.status.attempts if run.status is not None else 0
        return newest if self._request.attempt is None else min(newest, self._request.attempt)

    def _next(self, run: RunObject) -> Pod | None:
        """Return the next Pod to read: it has started, and its attempt was not read yet. None if there is none."""
        oldest = max(self._progress.read_attempts + 1, self._request.attempt or 0)
        pick = max if self._progress.newest_first else min
        pod = pick(self._pods.of_attempts(oldest, self._newest(run)), key=attempt_of, default=None)
        return pod if pod is not None and has_log(pod) else None

    # ------------------------------------------------------------------------------------------ stored logs

    def _attempt_without_pod(self) -> int | None:
        """Return the requested attempt if the member has run in it and its Pod is gone; else None."""
        status = self._run.status
        newest = status.attempt if status is not None else None
        started = newest.number if newest is not None and newest.started_at else 0
        wanted = self._request.attempt or started
        may_come = self._request.follow and not self._is_final
        if not wanted or (may_come and (newest is None or wanted >= newest.number)):
            return None
        return wanted if self._pods.of_attempt(wanted) is None else None

    async def _kept_attempt_of_sweep(self) -> int | None:
        """Return the attempt to read from the store for a sweep's member without a Pod; None if it may still start.

        Each member of a sweep has its own attempts, and only the stored logs tell which. Raises NotFound if no log is
        stored.
        """
        wanted, is_over = self._request.attempt, self._is_final or self._has_ended(self._run)
        if self._request.follow and not is_over:
            return None
        attempts = [attempt for attempt in await self._kept.attempts() if wanted in (None, attempt)]
        if attempts:
            return max(attempts)
        if not is_over:
            return None
        meta = self._run.metadata
        hint = f"see how it ended: kaji results {meta.name}"
        raise NotFound(f"no log of member {self.rank} of {meta.name} is stored", hint=hint)

    async def _read_kept(self, attempt: int) -> Batch:
        """Return the requested part of an attempt's stored log. Raises NotFound if there is none."""
        if self._request.stream == "stderr":  # stored logs don't tell streams apart: all lines count as stdout
            return Batch(attempt, Text(b""), BEGINNING)
        return Batch(attempt, Text(self._progress.select(await self._kept.read(attempt))), BEGINNING)

    async def _skipped_attempts(self, until: int) -> AsyncGenerator[Batch]:
        """Yield the stored logs of the attempts before `until` that ended before their Pods were seen."""
        if not self._request.follow or self._progress.newest_first:
            return
        skipped: Sequence[int] = range(self._progress.read_attempts + 1, until)
        if len(skipped) > LOOKED_AT_BY_NAME and self._kept.is_kept:  # such as a sweep's members that started late
            stored = await self._kept.attempts(refresh=True)
            skipped = [attempt for attempt in skipped if attempt in stored]
        for attempt in skipped:
            was_read = attempt == self._progress.last_opened and bool(self._progress.position.time)
            batches = await self._unread_from_store(attempt)
            if was_read and batches is None:
                yield self._progress.notice(notices.lost_with_pod(self.rank, attempt))
            for batch in batches or ():
                yield batch
            if (end := self._progress.line_end(attempt)) is not None:
                yield end
            self._progress.finish(attempt)

    async def _rest_from_store(self, opened: LogConnection) -> AsyncGenerator[Batch]:
        """Yield the unread rest of a log after its connection broke and its Pod was deleted, or a notice that the rest
        is lost. The store gets a member's last lines a moment after the member has ended."""
        batches: list[Batch] | None = None
        for pause in (0.0, STORED_AFTER_SECONDS):
            await asyncio.sleep(pause)
            batches = await self._unread_from_store(opened.attempt)
            if batches:
                break
        if batches is None:
            yield self._lost_with_node(opened.pod)
        for batch in batches or ():
            yield batch

    async def _unread_from_store(self, attempt: int) -> list[Batch] | None:
        """Return the unread rest of an attempt's stored log; None if no log is stored."""
        if self._request.stream == "stderr":
            return []
        text = await self._kept.read_if_any(attempt)
        if not text:
            return None
        if attempt != self._progress.last_opened:
            text = self._progress.select(text)
        unread = Resumption(self._progress.position)
        part = unread.fresh(Text(text))
        missing = notices.missing_before_end(self.rank, attempt)
        batches = [self._progress.notice(missing)] if unread.lost else []
        if part.text:
            batches.append(self._progress.advance(attempt, part))
        return batches

    def _lost_with_node(self, pod: Pod) -> Batch:
        """Return the notice that the rest of a Pod's log is lost with its node."""
        return self._progress.notice(notices.lost_with_node(self.rank, attempt_of(pod), pod.spec.node_name))

    # ------------------------------------------------------------------------------------------ one connection

    async def _connect(self, pod: Pod) -> LogConnection | None:
        """Return a connection to the log; None if the container has not started or the Pod is gone."""
        progress, attempt, finished = self._progress, attempt_of(pod), pod.is_finished
        if 0 < progress.last_opened < attempt:  # the Pod of the last one was replaced meanwhile
            progress.finish(progress.last_opened)
        needs_first_line = progress.is_at_beginning and not self._request.timestamps
        try:
            first_line = await read_first_line(self._user, pod, self._api.now()) if needs_first_line else b""
            stream = await open_stream(
                self._user, pod, self._request, tail=progress.tail, since_time=progress.since_time
            )
        except NotFound as error:
            if not self._request.follow:
                raise
            if not self._pods.is_gone(pod):  # a restarted kubelet may not know the Pod yet
                raise Unavailable(error.message) from error
            progress.skip_to(attempt)
            progress.newest_first = False  # so that what is stored of this attempt comes before the next one
            return None
        except InvalidError as error:
            if self._request.stream == "stderr" and error.status == 422:  # all lines count as stdout
                progress.finish(attempt)
                return None
            if error.status != 400:
                raise
            return None  # the container has not started yet
        opened = LogConnection(pod, attempt, stream, progress.unread(), finished, progress.is_at_beginning, first_line)
        if progress.tail is not None:  # after a break, reading must not go back behind this moment
            progress.tail, progress.since = None, self._api.now()
        progress.last_opened = attempt
        progress.skip_to(attempt)
        return opened

    async def _read(self, opened: LogConnection, tracker: RunTracker) -> AsyncGenerator[Batch]:
        """Yield the lines of a connection that were not read before."""
        normaliser = Normaliser() if self._request.timestamps else Unstamped()
        with self._api.callers.logs.one():
            async with aclosing(opened.chunks(tracker, self._pods, follow=self._request.follow)) as chunks:
                async for chunk in chunks:
                    if chunk is None:
                        part = normaliser.take_begun()
                    else:
                        part = normaliser.feed(chunk) if chunk else normaliser.flush()
                    for batch in self._unread_of(opened, part):
                        yield batch

    def _unread_of(self, opened: LogConnection, part: Text) -> list[Batch]:
        """Return what was not read before of a part, after notices of lines that are missing before it."""
        progress, node = self._progress, opened.pod.spec.node_name
        was_done = opened.unread.is_done
        part = opened.unread.fresh(part)
        if not part.text:
            return []
        batches = []
        if opened.unread.lost and not was_done and not is_about_rotation(part.text[31:].split(b"\n")[0]):
            until = part.text[:30].decode()
            batches.append(progress.notice(notices.gap(progress.position.time.decode(), until, node)))
        if opened.is_at_top:
            opened.is_at_top = False
            first_line = part.text.partition(b"\n")[0] if part.stamped else opened.first_line
            if text := notices.missing_beginning(started_at_of(opened.pod), first_line, node):
                batches.append(progress.notice(text))
        batches.append(progress.advance(opened.attempt, part))
        return batches


def _may_pass(error: KajitoriError) -> bool:
    """Whether a log that cannot be opened now may be opened later: the node or the API server does not answer."""
    return isinstance(error, Unavailable) or (isinstance(error, ApiError) and error.status >= 500)


async def _pause(tracker: RunTracker, failures: int, until: Callable[[], bool] = lambda: False) -> None:
    """Wait for a change of the run, and a moment for further ones; longer after each failure in a row. `until` ends
    the wait as soon as it is true."""
    clock = asyncio.get_running_loop().time
    pause = backoff_seconds(failures + 1, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    if until() or (await tracker.changed(pause) and until()):
        return
    ends_at = clock() + FIRST_PAUSE_SECONDS
    while (left := ends_at - clock()) > 0 and not until():
        await tracker.changed(left)
