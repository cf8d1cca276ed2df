"""What a program that failed said about it: the line that names the error, out of the end of its output."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RANK = re.compile(r"^\[[\w ]+\]:? ?")
"""What torchrun and others write before each line of a rank: `[rank0]: `."""
_MARGIN = re.compile(r"^[\s|+╭╮╰╯│─-]*")
"""What stands before the lines of a traceback in a group of exceptions, or in a box."""
_HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r'^File ".+", line \d+')
_BOX = "╭╮╰╯│"

_AFTERWARDS = 30
"""Lines after a traceback. With more than these the program went on: it was not what ended it."""

_LAUNCHERS = ("ChildFailedError", "CalledProcessError")
"""Exceptions of launchers, which only say that the program failed."""


def last_words(output: str) -> str:
    """The line that says best why a program failed; empty if it says nothing.

    That is the error of the last Python traceback, which other output may follow: a prompt of `input()` is written when
    the program ends, the message of an error may have further lines. An error of a launcher gives way to that of the
    program before it. Without a traceback it is the last line with a word in it.
    """
    lines = [_RANK.sub("", line) for line in output.splitlines()]
    errors = [(end, lines[end].strip(" |")) for end in _ends_of_tracebacks(lines)]
    late = [text for end, text in errors if len(lines) - end <= _AFTERWARDS]
    if late:
        return next((text for text in reversed([text for _, text in errors]) if not _is_launchers(text)), late[-1])
    return last_line(output)


def last_line(output: str) -> str:
    """The last line with a word in it: mpirun and torchrun end with a rule. Empty if there is none."""
    said = [line.strip() for line in output.splitlines() if any(map(str.isalnum, line))]
    return said[-1] if said else ""


def _is_launchers(error: str) -> bool:
    return error.partition(":")[0].rpartition(".")[2] in _LAUNCHERS


def _ends_of_tracebacks(lines: Sequence[str]) -> list[int]:
    """Where the errors of tracebacks stand: each is the first line after the frames that is not indented as they are.
    The beginning of a traceback may be cut off."""
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
