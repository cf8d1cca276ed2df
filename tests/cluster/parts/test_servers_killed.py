"""Clients that follow a run's log, are attached to it or forward its ports go on, although the servers are killed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from tests.harness.platform.installation import TOGETHER, Installation
from tests.helpers.counted import assert_followers_lose_nothing
from tests.helpers.sessions import assert_sessions_survive

pytestmark = TOGETHER


def test_followers_lose_no_line_when_servers_are_killed(installed: Installation, tmp_path: Path) -> None:
    """The Web API, the controllers and the relay are killed at random moments. At most one leader gets SIGKILL, because
    no controller leads for a while after that."""
    chance = random.Random(2)
    killed_leaders: list[str] = []

    def kill_one() -> None:
        name = chance.choice(("server", "server", "relay", "c1", "c2"))
        number = chance.choice((signal.SIGKILL, signal.SIGTERM))
        if name == installed.leader() and number == signal.SIGKILL:
            number = signal.SIGTERM if killed_leaders else number
            killed_leaders.append(name)
        installed.kill(name, number)
        time.sleep(chance.uniform(0.0, 0.5))
        installed.start_again(name)

    here = ("--node-selector", "kubernetes.io/hostname=here", "-m", "64m")
    try:
        assert_followers_lose_nothing(
            tmp_path,
            installed.kaji_environment("ada"),
            here,
            lines=200,
            chance=chance,
            kill_one=kill_one,
            explain=installed.explain,
        )
        installed.until(lambda: installed.phase("counts") == "Failed", "the run has ended")
    finally:
        installed.until(lambda: installed.kaji("rm", "-f", "counts").returncode in (0, 2), "the run is removed")


def test_sessions_survive_when_the_web_api_is_killed(installed: Installation, tmp_path: Path) -> None:
    """A terminal that is attached, and a forwarded port."""

    def kill() -> None:
        installed.kill("server", signal.SIGKILL)
        installed.start_again("server")

    try:
        here = ("--node-selector", "kubernetes.io/hostname=here")
        assert_sessions_survive(tmp_path, installed.kaji_environment("ada"), here, [kill])
    finally:
        installed.until(lambda: installed.kaji("rm", "-f", "sessions").returncode in (0, 2), "the run is removed")
