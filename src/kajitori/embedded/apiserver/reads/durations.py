"""Ages in the notation of kubectl (k8s.io/apimachinery/pkg/util/duration `HumanDuration`)."""

from __future__ import annotations

from datetime import UTC, datetime

_HOUR, _DAY = 3600, 86400
_YEAR = 365 * _DAY
_STEPS = (
    *((120, 1, "s", 1, ""), (600, 60, "m", 1, "s"), (3 * _HOUR, 60, "m", 60, ""), (8 * _HOUR, _HOUR, "h", 60, "m")),
    *((48 * _HOUR, _HOUR, "h", _HOUR, ""), (8 * _DAY, _DAY, "d", _HOUR, "h"), (2 * _YEAR, _DAY, "d", _DAY, "")),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Durations below the first number of seconds are shown in the first unit, with the rest in the second one, if any."""


def human(seconds: float) -> str:
    """Format a duration: `8s`, `4m10s`, `35m`, `7h12m`, `5d`; never more than two units."""
    whole = max(int(seconds), 0)
    if int(seconds) < -1:
        return "<invalid>"
    for limit, unit, name, small_unit, small_name in _STEPS:
        if whole < limit:
            rest = whole % unit // small_unit
            return f"{whole // unit}{name}{rest}{small_name}" if small_name and rest else f"{whole // unit}{name}"
    return f"{whole // _YEAR}y"


def parse(text: str | None) -> datetime | None:
    """Parse an RFC 3339 time; None if there is none or it cannot be parsed."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def age(text: str | None, now: datetime) -> str:
    """Return the time since a moment, or `<unknown>`."""
    moment = parse(text)
    return "<unknown>" if moment is None else human((now - moment).total_seconds())
