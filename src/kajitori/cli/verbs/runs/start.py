"""`kaji start`: start ended runs again, as docker start does."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji start -a bert")
@runs_argument
@click.option("-a", "--attach", is_flag=True, help="Follow it to its end; one RUN only.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], attach: bool, namespace: str | None) -> int:
    """Start ended runs again, and follow one with -a.

    They go on from their checkpoints, as with `kaji resume`. Prints the name of each; with -a, the run's output.
    """
    from kajitori.cli.follow.follow import Follower, follow_to_the_end
    from kajitori.cli.follow.interrupts import Signals
    from kajitori.cli.many import for_each
    from kajitori.client.lookup import find_run
    from kajitori.client.views import status_of
    from kajitori.client.web_api import run_path

    if attach and cli.output is not None:
        raise click.UsageError("-o does not go with -a: then stdout is the program's")
    if attach and len(runs) > 1:
        raise click.UsageError("-a follows one RUN")
    if not attach:
        with cli.api() as api:
            return for_each(api, runs, namespace, lambda view: api.post(run_path(view, "/resume"), uid=view["uid"]))
    with cli.api() as api, Signals() as signals:
        before = find_run(api, runs[0], namespace)
        view = api.post(run_path(before, "/resume"), uid=before["uid"])
        first = int(status_of(before).get("attempts") or 0) + 1
        follower = Follower(cli, api, view, rank=None, all_ranks=False, quiet=False, first=first)
        return follow_to_the_end(cli, api, follower, signals, remove=False, stops=False)
