"""Read the log of one member across its attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from kajitori.api.logs.connection import LogConnection, Unstamped
from kajitori.api.logs.kept import KeptOfMember
from kajitori.api.logs.lines import UNKNOWN_TIME, Normaliser, Resumption, Text, last_lines, since, utc_time
from kajitori.api.logs.pods import LOOKED_AT_BY_NAME, MemberPods, attempt_of, has_log
from kajitori.api.logs.request import BEGINNING, Batch, LogRequest
from kajitori.blobs.logs import LogsOfRun
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import started_at_of
from kajitori.core.gang.ledger import indices_of
from kajitori.core.logs import notices
from kajitori.core.words import names
from kajitori.core.words.rotation_notice import is_about_rotation
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unavailable
from kajitori.kube.errors import ApiError, InvalidError
from kajitori.kube.streams import ByteStream

if TYPE_CHECKING:
    from kajitori.api.auth import User
    from kajitori.api.context import Api
    from kajitori.api.runs.tracking import RunTracker

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
IDLE_SECONDS = 60.0
FIRST_LINE_BYTES = 256
"""Bytes of a log's first line that are read to learn its time."""
STORED_AFTER_SECONDS = 1.0
LAST_TRIES = 5


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
        self._opened: LogConnection | None = None
        self._pods = MemberPods(api.mirror, run, rank)
        self._kept = KeptOfMember(user, run, rank, kept)
        self._kept_batch: Batch | None = None
        self._newest_first = request.first is None
        resumed = bool(request.position.time)
        self._last_opened = request.first or 0 if resumed else 0
        """The attempt whose log was opened last."""
        self._read_attempts = (request.first or 1) - 1
        """The last attempt that was read to its end, like all before it."""
        self._tail = None if resumed else request.tail
        self._floor = None if resumed else request.since
        self._position = request.position
        self._sent: tuple[int, object] | None = None
        """The attempt and the position that the reader received last."""

    async def open(self) -> None:
        """Connect to the log if the member has one. Raises the errors of the API server."""
        attempts = self._run.status.attempts if self._run.status is not None else 0
        wanted = self._request.attempt
        may_come = self._request.follow and not self._is_final
        if wanted is not None and wanted > attempts and not may_come:
            hint = f"name one of 1 to {attempts}" if attempts > 1 else "leave it out"
            message = (
                f"{self._run.metadata.name} was started {attempts} times"
                if attempts != 1
                else f"{self._run.metadata.name} was started once"
            )
            raise InvalidInput.one("attempt", message, value=str(wanted), hint=hint)
        pod = self._next(self._run)
        first = self._request.first
        if first is not None and (pod is None or attempt_of(pod) > first):  # `batches` begins with its stored log
            await self._kept.require_right()
        elif pod is not None:
            try:
                self._opened = await self._open(pod)
            except NotFound:  # the Pod was deleted meanwhile, as those of a sweep's ended members are
                if not await self._kept.read_if_any(attempt_of(pod)):
                    raise
                self._kept_batch = await self._read_kept(attempt_of(pod))
        elif self._is_of_sweep:
            if (kept := await self._kept_of_member()) is not None:
                self._kept_batch = await self._read_kept(kept)
        elif (gone := self._attempt_without_pod()) is not None:
            self._kept_batch = await self._read_kept(gone)

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
        failures = 0
        while True:
            # 1. Wait until the member has a Pod to read, or nothing follows.
            pod = self._next(tracker.look())
            if (cursor := self._cursor_update()) is not None:
                yield cursor
            if pod is None and self._opened is None:
                if not self._request.follow or tracker.is_over or self._is_complete or self._has_ended(tracker.run):
                    async for batch in self._skipped_attempts(self._newest(tracker.run) + 1):
                        yield batch
                    return
                await tracker.changed(IDLE_SECONDS)
                continue
            # 2. Connect to its log, unless `open` did so already.
            if self._opened is None and pod is not None:
                async for batch in self._skipped_attempts(attempt_of(pod)):
                    yield batch
                try:
                    self._opened = await self._open(pod)
                except KajitoriError as error:
                    failures += 1
                    if not self._request.follow or not _may_pass(error):
                        raise
                    if tracker.is_over and failures > LAST_TRIES:
                        if pod.is_finished:
                            raise
                        if self._position.time:
                            yield self._notice(notices.lost_with_node(self.rank, attempt_of(pod), pod.spec.node_name))
                        self._finish(attempt_of(pod))  # its node died, so that no kubelet answers
                        continue
                    await _pause(tracker, failures)
                    continue
            failures, opened = 0, self._opened
            if opened is None:
                if not self._request.follow:
                    return
                await _pause(tracker, failures)  # the member is about to start
                continue
            # 3. Read the log until the connection ends, then go on with the next attempt or the rest of this one.
            progress = False
            async with aclosing(self._read(opened, tracker)) as batches:
                async for batch in batches:
                    progress = True
                    yield batch
            await self.close()
            is_gone = self._pods.is_gone(opened.pod)
            if self._request.follow and is_gone and not opened.whole:
                async for batch in self._after_break(opened):
                    yield batch
            is_over = opened.finished or self._pods.is_gone(opened.pod) or (tracker.is_over and not progress)
            if not self._request.follow or (is_over and (opened.finished or not self._pods.is_finished(opened.pod))):
                if (end := self._end_of_line(opened.attempt)) is not None:
                    yield end
                if not self._request.follow:
                    return
                self._finish(opened.attempt)
            if not is_over:  # the member has ended or restarts, or the connection broke
                await _pause(tracker, failures, until=partial(self._pods.is_finished, opened.pod))

    # ------------------------------------------------------------------------------------------ choosing the Pod

    @property
    def _is_final(self) -> bool:
        return self._run.status is not None and self._run.status.phase.is_final

    def _newest(self, run: RunObject) -> int:
        """Return the newest requested attempt that exists."""
        newest = run.status.attempts if run.status is not None else 0
        return newest if self._request.attempt is None else min(newest, self._request.attempt)

    @property
    def _is_complete(self) -> bool:
        wanted = self._request.attempt
        return wanted is not None and self._read_attempts >= wanted

    def _next(self, run: RunObject) -> Pod | None:
        """Return the next Pod to read: it has started, and its attempt was not read yet. None if there is none."""
        oldest = max(self._read_attempts + 1, self._request.attempt or 0)
        pick = max if self._newest_first else min
        pod = pick(self._pods.of_attempts(oldest, self._newest(run)), key=attempt_of, default=None)
        return pod if pod is not None and has_log(pod) else None

    def _finish(self, attempt: int) -> None:
        """Note that an attempt was read to its end, so that the next is read from its beginning."""
        self._read_attempts = max(self._read_attempts, attempt)
        self._newest_first = False
        self._tail = self._floor = None
        self._position = BEGINNING

    def _cursor_update(self) -> Batch | None:
        """Return an empty batch with the current cursor if the cursor changed without a line, so that a follower can
        resume there; else None."""
        if not self._request.follow or (self._newest_first and not self._last_opened):
            return None
        update = Batch(self._read_attempts + 1, Text(b""), self._position)
        return update if (update.attempt, update.position) != self._sent else None

    def _end_of_line(self, attempt: int) -> Batch | None:
        """Return the missing line end of an attempt's last line; None if the line has one."""
        if self._position.offset is None:
            return None
        self._position = replace(self._position, offset=None)
        return Batch(attempt, Text(b"\n", inside=True, is_added_end=True), self._position)

    def _notice(self, text: str) -> Batch:
        """Return a line that the server adds. It leaves the position unchanged, since it is not in the log itself."""
        inside = self._position.offset is not None
        self._position = replace(self._position, offset=None)
        stamp = self._position.time or UNKNOWN_TIME
        line = b"\n" * inside + stamp + b" " + text.encode() + b"\n"
        return Batch(self._last_opened, Text(line, inside), self._position, is_notice=True)

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

    @property
    def _is_of_sweep(self) -> bool:
        return self._run.status is not None and self._run.status.sweep is not None

    def _has_ended(self, run: RunObject) -> bool:
        """Whether this is a sweep's member that has ended for good."""
        sweep = run.status.sweep if run.status is not None else None
        return sweep is not None and self.rank in indices_of(sweep.succeeded) | indices_of(sweep.failed)

    async def _kept_of_member(self) -> int | None:
        """Return the attempt of a sweep's member without a Pod whose stored log to read; None if it may still start.

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
        """Return the stored log of an attempt. Raises NotFound if there is none."""
        if self._request.stream == "stderr":  # stored logs don't tell streams apart: all lines count as stdout
            return Batch(attempt, Text(b""), BEGINNING)
        return Batch(attempt, Text(self._requested(await self._kept.read(attempt))), BEGINNING)

    def _requested(self, text: bytes) -> bytes:
        """Return the requested lines, by time and number, of a log that was not read before."""
        if self._floor is not None:
            text = since(_stamp(self._floor)).fresh(Text(text)).text
        return last_lines(text, self._tail)

    async def _skipped_attempts(self, attempt: int) -> AsyncGenerator[Batch]:
        """Yield the stored logs of attempts before this one whose Pods were never seen."""
        if not self._request.follow or self._newest_first:
            return
        skipped: Sequence[int] = range(self._read_attempts + 1, attempt)
        if len(skipped) > LOOKED_AT_BY_NAME and self._kept.is_kept:  # such as a sweep's members that started late
            stored = await self._kept.attempts(refresh=True)
            skipped = [number for number in skipped if number in stored]
        for number in skipped:
            was_read = number == self._last_opened and bool(self._position.time)
            batches = await self._kept_since(number)
            if was_read and batches is None:
                yield self._notice(notices.lost_with_pod(self.rank, number))
            for batch in batches or ():
                yield batch
            if (end := self._end_of_line(number)) is not None:
                yield end
            self._finish(number)

    async def _after_break(self, opened: LogConnection) -> AsyncGenerator[Batch]:
        """Yield the rest of a log, from the store, whose connection broke and whose Pod is gone; or a notice that it is
        lost. The store gets a member's last lines a moment after the member has ended."""
        batches: list[Batch] | None = None
        for pause in (0.0, STORED_AFTER_SECONDS):
            await asyncio.sleep(pause)
            batches = await self._kept_since(opened.attempt)
            if batches:
                break
        if batches is None:
            yield self._notice(notices.lost_with_node(self.rank, opened.attempt, opened.pod.spec.node_name))
        for batch in batches or ():
            yield batch

    async def _kept_since(self, attempt: int) -> list[Batch] | None:
        """Return the unread rest of an attempt's stored log; None if no log is stored."""
        if self._request.stream == "stderr":
            return []
        text = await self._kept.read_if_any(attempt)
        if not text:
            return None
        if attempt != self._last_opened:
            text = self._requested(text)
        unread = Resumption(self._position)
        part = unread.fresh(Text(text))
        batches = [self._notice(notices.missing_before_end(self.rank, attempt))] if unread.lost else []
        if part.text:
            self._position = self._position.after(part)
            batches.append(Batch(attempt, part, self._position))
        return batches

    # ------------------------------------------------------------------------------------------ one connection

    async def _open(self, pod: Pod) -> LogConnection | None:
        """Return a connection to the log; None if the container has not started or the Pod is gone."""
        finished = pod.is_finished
        if 0 < self._last_opened < attempt_of(pod):  # the Pod of the last one was replaced meanwhile
            self._finish(self._last_opened)
        stamps = [stamp for stamp in (self._position.time, _stamp(self._floor)) if stamp > UNKNOWN_TIME]
        try:
            first_line = await self._first_line(pod) if self._is_whole and not self._request.timestamps else b""
            since_time = max(stamps)[:19].decode() + "Z" if stamps else ""
            stream = await self._stream_of(pod, since_time)
        except NotFound as error:
            if not self._request.follow:
                raise
            if not self._pods.is_gone(pod):  # a restarted kubelet may not know the Pod yet
                raise Unavailable(error.message) from error
            self._read_attempts = max(self._read_attempts, attempt_of(pod) - 1)
            self._newest_first = False  # so that what is stored of this attempt comes before the next one
            return None
        except InvalidError as error:
            if self._request.stream == "stderr" and error.status == 422:  # all lines count as stdout
                self._finish(attempt_of(pod))
                return None
            if error.status != 400:
                raise
            return None  # the container has not started yet
        unread = Resumption(self._position) if self._position.time else since(_stamp(self._floor))
        opened = LogConnection(pod, attempt_of(pod), stream, unread, finished, self._is_whole, first_line)
        if self._tail is not None:  # after a break, reading must not go back behind this moment
            self._tail, self._floor = None, self._api.now()
        self._last_opened = attempt_of(pod)
        self._read_attempts = max(self._read_attempts, attempt_of(pod) - 1)
        return opened

    async def _stream_of(self, pod: Pod, since_time: str) -> ByteStream:
        """Open the log of a Pod, or that of the requested output stream. Of an API server that does not tell streams
        apart, the whole log counts as stdout."""
        read = partial(
            self._user.client.open_log,
            pod.metadata.namespace,
            pod.metadata.name,
            container=names.MEMBER_CONTAINER,
            follow=self._request.follow and not pod.is_finished,
            tail_lines=self._tail,
            since_time=since_time,
            timestamps=self._request.timestamps,
        )
        if self._request.stream is None:
            return await read()
        try:
            return await read(stream=self._request.stream.capitalize())
        except InvalidError as error:
            if error.status != 422 or self._request.stream == "stderr":
                raise
            return await read()

    @property
    def _is_whole(self) -> bool:
        """Whether the next log is read from its beginning."""
        return self._tail is None and self._floor is None and not self._position.time

    async def _first_line(self, pod: Pod) -> bytes:
        """Return the beginning of the first line of a log, with its time, if the program ran for long; else b"". Also
        b"" if the log can't be read: reading the whole log then says why."""
        started_at, now = started_at_of(pod), self._api.now()
        if not started_at or (now - datetime.fromisoformat(started_at)).total_seconds() < notices.LATE_SECONDS:
            return b""
        try:
            stream = await self._user.client.open_log(
                pod.metadata.namespace,
                pod.metadata.name,
                container=names.MEMBER_CONTAINER,
                timestamps=True,
                limit_bytes=FIRST_LINE_BYTES,
            )
            async with stream, aclosing(aiter(stream)) as chunks:
                return await anext(chunks, b"")
        except KajitoriError:
            return b""

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
                    async for batch in self._unread(opened, part):
                        yield batch

    async def _unread(self, opened: LogConnection, part: Text) -> AsyncGenerator[Batch]:
        was_done = opened.unread.is_done
        part = opened.unread.fresh(part)
        if not part.text:
            return
        if opened.unread.lost and not was_done and not is_about_rotation(part.text[31:].split(b"\n")[0]):
            until = part.text[:30].decode()
            yield self._notice(notices.gap(self._position.time.decode(), until, opened.pod.spec.node_name))
        if opened.is_at_top:
            opened.is_at_top = False
            first_line = part.text.partition(b"\n")[0] if part.stamped else opened.first_line
            begun_at, node = started_at_of(opened.pod), opened.pod.spec.node_name
            if text := notices.missing_beginning(begun_at, first_line, node):
                yield self._notice(text)
        if part.stamped:
            self._position = self._position.after(part)
        yield Batch(opened.attempt, part, self._position)


def _stamp(moment: datetime | None) -> bytes:
    """Return a moment in the format of a line's time; empty for None."""
    return utc_time(moment.astimezone(UTC).isoformat().encode()).encode() if moment is not None else b""


def _may_pass(error: KajitoriError) -> bool:
    """Whether a log that cannot be opened now may be opened later: the node or the API server does not answer."""
    return isinstance(error, Unavailable) or (isinstance(error, ApiError) and error.status >= 500)


async def _pause(tracker: RunTracker, failures: int, until: Callable[[], bool] = lambda: False) -> None:
    """Wait for a change of the run, and a moment for further ones; longer after each failure in a row. `until` ends
    the wait as soon as it is true."""
    clock = asyncio.get_running_loop().time
    if until() or (await tracker.changed(min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS)) and until()):
        return
    ends_at = clock() + FIRST_PAUSE_SECONDS
    while (left := ends_at - clock()) > 0 and not until():
        await tracker.changed(left)
