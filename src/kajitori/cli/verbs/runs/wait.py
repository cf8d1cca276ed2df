"""`kaji wait`: until runs have ended."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, runs_argument, server_options
from kajitori.cli.terminal import echo, say


@click.command(epilog="\b\nExample:\n  kaji wait bert gpt")
@runs_argument
@namespace_option()
@output_option("json")
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], namespace: str | None, output: str | None) -> int:
    """Wait until runs have ended; print their exit codes.

    One code a line, in the order of the names, as docker wait does.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.exitcodes import exit_code_of
    from kajitori.client.lookup import find_run
    from kajitori.client.streams import outage_of, watch
    from kajitori.client.views import phase_of

    ended: list[dict[str, Any]] = []

    with cli.api() as api:
        views = [find_run(api, text, namespace) for text in runs]
        for view in views:
            last = view
            for last in watch(api, view, outage_of(view, say)):  # noqa: B007 (the last one is what counts)
                pass
            code = exit_code_of(last)
            if output is None:
                echo(code)
            ended.append({field: last[field] for field in ("namespace", "name", "uid")})
            ended[-1] |= {"phase": phase_of(last), "exitCode": code}
    if output is not None:
        print_document({"items": ended}, output)
    return 0
