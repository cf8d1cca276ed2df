"""Traffic by class of addresses over time, and the use of pools of addresses by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the two tables: one row per subject and hour, and one row per pool and day."""
    word = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "traffic",
        sa.Column("subject", word, primary_key=True),
        sa.Column("key", word, primary_key=True),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("traffic_by_age", "traffic", ["at", "subject"])
    op.create_table(
        "address_use",
        sa.Column("pool", word, primary_key=True),
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("capacity", sa.BigInteger, nullable=False),
    )
