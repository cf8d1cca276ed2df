"""Times in Kubernetes' format: RFC 3339 in UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime

_FIRST = datetime(1, 1, 2, tzinfo=UTC).timestamp()
_LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def format_time(moment: datetime) -> str:
    """Format a time as `2026-11-21T10:00:00Z`; fractions of a second are dropped."""
    return f"{moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"


def time_at(seconds: float) -> datetime:
    """Return the time at these seconds since 1970, between the second and the last day that `datetime` supports.

    Sums of many long limits can exceed that, and a time near the year 1 with an offset is before it in UTC."""
    return datetime.fromtimestamp(max(_FIRST, min(seconds, _LAST)), UTC)


def parse_time(text: str) -> datetime | None:
    """Parse a time; None for an empty text. Raises ValueError for any other text."""
    return datetime.fromisoformat(text) if text else None


def seconds_since(text: str, now: datetime) -> float | None:
    """Return the seconds from a time until `now`; None if the text is no time."""
    try:
        moment = parse_time(text)
    except ValueError:
        return None
    return (now - moment).total_seconds() if moment is not None and moment.tzinfo is not None else None
