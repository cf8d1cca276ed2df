"""Forms of output: tables for people, JSON and YAML for programs, pages of labelled lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from kajitori.cli.terminal import (
    beginning,
    cells,
    echo,
    echo_as_is,
    json_text,
    one_line,
    plain,
    replace_line,
    styled,
    yaml_text,
)

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
    "Stuck?": "yellow",
    "Unhealthy": "yellow",
    "Idle": "yellow",
    "Queued": "yellow",
    "Stopped": "bright_black",
}
"""Colour of a cell at a terminal, by the cell's first word."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    flexible: bool = False
    """May be cut if the terminal is too narrow."""
    optional: bool = False
    """May be left out if the terminal is narrower still. Such columns are the first to be cut."""
    styled: bool = False
    """Coloured by the first word of each cell."""


def print_document(document: object, form: str) -> None:
    """Print a document as JSON or YAML, with its keys in the order of the Web API."""
    if form == "yaml":
        echo(yaml_text(document), nl=False)
    else:
        echo(json_text(document, indent=2))


def print_table(
    cli: Cli, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, cut: bool = True, indent: int = 0
) -> None:
    """Print a table as `docker ps` does: a line of titles, columns three spaces apart.

    If the terminal is too narrow and `cut` is True, columns are cut, moved closer together and left out, as far as each
    column allows. If that is not enough, the whole table is printed and the terminal folds its lines, because a partly
    shown table would hide the rest.
    """
    page = [[one_line(str(cell)) for cell in row] for row in rows]
    titles = [one_line(column.title) for column in columns]
    widths = [max(map(cells, (title, *(row[index] for row in page)))) for index, title in enumerate(titles)]
    layout = _fit_layout(columns, widths, cli.page_width(cut=cut) - indent)
    columns = [columns[index] for index in layout.kept]
    titles = [titles[index] for index in layout.kept]
    page = [
        [_cut_to_width(row[index], width) for index, width in zip(layout.kept, layout.widths, strict=True)]
        for row in page
    ]
    widths, gap = layout.widths, " " * layout.gap
    is_coloured = cli.is_coloured
    shown = [titles, *page]
    if is_coloured:
        shown = [[styled(title, bold=True) for title in titles]]
        shown += [[_colour_cell(cell, column) for cell, column in zip(row, columns, strict=True)] for row in page]
    for texts, row in zip([titles, *page], shown, strict=True):
        padded = (
            " " * (width - cells(text)) + cell if column.right else cell + " " * (width - cells(text))
            for column, width, text, cell in zip(columns, widths, texts, row, strict=True)
        )
        echo_as_is(" " * indent + gap.join(padded).rstrip(), colour=is_coloured or None)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of a table that are shown, their widths, and the spaces between them."""

    kept: list[int]
    widths: list[int]
    gap: int


def _fit_layout(columns: Sequence[Column], widths: Sequence[int], room: int) -> _Layout:
    """Return the layout that takes as little as possible away from a table to make it `room` characters wide."""
    everything = list(range(len(columns)))
    needed = [index for index in everything if not columns[index].optional]
    for kept in (everything, needed):
        for gap in (_SPACE, _SPACE - 1):
            found = [widths[index] for index in kept]
            over = sum(found) + gap * (len(kept) - 1) - room
            for place, index in sorted(enumerate(kept), key=lambda item: not columns[item[1]].optional):
                if columns[index].flexible and over > 0:
                    given = min(over, max(0, found[place] - _NARROWEST))
                    found[place] -= given
                    over -= given
            if over <= 0:
                return _Layout(kept, found, gap)
    return _Layout(everything, list(widths), _SPACE)


def _colour_cell(cell: str, column: Column) -> str:
    colour = STYLES.get(cell.split(" ")[0]) if column.styled else None
    return styled(cell, colour=colour) if colour else cell


def _cut_to_width(text: str, width: int) -> str:
    """Return `text`, shortened to `width` with an ellipsis at its end if it is longer."""
    return text if cells(text) <= width else f"{beginning(text, width - 1)}…"


def print_pairs(pairs: Iterable[tuple[str, str]], *, indent: int = 0) -> None:
    """Print labelled lines with their values in one column. Pairs without a value are left out."""
    known = [(label, value) for label, value in pairs if value]
    width = max((len(label) for label, _ in known), default=0)
    for label, value in known:
        first, *more = plain(value).splitlines()
        echo(f"{' ' * indent}{one_line(label):<{width}}  {first}")
        for line in more:
            echo(f"{' ' * (indent + width + 2)}{line}")


def bar(used: int, broken: int, total: int, width: int = 20) -> str:
    """Return a bar of the used, broken and free parts of a whole: `█████▒░░░░`. A part above zero gets a character."""
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


class StatusLine:
    """One line on stderr that changes while a person waits; not shown at a terminal that cannot move its cursor."""

    def __init__(self, cli: Cli, text: str) -> None:
        self._is_shown = cli.environment.get("TERM") != "dumb"
        self.update(text)

    def update(self, text: str) -> None:
        """Show another text, cut to the terminal's width: a line that wraps could not be written over."""
        if self._is_shown:
            replace_line(_cut_to_width(one_line(text), get_terminal_size().columns - 1))

    def stop(self) -> None:
        """Take the line away."""
        if self._is_shown:
            replace_line("")
