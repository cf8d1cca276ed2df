from __future__ import annotations

import logging

import pytest

from kajitori.monitoring.lasting_failure import LastingFailure

log = logging.getLogger(__name__)


def test_a_failure_is_logged_when_it_begins_changes_or_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    failure = LastingFailure(log, "no answer now: %s")
    for message in ("refused", "refused", "too slow", "too slow"):
        failure.note(message)
    assert failure.message == "too slow"
    failure.end()
    assert not failure.message
    failure.note("too slow")
    assert caplog.messages == ["no answer now: refused", "no answer now: too slow", "no answer now: too slow"]


def test_a_failure_is_logged_at_its_level(caplog: pytest.LogCaptureFixture) -> None:
    LastingFailure(log, "it is lost: %s", logging.ERROR).note("disk full")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
