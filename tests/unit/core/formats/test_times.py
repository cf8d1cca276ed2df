"""Times that people and sums of limits may have."""

from __future__ import annotations

from kajitori.core.formats.times import format_time, time_at


def test_times_beyond_those_of_datetime_are_the_nearest_that_it_has() -> None:
    """`GET /v1/usage?since=0001-01-01T00:00:00+14:00` was a bug of the server."""
    assert format_time(time_at(-(10**15))) == "0001-01-02T00:00:00Z"
    assert format_time(time_at(10**15)) == "9999-12-31T00:00:00Z"
