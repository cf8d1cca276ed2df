"""`kaji stop`: end runs and keep their checkpoints."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, runs_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji stop -t 5m bert gpt")
@runs_argument
@click.option("-t", "--time", "grace", metavar="TIME", help="Between SIGTERM and SIGKILL; else the run's own.")
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], grace: str | None, namespace: str | None) -> int:
    """Stop runs; their checkpoints are kept.

    Prints the name of each. `kaji resume` starts them again.
    """
    from kajitori.cli.http import run_path
    from kajitori.cli.many import for_each

    body = {} if grace is None else {"grace": _grace(grace)}
    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: api.post(run_path(view, "/stop"), body))


def _grace(text: str) -> str:
    from kajitori.core.quantity import QuantityError, format_duration, parse_duration_seconds
    from kajitori.errors import InvalidInput

    try:
        return format_duration(parse_duration_seconds(text))
    except QuantityError as error:
        raise InvalidInput.one("--time", error.message, value=text, hint=error.hint) from None
