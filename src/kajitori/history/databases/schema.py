"""Versions of the schema: which one a database has, and the SQL that takes it to the newest.

alembic and SQLAlchemy only write the SQL of each step. They are imported if there is a step to take, so a start with an
up-to-date database does not pay for them.
"""

from __future__ import annotations

from pathlib import Path

VERSION = "0008"
"""The newest version. A test compares it with the folder of versions."""

VERSIONS = Path(__file__).parent / "versions"

CREATE_VERSION_TABLE = "CREATE TABLE IF NOT EXISTS schema_version (version TEXT NOT NULL)"


def upgrade_script(dialect: str, current: str | None, target: str = VERSION) -> list[str]:
    """Return the statements that take a database of this version (None: an empty one) to the target version.

    `dialect` is SQLAlchemy's name: `sqlite` or `postgresql`. Raises LookupError if the database's version is not known:
    it is newer than this program.
    """
    from io import StringIO

    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    if current is not None and current > target:
        raise LookupError(current)
    folder = ScriptDirectory(str(VERSIONS.parent), version_locations=[str(VERSIONS)])
    steps = [*folder.walk_revisions(current or "base", target)]
    statements: list[str] = []
    for step in reversed(steps):
        if step.revision == current:
            continue
        written = StringIO()
        options = {"as_sql": True, "output_buffer": written}
        context = MigrationContext.configure(dialect_name=dialect, opts=options)
        with Operations.context(context):
            step.module.upgrade()
        statements += [part.strip() for part in written.getvalue().split(";\n\n") if part.strip()]
    statements.append("DELETE FROM schema_version")
    statements.append(f"INSERT INTO schema_version VALUES ('{target}')")
    return statements


def newer_than_known(where: str, version: str) -> str:
    """Return the message for a database that a newer program made."""
    return f"the history in {where} has version {version} of its schema; this kaji knows versions up to {VERSION}"
