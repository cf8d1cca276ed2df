"""Every `kaji` command of the documentation is one that kaji understands: its verbs, options and arguments exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kajitori.cli.app import kaji
from kajitori.cli.context import Cli

ROOT = Path(__file__).parents[2]
HELP_TEXTS = ROOT / "docs" / "reference" / "cli.md"
"""Generated from the commands themselves; a wrapped line of prose may begin with a name of a command."""
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")} - {HELP_TEXTS})

_BEFORE_A_COMMAND = re.compile(r"\w+=.*|sudo|time|do|then|while|until|if|watch")
_PLACEHOLDERS = {"…", "...", "N"}


def commands_of(page: str) -> Iterator[tuple[str, bool]]:
    """Return the command lines of a page, continued lines joined, and whether each stands in a code block.

    A block with prompts has output, too, so only its lines with a prompt are commands.
    """
    prose, *rest = re.split(r"^ *```", page, flags=re.MULTILINE)
    for number, part in enumerate(rest):
        if number % 2:
            prose += part
            continue
        lines = re.sub(r"\\\n(> )?\s*", " ", part).splitlines()[1:]
        typed = [line.strip().removeprefix("$ ") for line in lines if line.strip().startswith("$ ")]
        yield from ((line, True) for line in typed or map(str.strip, lines))
    yield from ((code, False) for code in re.findall(r"`([^`\n]+)`", prose))


def words_of_kaji(line: str) -> Iterator[list[str]]:
    """Return the words after `kaji` of each command in a line of a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError:  # a string that other lines go on with
        return
    parts: list[list[str]] = [[]]
    redirects = False
    for word in words:
        if set(word) <= set("();|&"):
            parts.append([])
        elif set(word) <= set("<>"):
            redirects = True
        elif redirects:
            redirects = False
        else:
            parts[-1].append(word)
    for part in parts:
        while part and _BEFORE_A_COMMAND.fullmatch(part[0]):
            part.pop(0)
        if part and part[0] == "kaji":
            yield part[1:]


def fault_of(words: list[str], *, is_whole: bool) -> str | None:
    """Return why kaji does not understand these words. In prose, `is_whole` is false: arguments may be left out."""
    words = ["1" if word == "N" else word for word in words if word == "N" or word not in _PLACEHOLDERS]
    if "--help" in words or "VERB" in words:
        return None
    group: click.Command = kaji
    try:
        context = kaji.make_context("kaji", words, obj=Cli())
        while isinstance(group, click.Group) and (rest := [*context._protected_args, *context.args]):
            name, command, rest = group.resolve_command(context, rest)
            assert command is not None
            context, group = command.make_context(name, rest, parent=context), command
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError) as error:
        return error.format_message() if is_whole else None
    except click.BadOptionUsage as error:
        return error.format_message() if is_whole or "requires an argument" not in error.format_message() else None
    except click.UsageError as error:
        if not is_whole and "missing argument" in error.format_message():
            return None
        return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_kaji_understands_the_commands_of_a_page(page: Path) -> None:
    """Nothing is run. An option or a verb that was renamed or removed has to be changed in the pages, too."""
    faults = [
        f"{line}: {fault}"
        for line, is_whole in commands_of(page.read_text(encoding="utf-8"))
        for words in words_of_kaji(line)
        if (fault := fault_of(words, is_whole=is_whole)) is not None
    ]
    assert not faults


def test_faults_of_a_page_are_found() -> None:
    """In blocks and in prose, behind variables and pipes, over several lines; output and comments are no commands."""
    page = """
Use `kaji logs --fast RUN`, not `kaji logs`.

```
true | KAJI_SERVER=x kaji run \\
    --no-such-option image   # kaji nothing
kaji logs
```
```console
$ kaji ps -a >file
kaji output of a program
```
"""
    found = [words for line, _ in commands_of(page) for words in words_of_kaji(line)]
    assert found == [["run", "--no-such-option", "image"], ["logs"], ["ps", "-a"], ["logs", "--fast", "RUN"], ["logs"]]
    assert [fault_of(words, is_whole=number < 3) is not None for number, words in enumerate(found)] == [
        True, True, False, True, False
    ]  # fmt: skip
