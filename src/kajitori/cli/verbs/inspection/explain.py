"""`kaji explain`: why a run waits."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji explain bert")
@run_argument
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, namespace: str | None, output: str | None) -> None:
    """Tell why a run waits, and what would start it.

    Shows what is missing, what holds it, and exactly what has to be freed: if just that becomes free, the run starts;
    if any part of it does not, the run keeps waiting.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path

    cli.notices.hush()
    with cli.api() as api:
        view = find_run(api, run, namespace)
        answer = api.get(run_path(view, "/explain"))
    if output is not None:
        print_document(answer, output)
        return
    from kajitori.cli.pages.explanation import print_explanation

    print_explanation(cli, view["name"], answer)
