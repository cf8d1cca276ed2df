"""`kaji events`: the events of a run and its members, or of all runs in a namespace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_run, line_count, namespace_option, output_option, server_options
from kajitori.cli.terminal import echo, json_text, one_line, say

if TYPE_CHECKING:
    from kajitori.client.web_api import Api

LAST = 100
MOST = 1000
"""Number of past events shown for all runs of a namespace."""


@click.command(epilog="\b\nExamples:\n  kaji events\n  kaji events -f bert\n  kaji events -A --tail 20")
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends; without RUN, until Ctrl-C.")
@click.option("-n", "--tail", metavar="N", help=f"The last N only; without RUN {LAST}, unless you say all.")
@namespace_option()
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces whose runs you may see.")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str | None,
    follow: bool,
    tail: str | None,
    namespace: str | None,
    everywhere: bool,
    output: str | None,
) -> int:
    """Show what happened to a run, or to all runs.

    The newest come last. With -f, -o json prints one document per line.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run
    from kajitori.client.streams import Outage, all_events, outage_of
    from kajitori.client.streams import events as events_of

    if everywhere and (run is not None or namespace is not None or follow):
        excluded = "RUN" if run is not None else "--namespace" if namespace is not None else "--follow"
        raise click.UsageError(f"--all-namespaces and {excluded} exclude each other")
    last = line_count(tail) if tail is not None else None if run is not None else LAST
    with cli.api() as api:
        if run is not None:
            view = find_run(api, run, namespace)
            found = _events_of(api, view) if not follow or last is not None else []
            left_out = found[: max(0, len(found) - last)] if last is not None else []
            if follow:
                return _follow_events(events_of(api, view, known=left_out, outage=outage_of(view, say)), output)
            found = found[len(left_out) :]
        else:
            where = namespace or api.target.namespace or None
            if follow:
                return _follow_events(all_events(api, where, _followable_last(last), Outage(say, "events")), output)
            found = _newest_events(api, everywhere, where, last)[::-1] if last != 0 else []
        if output is not None:
            print_document({"items": found}, output)
        else:
            print_events(cli, found, namespaces=everywhere)
    return 0


def _events_of(api: Api, view: dict[str, Any]) -> list[dict[str, Any]]:
    from kajitori.client.web_api import run_path

    return list(api.documents(run_path(view, "/events")))


def _followable_last(last: int | None) -> int:
    from kajitori.errors import InvalidInput

    if last is not None and last > MOST:
        hint = f"at most {MOST} with -f; or leave -f out"
        raise InvalidInput.one("--tail", f"{last} events are too many to be followed", value=str(last), hint=hint)
    return MOST if last is None else last


def _follow_events(events: Iterable[dict[str, Any]], output: str | None) -> int:
    from kajitori.cli.printing.output import print_document

    try:
        for event in events:
            if output == "json":
                echo(json_text(event))
            elif output == "yaml":
                echo("---")
                print_document(event, output)
            else:
                _print_event(event)
    except KeyboardInterrupt:
        return 130
    return 0


def _newest_events(api: Api, everywhere: bool, namespace: str | None, last: int | None) -> list[dict[str, Any]]:
    """Return the `last` events, or all, and tell of how many namespaces the server leaves them out."""
    params: dict[str, Any] = {"everywhere": "true"} if everywhere else {"namespace": namespace}
    first = api.page("/v1/events", params | {"limit": 500 if last is None else min(500, last)})
    if left_out := first.get("leftOut", 0):
        what = "1 namespace is" if left_out == 1 else f"{left_out} namespaces are"
        say(f"The events of {what} left out, because the list has at most 64. For one of them: kaji events -N NAME")
    found: list[dict[str, Any]] = first["items"]
    if first.get("continue") and len(found) != last:
        missing = None if last is None else last - len(found)
        found += api.all_items("/v1/events", params | {"continue": first["continue"]}, limit=missing)
    return found


def print_events(cli: Cli, events: list[dict[str, Any]], *, indent: int = 0, namespaces: bool = False) -> None:
    """Print events as a table, oldest first, with their namespaces if asked."""
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import age

    columns = [Column("NAMESPACE")] if namespaces else []
    columns += [Column("AGE"), Column("TYPE", styled=True), Column("REASON"), Column("OBJECT")]
    columns.append(Column("MESSAGE", flexible=True))
    rows = [
        [
            *([str(event.get("namespace") or "")] if namespaces else []),
            age(event.get("time"), cli.now()),
            str(event.get("type") or ""),
            str(event.get("reason") or ""),
            str(event.get("object") or ""),
            _message_of(event),
        ]
        for event in events
    ]
    print_table(cli, columns, rows, indent=indent)


def _print_event(event: dict[str, Any]) -> None:
    words = (event.get("time"), event.get("type"), event.get("reason"), event.get("object"), _message_of(event))
    echo("  ".join(one_line(str(word)) for word in words if word))


def _message_of(event: dict[str, Any]) -> str:
    count = event.get("count") or 1
    text = " ".join(str(event.get("message") or "").split())
    return f"{text} (×{count})" if count > 1 else text
