"""Kept stacks: read by attempt, removed with the logs of their run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.stores.opening import open_blobs
from kajitori.core.telemetry.hangs.evidence import Evidence, Occasion
from kajitori.core.telemetry.hangs.stacks import MemberStacks

MONTH = timedelta(days=30)


def evidence(occasion: Occasion, at: float) -> Evidence:
    return Evidence(occasion, at, "It is stuck.", {3: MemberStacks("pod-3", at)}, {3: "n3", 4: "n4"})


async def test_stacks_of_an_attempt_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    end, hang = evidence(Occasion.END, 9.0), evidence(Occasion.STUCK, 5.0)
    for each in (end, evidence(Occasion.STUCK, 1.0), hang):
        await kept.stacks.keep("vision", "u1", 2, each)
    assert await kept.stacks.read("vision", "u1", 2) == [hang, end]
    assert await kept.stacks.read("vision", "u1", 3) == []
    assert (await kept.stacks.attempts("vision", "u1"), await kept.of_run("vision", "u1")) == ([2], [])


async def test_stacks_go_with_the_logs_of_their_run(tmp_path: Path) -> None:
    kept = KeptLogs(await open_blobs(tmp_path.as_uri()))
    for run, attempt in (("u1", 1), ("u1", 12), ("u2", 1), ("u3", 1)):
        await kept.stacks.keep("vision", run, attempt, evidence(Occasion.STUCK, 1.0))
    await kept.forget("vision", "u1", up_to_attempt=11)
    assert await kept.stacks.attempts("vision", "u1") == [12]
    await kept.forget("vision", "u1")
    assert await kept.stacks.attempts("vision", "u1") == []
    assert await kept.collect({"u2"}, MONTH) == 0, "a new run may not be known yet"
    assert await kept.collect({"u2"}, MONTH, least_age=-MONTH) == 1
    assert await kept.stacks.attempts("vision", "u2") == [1]
    assert await kept.collect({"u2"}, -MONTH) == 1, "older than logs are kept"
