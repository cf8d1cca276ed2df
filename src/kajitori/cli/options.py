"""Options and arguments that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kajitori.cli.context import Cli

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

_COMPLETION_SECONDS = 1.0
_IMAGES_OF_RUNS = 50
"""So many of the latest runs are looked through for images."""


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
        shell_complete=complete_cluster,
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
    from kajitori.core.words.quantities import QuantityError, parse_duration_seconds
    from kajitori.errors import InvalidInput

    try:
        return parse_duration_seconds(text)
    except QuantityError as error:
        raise InvalidInput.one(option, error.message, value=text, hint=error.hint) from None


_FITTING: dict[str, dict[str, Any]] = {
    "attach": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "exec": {"phase": ["Running"]},
    "explain": {"phase": ["Queued", "Restarting"]},
    "kill": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "logs": {"started": True},
    "port": {"phase": ["Running"]},
    "restart": {"started": True},
    "results": {"sweep": True},
    "resume": {"phase": ["Succeeded", "Failed", "Stopped"]},
    "start": {"phase": ["Succeeded", "Failed", "Stopped"]},
    "stop": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "top": {"phase": ["Running"]},
    "wait": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
}
"""The runs that a verb is for, by its name; other verbs are for all of them."""


def complete_run(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Names of runs that the verb is for and that begin with what is typed: of the user's own, or, where none of those
    fits, of everybody's. Never fails: a shell has no use for errors."""
    from click.shell_completion import CompletionItem

    space, slash, beginning = incomplete.rpartition("/")
    fitting = _FITTING.get(ctx.info_name or "", {})
    if ctx.info_name == "rm" and not any(ctx.params.get(name) for name in ("force", "kill")):
        fitting = _FITTING["resume"]
    found = _ask(ctx, "/v1/run-names", fitting | {"beginning": beginning, "namespace": space or _namespace_of(ctx)})
    typed = ctx.params.get("runs") or ()
    items = [CompletionItem(f"{space}{slash}{name}") for name in found.get("names", ()) if name not in typed]
    return items + [CompletionItem(f"{space}{slash}{name}", type="part") for name in found.get("beginnings", ())]


def complete_copied(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """A file that is here, or a run, behind which a path of its members stands."""
    from click.shell_completion import CompletionItem

    if ":" in incomplete:
        return []
    runs = complete_run(ctx, parameter, incomplete)
    named = [CompletionItem(f"{run.value}:" if run.type == "plain" else run.value, type="part") for run in runs]
    return [*named, CompletionItem(incomplete, type="file")]


def complete_file(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """A file of this machine."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_folder(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """A folder of this machine, behind which a colon and a path may stand."""
    from click.shell_completion import CompletionItem

    return [] if ":" in incomplete else [CompletionItem(incomplete, type="dir")]


def complete_volume(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """A volume of the policy, or a folder of this machine; not the path that stands behind the colon."""
    from click.shell_completion import CompletionItem

    if ":" in incomplete:
        return []
    volumes = (_ask(ctx, "/v1/policy", {}).get("policy") or {}).get("volumes") or {}
    named = [CompletionItem(f"{name}:", type="part") for name in sorted(volumes) if name.startswith(incomplete)]
    return [*named, CompletionItem(incomplete, type="dir")]


def complete_image(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """An image of the user's earlier runs, the latest first."""
    from click.shell_completion import CompletionItem

    runs = _ask(ctx, "/v1/runs", {"owner": "@me", "limit": _IMAGES_OF_RUNS}).get("items", ())
    images = dict.fromkeys(str(run["spec"].get("image", "")) for run in runs)
    return [CompletionItem(image) for image in images if image.startswith(incomplete)]


def complete_secret(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """A secret of the namespace, without those that are named already."""
    return _other_names(ctx, "/v1/secrets", incomplete)


def complete_checkpoint(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """A checkpoint that runs left in the namespace, without those that are named already."""
    return _other_names(ctx, "/v1/volumes", incomplete, kind="checkpoint")


def _other_names(ctx: click.Context, path: str, incomplete: str, **wanted: str) -> list[str]:
    found = _ask(ctx, path, {"namespace": _namespace_of(ctx)}).get("items", ())
    fitting = [str(each["name"]) for each in found if wanted.items() <= each.items()]
    return [name for name in fitting if name.startswith(incomplete) and name not in (ctx.params.get("names") or ())]


def _namespace_of(ctx: click.Context) -> str | None:
    return ctx.params.get("namespace")


def _ask(ctx: click.Context, path: str, params: dict[str, Any]) -> dict[str, Any]:
    """The server's answer to a completion; empty where it has none in time."""
    cli = ctx.find_object(Cli) or Cli()
    try:
        with cli.api() as api:
            answer: dict[str, Any] = api.get(path, params, timeout_seconds=_COMPLETION_SECONDS, tries=1)
            return answer
    except Exception:
        return {}


def complete_cluster(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str] | str]:
    """A context, or the data folder of a cluster."""
    return [*complete_context(ctx, parameter, incomplete), *complete_folder(ctx, parameter, incomplete)]


def complete_context(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of contexts that begin with what is typed."""
    cli = ctx.find_object(Cli) or Cli()
    try:
        from kajitori.cli.connection.target import contexts

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
