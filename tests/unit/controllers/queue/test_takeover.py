"""A new leader plans only once every existing run has been reconciled, or after a limited time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kajitori.controllers.queue import takeover
from kajitori.controllers.queue.takeover import Takeover


async def test_planning_begins_once_all_runs_are_reconciled() -> None:
    new_leader = Takeover()
    assert not new_leader.seconds_left()
    new_leader.begin([("team", "a"), ("team", "b")])
    new_leader.note(("team", "a"))
    new_leader.note(("team", "unknown"))
    assert 0 < new_leader.seconds_left() <= takeover.TAKEOVER_SECONDS
    new_leader.note(("team", "b"))
    assert not new_leader.seconds_left()


async def test_a_run_that_cant_be_reconciled_delays_the_others_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new_leader, loop = Takeover(), asyncio.get_running_loop()
    new_leader.begin([("team", "a")])
    later = loop.time() + takeover.TAKEOVER_SECONDS
    monkeypatch.setattr(loop, "time", lambda: later)
    with caplog.at_level(logging.WARNING):
        assert not new_leader.seconds_left()
    assert "1 runs could not be reconciled" in caplog.text
    assert not new_leader.seconds_left()
