"""Adds the facts about the time of segments, and daily sums of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def Word() -> sa.types.TypeEngine[str]:
    """Text that is compared byte by byte in both databases."""
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add columns for the time and the end of a segment's programs, marks of attempts, and sums of time.

    Existing segments are summed up in the background afterwards, as time of unknown use.
    """
    for name in ("started", "ended"):
        op.add_column("usage", sa.Column(name, sa.BigInteger))
    for name in ("cause", "culprit", "after"):
        op.add_column("usage", sa.Column(name, Word(), nullable=False, server_default=""))
    op.add_column("usage", sa.Column("saves_every", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("usage", sa.Column("counts", sa.BigInteger, nullable=False, server_default="-1"))
    op.add_column("usage", sa.Column("divided", sa.BigInteger, nullable=False, server_default="0"))
    op.execute('CREATE INDEX usage_not_divided ON "usage" (run_uid, id) WHERE divided = 0')
    op.create_table(
        "time_sums",
        sa.Column("level", Word(), primary_key=True),
        sa.Column("day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("namespace", Word(), primary_key=True),
        sa.Column("owner", Word(), primary_key=True),
        sa.Column("category", Word(), primary_key=True),
        sa.Column("cause", Word(), primary_key=True),
        sa.Column("origin", Word(), primary_key=True),
        sa.Column("gpu_seconds", sa.BigInteger, nullable=False),
        sa.Column("member_seconds", sa.BigInteger, nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("time_sums_of_namespace", "time_sums", ["level", "namespace", "day"])
    op.create_table(
        "marks",
        sa.Column("run_uid", Word(), primary_key=True),
        sa.Column("attempt", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", Word(), primary_key=True),
        sa.Column("since", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
