"""`kaji why`: what a run is doing now, and whether it is stuck."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options
from kajitori.cli.terminal import echo, say


@click.command(epilog="\b\nExample:\n  kaji why bert")
@run_argument
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, namespace: str | None, output: str | None) -> None:
    """Tell whether a running run is stuck.

    A run is suspected after a quiet time that is learned from its own rhythm: no output, no new training figures, no
    bytes of disks or networks. Then its processes are looked at twice; if none moved, it is stuck. The rank for which
    the others may wait is named first. To learn why a run waits for nodes: kaji explain.
    """
    from kajitori.cli.connection.http import run_path
    from kajitori.cli.lookup import find_run
    from kajitori.cli.output import print_document

    with cli.api() as api:
        view = find_run(api, run, namespace)
        answer = api.get(run_path(view, "/why"))
    if output is not None:
        print_document(answer, output)
        return
    echo(" ".join(answer["words"]))
    if answer["phase"] == "Queued":
        say(f"Why it waits: kaji explain {view['name']}")
    elif answer.get("groups"):
        say(f"The whole stacks of a rank: kaji stacks --rank {answer['groups'][0]['ranks'][0]} {view['name']}")
