"""`kaji open`: the web page in a browser."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, server_options


@click.command(
    "open", epilog="\b\nExamples:\n  kaji open\n  kaji open bert\n  kaji open --print    # for a browser elsewhere"
)
@click.argument("run", required=False)
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open no browser.")
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, run: str | None, print_only: bool, namespace: str | None) -> None:
    """Open the web page in your browser.

    With RUN, the page of that run.

    The link signs your browser in as you. It works once, and for two minutes.
    """
    from urllib.parse import quote

    from kajitori.cli.lookup import find_run
    from kajitori.cli.terminal import echo, say
    from kajitori.client.sign_in.starting import has_browser

    with cli.api() as api:
        place = "/"
        if run is not None:
            view = find_run(api, run, namespace, or_removed=True)
            place = f"/runs/{quote(view['namespace'])}/{quote(view['name'])}"
        code = api.post("/v1/sign-in-links")["code"]
        link = f"{api.target.url}{place}#sign-in={code}"
    if print_only or not has_browser(cli.environment):
        echo(link)
        return
    import webbrowser

    say(f"{api.target.url}{place} opens in your browser. If it does not: kaji open --print")
    webbrowser.open(link)
