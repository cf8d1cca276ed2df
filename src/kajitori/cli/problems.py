"""Errors on stderr: the fault and the way out, never a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kajitori.cli.terminal import json_text, say
from kajitori.errors import Fault, InvalidInput, KajitoriError, Refused

if TYPE_CHECKING:
    from kajitori.cli.context import Cli


@contextmanager
def fields_named(words: Mapping[str, str]) -> Iterator[None]:
    """Name options and arguments in errors of the Web API: `words` has the word of the command line for each field."""
    from dataclasses import replace

    try:
        yield
    except InvalidInput as error:
        faults = [replace(fault, field=words.get(fault.field.partition("[")[0], fault.field)) for fault in error.faults]
        raise type(error)(faults, hint=error.hint) from None


def print_error(error: KajitoriError, *, as_json: bool = False) -> None:
    """Print `kaji: message` and the hint; for invalid input every fault with its hint. With `-o json` or `as_json` all
    of it is one line of JSON."""
    if as_json or is_json_wanted():
        say(json_text(error.document()))
        return
    if isinstance(error, InvalidInput):
        _print_faults(error)
        return
    say(f"kaji: {error.message}")
    if error.hint:
        say(f"      {error.hint}")


def _print_faults(error: InvalidInput) -> None:
    if len(error.faults) == 1:
        fault = error.faults[0]
        say(f"kaji: {_describe_fault(fault)}")
        if fault.hint:
            say(f"      {fault.hint}")
    else:
        word = "refused" if isinstance(error, Refused) else "this can't be done"
        say(f"kaji: {word}, for {len(error.faults)} reasons:")
        for fault in error.faults:
            say(f"  {_describe_fault(fault)}")
            if fault.hint:
                say(f"      {fault.hint}")
    if error.hint:
        say(f"      {error.hint}")


def _describe_fault(fault: Fault) -> str:
    return f"{fault.field}: {fault.message}" if fault.field else fault.message


def is_json_wanted() -> bool:
    """Whether the present command was given -o json."""
    from kajitori.cli.context import Cli

    context = click.get_current_context(silent=True)
    cli = context.find_object(Cli) if context is not None else None
    return cli is not None and cli.output == "json"


def print_usage_error(error: click.ClickException, *, as_json: bool = False) -> None:
    """Print wrong usage in one line, and the command that shows the help."""
    # Click calls a number with limits a range, so that its message says of 0-1 that it is no range.
    message = error.format_message().rstrip().replace("a valid integer range", "a whole number")
    if as_json:
        say(json_text(_usage_fault(error, message).document()))
        return
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the whole help of a group
        say(message)
        return
    say(f"kaji: {message[:1].lower()}{message[1:]}")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        say(f"      {_usage_hint(error)}")


def _usage_hint(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    command = ctx.command_path if ctx is not None else "kaji"
    if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
        return f"{command} -o json"
    return f"see {command} --help"


def _usage_fault(error: click.ClickException, message: str) -> InvalidInput:
    """Return wrong usage as an error with a field, a value and a way out."""
    field = ""
    if isinstance(error, click.BadParameter) and error.param is not None:
        field = (error.param.opts or [""])[-1] if isinstance(error.param, click.Option) else error.param.name or ""
    elif isinstance(error, click.NoSuchOption):
        field = error.option_name
    hint = _usage_hint(error)
    return InvalidInput([Fault(field, message, "", hint)], message=message, hint=hint)


def write_bug_report(error: Exception, cli: Cli) -> str:
    """Keeps the traceback in a file that only its owner can read, and says where. The command line is not in it: it may
    hold secrets."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    token = cli.target.token if cli.target is not None else cli.environment.get("KAJI_TOKEN", "")
    if token:
        text = text.replace(token, "***")
    try:
        folder = cli.state_dir or _state_dir()
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="bug-", suffix=".txt", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as failure:
        return f"its report could not be written ({failure.strerror})"
    return f"the report is in {name}"


def _state_dir() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("kajitori"))
