"""The telemetry of one server: its collector, what it exchanges with other servers, and what history keeps.

Any server takes any agent's report. Each writes what it received of a minute to the store that all servers share
(`telemetry/MINUTE/SERVER`), and reads what the others wrote, so that every server makes the same bands. A server that
starts reads the last minutes from there.

An agent waits for questions at one server. A question that another server gets is passed on through the same store
(`blobs/questions.py`), as the leading controller's are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import datetime

import msgspec
import zstandard

from kajitori.api.streams.node_figures import NodeWriter
from kajitori.api.streams.node_lines import ANSWER_SECONDS, NO_AGENT, AgentLines
from kajitori.blobs.questions import ANSWERS, QUESTIONS, Asked, Questions
from kajitori.blobs.stores.blobs import Blobs
from kajitori.core.telemetry.bands import bands_of
from kajitori.core.telemetry.collector import KEPT_MINUTES, Attempt, TelemetryCollector, decode_part
from kajitori.core.telemetry.levels import Interval
from kajitori.core.telemetry.quantities import MINUTE_SECONDS
from kajitori.core.telemetry.report import Answer, SavedCheckpoint, encode
from kajitori.core.telemetry.training import MAX_CHECKPOINT_SECONDS
from kajitori.core.usage.lost_time.slices import Kind, Mark
from kajitori.errors import KajitoriError, NotFound, Unavailable
from kajitori.history.store import History
from kajitori.monitoring.lasting_failure import LastingFailure

log = logging.getLogger(__name__)

PREFIX = "telemetry"
STALE_SECONDS = 600.0
"""Age at which a question of another process is removed."""
LOOK_SECONDS = 5.0
"""Time between two looks at the store and at minutes that are complete."""
DOWNSAMPLE_SECONDS = 600.0
_MAX_PART_BYTES = 256 << 20
MAX_PLACES = 20_000
MAX_SAVED_AGE = 900.0
"""Age in seconds beyond which a reported checkpoint is not believed. Its segment may be summed up by then."""
_ROWS_AT_ONCE = 2000
"""Bands that are written in one transaction."""
_SLICE_SECONDS, _RANKS_IN_LOOP = 0.005, 200
"""Time for which bands are made before other tasks get as much, and ranks of a run above which a thread makes them."""


class TelemetryKeeper:
    """The telemetry that one server knows."""

    def __init__(self, blobs: Blobs | None, history: History | None, now: Callable[[], datetime]) -> None:
        self.collector = TelemetryCollector()
        self.nodes = NodeWriter()
        self.lines = AgentLines()
        self._blobs = blobs
        self._history = history
        self._now = now
        self._id = secrets.token_hex(4)
        self._seen: dict[str, datetime] = {}
        """Blobs of other servers as they were last read, with their times."""
        self._unstored: list[Interval] = []
        self._marks: dict[tuple[str, Mark], bool] = {}
        """The latest marks of attempts, with the UIDs of their runs, and whether history has them."""
        self._places: OrderedDict[str, tuple[str, Attempt]] = OrderedDict()
        """By UID of the Pod: node and attempt of the gangs' ranks 0."""
        self._downsampled_at = 0.0
        self._has_others = False
        """Whether another server has received reports in the last minutes."""
        self._passed_on: set[str] = set()
        """Questions of other servers that were seen here, which are not looked at again."""
        self._answering: set[asyncio.Task[None]] = set()

    def note_place(self, uid: str, node: str, attempt: Attempt) -> None:
        """Remember the attempt of a Pod with rank 0."""
        self._places[uid] = node, attempt
        self._places.move_to_end(uid)
        if len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)

    def place_of(self, uid: str, node: str) -> Attempt | None:
        """Return the attempt of a Pod with rank 0 that is, or was, on this node."""
        place = self._places.get(uid)
        return place[1] if place is not None and place[0] == node else None

    def note_saved(self, attempt: Attempt, saved: SavedCheckpoint, now: float) -> None:
        """Note a checkpoint for history, unless its time cannot be true."""
        is_recent = now - MAX_SAVED_AGE < saved.until < now + MINUTE_SECONDS
        if is_recent and 0 <= saved.until - saved.since <= MAX_CHECKPOINT_SECONDS:
            mark = Mark(attempt.number, Kind.SAVED.value, round(saved.since), round(saved.until))
            self._marks.setdefault((attempt.run_uid, mark), False)

    async def ask(
        self,
        node: str,
        uids: Sequence[str],
        since: float,
        *,
        fresh: bool,
        stacks: bool = False,
        detail: str = "",
        elsewhere: bool = True,
    ) -> Answer:
        """Return the node's answer, also if its agent waits at another server; then it takes two seconds more.

        Raises Unavailable if the node does not answer in time.
        """
        asked_here = self.lines.ask(node, uids, since, fresh=fresh, stacks=stacks, detail=detail)
        if self._blobs is None or not elsewhere or not self._has_others or self.lines.is_connected(node):
            return await asked_here
        requests = [asyncio.ensure_future(asked_here)]
        question = Asked(node, tuple(uids), since, fresh, stacks, detail)
        requests.append(asyncio.ensure_future(self._ask_elsewhere(self._blobs, question)))
        try:
            for done in asyncio.as_completed(requests):
                with contextlib.suppress(KajitoriError):
                    return await done
        finally:
            for task in requests:
                task.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
        raise Unavailable(f"node {node} has no agent at any server", hint=NO_AGENT)

    async def _ask_elsewhere(self, blobs: Blobs, question: Asked) -> Answer:
        answers = await Questions(blobs, self._id).ask([question], ANSWER_SECONDS)
        if not answers:
            raise Unavailable(f"no other server has an agent of node {question.node}", hint=NO_AGENT)
        return answers[0]

    async def look_for_questions(self) -> None:
        """Answer questions of other processes if the nodes' agents wait here. Raises the errors of the store."""
        if self._blobs is None or not len(self.lines):
            return
        now, seen, old = self._now().timestamp(), set(), []
        async with aclosing(self._blobs.under(QUESTIONS)) as blobs:
            async for blob in blobs:
                if now - blob.modified_at.timestamp() > STALE_SECONDS:
                    number = blob.key.removeprefix(f"{QUESTIONS}/")
                    old += [blob.key, f"{ANSWERS}/{number}"]
                else:
                    seen.add(blob.key)
        for key in seen - self._passed_on:
            if not key.startswith(f"{QUESTIONS}/{self._id}"):
                task = asyncio.create_task(self._answer(self._blobs, key))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
        self._passed_on = seen
        if old:
            await self._blobs.delete(*old)

    async def _answer(self, blobs: Blobs, key: str) -> None:
        """Answer one question if its node's agent waits here."""
        with contextlib.suppress(KajitoriError, msgspec.MsgspecError):  # the other server says that there is no answer
            question = msgspec.msgpack.decode(await blobs.read(key, limit_bytes=1 << 20), type=Asked)
            if self.lines.is_connected(question.node):
                answer = await self.lines.ask(
                    question.node,
                    question.uids,
                    question.since,
                    fresh=question.fresh,
                    stacks=question.stacks,
                    detail=question.detail,
                )
                await blobs.put(f"{ANSWERS}/{key.removeprefix(f'{QUESTIONS}/')}", encode(answer))
            else:
                self._passed_on.discard(key)  # its agent may be between two requests

    async def look(self) -> None:
        """Exchange values with other servers, make the bands that are due, and store them. Raises the errors of store
        and database; call it again then, nothing is lost."""
        now = self._now().timestamp()
        if self._blobs is not None:
            await self._exchange(self._blobs, now)
        await self._make_bands(now)
        self.collector.forget(now)
        self.nodes.forget(int(now // MINUTE_SECONDS) - KEPT_MINUTES)
        await self._record(now)

    async def _answer_others(self, blobs: Blobs) -> None:
        """Look for questions of other processes until cancelled."""
        while True:
            with contextlib.suppress(KajitoriError):
                await self.look_for_questions()
            await asyncio.sleep(blobs.look_seconds)

    async def run(self) -> None:
        """Call `look` periodically until cancelled, and write what was received then. Questions do not wait for it."""
        failure = LastingFailure(log, "telemetry cannot be stored now; it is tried again: %s", logging.ERROR)
        answering = asyncio.create_task(self._answer_others(self._blobs)) if self._blobs is not None else None
        try:
            while True:
                try:
                    await self.look()
                    failure.end()
                except KajitoriError as error:
                    failure.note(str(error))
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            if answering is not None:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)
            if self._blobs is not None:
                for task in self._answering:
                    task.cancel()
                with contextlib.suppress(KajitoriError, TimeoutError):
                    async with asyncio.timeout(2.0):
                        await self._write(self._blobs, math.inf)

    async def _exchange(self, blobs: Blobs, now: float) -> None:
        await self._write(blobs, now)
        oldest = int(now // MINUTE_SECONDS) - KEPT_MINUTES
        listed: dict[str, datetime] = {}
        old = []
        async with aclosing(blobs.under(PREFIX)) as parts:
            async for blob in parts:
                minute, _, server = blob.key.removeprefix(f"{PREFIX}/").partition("/")
                if not minute.isdigit():
                    continue
                if int(minute) <= oldest:
                    old.append(blob.key)
                elif server != self._id:
                    listed[blob.key] = blob.modified_at
        self._has_others = bool(listed)
        for key, modified_at in listed.items():
            if self._seen.get(key) != modified_at:
                await self._read(blobs, key, now)
        self._seen = listed
        if old:
            await blobs.delete(*old)

    async def _write(self, blobs: Blobs, now: float) -> None:
        for minute in self.collector.unshared(now):
            content = self.collector.part(minute)
            try:
                packed = await asyncio.to_thread(zstandard.ZstdCompressor(level=1).compress, content)
                await blobs.put(f"{PREFIX}/{minute}/{self._id}", packed)
            except BaseException:
                self.collector.keep_unshared(minute)
                raise

    async def _read(self, blobs: Blobs, key: str, now: float) -> None:
        try:
            content = await blobs.read(key, limit_bytes=_MAX_PART_BYTES)
        except NotFound:
            return
        try:
            unpacker = zstandard.ZstdDecompressor()
            part = decode_part(await asyncio.to_thread(unpacker.decompress, content, max_output_size=_MAX_PART_BYTES))
        except (zstandard.ZstdError, msgspec.MsgspecError) as error:
            log.error("%s is not telemetry of a server of this version; it is left out: %s", key, error)
            return
        self.collector.take(part, now)

    async def _make_bands(self, now: float) -> None:
        began = time.monotonic()
        for minute, attempt, ranks in list(self.collector.due(now)):
            # Thousands of ranks take a moment, and other tasks must not wait for it.
            is_large = len(ranks) > _RANKS_IN_LOOP
            bands = await asyncio.to_thread(bands_of, ranks) if is_large else bands_of(ranks)
            self._unstored.append(self.collector.settle(minute, attempt, len(ranks), bands))
            if time.monotonic() - began >= _SLICE_SECONDS:
                await asyncio.sleep(_SLICE_SECONDS)
                began = time.monotonic()

    async def _record(self, now: float) -> None:
        await self.nodes.write(self._history)
        if self._history is None:
            self._unstored.clear()
            self._marks.clear()
            return
        while marks := [mark for mark, is_stored in self._marks.items() if not is_stored][:_ROWS_AT_ONCE]:
            await self._history.record_marks(marks)
            self._marks |= dict.fromkeys(marks, True)
        self._marks = {
            mark: is_stored for mark, is_stored in self._marks.items() if mark[1].until > now - MAX_SAVED_AGE
        }
        while self._unstored:
            batch = self._unstored[:_ROWS_AT_ONCE]
            await self._history.record_telemetry(batch)
            del self._unstored[: len(batch)]
        if now - self._downsampled_at >= DOWNSAMPLE_SECONDS:
            while await self._history.downsample_telemetry(int(now)):
                pass
            self._downsampled_at = now
