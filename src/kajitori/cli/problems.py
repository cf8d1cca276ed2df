"""Errors on stderr: what is wrong and what to do, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kajitori.cli.terminal import say
from kajitori.errors import Fault, InvalidInput, KajitoriError, Refused

if TYPE_CHECKING:
    from kajitori.cli.context import Cli


def print_error(error: KajitoriError) -> None:
    """Print `kaji: message` and the hint; for invalid input every fault with its hint."""
    if isinstance(error, InvalidInput):
        _print_faults(error)
        return
    say(f"kaji: {error.message}")
    if error.hint:
        say(f"      {error.hint}")


def _print_faults(error: InvalidInput) -> None:
    if len(error.faults) == 1:
        fault = error.faults[0]
        say(f"kaji: {_said(fault)}")
        if fault.hint:
            say(f"      {fault.hint}")
    else:
        word = "refused" if isinstance(error, Refused) else "this can't be done"
        say(f"kaji: {word}, for {len(error.faults)} reasons:")
        for fault in error.faults:
            say(f"  {_said(fault)}")
            if fault.hint:
                say(f"      {fault.hint}")
    if error.hint:
        say(f"      {error.hint}")


def _said(fault: Fault) -> str:
    return f"{fault.field}: {fault.message}" if fault.field else fault.message


def print_usage_error(error: click.ClickException) -> None:
    """Print wrong usage in one line, and the command that shows the help."""
    message = error.format_message().rstrip()
    say(f"kaji: {message[:1].lower()}{message[1:]}")
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is not None:
        say(f"      see {ctx.command_path} --help")


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
