"""Clients that follow a run get all lines, each once, and go on, although the servers are killed meanwhile."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.harness.kaji_up import KajiUp
from tests.helpers.counted import assert_followers_lose_nothing
from tests.helpers.network.relay import Relay
from tests.helpers.sessions import assert_sessions_survive

pytestmark = pytest.mark.xdist_group("e2e-following")


def test_followers_lose_no_line_when_kaji_up_is_killed(tmp_path: Path) -> None:
    """At random moments, by SIGKILL or SIGTERM, and over a restart of the gang. `kaji run` prints everything and ends
    with the run's exit code."""
    chance = random.Random(1)
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


def test_sessions_survive_when_kaji_up_is_killed_and_when_their_connections_break(tmp_path: Path) -> None:
    """Connections break at a relay between client and server, as those of a laptop that slept."""
    it = KajiUp(tmp_path)
    it.start()

    def restart(number: signal.Signals) -> None:
        it.kill(number)
        it.start()

    def told() -> dict[str, str]:
        found: dict[str, str] = json.loads((it.data / "kaji.json").read_text())
        return found

    def address() -> tuple[str, int]:
        url = urlsplit(told()["url"])
        return str(url.hostname), int(url.port or 0)

    try:
        with Relay(address).running() as relay:
            environment = {**it.environment, "KAJI_SERVER": relay.url, "KAJI_TOKEN": told()["token"]}
            breaks = [lambda: restart(signal.SIGKILL), relay.break_all, lambda: restart(signal.SIGTERM)]
            assert_sessions_survive(tmp_path, environment, (), breaks)
    finally:
        it.kaji("rm", "-f", "sessions")
        it.kill()
