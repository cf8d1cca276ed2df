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

    They go on from their checkpoints; a run that has ended is started. Prints each name once it is in the queue again;
    the cluster does that also if this command is interrupted.
    """
    from kajitori.cli.follow.ending import deadline, wait_until_queued_again
    from kajitori.cli.many import for_each
    from kajitori.client.views import is_final
    from kajitori.client.web_api import Api, run_path
    from kajitori.core.formats.quantities import format_duration

    body = {} if grace is None else {"grace": format_duration(seconds_of(grace, "--time"))}
    asked_at = cli.now()
    asked: dict[str, dict[str, Any]] = {}

    def ask(api: Api, view: dict[str, Any]) -> None:
        answer = api.post(run_path(view, "/restart"), body, uid=view["uid"])
        if not is_final(answer):
            asked[view["uid"]] = answer

    def follow(api: Api, view: dict[str, Any]) -> None:
        answer = asked.get(view["uid"])
        if answer is not None:
            wait_until_queued_again(api, answer, deadline(asked_at, view, answer.get("graceSeconds", 0)))

    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: ask(api, view), finish=lambda view: follow(api, view))
