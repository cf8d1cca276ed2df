"""Options and arguments that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kajitori.cli.context import Cli

F = TypeVar("F", bound=Callable[..., Any])

_COMPLETION_SECONDS = 1.0


def server_options(function: F) -> F:
    """`--cluster`, `--insecure-http` and `--debug`, for whatever talks to a server; they may stand before the verb or
    behind it."""

    def set_cluster(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(Cli).cluster = Path(value)

    def set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.ensure_object(Cli).debug = True

    def set_insecure(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.ensure_object(Cli).insecure_http = True

    cluster = click.option(
        "--cluster",
        metavar="NAME",
        expose_value=False,
        callback=set_cluster,
        shell_complete=complete_context,
        help="The local cluster to use if several run: its context or its data folder.",
    )
    debug = click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=set_debug,
        help="Print the HTTP calls, without secrets.",
    )
    insecure = click.option(
        "--insecure-http",
        is_flag=True,
        expose_value=False,
        callback=set_insecure,
        hidden=True,  # whoever needs it is told of it when plain HTTP is refused
        help="Send the token over plain HTTP, to another machine too.",
    )
    return cluster(insecure(debug(function)))


def namespace_option(text: str = "Look in this namespace only.") -> Callable[[F], F]:
    """`-N/--namespace`."""
    return click.option("-N", "--namespace", metavar="NAME", help=text)


def output_option(*formats: str) -> Callable[[F], F]:
    """`-o/--output` with the formats that a verb knows."""
    return click.option(
        "-o", "--output", type=click.Choice(formats), metavar="|".join(formats), help="Another form of output."
    )


def line_count(text: str) -> int | None:
    """What `--tail` says: a number, or None for all. Raises InvalidInput."""
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit():
        from kajitori.errors import InvalidInput

        raise InvalidInput.one("--tail", f"{text!r:.80} is not a number of lines", value=text, hint="a number, or all")
    return int(text)


def seconds_of(text: str, option: str) -> int:
    """A time that an option says, such as 90 or 1h30m. Raises InvalidInput."""
    from kajitori.core.quantity import QuantityError, parse_duration_seconds
    from kajitori.errors import InvalidInput

    try:
        return parse_duration_seconds(text)
    except QuantityError as error:
        raise InvalidInput.one(option, error.message, value=text, hint=error.hint) from None


def complete_run(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of runs that begin with what is typed. Never fails: a shell has no use for errors."""
    cli = ctx.find_object(Cli) or Cli()
    try:
        with cli.api() as api:
            found = api.get(
                "/v1/runs", {"name": incomplete or None, "limit": 50}, timeout_seconds=_COMPLETION_SECONDS, tries=1
            )
            return [run["name"] for run in found["items"]]
    except Exception:
        return []


def complete_context(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of contexts that begin with what is typed."""
    cli = ctx.find_object(Cli) or Cli()
    try:
        from kajitori.cli.target import contexts

        return [
            each.name for each in contexts(cli.environment, None, cli.runtime_dir) if each.name.startswith(incomplete)
        ]
    except Exception:
        return []


def run_argument(function: F) -> F:
    """One RUN, given to the verb as `run`."""
    return click.argument("run", metavar="RUN", shell_complete=complete_run)(function)


def runs_argument(function: F) -> F:
    """Several RUNs, given to the verb as `runs`."""
    return click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)(function)


def runs_or_all_argument(text: str) -> Callable[[F], F]:
    """Several RUNs, given to the verb as `runs`, or `--all`, given as `everything`: exactly one of the two."""

    def check(ctx: click.Context, _: click.Parameter, everything: bool) -> bool:
        if everything == bool(ctx.params.get("runs")):
            message = "RUN and --all exclude each other" if everything else "missing argument 'RUN...', or --all"
            raise click.UsageError(message, ctx)
        return everything

    def decorate(function: F) -> F:
        option = click.option("--all", "everything", is_flag=True, callback=check, help=text)
        argument = click.argument("runs", metavar="[RUN...]", nargs=-1, is_eager=True, shell_complete=complete_run)
        return argument(option(function))

    return decorate
