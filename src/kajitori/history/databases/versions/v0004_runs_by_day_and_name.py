"""Adds an index for lists by the beginning of the name: it finds the newest of many such runs, day by day."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add an index by day of creation (UTC) and name, with all other columns that a filter of a list may name."""
    op.execute(
        "CREATE INDEX runs_by_day_and_name ON runs "
        "((created_at / 86400), name, namespace, owner, phase, created_at, uid)"
    )
