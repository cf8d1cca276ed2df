"""Ages in the notation of kubectl (k8s.io/apimachinery/pkg/util/duration `HumanDuration`)."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY


def human(seconds: float) -> str:
    """Format a duration: `8s`, `4m10s`, `35m`, `7h12m`, `5d`; never more than two units."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes = whole // _MINUTE
    if minutes < 10:
        return f"{minutes}m{whole % _MINUTE}s" if whole % _MINUTE else f"{minutes}m"
    if minutes < 3 * 60:
        return f"{minutes}m"
    hours = whole // _HOUR
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = whole // _DAY
    if hours < 8 * 24:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if hours < 2 * 365 * 24:
        return f"{days}d"
    years = whole // _YEAR
    if years < 8:
        rest = days % 365
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


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
