"""The one way to the terminal. A text from elsewhere must not drive it.

What a server, a cluster or the last line of a program says may hold escape sequences: they rename the window, write
over what stands there already, or make the terminal answer as if somebody typed. So `kaji` prints through this module
alone, and it replaces such characters. A program's own output (`kaji logs`, `kaji exec`) is shown as it is, as docker
does. A test looks for every other way to print.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import click

_YAML_WIDTH = 120


def plain(text: str) -> str:
    """The text with a space for each character that is not printable, line ends excepted."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def one_line(text: str) -> str:
    """The same on one line, for a cell of a table or a line that changes."""
    return plain(text).replace("\n", " ")


def echo(text: object = "", *, nl: bool = True) -> None:
    """Print words on stdout, without control characters."""
    click.echo(plain(str(text)), nl=nl)


def say(text: str) -> None:
    """Print words for people on stderr, without control characters."""
    click.echo(plain(text), err=True)


def heading(text: str) -> None:
    """Print the title of a part of a page, after an empty line."""
    click.echo(f"\n{styled(text, bold=True)}")


def styled(text: str, *, colour: str | None = None, bold: bool | None = None) -> str:
    """The text in a colour or in bold, without control characters of its own; for `echo_as_is`."""
    return click.style(plain(text), fg=colour, bold=bold)


def echo_as_is(text: str, *, nl: bool = True, colour: bool | None = None) -> None:
    """Print a text that may drive the terminal: a program's own output, a script, a table with colours whose cells are
    plain. `colour` None takes colours away where stdout is no terminal."""
    click.echo(text, nl=nl, color=colour)


def write_as_is(data: bytes) -> None:
    """Write a program's own output on stdout, at once."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def replace_line(text: str) -> None:
    """Write `text` over the line of stderr that the cursor is on, and leave the cursor there; "" clears the line."""
    sys.stderr.write(f"\r{one_line(text)}\x1b[K")
    sys.stderr.flush()


def echo_data(text: str) -> None:
    """Print data in a form that cannot escape control characters: unchanged for programs, plain at a terminal."""
    click.echo(plain(text) if sys.stdout.isatty() else text, nl=False)


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that people can read: as it is what they can see, escaped what drives a terminal.

    `json.dumps` escapes either everything beyond ASCII or, of control characters, only the first 32.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _escaped(text, lambda char: json.dumps(char)[1:-1])


def yaml_text(value: object) -> str:
    """YAML, in the same way; keys in the order of the document."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes the texts that have to be escaped, because only quoted ones can be."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        style = None if plain(text) == text else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    text = yaml.dump(
        value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_YAML_WIDTH
    )
    return _escaped(text, lambda char: f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")


def _escaped(text: str, escape: Any) -> str:
    if text.isprintable():
        return text
    return re.sub(r"[^\n -~]", lambda found: found[0] if found[0].isprintable() else escape(found[0]), text)
