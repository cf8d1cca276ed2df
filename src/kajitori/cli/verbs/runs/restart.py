"""`kaji restart`: stop runs and start them again."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_argument, seconds_of, server_options


@click.command(epilog="\b\nExample:\n  kaji restart -t 5m bert")
@runs_argument
@click.option("-t", "--time", "grace", metavar="TIME", help="Time between SIGTERM and SIGKILL; default: the run's own.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], grace: str | None, namespace: str | None) -> int:
    """Stop runs and start them again.

    They go on from their checkpoints; a run that has ended is started. Prints each name once it is in the queue again.
    """
    from kajitori.cli.follow.ending import deadline, wait_until_final
    from kajitori.cli.many import for_each
    from kajitori.client.views import is_final
    from kajitori.client.web_api import Api, run_path
    from kajitori.core.words.quantities import format_duration

    body = {} if grace is None else {"grace": format_duration(seconds_of(grace, "--time"))}
    asked_at = cli.now()
    graces: dict[str, float] = {}

    def stop(api: Api, view: dict[str, Any]) -> None:
        if not is_final(view):
            graces[view["uid"]] = api.post(run_path(view, "/stop"), body, uid=view["uid"]).get("graceSeconds", 0)

    def start(api: Api, view: dict[str, Any]) -> None:
        if view["uid"] in graces:
            wait_until_final(api, view, deadline(asked_at, view, graces[view["uid"]]))
        api.post(run_path(view, "/resume"), uid=view["uid"])

    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: stop(api, view), finish=lambda view: start(api, view))
