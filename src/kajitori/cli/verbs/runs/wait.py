"""`kaji wait`: until runs have ended."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, runs_argument, server_options
from kajitori.cli.terminal import echo, say


@click.command(epilog="\b\nExample:\n  kaji wait bert gpt")
@runs_argument
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], namespace: str | None) -> int:
    """Wait until runs have ended; print their exit codes.

    One code a line, in the order of the names, as docker wait does.
    """
    from kajitori.cli.connection.streams import outage_of, watch
    from kajitori.cli.exitcodes import exit_code_of
    from kajitori.cli.lookup import find_run

    with cli.api() as api:
        views = [find_run(api, text, namespace) for text in runs]
        for view in views:
            last = view
            for last in watch(api, view, outage_of(view, say)):  # noqa: B007 (the last one is what counts)
                pass
            echo(exit_code_of(last))
    return 0
