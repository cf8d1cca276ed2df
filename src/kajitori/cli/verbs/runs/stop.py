"""`kaji stop`: end runs and keep their checkpoints."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_or_all_argument, seconds_of, server_options


@click.command(
    epilog="\b\nExamples:\n  kaji stop -t 5m bert gpt\n  kaji stop --all    # all of yours that have not ended"
)
@runs_or_all_argument("All of your runs that have not ended.")
@click.option("-t", "--time", "grace", metavar="TIME", help="Time between SIGTERM and SIGKILL; default: the run's own.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], everything: bool, grace: str | None, namespace: str | None) -> int:
    """Stop runs; their checkpoints are kept.

    Prints the name of each. `kaji resume` starts them again.
    """
    from kajitori.cli.many import all_of_mine, for_each
    from kajitori.client.web_api import run_path
    from kajitori.core.formats.quantities import format_duration

    body = {} if grace is None else {"grace": format_duration(seconds_of(grace, "--time"))}
    with cli.api() as api:
        found = all_of_mine(api, namespace, {"active": True}) if everything else None
        return for_each(
            api,
            runs,
            namespace,
            lambda view: api.post(run_path(view, "/stop"), body, uid=view["uid"]),
            everything=found,
        )
