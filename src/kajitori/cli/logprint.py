"""Lines of a log on stdout, with the member's rank before them where there are several."""

from __future__ import annotations

import sys

import click

from kajitori.cli.streams import LogLine
from kajitori.cli.terminal import echo_as_is, plain

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow")


class LogPrinter:
    """Writes lines of logs to stdout, with ranks and times where they are asked for."""

    def __init__(self, *, prefix: bool = False, timestamps: bool = False, colour: bool | None = None) -> None:
        """`colour` False shows prefixes without, None leaves it to what stdout is. The program's own is not touched."""
        self._prefix = prefix
        self._timestamps = timestamps
        self._styled = colour is not False and sys.stdout.isatty()

    def print(self, line: LogLine) -> None:
        """One line, at once: somebody may be watching, or another program reading."""
        words = ""
        if self._prefix:
            rank = f"[{line.rank}]"
            words = (click.style(rank, fg=_COLOURS[line.rank % len(_COLOURS)]) if self._styled else rank) + " "
        if self._timestamps and line.time:
            words += f"{plain(line.time)} "
        sys.stdout.flush()
        echo_as_is(f"{words}{line.text}", colour=True)
