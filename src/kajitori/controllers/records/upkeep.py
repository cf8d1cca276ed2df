"""Maintains history: sums of days, removal of runs that policy no longer keeps, and a mark that says how current
history is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from kajitori.controllers.records.history import HistoryKeeper
from kajitori.errors import KajitoriError
from kajitori.history.store import History

log = logging.getLogger(__name__)

UPKEEP_SECONDS = 15.0
"""Pause between two rounds."""
FIRST_SECONDS = 1.0
"""The same while history is not current, as at the start."""
REST_SECONDS = 0.05
"""Pause between two transactions of one round, in which changes of runs are written."""
MARKS_SECONDS = 900
"""Time after the end of a segment at which its time is summed up by cause. Marks of its attempt have come by then."""
EXPIRE_SECONDS = 600.0
"""Time between two searches for runs that are older than policy keeps them."""


async def keep_up_forever(
    history: History, keeper: HistoryKeeper, now: Callable[[], datetime], keep_for_seconds: Callable[[], int | None]
) -> None:
    """Maintain history until cancelled. `keep_for_seconds` returns the policy's limit; None: runs stay forever."""
    clock = asyncio.get_running_loop().time
    next_search, is_current = 0.0, False
    while True:
        try:
            is_current = keeper.is_current
            if is_current:
                await history.note_current(int(now().timestamp() * 1000))
            await _repeat_until_done(history.sum_up)
            await _repeat_until_done(partial(history.divide, int(now().timestamp()) - MARKS_SECONDS))
            limit = keep_for_seconds()
            if limit is not None and clock() >= next_search:
                before = int(now().timestamp()) - limit
                if count := await _repeat_until_done(partial(history.expire, before)):
                    log.info("history keeps only the daily sums of %d runs that ended long ago", count)
                next_search = clock() + EXPIRE_SECONDS
        except KajitoriError as error:
            log.info("history is not kept in shape now: %s", error)
        await asyncio.sleep(UPKEEP_SECONDS if is_current else min(FIRST_SECONDS, UPKEEP_SECONDS))


async def _repeat_until_done(work: Callable[[], Awaitable[int]]) -> int:
    """Repeat work, with pauses, until it finds nothing to do; return how much it did."""
    total = 0
    while count := await work():
        total += count
        await asyncio.sleep(REST_SECONDS)
    return total
