"""Options and arguments that several verbs share."""

from __future__ import annotations

import sys
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
"""Number of the user's latest runs that completion takes image names from."""


def server_options(function: F) -> F:
    """Add `--cluster`, `--insecure-http` and `--debug` to a command that talks to a server. They may stand before or
    after the verb."""

    def set_cluster(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(Cli).cluster = Path(value)

    cluster = click.option(
        "--cluster",
        metavar="NAME",
        expose_value=False,
        callback=set_cluster,
        shell_complete=complete_cluster,
        help="Cluster to use: a name of kaji context ls, or the data folder of a kaji up.",
    )
    return cluster(connection_options(function))


def connection_options(function: F) -> F:
    """Add `--insecure-http` and `--debug`, for a command that uses `--cluster` with another meaning."""

    def set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.ensure_object(Cli).debug = True

    def set_insecure(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.ensure_object(Cli).insecure_http = True

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
        hidden=True,  # the error about plain HTTP names it
        help="Send the token over plain HTTP, to another machine too.",
    )
    return insecure(debug(function))


def namespace_option(text: str = "Look in this namespace only.") -> Callable[[F], F]:
    """Return a decorator that adds `-N/--namespace`."""
    return click.option("-N", "--namespace", metavar="NAME", help=text)


def rank_option(text: str = "Rank of the member.") -> Callable[[F], F]:
    """Return a decorator that adds `--rank` of one member, by default 0. A sweep's members have an index."""
    return click.option("--rank", "--index", "rank", type=click.IntRange(min=0), default=0, metavar="R", help=text)


def output_option(*formats: str) -> Callable[[F], F]:
    """Return a decorator that adds `-o/--output` with these formats."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        metavar="|".join(formats),
        is_eager=True,
        callback=remember_output,
        help="Another form of output.",
    )


def remember_output(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Keep the value of -o for errors, which are JSON too then."""
    if value is not None:
        ctx.ensure_object(Cli).output = value
    return value


def done_option(function: F) -> F:
    """Add `-o json` to a verb that changes something and prints what was done through `cli.done`."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice(("json",)),
        metavar="json",
        is_eager=True,
        expose_value=False,
        callback=remember_output,
        help="Print what was done as JSON.",
    )
    return option(function)


def line_count(text: str) -> int | None:
    """Return the number of lines that `--tail` asks for; None means all. Raises InvalidInput."""
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit():
        from kajitori.errors import InvalidInput

        raise InvalidInput.one("--tail", f"{text!r:.80} is not a number of lines", value=text, hint="a number, or all")
    return int(text)


def seconds_of(text: str, option: str) -> int:
    """Return the seconds of an option's value such as 90 or 1h30m. Raises InvalidInput."""
    from kajitori.core.formats.quantities import QuantityError, parse_duration_seconds
    from kajitori.errors import InvalidInput

    try:
        return parse_duration_seconds(text)
    except QuantityError as error:
        raise InvalidInput.one(option, error.message, value=text, hint=error.hint) from None


_FITTING: dict[str, dict[str, Any]] = {
    "attach": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "exec": {"phase": ["Running"]},
    "explain": {"phase": ["Queued", "Restarting"]},
    "keep": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "park": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "idle": {"phase": ["Running"]},
    "kill": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "logs": {"started": True},
    "port": {"phase": ["Running"]},
    "restart": {"started": True},
    "results": {"sweep": True},
    "resume": {"phase": ["Succeeded", "Failed", "Stopped"]},
    "metrics": {"started": True},
    "stats": {"phase": ["Running"]},
    "start": {"phase": ["Succeeded", "Failed", "Stopped"]},
    "stop": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
    "top": {"phase": ["Running"]},
    "wait": {"phase": ["Queued", "Starting", "Running", "Restarting"]},
}
"""Filters for the runs that a verb is offered as completions; verbs that are not listed are offered all runs."""


def complete_run(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the names that begin with `incomplete`, of runs that the verb is for.

    The user's own runs are offered, or those of all users if none of them matches. Returns nothing on errors, which a
    shell could not show.
    """
    from click.shell_completion import CompletionItem

    space, slash, beginning = incomplete.rpartition("/")
    fitting = _FITTING.get(ctx.info_name or "", {})
    if ctx.info_name == "rm" and not any(ctx.params.get(name) for name in ("force", "kill")):
        fitting = _FITTING["resume"]
    found = _ask_for_completion(
        ctx, "/v1/run-names", fitting | {"beginning": beginning, "namespace": space or _namespace_of(ctx)}
    )
    typed = ctx.params.get("runs") or ()
    items = [CompletionItem(f"{space}{slash}{name}") for name in found.get("names", ()) if name not in typed]
    return items + [CompletionItem(f"{space}{slash}{name}", type="part") for name in found.get("beginnings", ())]


def complete_copied(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a file of this machine, or a run that a path in its members follows."""
    from click.shell_completion import CompletionItem

    if ":" in incomplete:
        return []
    runs = complete_run(ctx, parameter, incomplete)
    named = [CompletionItem(f"{run.value}:" if run.type == "plain" else run.value, type="part") for run in runs]
    return [*named, CompletionItem(incomplete, type="file")]


def complete_file(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a file of this machine."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_folder(_: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a folder of this machine, which a colon and a path may follow."""
    from click.shell_completion import CompletionItem

    return [] if ":" in incomplete else [CompletionItem(incomplete, type="dir")]


def complete_volume(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a volume of the policy or a folder of this machine, but no path after the colon."""
    from click.shell_completion import CompletionItem

    if ":" in incomplete:
        return []
    volumes = (_ask_for_completion(ctx, "/v1/policy", {}).get("policy") or {}).get("volumes") or {}
    named = [CompletionItem(f"{name}:", type="part") for name in sorted(volumes) if name.startswith(incomplete)]
    return [*named, CompletionItem(incomplete, type="dir")]


def complete_template(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete a template of the policy."""
    from click.shell_completion import CompletionItem

    templates = (_ask_for_completion(ctx, "/v1/policy", {}).get("policy") or {}).get("templates") or {}
    return [
        CompletionItem(name, help=template.get("description") or None)
        for name, template in sorted(templates.items())
        if name.startswith(incomplete)
    ]


def complete_image(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete an image from the user's earlier runs, latest first."""
    from click.shell_completion import CompletionItem

    runs = _ask_for_completion(ctx, "/v1/runs", {"owner": "@me", "limit": _IMAGES_OF_RUNS}).get("items", ())
    images = dict.fromkeys(str(run["spec"].get("image", "")) for run in runs)
    return [CompletionItem(image) for image in images if image.startswith(incomplete)]


def complete_secret(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete a secret of the namespace that is not on the command line yet."""
    return _other_names(ctx, "/v1/secrets", incomplete)


def complete_checkpoint(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete a checkpoint in the namespace that is not on the command line yet."""
    return _other_names(ctx, "/v1/volumes", incomplete, kind="checkpoint")


def _other_names(ctx: click.Context, path: str, incomplete: str, **wanted: str) -> list[str]:
    found = _ask_for_completion(ctx, path, {"namespace": _namespace_of(ctx)}).get("items", ())
    fitting = [str(item["name"]) for item in found if wanted.items() <= item.items()]
    return [name for name in fitting if name.startswith(incomplete) and name not in (ctx.params.get("names") or ())]


def _namespace_of(ctx: click.Context) -> str | None:
    return ctx.params.get("namespace")


def _ask_for_completion(ctx: click.Context, path: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the server's answer for a completion; empty on errors and after `_COMPLETION_SECONDS`."""
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
    """Complete a context or the data folder of a cluster."""
    return [*complete_context(ctx, parameter, incomplete), *complete_folder(ctx, parameter, incomplete)]


def complete_context(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a context."""
    cli = ctx.find_object(Cli) or Cli()
    try:
        from kajitori.client.target import contexts

        return [
            context.name
            for context in contexts(cli.environment, None, cli.runtime_dir)
            if context.name.startswith(incomplete)
        ]
    except Exception:
        return []


def env_option(function: F) -> F:
    """Add the option for environment variables, as `env`."""
    option = click.option("-e", "--env", multiple=True, metavar="NAME[=VALUE]", help="Environment variable.")
    return option(function)


def volume_option(function: F) -> F:
    """Add the option for volumes and folders, as `volume`."""
    option = click.option(
        "-v",
        "--volume",
        multiple=True,
        metavar="SOURCE:PATH[:ro]",
        shell_complete=complete_volume,
        help="Volume by name, or a folder.",
    )
    return option(function)


def run_argument(function: F) -> F:
    """Add the argument RUN, which the verb receives as `run`."""
    return click.argument("run", metavar="RUN", shell_complete=complete_run)(function)


def runs_argument(function: F) -> F:
    """Add the argument RUN..., which the verb receives as `runs`."""
    return click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)(function)


def runs_or_all_argument(text: str) -> Callable[[F], F]:
    """Return a decorator that adds RUN... (received as `runs`) and `--all` (as `everything`); one of them is needed."""

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


class _RankRanges(click.ParamType["list[int]"]):
    """Ranks as a list of ranges, such as 3, 0-3 or 0-3,7."""

    name = "ranks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        from kajitori.core.formats.node_lists import expand_ranks

        try:
            return expand_ranks(value, limit=100_000)
        except ValueError as error:
            self.fail(f"{error}; write 3, 0-3 or 0,3", param, ctx)


def ranks_option(text: str) -> Callable[[F], F]:
    """Return a decorator that adds `--rank`, which takes several ranks and may be repeated; received as `ranks`."""

    def join(_: click.Context, _parameter: click.Parameter, lists: tuple[list[int], ...]) -> tuple[int, ...]:
        return tuple(sorted({rank for ranks in lists for rank in ranks}))

    return click.option(
        "--rank", "--index", "ranks", type=_RankRanges(), multiple=True, callback=join, metavar="R[-S]", help=text
    )


def read_file(file: str, field: str = "FILE") -> bytes:
    """Return the contents of the file that an argument names; of stdin for `-`. Raises InvalidInput."""
    from kajitori.errors import InvalidInput

    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        message = f"{file} can't be read: {error.strerror}"
        raise InvalidInput.one(field, message, value=file, hint="check the path") from error
