"""`kaji keep`: answer that runs with idle GPUs are still needed."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_argument, server_options


@click.command(epilog="\b\nExamples:\n  kaji keep nb --until 18:00\n  kaji keep nb bert --until 2d")
@runs_argument
@click.option("--until", required=True, metavar="TIME", help="Such as 18:00, 2d, or 2026-11-25T09:00:00Z.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], until: str, namespace: str | None) -> int:
    """Keep runs although their GPUs are idle.

    Until the given time their owners are not asked again, and the runs are not parked. Policy limits how long one
    answer can keep a run. Prints the names of the runs.
    """
    from kajitori.cli.many import for_each
    from kajitori.cli.times import later_option
    from kajitori.client.web_api import run_path

    body = {"until": later_option("--until", until, cli.now())}
    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: api.post(run_path(view, "/keep"), body, uid=view["uid"]))
