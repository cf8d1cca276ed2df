"""`kaji exec`: a command inside a member of a run."""

from __future__ import annotations

import sys

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, rank_option, run_argument, server_options


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n  kaji exec bert nvidia-smi\n  kaji exec -it --rank 3 bert bash",
)
@run_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-i", "--interactive", is_flag=True, help="Pass stdin on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal.")
@rank_option()
@namespace_option()
@server_options
@click.pass_obj
def command(
    cli: Cli, run: str, command: tuple[str, ...], interactive: bool, tty: bool, rank: int, namespace: str | None
) -> int:
    """Run a command inside a member of a run.

    Ends with the command's exit code.
    """
    from kajitori.cli.connection.execution import NO_STDIN, check_terminal, execute
    from kajitori.client.lookup import find_run

    if tty:
        check_terminal()
    if command[0] == "--" and len(command) > 1:  # as kubectl's users write it
        command = command[1:]
    with cli.api() as api:
        view = find_run(api, run, namespace)
    stdin = sys.stdin.fileno() if interactive else NO_STDIN
    return execute(cli.find_target(), view, command, rank=rank, stdin=stdin, tty=tty, debug=cli.debug)
