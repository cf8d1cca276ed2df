"""Streams of the client: how long an outage of the server is borne."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kajitori.client.streams import GIVE_UP_SECONDS, Patience
from kajitori.client.target import Target
from kajitori.client.web_api import Api
from kajitori.errors import Unavailable


def test_a_clock_that_jumps_ends_no_stream() -> None:
    """A clock that was set ahead during an outage ended `kaji logs -f` at once; one that was set back let it wait for
    hours."""
    now, ticks, naps = [datetime(2026, 11, 29, tzinfo=UTC)], [0.0], list[float]()
    api = Api(Target("http://127.0.0.1:9", ""), now=lambda: now[0], ticks=lambda: ticks[0], sleep=naps.append)
    patience, away = Patience(api), Unavailable("nothing answers")
    for hours in (0, 3, -6):
        now[0] += timedelta(hours=hours)
        ticks[0] += 1.0
        patience.failed(away)
    assert len(naps) == 3
    ticks[0] += GIVE_UP_SECONDS
    with pytest.raises(Unavailable):
        patience.failed(away)
