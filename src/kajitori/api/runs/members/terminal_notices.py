"""Notices in the terminal of a person who types in a member: the run is preempted soon, reaches its time limit, is
moved, or holds idle GPUs.

They go to the channel of standard error, which no program with a terminal uses. So every client shows them, and one
that compares output with the log can tell them apart. A notice waits until the program pauses, since in the middle of
an escape sequence or a letter it would break both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from kajitori.api.context import Api
from kajitori.api.rights import User
from kajitori.api.runs.tracking import RunTracker
from kajitori.cluster.run_object import RunObject
from kajitori.core.messages.screen import Screen
from kajitori.core.messages.terminals import TerminalNotice, due_notices, next_notice_at
from kajitori.errors import KajitoriError

QUIET_SECONDS = 0.1
"""Pause of the program's output in which a notice is shown."""
LATEST_SECONDS = 2.0
"""Longest wait for such a pause."""
LOOK_SECONDS = 300.0
"""Longest pause between two looks at a run that does not change."""


class TerminalNotices:
    """Shows notices about a run in one terminal."""

    def __init__(
        self, api: Api, user: User, run: RunObject, rank: int, send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """`send` sends bytes to the terminal past the program."""
        self._api = api
        self._user = user
        self._run = run
        self._rank = rank
        self._send = send
        self._screen = Screen()
        self._has_printed = asyncio.Event()
        self._told: set[str] = set()

    def note_output(self, data: bytes) -> None:
        """Note output of the program."""
        self._screen.note(data)
        self._has_printed.set()

    def note_columns(self, columns: int) -> None:
        """Note the width of the terminal."""
        self._screen.columns = columns

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show notices while the context lasts."""
        task = asyncio.create_task(self._show_all(), name="notices in a terminal")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _show_all(self) -> None:
        limit_seconds = self._time_limit_seconds()
        is_first = True
        with RunTracker(self._api, self._user, self._run) as tracker:
            while not tracker.is_over:
                rules, now, status = (
                    self._api.cluster.policy.notifications,
                    self._api.now(),
                    tracker.look().status,
                )
                wait_seconds = LOOK_SECONDS
                if status is not None:
                    name = self._run.metadata.name
                    due = due_notices(status, name, self._rank, rules=rules, now=now, time_limit_seconds=limit_seconds)
                    for notice in due:
                        await self._tell(notice, is_old=is_first and notice.is_past)
                    next_at = next_notice_at(status, rules, limit_seconds)
                    if next_at is not None and next_at > now:
                        wait_seconds = min(wait_seconds, (next_at - now).total_seconds())
                is_first = False
                await tracker.changed(wait_seconds)

    async def _tell(self, notice: TerminalNotice, *, is_old: bool) -> None:
        if notice.mark in self._told:
            return
        self._told.add(notice.mark)
        if not is_old:
            await self._wait_for_pause()
            await self._send(self._screen.show(notice.text))

    async def _wait_for_pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LATEST_SECONDS):
                while await self._prints_within(QUIET_SECONDS):
                    pass

    async def _prints_within(self, seconds: float) -> bool:
        self._has_printed.clear()
        try:
            async with asyncio.timeout(seconds):
                return await self._has_printed.wait()
        except TimeoutError:
            return False

    def _time_limit_seconds(self) -> int | None:
        """Return the run's time limit, which policy may have set; None if it has none."""
        with suppress(KajitoriError):  # policy refuses the run now: its attempt runs on without a limit of policy's
            return self._api.cluster.decide(self._run)[1].limits.time_limit_seconds
        return None
