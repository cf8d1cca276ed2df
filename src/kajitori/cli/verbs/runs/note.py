"""`kaji note`: show or write the note on a run."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options
from kajitori.cli.terminal import echo, say


@click.command(
    epilog='\b\nExamples:\n  kaji note bert\n  kaji note bert "diverged at step 9000, see https://wiki/bert"\n'
    '  kaji note bert ""    # remove it'
)
@run_argument
@click.argument("text", required=False)
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, text: str | None, namespace: str | None, output: str | None) -> int:
    """Show the note on a run, or write one.

    A run has one note: at most 2,000 characters of plain text. Everybody who sees the run sees its note, on the web
    page and in `kaji describe`; who may change the run may write it. History keeps it when the run is deleted. If two
    people write at the same time, the second one is refused.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path
    from kajitori.errors import WrongState

    with cli.api() as api:
        view = find_run(api, run, namespace, or_removed=True)
        if text is not None:
            if view.get("removedAt"):
                raise WrongState(
                    f"{view['name']} was removed: its note cannot be changed", hint=f"read it: kaji note {run}"
                )
            body = {"text": text, "insteadOf": view.get("note", {}).get("at", "")}
            view = api.post(run_path(view, "/note"), body, uid=view["uid"])
    if output is not None:
        print_document(view, output)
        return 0
    note = view.get("note")
    if note is not None:
        echo(note["text"])
        say(f"Written by {note['by']} at {note['at'].partition('.')[0]}Z")
    else:
        say(f"{view['name']} has no note. To write one: kaji note {view['name']} TEXT")
    return 0
