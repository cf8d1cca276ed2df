"""`kaji policy`: the operators' policy."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_file, output_option, server_options
from kajitori.cli.terminal import echo, say


@click.group(epilog="\b\nExample:\n  kaji policy check policy.yaml")
def command() -> None:
    """Show the policy in force, or check a file."""


@command.command(epilog="\b\nExample:\n  kaji policy show")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def show(cli: Cli, output: str | None) -> None:
    """Show the policy in force."""
    from kajitori.cli.output import print_document

    with cli.api() as api:
        answer = api.get("/v1/policy")
    if output is not None:
        print_document(answer, output)
        return
    faults = answer.get("faults") or ()
    if faults:
        say(f"{answer.get('path') or 'The policy file'} is faulty; this older policy stays in force:")
        for fault in faults:
            say(f"  {fault.get('field')}: {fault.get('message')}")
    for finding in answer.get("findings") or ():
        say(f"note: {finding}")
    if not faults and not answer.get("path"):
        say("There is no policy file; this is in force without one:")
    print_document(answer["policy"], "yaml")


@command.command(epilog="\b\nExample:\n  kaji policy check policy.yaml")
@click.argument("file", metavar="FILE", shell_complete=complete_file)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if the file is right.")
def check(file: str, quiet: bool) -> None:
    """Check a policy file; needs no server.

    Names every fault at once, with its line; `-` reads stdin.
    """
    from kajitori.core.policy.file import parse_policy
    from kajitori.errors import InvalidInput

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput.one("FILE", f"{file} can't be read: {error.strerror}", hint="check the path") from error
    parse_policy(text)
    if not quiet:
        echo(f"{file} is a policy without faults.")
