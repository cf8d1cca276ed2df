"""The only functions that print, so that no text from elsewhere controls the terminal.

Texts of a server, a cluster or a program may contain escape sequences that rename the window, overwrite lines, or make
the terminal answer as if the user typed. All of `kaji` prints through this module, which replaces such characters. The
output of programs (`kaji logs`, `kaji exec`) is passed on unchanged, as docker does. A test finds every other way to
print.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import click

_YAML_WIDTH = 120


def plain(text: str) -> str:
    """Return `text` with a space for each character that is not printable; line ends are kept."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def one_line(text: str) -> str:
    """Return `text` on one line without control characters, for a cell of a table or a status line."""
    return plain(text).replace("\n", " ")


def cells(text: str) -> int:
    """Return the width of a text at a terminal: wide East Asian characters count twice, combining ones not at all."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def beginning(text: str, room: int) -> str:
    """Return the beginning of `text` that takes at most `room` columns of a terminal."""
    for index, char in enumerate(text):
        room -= cells(char)
        if room < 0:
            return text[:index]
    return text


def echo(text: object = "", *, nl: bool = True) -> None:
    """Print `text` on stdout without control characters."""
    click.echo(plain(str(text)), nl=nl)


def say(text: str, *, end: str = "\n") -> None:
    """Print `text` on stderr without control characters. `end` is "\\r\\n" if the terminal may be in raw mode."""
    click.echo(plain(text) + end, nl=False, err=True)


def heading(text: str) -> None:
    """Print an empty line and the title of a section."""
    click.echo(f"\n{styled(text, bold=True)}")


def styled(text: str, *, colour: str | None = None, bold: bool | None = None) -> str:
    """Return `text` in a colour or in bold, without control characters of its own; for `echo_as_is`."""
    return click.style(plain(text), fg=colour, bold=bold)


def echo_as_is(text: str, *, nl: bool = True, colour: bool | None = None) -> None:
    """Print a text that may control the terminal: a program's output, a script, a coloured table with plain cells.

    With `colour` None, colours are removed if stdout is no terminal.
    """
    click.echo(text, nl=nl, color=colour)


def write_as_is(data: bytes, *, err: bool = False) -> None:
    """Write the output of a program to stdout, or with `err` to stderr, at once and unchanged."""
    stream = sys.stderr if err else sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def replace_line(text: str) -> None:
    """Write `text` over the line of stderr that the cursor is on, and leave the cursor there; "" clears the line."""
    sys.stderr.write(f"\r{one_line(text)}\x1b[K")
    sys.stderr.flush()


def begin_page() -> None:
    """Clear the terminal, so that a page that is drawn again and again is always at the same place."""
    sys.stdout.write("\x1b[H\x1b[J")


def echo_data(text: str) -> None:
    """Print data in a form that cannot escape control characters: unchanged for programs, plain at a terminal."""
    click.echo(plain(text) if sys.stdout.isatty() else text, nl=False)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON in which printable characters are readable and all others are escaped.

    `json.dumps` alone escapes either everything beyond ASCII, or only the first 32 control characters.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _escape_controls(text, lambda char: json.dumps(char)[1:-1])


def yaml_text(value: object) -> str:
    """Return YAML with keys in the order of `value`, escaped in the same way as `json_text`."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Puts quotes around texts that need escapes: YAML has escapes in quoted texts only."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        style = None if plain(text) == text else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    text = yaml.dump(
        value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_YAML_WIDTH
    )
    return _escape_controls(text, lambda char: f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")


def _escape_controls(text: str, escape: Any) -> str:
    if text.isprintable():
        return text
    return re.sub(r"[^\n -~]", lambda found: found[0] if found[0].isprintable() else escape(found[0]), text)
