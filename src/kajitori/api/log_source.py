"""The log of one member, from one attempt to the next."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kajitori.api.log_kept import KeptOfMember
from kajitori.api.log_lines import LineSplitter, Piece, Position, utc_time
from kajitori.api.log_pods import LOOKED_AT_BY_NAME, MemberPods, attempt_of, has_log
from kajitori.api.log_request import Batch, LogRequest
from kajitori.core.gang.ledger import indices_of
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unavailable
from kajitori.kube.errors import ApiError, InvalidError
from kajitori.kube.objects import Pod, RunObject
from kajitori.kube.streams import ByteStream
from kajitori.store.logs import LogsOfRun

if TYPE_CHECKING:
    from kajitori.api.auth import User
    from kajitori.api.context import Api
    from kajitori.api.tracking import RunTracker

SILENCE_SECONDS = 5.0
"""After so long without a word, a member that is not there any more is not listened to any longer: the connection to a
node that died says nothing, not even good-bye."""

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
IDLE_SECONDS = 60.0
SLICE_BYTES = 64 * 1024
"""So much of what arrived is worked on before others get their turn."""

LAST_WORDS_SECONDS = 1.0
LAST_TRIES = 5


@dataclass(slots=True)
class _Opened:
    pod: Pod
    attempt: int
    stream: ByteStream
    since: str
    """Lines before this time are not wanted."""
    finished: bool
    """The member had ended before its log was opened: this is all there will be."""
    whole: bool = False
    """It was read to where its kubelet ended it."""


class MemberLog:
    """The log of one rank. `open` it first, then read `batches` once; `close` it in any case."""

    def __init__(
        self, api: Api, user: User, run: RunObject, rank: int, request: LogRequest, kept: LogsOfRun | None = None
    ) -> None:
        """`kept` is shared by all members that are asked for; without it logs go with their Pods."""
        self.rank = rank
        self._api = api
        self._user = user
        self._run = run
        self._request = request
        self._opened: _Opened | None = None
        self._pods = MemberPods(api.mirror, run, rank)
        self._kept = KeptOfMember(user, run, rank, kept)
        self._kept_batch: Batch | None = None
        self._newest_first = request.first is None
        self._last_opened = 0
        """Of which attempt the log was read last."""
        self._read_attempts = (request.first or 1) - 1
        """Attempts up to this one were read to their end."""
        self._tail = request.tail
        self._floor = request.since
        self._position = Position()

    async def open(self) -> None:
        """Connects to the log if the member has one; what the API server refuses is raised here."""
        attempts = self._run.status.attempts if self._run.status is not None else 0
        wanted = self._request.attempt
        may_come = self._request.follow and not self._is_final
        if wanted is not None and wanted > attempts and not may_come:
            hint = f"name one of 1 to {attempts}" if attempts > 1 else "leave it out"
            message = (
                f"{self._run.metadata.name} was started {attempts} times" if attempts != 1 else "there was only one"
            )
            raise InvalidInput.one("attempt", message, value=str(wanted), hint=hint)
        pod = self._next(self._run)
        first = self._request.first
        if first is not None and (pod is None or attempt_of(pod) > first):  # `batches` begins with what was kept of it
            await self._kept.require_right()
        elif pod is not None:
            self._opened = await self._open(pod)
        elif self._is_of_sweep:
            if (kept := await self._kept_of_member()) is not None:
                self._kept_batch = await self._read_kept(kept)
        elif (lost := self._lost_attempt()) is not None:
            self._kept_batch = await self._read_kept(lost)

    async def close(self) -> None:
        """Hangs up."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.stream.aclose()

    async def batches(self, tracker: RunTracker) -> AsyncGenerator[Batch]:
        """Everything that was asked for. Raises what the API server refuses, and Unavailable where it stays away."""
        if self._kept_batch is not None:
            yield self._kept_batch
            return
        failures = 0
        while True:
            pod = self._next(tracker.look())
            if pod is None and self._opened is None:
                if not self._request.follow or tracker.is_over or self._is_complete or self._has_ended(tracker.run):
                    async for batch in self._passed_over(self._newest(tracker.run) + 1):
                        yield batch
                    return
                await tracker.changed(IDLE_SECONDS)
                continue
            progress = False
            if self._opened is None and pod is not None:
                async for batch in self._passed_over(attempt_of(pod)):
                    yield batch
            try:
                if self._opened is None and pod is not None:
                    self._opened = await self._open(pod)
            except KajitoriError as error:
                failures += 1
                if not self._request.follow or not _may_pass(error):
                    raise
                if tracker.is_over and failures > LAST_TRIES and pod is not None:
                    if pod.is_finished:
                        raise
                    self._finish(attempt_of(pod))  # on a node that died: there is nobody to ask
                    continue
            else:
                failures = 0
                opened = self._opened
                if opened is not None:
                    async with aclosing(self._read(opened, tracker)) as batches:
                        async for batch in batches:
                            progress = True
                            yield batch
                    await self.close()
                    if not self._request.follow:
                        return
                    if not opened.whole and self._pods.is_gone(opened.pod):
                        yield await self._last_words(opened)
                    if opened.finished or self._pods.is_gone(opened.pod) or (tracker.is_over and not progress):
                        if opened.finished or not self._pods.is_finished(opened.pod):
                            self._finish(opened.attempt)
                        continue
                elif not self._request.follow:
                    return
            # The member comes again, is about to start, or could not be reached.
            await tracker.changed(min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS))
            await asyncio.sleep(FIRST_PAUSE_SECONDS)

    # ------------------------------------------------------------------------------------------ which Pod

    @property
    def _is_final(self) -> bool:
        return self._run.status is not None and self._run.status.phase.is_final

    def _newest(self, run: RunObject) -> int:
        """The newest attempt there is of those that are asked for."""
        newest = run.status.attempts if run.status is not None else 0
        return newest if self._request.attempt is None else min(newest, self._request.attempt)

    @property
    def _is_complete(self) -> bool:
        wanted = self._request.attempt
        return wanted is not None and self._read_attempts >= wanted

    def _next(self, run: RunObject) -> Pod | None:
        """The Pod to read next: one that has started, of an attempt that was not read yet; None where there is none."""
        oldest = max(self._read_attempts + 1, self._request.attempt or 0)
        pick = max if self._newest_first else min
        pod = pick(self._pods.of_attempts(oldest, self._newest(run)), key=attempt_of, default=None)
        return pod if pod is not None and has_log(pod) else None

    def _finish(self, attempt: int) -> None:
        """This attempt's log was read to its end: the next is read from its beginning."""
        self._read_attempts = max(self._read_attempts, attempt)
        self._newest_first = False
        self._tail = self._floor = None
        self._position = Position()

    def _lost_attempt(self) -> int | None:
        """The attempt that is asked for, where the member has run in it but its Pod is gone; else None."""
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
        """Whether it is a member of a sweep for which nothing more is to be done."""
        sweep = run.status.sweep if run.status is not None else None
        return sweep is not None and self.rank in indices_of(sweep.succeeded) | indices_of(sweep.failed)

    async def _kept_of_member(self) -> int | None:
        """Of a sweep's member without a Pod, the attempt to read what was kept of; None where it may still begin.

        Each was started in attempts of its own, which only what was kept tells.
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
        hint = f"how it ended: kaji results {meta.name}"
        raise NotFound(f"nothing is kept of what member {self.rank} of {meta.name} said", hint=hint)

    async def _read_kept(self, attempt: int) -> Batch:
        """What was kept of the log before its Pod went. Raises NotFound where nothing was."""
        return Batch(attempt, self._asked_for(await self._kept.read(attempt)))

    def _asked_for(self, pieces: list[Piece]) -> list[Piece]:
        """Of a log of which nothing was read yet: by time and number of lines."""
        if self._floor is not None:
            pieces = self._wanted(pieces, utc_time(self._floor.isoformat().encode()))
        return _last_lines(pieces, self._tail)

    async def _passed_over(self, attempt: int) -> AsyncGenerator[Batch]:
        """What was kept of attempts that came and went between two looks, or before the first, before this one."""
        if not self._request.follow or self._newest_first:
            return
        missed_ones: Sequence[int] = range(self._read_attempts + 1, attempt)
        if len(missed_ones) > LOOKED_AT_BY_NAME and self._kept.is_kept:  # as of a sweep's late members
            there = await self._kept.attempts(anew=True)
            missed_ones = [missed for missed in missed_ones if missed in there]
        for missed in missed_ones:
            pieces = await self._kept_since(missed)
            if not self._last_opened:
                pieces = self._asked_for(pieces)
            if pieces:
                yield Batch(missed, pieces)
            self._finish(missed)

    async def _last_words(self, opened: _Opened) -> Batch:
        """What a member said after its connection broke off, of which its Pod is gone: as it was kept, or that it is
        lost. What is said while a member ends is kept a moment after it has ended."""
        for pause in (0.0, LAST_WORDS_SECONDS):
            await asyncio.sleep(pause)
            if pieces := await self._kept_since(opened.attempt):
                return Batch(opened.attempt, pieces)
        said = f"kaji: what rank {self.rank} said last in attempt {opened.attempt} is lost"
        return Batch(
            opened.attempt,
            [Piece(self._position.time, f"{said}, with node {opened.pod.spec.node_name}".encode(), True, True)],
        )

    async def _kept_since(self, attempt: int) -> list[Piece]:
        """What was kept of an attempt's log and not read yet; nothing where nothing was."""
        return self._position.resumed().fresh(await self._kept.read_if_any(attempt))

    # ------------------------------------------------------------------------------------------ one connection

    async def _open(self, pod: Pod) -> _Opened | None:
        """A connection to the log; None where the container turns out not to have started, or the Pod to be gone."""
        meta, finished, now = pod.metadata, pod.is_finished, self._api.now()
        if 0 < self._last_opened < attempt_of(pod):  # it ended, and the next began, between two looks
            self._finish(self._last_opened)
        moments = [self._floor] if self._floor is not None else []
        if self._position.time:
            moments.append(datetime.fromisoformat(self._position.time[:26] + "+00:00"))
        age = (now - max(moments)).total_seconds() if moments else None
        try:
            stream = await self._user.client.open_log(
                meta.namespace,
                meta.name,
                follow=self._request.follow and not finished,
                tail_lines=self._tail,
                since_seconds=max(1, math.ceil(age) + 1) if age is not None else None,
                timestamps=True,
            )
        except NotFound:
            if not self._request.follow:
                raise
            self._finish(attempt_of(pod))
            return None
        except InvalidError as error:
            if error.status != 400:
                raise
            return None  # the container has not started after all
        since = utc_time(self._floor.isoformat().encode()) if self._floor is not None else ""
        if self._tail is not None:  # asked again after a break, it is not to go back behind this moment
            self._tail, self._floor = None, now
        self._last_opened = attempt_of(pod)
        self._read_attempts = max(self._read_attempts, attempt_of(pod) - 1)
        return _Opened(pod, attempt_of(pod), stream, since, finished)

    async def _read(self, opened: _Opened, tracker: RunTracker) -> AsyncGenerator[Batch]:
        """What a connection brings, without what was read before."""
        splitter, resumption = LineSplitter(), self._position.resumed()
        may_fall_silent = self._request.follow and not opened.finished
        pending: asyncio.Future[bytes] | None = None
        chunks = aiter(opened.stream)
        with self._api.log_slots.one():
            try:
                last = False
                while not last:
                    pending = pending or asyncio.ensure_future(anext(chunks))
                    await asyncio.wait({pending}, timeout=SILENCE_SECONDS if may_fall_silent else None)
                    if not pending.done():
                        tracker.look()
                        if tracker.is_over or self._pods.is_gone(opened.pod) or self._pods.is_finished(opened.pod):
                            return
                        continue
                    try:
                        chunk = pending.result()
                    except StopAsyncIteration:
                        chunk, last, opened.whole = b"", True, True
                    except Unavailable:
                        if not self._request.follow:
                            raise
                        return  # it broke off; what was not complete is read again
                    pending = None
                    for start in range(0, len(chunk) or 1, SLICE_BYTES):
                        pieces = splitter.flush() if last else splitter.feed(chunk[start : start + SLICE_BYTES])
                        pieces = self._wanted(resumption.fresh(pieces), opened.since)
                        if pieces:
                            self._position.note(pieces)
                            yield Batch(opened.attempt, pieces)
                            await asyncio.sleep(0)  # a long log does not hold up everybody else
            finally:
                if pending is not None:
                    pending.cancel()
                    await asyncio.gather(pending, return_exceptions=True)

    @staticmethod
    def _wanted(pieces: list[Piece], since: str) -> list[Piece]:
        return [piece for piece in pieces if not piece.time or piece.time >= since] if since else pieces


def _last_lines(pieces: list[Piece], count: int | None) -> list[Piece]:
    if count is None:
        return pieces
    begins = [index for index, piece in enumerate(pieces) if piece.begins]
    return pieces[begins[-count] :] if 0 < count < len(begins) else pieces if count else []


def _may_pass(error: KajitoriError) -> bool:
    """Whether a log that cannot be opened now may be opened later: the node or the API server does not answer."""
    return isinstance(error, Unavailable) or (isinstance(error, ApiError) and error.status >= 500)
