"""`kaji label`: change the labels of runs."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_run, done_option, namespace_option, server_options


@click.command(
    epilog="\b\nExamples:\n  kaji label bert stage=final\n  kaji label bert gpt paper=iclr draft-\n"
    "  kaji ps -a -f label=paper=iclr\n\nThe Pods of a run keep the labels with which it was submitted."
)
@click.argument(
    "words",
    metavar="RUN... KEY=VALUE... KEY-...",
    nargs=-1,
    required=True,
    shell_complete=complete_run,
)
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, words: tuple[str, ...], namespace: str | None) -> int:
    """Set labels of runs, or remove them (KEY-).

    Also of runs that have ended. Prints the name of each run.
    """
    from kajitori.cli.many import for_each
    from kajitori.client.web_api import run_path

    pairs = [word.partition("=") for word in words if "=" in word]
    removed = [word[:-1] for word in words if "=" not in word and word.endswith("-")]
    runs = [word for word in words if "=" not in word and not word.endswith("-")]
    if not runs or not (pairs or removed):
        raise click.UsageError("name a run, and labels: KEY=VALUE sets one, KEY- removes one")
    body = {"set": {key: value for key, _, value in pairs}, "remove": removed}
    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: api.post(run_path(view, "/labels"), body, uid=view["uid"]))
