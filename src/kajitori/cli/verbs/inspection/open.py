"""`kaji open`: the web page, or a program of a run, in a browser."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, server_options


@click.command(
    "open",
    epilog="\b\nExamples:\n  kaji open\n  kaji open bert         # the page of that run\n"
    "  kaji open bert 6006    # what its rank 0 serves at this port\n"
    "  kaji open --print      # for a browser elsewhere",
)
@click.argument("run", required=False)
@click.argument("port", required=False, metavar="[PORT[-RANK]]")
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open no browser.")
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, run: str | None, port: str | None, print_only: bool, namespace: str | None) -> None:
    """Open the web page in your browser, or what a run serves.

    With RUN, the page of that run. With PORT, the web page of its program there.

    The link signs your browser in as you. It works once, and for two minutes.
    """
    from urllib.parse import quote

    from kajitori.cli.opening import open_place, program_path
    from kajitori.client.lookup import find_run

    with cli.api() as api:
        if run is None:
            open_place(cli, api, "/", print_only=print_only)
            return
        view = find_run(api, run, namespace, or_removed=port is None)
        if port is not None:
            open_place(cli, api, program_path(view, port), print_only=print_only, is_program=True)
            return
        open_place(cli, api, f"/runs/{quote(view['namespace'])}/{quote(view['name'])}", print_only=print_only)
