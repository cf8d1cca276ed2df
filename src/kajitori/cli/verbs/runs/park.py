"""`kaji park`: stop runs to free their GPUs."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_argument, server_options


@click.command(epilog="\b\nExamples:\n  kaji park nb\n  kaji resume nb    # later")
@runs_argument
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], namespace: str | None) -> int:
    """Stop runs to free their GPUs; `kaji resume` starts them again.

    Members get SIGTERM and the run's grace to write a checkpoint. Checkpoints and folders are kept; nothing is deleted.
    Prints the name of each.
    """
    from kajitori.cli.many import for_each
    from kajitori.client.web_api import run_path

    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: api.post(run_path(view, "/park"), uid=view["uid"]))
