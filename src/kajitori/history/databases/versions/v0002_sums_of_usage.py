"""Sums of usage by day, and facts about the history itself."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def Word() -> sa.types.TypeEngine[str]:
    """Text that is compared byte by byte in both databases."""
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables. The segments that are there already are summed up in the background afterwards."""
    op.create_table(
        "usage_sums",
        sa.Column("level", Word(), primary_key=True),
        sa.Column("days", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("namespace", Word(), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("owner", Word(), primary_key=True),
        sa.Column("gpu_type", Word(), primary_key=True),
        sa.Column("origin", Word(), primary_key=True),
        sa.Column("gpu_seconds", sa.BigInteger, nullable=False),
        sa.Column("cpu_milli_seconds", sa.BigInteger, nullable=False),
        sa.Column("mib_seconds", sa.BigInteger, nullable=False),
        sa.Column("odd_byte_seconds", sa.BigInteger, nullable=False),
        sa.Column("member_seconds", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("usage_sums_of_owner", "usage_sums", ["level", "days", "owner", "first"])
    op.add_column("usage", sa.Column("summed", sa.BigInteger, nullable=False, server_default="0"))
    op.execute('CREATE INDEX usage_not_summed ON "usage" (run_uid, id) WHERE summed = 0')
    op.execute('CREATE INDEX usage_long ON "usage" (until) WHERE until - since > 172800')
    op.create_table(
        "history_facts",
        sa.Column("name", Word(), primary_key=True),
        sa.Column("value", Word(), nullable=False),
    )
    for name, value in (("id", str(uuid4())), ("sums", "0"), ("expired_before", "0"), ("current_at", "0")):
        op.execute(f"INSERT INTO history_facts (name, value) VALUES ('{name}', '{value}')")
