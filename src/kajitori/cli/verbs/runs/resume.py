"""`kaji resume`: start ended runs again."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji resume bert")
@runs_argument
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], namespace: str | None) -> int:
    """Start ended runs again, from their checkpoints.

    Prints the name of each.
    """
    from kajitori.cli.many import for_each
    from kajitori.client.web_api import run_path

    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: api.post(run_path(view, "/resume"), uid=view["uid"]))
