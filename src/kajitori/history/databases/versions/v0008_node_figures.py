"""Figures of nodes over time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table: one row per node and interval.

    Time comes first in the key: rows are added and thinned by time, so both touch neighbouring pages and need no
    second index.
    """
    op.create_table(
        "node_figures",
        sa.Column("seconds", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("began_at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("node", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
