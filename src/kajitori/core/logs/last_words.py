"""Extraction of the line that names the error from the end of a failed program's output."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RANK = re.compile(r"^\[[\w ]+\]:? ?")
"""Prefix that torchrun and others write before each line of a rank: `[rank0]: `."""
_MARGIN = re.compile(r"^[\s|+╭╮╰╯│─-]*")
"""Characters before the lines of a traceback in an exception group or in a box."""
_HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r'^File ".+", line \d+')
_BOX = "╭╮╰╯│"

_AFTERWARDS = 30
"""Maximum number of lines after the traceback that ended the program. After more lines, the program had gone on."""

_LAUNCHERS = ("ChildFailedError", "CalledProcessError")
"""Exceptions of launchers, which only report that the program failed."""


def last_words(output: str) -> str:
    """Return the line that best explains why a program failed; empty if there is no output.

    This is the error of the last Python traceback. Other output may follow it, for example further lines of the error
    message, or a prompt of `input()`, which is written when the program ends. The error of the program is preferred to
    that of a launcher. Without a traceback, it is the last line that contains a letter or digit.
    """
    lines = [_RANK.sub("", line) for line in output.splitlines()]
    errors = [(end, lines[end].strip(" |")) for end in _ends_of_tracebacks(lines)]
    late = [text for end, text in errors if len(lines) - end <= _AFTERWARDS]
    if late:
        return next((text for text in reversed([text for _, text in errors]) if not _is_launchers(text)), late[-1])
    return last_line(output)


def last_line(output: str) -> str:
    """Return the last line that contains a letter or digit, or an empty text. This skips the horizontal lines with
    which mpirun and torchrun end their output."""
    lines = [line.strip() for line in output.splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else ""


def _is_launchers(error: str) -> bool:
    """Whether an error is an exception of a launcher."""
    return error.partition(":")[0].rpartition(".")[2] in _LAUNCHERS


def _ends_of_tracebacks(lines: Sequence[str]) -> list[int]:
    """Return the line numbers of the errors of tracebacks: the first line after the frames with less indentation than
    these. The beginning of a traceback may be missing."""
    found = []
    margin: int | None = None
    for number, line in enumerate(lines):
        at = line.find(_HEADER)
        indent = _MARGIN.match(line)
        start = indent.end() if indent is not None else 0
        if at >= 0:
            margin = min(at, start)
        elif _FRAME.match(line[start:]):
            margin = start - 2 if margin is None else margin
        elif margin is not None and line[start:] and start <= margin and line.lstrip()[:1] not in _BOX:
            found.append(number)
            margin = None
    return found
