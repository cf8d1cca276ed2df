"""`kaji why`: the present state of a run's processes, whether it is stuck, and which rank slows it."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options
from kajitori.cli.terminal import echo, say


@click.command(
    epilog="\b\nExamples:\n  kaji why bert\n  kaji why --attempt 2 bert    # what its ranks did when it hung or failed"
)
@run_argument
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="The stacks that were kept of attempt N.")
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, attempt: int | None, namespace: str | None, output: str | None) -> None:
    """Tell whether a running run is stuck, and which rank slows it.

    A run is suspected after a quiet time that is learned from its own rhythm: no output, no new training figures, no
    bytes of disks or networks. Then its processes are looked at twice. It is stuck if none moved, and the controller
    has confirmed that it made no progress until then. The rank for which the others may wait is named first. To learn
    why a run waits for nodes: kaji explain.

    A rank or GPU that has been slower than its peers for most of the last 15 minutes is named with what tells it.

    Stacks are kept if an attempt was suspected to be stuck, and if a member failed: what the others did before they
    were ended. --attempt shows them.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path

    with cli.api() as api:
        view = find_run(api, run, namespace, or_removed=True)
        answer = api.get(run_path(view, "/why"), {"attempt": attempt} if attempt is not None else None)
    if output is not None:
        print_document(answer, output)
        return
    echo(" ".join(answer["words"]))
    if answer["phase"] == "Queued":
        say(f"Why it waits: kaji explain {view['name']}")
    elif answer.get("groups"):
        of_attempt = f" --attempt {attempt}" if attempt is not None else ""
        first = answer["groups"][0]["ranks"][0]
        say(f"The whole stacks of a rank: kaji stacks --rank {first}{of_attempt} {view['name']}")
