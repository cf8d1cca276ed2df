"""Stored logs: found by attempt and rank, removed with their run, and kept no longer than allowed."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from kajitori.blobs.logs import KeptLog, KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs
from kajitori.errors import NotFound

MONTH = timedelta(days=30)


def name(attempt: int, rank: int, run: str = "u1") -> MemberLogName:
    return MemberLogName("vision", run, attempt, rank)


async def logs_in(folder: Path) -> KeptLogs:
    return KeptLogs(await open_blobs(folder.as_uri()))


async def read(kept: KeptLogs, which: MemberLogName) -> bytes:
    return b"".join([piece async for piece in kept.read(which)])


async def test_a_stored_log_is_found_by_attempt_and_rank(tmp_path: Path) -> None:
    kept = await logs_in(tmp_path)
    await kept.keep(name(10, 0), b"ten")
    await kept.keep(name(2, 7), b"two")
    await kept.keep(name(2, 7), b"two, and its last words")
    assert await read(kept, name(2, 7)) == b"two, and its last words"
    assert await kept.of_run("vision", "u1") == [KeptLog(2, 7, 23), KeptLog(10, 0, 3)]
    with pytest.raises(NotFound):
        await read(kept, name(3, 7))


async def test_logs_are_removed_with_their_run(tmp_path: Path) -> None:
    kept = await logs_in(tmp_path)
    for attempt in (1, 2, 3):
        await kept.keep(name(attempt, 0), b"x")
    await kept.keep(name(1, 0, run="u2"), b"x")
    await kept.forget("vision", "u1", up_to_attempt=2)
    assert [log.attempt for log in await kept.of_run("vision", "u1")] == [3]
    await kept.forget("vision", "u1")
    await kept.forget("vision", "u1")
    assert await kept.of_run("vision", "u1") == []
    assert len(await kept.of_run("vision", "u2")) == 1


async def test_logs_without_a_run_and_old_ones_are_removed(tmp_path: Path) -> None:
    """Young logs are kept, since their run may not be known yet."""
    kept = await logs_in(tmp_path)
    for run in ("alive", "gone", "new", "old"):
        await kept.keep(name(1, 0, run=run), b"x")
    for run, hours in (("alive", 2), ("gone", 2), ("old", 24 * 40)):
        moment = time.time() - hours * 3600
        os.utime(tmp_path / name(1, 0, run=run).key, (moment, moment))
    assert await kept.collect({"alive", "old"}, MONTH) == 2
    left = [run for run in ("alive", "gone", "new", "old") if await kept.of_run("vision", run)]
    assert left == ["alive", "new"]


async def test_a_namespace_with_too_many_logs_loses_the_oldest(tmp_path: Path) -> None:
    """Other namespaces are not affected; small logs count for the block that a file takes."""
    kept = await logs_in(tmp_path)
    for attempt in range(1, 5):
        await kept.keep(name(attempt, 0, run="alive"), b"x")
        moment = time.time() - (10 - attempt) * 60
        os.utime(tmp_path / name(attempt, 0, run="alive").key, (moment, moment))
    await kept.keep(MemberLogName("speech", "alive", 1, 0), b"x")
    assert await kept.collect({"alive"}, MONTH, 4 * 4096) == 0
    assert await kept.collect({"alive"}, MONTH, 2 * 4096) == 2
    assert [log.attempt for log in await kept.of_run("vision", "alive")] == [3, 4]
    assert len(await kept.of_run("speech", "alive")) == 1
