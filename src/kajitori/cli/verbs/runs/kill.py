"""`kaji kill`: end runs at once."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_or_all_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji kill bert gpt")
@runs_or_all_argument("All of your runs that have not ended.")
@click.option("-s", "--signal", metavar="SIGNAL", default="KILL", help="KILL, or TERM, which is kaji stop.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], everything: bool, signal: str, namespace: str | None) -> int:
    """End runs at once; their checkpoints are kept.

    Members have one second between SIGTERM and SIGKILL, even if `kaji stop` gave them more. Prints each name.
    """
    from kajitori.cli.many import all_of_mine, for_each
    from kajitori.client.web_api import run_path

    body = {} if _is_term(signal, runs) else {"grace": "0s"}
    with cli.api() as api:
        found = all_of_mine(api, namespace, {"active": True}) if everything else None
        return for_each(
            api,
            runs,
            namespace,
            lambda view: api.post(run_path(view, "/stop"), body, uid=view["uid"]),
            everything=found,
        )


def _is_term(text: str, runs: tuple[str, ...]) -> bool:
    """Whether the run's own grace counts. Raises InvalidInput for a signal that only its program can get."""
    from kajitori.errors import InvalidInput

    name = text.upper().removeprefix("SIG")
    if name in ("KILL", "9", "TERM", "15"):
        return name in ("TERM", "15")
    run = runs[0] if runs else "RUN"
    hint = f"find its process: kaji top {run}; then: kaji exec {run} kill -{name} PID"
    raise InvalidInput.one("--signal", f"{text!r:.80} does not end a run", value=text, hint=hint)
