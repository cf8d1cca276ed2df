"""Bands of telemetry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table of bands: one row per run, attempt, and interval of a minute, ten minutes or an hour."""
    word = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "telemetry",
        sa.Column("run_uid", word, primary_key=True),
        sa.Column("attempt", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("seconds", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("began_at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("ranks", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("telemetry_by_age", "telemetry", ["seconds", "began_at"])
