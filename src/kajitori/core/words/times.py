"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime

_LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def format_time(moment: datetime) -> str:
    """`2026-11-21T10:00:00Z`; fractions of a second are dropped."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_at(seconds: float) -> datetime:
    """The moment so many seconds after the beginning of 1970; what is farther away than a calendar reaches is its last
    day: many long limits, one behind the other, add up to that."""
    return datetime.fromtimestamp(min(seconds, _LAST), UTC)


def parse_time(text: str) -> datetime | None:
    """The moment, or None where nothing is written. Raises ValueError for anything else."""
    return datetime.fromisoformat(text) if text else None
