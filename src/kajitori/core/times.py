"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """`2026-11-21T10:00:00Z`; fractions of a second are dropped."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime | None:
    """The moment, or None where nothing is written. Raises ValueError for anything else."""
    return datetime.fromisoformat(text) if text else None
