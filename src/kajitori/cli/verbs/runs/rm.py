"""`kaji rm`: delete runs."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_or_all_argument, server_options


@click.command(
    epilog="\b\nExamples:\n  kaji rm bert\n  kaji rm -f -v bert    # even while it runs, checkpoint and all\n"
    "  kaji rm --all         # all of yours that have ended"
)
@runs_or_all_argument("All of your ended runs; with -f the others, too.")
@click.option("-f", "--force", is_flag=True, help="Kill runs that have not ended; a missing one is no error.")
@click.option("-v", "--volumes", is_flag=True, help="Remove the checkpoint with the run.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the names are free.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(
    cli: Cli, runs: tuple[str, ...], everything: bool, force: bool, volumes: bool, no_wait: bool, namespace: str | None
) -> int:
    """Delete runs.

    Prints each name once the run is gone and another one can have its name. A run that has not ended is deleted with
    -f only, and killed at once. Its checkpoint outlives it unless -v is given.
    """
    from kajitori.cli.many import all_of_mine, delete_each
    from kajitori.client.views import FINAL

    with cli.api() as api:
        found = all_of_mine(api, namespace, {} if force else {"phase": sorted(FINAL)}) if everything else None
        return delete_each(api, runs, namespace, everything=found, force=force, checkpoints=volumes, wait=not no_wait)
