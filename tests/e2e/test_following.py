"""A client that follows a run's logs gets all lines, each once, although the servers are killed meanwhile."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from tests.harness.kaji_up import KajiUp
from tests.helpers.counted import assert_followers_lose_nothing

pytestmark = pytest.mark.xdist_group("e2e-following")


@pytest.mark.parametrize("seed", [1, 2])
def test_followers_lose_no_line_when_kaji_up_is_killed(tmp_path: Path, seed: int) -> None:
    """At random moments, by SIGKILL or SIGTERM, and over a restart of the gang. `kaji run` prints everything and ends
    with the run's exit code."""
    chance = random.Random(seed)
    it = KajiUp(tmp_path)
    it.start()

    def kill_it() -> None:
        it.kill(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        time.sleep(chance.uniform(0.0, 0.5))
        it.start()

    try:
        assert_followers_lose_nothing(
            tmp_path, it.environment, (), lines=200, chance=chance, kill_one=kill_it, explain=it.log.read_text
        )
    finally:
        it.kaji("rm", "-f", "counts")
        it.kill()
