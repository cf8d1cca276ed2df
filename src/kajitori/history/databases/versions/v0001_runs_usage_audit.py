"""Runs with their attempts, segments of usage, and the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def Word() -> sa.types.TypeEngine[str]:
    """Text that is compared byte by byte in both databases, so that a beginning is a range."""
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the first tables. Times are whole seconds since 1970, those of the audit trail milliseconds."""
    op.create_table(
        "runs",
        sa.Column("uid", Word(), primary_key=True),
        sa.Column("namespace", Word(), nullable=False),
        sa.Column("name", Word(), nullable=False),
        sa.Column("owner", Word(), nullable=False),
        sa.Column("type", Word(), nullable=False),
        sa.Column("phase", Word(), nullable=False),
        sa.Column("reason", Word(), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("removed_at", sa.BigInteger),
        sa.Column("members", sa.BigInteger, nullable=False),
        sa.Column("gpus", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    for name, columns in (
        ("runs_by_time", ("created_at", "uid")),
        ("runs_in_phase", ("phase", "created_at", "uid")),
        ("runs_of_namespace", ("namespace", "created_at", "uid")),
        ("runs_of_namespace_in_phase", ("namespace", "phase", "created_at", "uid")),
        ("runs_of_owner", ("owner", "phase", "created_at", "uid")),
        ("runs_of_owner_in_namespace", ("namespace", "owner", "phase", "created_at", "uid")),
        ("runs_by_name", ("name", "namespace", "owner", "phase", "created_at", "uid")),
    ):
        op.create_index(name, "runs", list(columns))
    op.execute("CREATE INDEX runs_present ON runs (uid) WHERE removed_at IS NULL")

    op.create_table(
        "attempts",
        sa.Column("run_uid", Word(), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("nodes", Word(), nullable=False),
        sa.Column("planned_at", Word(), nullable=False),
        sa.Column("started_at", Word(), nullable=False),
        sa.Column("ended_at", Word(), nullable=False),
        sa.Column("reason", Word(), nullable=False),
        sa.Column("message", Word(), nullable=False),
    )

    op.create_table(
        "usage",
        sa.Column("run_uid", Word(), primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("ledger", sa.BigInteger, nullable=False),
        sa.Column("namespace", Word(), nullable=False),
        sa.Column("owner", Word(), nullable=False),
        sa.Column("name", Word(), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("gpu_type", Word(), nullable=False),
        sa.Column("gpus", sa.BigInteger, nullable=False),
        sa.Column("cpu_millis", sa.BigInteger, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
        sa.Column("members", sa.BigInteger, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("member_seconds", sa.BigInteger, nullable=False),
        sa.Column("nodes", Word(), nullable=False),
    )
    op.create_index("usage_by_end", "usage", ["until"])
    op.create_index("usage_of_namespace", "usage", ["namespace", "until"])

    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(always=True), primary_key=True),
        sa.Column("key", Word(), nullable=False, unique=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", Word(), nullable=False),
        sa.Column("source", Word(), nullable=False),
        sa.Column("action", Word(), nullable=False),
        sa.Column("namespace", Word(), nullable=False),
        sa.Column("object", Word(), nullable=False),
        sa.Column("outcome", Word(), nullable=False),
        sa.Column("rule", Word(), nullable=False),
        sa.Column("message", Word(), nullable=False),
    )
    op.create_index("audit_by_time", "audit", ["at", "id"])
    op.create_index("audit_of_namespace", "audit", ["namespace", "at", "id"])
    op.create_index("audit_of_actor", "audit", ["actor", "at", "id"])
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the audit trail is append-only'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit "
            "FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()"
        )
    else:
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{change.lower()} BEFORE {change} ON audit "
                "BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END"
            )
