"""Clients that follow a run get all lines, each once, and go on, although the servers are killed meanwhile."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from tests.harness.kaji_up import KajiUp
from tests.helpers.counted import assert_followers_lose_nothing
from tests.helpers.sessions import assert_sessions_survive

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


def test_sessions_survive_when_kaji_up_is_killed(tmp_path: Path) -> None:
    it = KajiUp(tmp_path)
    it.start()

    def restart(number: signal.Signals) -> None:
        it.kill(number)
        it.start()

    try:
        assert_sessions_survive(
            tmp_path, it.environment, (), [lambda: restart(signal.SIGKILL), lambda: restart(signal.SIGTERM)]
        )
    finally:
        it.kaji("rm", "-f", "sessions")
        it.kill()
