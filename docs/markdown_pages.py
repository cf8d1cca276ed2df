"""Markdown of generated pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent
_MADE = "<!-- Made by docs/generate.py (make reference); edits here are lost. -->"


def page(text: str) -> str:
    """Return the page with a comment that names its generator."""
    return f"{_MADE}\n\n{text.rstrip()}\n"


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Return the lines of a table."""
    yield _row(titles)
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield _row(tuple(cell.replace("|", "\\|") for cell in row))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
