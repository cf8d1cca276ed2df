"""`kaji version`: the versions of both ends."""

from __future__ import annotations

from typing import Any

import click

from kajitori import __version__
from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options


@click.command(epilog="\b\nExample:\n  kaji version -o json")
@click.option("--client", is_flag=True, help="The client's only; asks no server.")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, client: bool, output: str | None) -> int:
    """Print the versions of client and server.

    Ends with 125 if the server does not answer.
    """
    from kajitori.cli.printing.output import print_document, print_pairs
    from kajitori.cli.problems import print_error
    from kajitori.cli.words.runs import controller_words
    from kajitori.errors import KajitoriError

    cli.notices.hush()
    document: dict[str, Any] = {"client": {"version": __version__}}
    failure: KajitoriError | None = None
    if not client:
        try:
            target = cli.find_target()
            with cli.api() as api:
                document["server"] = {"url": target.url, **api.get("/v1/version", tries=1)}
        except KajitoriError as error:
            failure = error
    if output is not None:
        print_document(document, output)
    else:
        server = document.get("server") or {}
        print_pairs(
            (
                ("Client", document["client"]["version"]),
                ("Server", str(server.get("version") or "")),
                ("Kubernetes", str(server.get("kubernetes") or "")),
                ("Address", str(server.get("url") or "")),
                ("You", str(server.get("user") or "")),
                ("Controller", controller_words(server.get("controller") or {})),
            )
        )
    if failure is not None:
        print_error(failure)
        return failure.exit_code
    return 0
