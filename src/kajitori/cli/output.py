"""What is printed: tables for people, JSON and YAML for programs, pages of labelled lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kajitori.cli.terminal import echo, echo_as_is, json_text, one_line, plain, yaml_text

if TYPE_CHECKING:
    from kajitori.cli.context import Cli

_SPACE = 3
_NARROWEST = 12

STYLES = {
    "Running": "green",
    "Succeeded": "green",
    "Ready": "green",
    "Failed": "red",
    "Warning": "yellow",
    "Starting": "cyan",
    "Restarting": "yellow",
    "Queued": "yellow",
    "Stopped": "bright_black",
}
"""Colour of a cell by its first word; only shown at a terminal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    flexible: bool = False
    """May be cut where the terminal is too narrow. At most one of a table."""
    styled: bool = False
    """Coloured by its first word."""


def print_document(document: object, form: str) -> None:
    """JSON or YAML, keys in the order of the API."""
    if form == "yaml":
        echo(yaml_text(document), nl=False)
    else:
        echo(json_text(document, indent=2))


def print_table(
    cli: Cli, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, cut: bool = True, indent: int = 0
) -> None:
    """A table as `docker ps` prints one: a line of titles, columns three spaces apart.

    Where the terminal is too narrow and `cut` allows it, the flexible column is cut; where that is not enough, nothing
    is, so that the terminal folds the lines: half of a table would keep the other half from whoever looks.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    page = [[one_line(str(cell)) for cell in row] for row in rows]
    columns = [replace(column, title=one_line(column.title)) for column in columns]
    widths = [
        max(cell_len(column.title), *(cell_len(row[index]) for row in page)) if page else cell_len(column.title)
        for index, column in enumerate(columns)
    ]
    narrowest = sum(
        min(width, _NARROWEST) if column.flexible else width for column, width in zip(columns, widths, strict=True)
    )
    console = cli.console(cut=cut)
    if indent + narrowest + _SPACE * (len(columns) - 1) > console.width:
        console = cli.console(cut=False)
    table = Table(box=None, pad_edge=False, padding=(0, _SPACE, 0, 0), header_style="bold", show_edge=False)
    for index, column in enumerate(columns):
        room = console.width - indent - sum(widths) + widths[index] - _SPACE * (len(columns) - 1)
        table.add_column(
            column.title,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if column.right else "left",
            max_width=max(room, _NARROWEST) if column.flexible and room < widths[index] else None,
            min_width=None if column.flexible else min(widths[index], console.width),
        )
    for row in page:
        table.add_row(
            *(
                Text(cell, style=STYLES.get(cell.split(" ")[0], "") if column.styled else "")
                for column, cell in zip(columns, row, strict=True)
            )
        )
    with console.capture() as captured:
        console.print(table, crop=True)
    for line in captured.get().splitlines():
        echo_as_is(" " * indent + line.rstrip(), colour=True if console.is_terminal else None)


def print_pairs(pairs: Iterable[tuple[str, str]], *, indent: int = 0) -> None:
    """Labelled lines, values in one column; what has no value is left out. A value's further lines are indented."""
    known = [(label, value) for label, value in pairs if value]
    width = max((len(label) for label, _ in known), default=0)
    for label, value in known:
        first, *more = plain(value).splitlines()
        echo(f"{' ' * indent}{one_line(label):<{width}}  {first}")
        for line in more:
            echo(f"{' ' * (indent + width + 2)}{line}")


def bar(used: int, broken: int, total: int, width: int = 20) -> str:
    """`█████▒░░░░`: used, broken and free parts of a whole; what is there shows, if in a single cell."""
    if total <= 0:
        return ""
    parts = (used, broken, max(0, total - used - broken))
    cells = [0 if part <= 0 else max(1, round(part * width / total)) for part in parts]
    while sum(cells) != width:
        step = 1 if sum(cells) < width else -1
        off = [part * width / total - cell for part, cell in zip(parts, cells, strict=True)]
        may = [index for index in range(3) if parts[index] > 0 and (step > 0 or cells[index] > 1 or width < 3)]
        cells[max(may, key=lambda index: step * off[index])] += step
    return "".join(char * cell for char, cell in zip("█▒░", cells, strict=True))
