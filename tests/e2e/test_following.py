"""Whoever follows a run sees all of it, each line once, however often the servers are killed meanwhile."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from tests.harness.kaji_up import KajiUp
from tests.harness.waiting import wait_until
from tests.helpers.counted import Following, assert_whole, command, followed

LINES, FAILS_AT = 500, 250
PATIENCE_SECONDS = 120.0
MOST_KILLS = 6

pytestmark = pytest.mark.xdist_group("e2e-following")


@pytest.mark.parametrize("seed", [1, 2])
def test_followers_lose_no_line_when_kaji_up_is_killed(tmp_path: Path, seed: int) -> None:
    """Kills at random moments, by SIGKILL or SIGTERM, and over a restart of the gang. `kaji run` shows everything and
    ends with the run's exit code."""
    chance = random.Random(seed)
    it = KajiUp(tmp_path)
    it.start()
    counting = command(LINES, rank_1_fails_at=FAILS_AT)
    asked = ("-n", "2", "--cpus", "0.2", "--restarts", "1", "--grace", "5s", "python:3", *counting)
    run = Following(tmp_path, "run", it.environment, "run", "--name", "counts", *asked)
    one = Following(tmp_path, "one", it.environment, "logs", "-f", "--rank", "1", "counts")
    try:
        with followed(run, one) as goes_on:
            wait_until(lambda: "<1/1/3>" in run.out.read_text(), lambda: (run.err.read_text(), it.log.read_text()))
            if one.process.poll() is not None:  # the run was not there yet
                one = Following(tmp_path, "one", it.environment, "logs", "-f", "--rank", "1", "counts")
            wait_until(lambda: "<1/1/" in one.out.read_text(), lambda: (one.err.read_text(), it.log.read_text()))
            for _ in range(MOST_KILLS):
                time.sleep(chance.uniform(0.2, 2.0))
                if not goes_on():
                    break
                it.kill(chance.choice([signal.SIGKILL, signal.SIGTERM]))
                time.sleep(chance.uniform(0.0, 0.5))
                it.start()
            assert run.end(PATIENCE_SECONDS) == 3, run.err.read_text()
            assert one.end(PATIENCE_SECONDS) == 0, one.err.read_text()
        assert_whole(run.counted(), LINES, FAILS_AT)
        assert_whole(one.counted(), LINES, FAILS_AT, ranks=(1,))
        for said in (run.err.read_text(), one.err.read_text()):
            assert "bug" not in said and "lost" not in said, said
    finally:
        it.kaji("rm", "-f", "counts")
        it.kill()
