"""Lines that Kajitori adds to logs."""

from __future__ import annotations

import pytest

from kajitori.core.formats.rotation_notice import dropped_by_rotation
from kajitori.core.logs.notices import UNKNOWN_TIME, missing_beginning

STARTED = "2026-11-21T10:00:00Z"


@pytest.mark.parametrize(
    ("first_line", "after"),
    [
        (b"2026-11-21T12:03:20.123456789Z step 9000", "2h3m"),
        (b"2026-11-21T10:05:00.000000000Z", "5m"),
        (b"2026-11-21T10:04:59.000000000Z loading took a while", ""),
        (b"2026-11-21T09:59:00.000000000Z clocks differ", ""),
        (f"2026-11-21T12:00:00.000000000Z {dropped_by_rotation(10**7)}".encode(), ""),
        (f"{UNKNOWN_TIME} unable to retrieve container logs".encode(), ""),
        (b"no time at all", ""),
        (b"", ""),
    ],
)
def test_a_log_that_begins_late_has_a_notice(first_line: bytes, after: str) -> None:
    text = missing_beginning(STARTED, first_line, "n1")
    assert (f"begins {after} after its program started" in text and "node n1" in text) if after else not text
    assert not missing_beginning("", first_line, "n1")
