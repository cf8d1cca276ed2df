"""Who leads anew plans nothing before he has looked at every run once, for a while."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kajitori.controllers.runs import takeover
from kajitori.controllers.runs.takeover import FirstLook


async def test_it_lasts_until_all_are_known() -> None:
    look = FirstLook()
    assert not look.seconds_left()
    look.begin([("team", "a"), ("team", "b")])
    look.note(("team", "a"))
    look.note(("team", "nobody knows"))
    assert 0 < look.seconds_left() <= takeover.FIRST_LOOK_SECONDS
    look.note(("team", "b"))
    assert not look.seconds_left()


async def test_one_that_cant_be_looked_at_holds_up_the_others_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look, loop = FirstLook(), asyncio.get_running_loop()
    look.begin([("team", "a")])
    later = loop.time() + takeover.FIRST_LOOK_SECONDS
    monkeypatch.setattr(loop, "time", lambda: later)
    with caplog.at_level(logging.WARNING):
        assert not look.seconds_left()
    assert "1 runs could not be reconciled" in caplog.text
    assert not look.seconds_left()
