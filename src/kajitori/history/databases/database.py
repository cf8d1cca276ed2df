"""The interface between the queries of history and a database.

SQL is written with numbered placeholders (`$1`). Each database turns them into its own form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement, to be executed once for each row of parameters."""

    sql: str
    rows: Sequence[Row] = ((),)


class Reader(Protocol):
    """A database that can be read, or one transaction that only reads."""

    async def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        ...


class Database(Reader, Protocol):
    """A database whose schema is up to date. `failures` lists the errors that its methods raise: Unavailable if the
    same request may succeed later, Unsupported or StorageFull if an operator has to repair something first."""

    def snapshot(self) -> AbstractAsyncContextManager[Reader]:
        """Return a reader that sees one unchanging state of the database."""
        ...

    async def write(self, statements: Sequence[Statement]) -> None:
        """Execute all statements in one transaction."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Parameters:
    """Collects the parameters of one statement while its text is written."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def add(self, value: Any) -> str:
        """Add a value; return its placeholder in the text: `$1` for the first one."""
        self.values.append(value)
        return f"${len(self.values)}"

    def add_all(self, values: Iterable[Any]) -> str:
        """Add values; return their placeholders as a list in the text: `$1, $2, $3`."""
        return ", ".join(self.add(value) for value in values)


def placeholders(count: int) -> str:
    """Return the placeholders of the first parameters of a statement: `$1, $2, $3`."""
    return ", ".join(f"${number + 1}" for number in range(count))


def without_details(url: str) -> str:
    """Return the URL as messages show it: without user, password and options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
