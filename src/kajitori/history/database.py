"""What the queries of history need of a database.

SQL is written with numbered parameters (`$1`), which both databases understand in their own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from kajitori.errors import InvalidInput

Row = tuple[Any, ...]

PASSWORD_VARIABLE = "KAJI_HISTORY_PASSWORD"


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement, to be executed once for each row of parameters."""

    sql: str
    rows: Sequence[Row] = ((),)


class Database(Protocol):
    """A database whose schema is up to date. Raises kajitori.errors.Unavailable if it does not answer."""

    async def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        ...

    async def write(self, statements: Sequence[Statement]) -> None:
        """Execute all statements in one transaction."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def check_url(url: str, field: str = "--history") -> None:
    """Raise InvalidInput if the URL names no database of history, or contains a password."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        if parts.netloc or len(parts.path) < 2:
            raise InvalidInput.one(field, "names no file", value=url, hint="write sqlite:///folder/history.db")
    elif parts.scheme != "postgresql":
        hint = "write sqlite:///folder/history.db or postgresql://user@host/database"
        raise InvalidInput.one(field, "is no URL of a database", value=parts.scheme, hint=hint)
    elif parts.password or "password" in parse_qs(parts.query):
        hint = f"put the password into ${PASSWORD_VARIABLE} or a file for --history-password-file"
        message = "a password on the command line can be read by every process of the machine"
        raise InvalidInput.one(field, message, value=f"{parts.scheme}://{parts.hostname or ''}", hint=hint)


def without_details(url: str) -> str:
    """Return the URL as messages show it: without user, password and options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
