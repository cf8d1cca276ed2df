"""`kaji uncordon`: nodes take work again."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.many import Done
from kajitori.cli.options import done_option, server_options


@click.command(epilog="\b\nExample:\n  kaji uncordon gpu-00012")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, nodes: tuple[str, ...]) -> None:
    """Let nodes take work again.

    For drained and for cordoned nodes. Runs that were moved away do not come back by themselves.
    """
    from kajitori.cli.lookup import node_path, require_nodes

    report = Done()
    with cli.api() as api:
        for node in require_nodes(api, nodes):
            report.add(api.post(node_path(node, "/uncordon"), {}))
    report.finish()
