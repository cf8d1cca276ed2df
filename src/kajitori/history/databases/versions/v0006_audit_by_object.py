"""Finds entries of the audit trail by their object and by their outcome: most objects and outcomes are rare."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add two indexes, each with the other columns that a filter may name, so that only entries of a page are read."""
    op.create_index("audit_of_object", "audit", ["object", "at", "id", "namespace", "actor", "outcome"])
    op.create_index("audit_of_outcome", "audit", ["outcome", "at", "id", "namespace", "actor"])
