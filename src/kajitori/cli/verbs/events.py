"""`kaji events`: what happened to a run and its members."""

from __future__ import annotations

import json
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji events -f bert")
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, follow: bool, namespace: str | None, output: str | None) -> int:
    """Show what happened to a run.

    With -f, -o json gives one document a line.
    """
    from kajitori.cli.http import run_path
    from kajitori.cli.lookup import find_run
    from kajitori.cli.output import print_document
    from kajitori.cli.streams import events as follow_events

    with cli.api() as api:
        view = find_run(api, run, namespace)
        if not follow:
            found = list(api.documents(run_path(view, "/events")))
            if output is not None:
                print_document({"items": found}, output)
            else:
                print_events(cli, found)
            return 0
        try:
            for event in follow_events(api, view):
                if output == "json":
                    click.echo(json.dumps(event, ensure_ascii=False))
                elif output == "yaml":
                    click.echo("---")
                    print_document(event, output)
                else:
                    _print_event(event)
        except KeyboardInterrupt:
            return 130
    return 0


def print_events(cli: Cli, events: list[dict[str, Any]], *, indent: int = 0) -> None:
    """Events as a table, the oldest first."""
    from kajitori.cli.output import Column, print_table
    from kajitori.cli.words import age

    columns = [Column("AGE"), Column("TYPE", styled=True), Column("REASON"), Column("OBJECT")]
    columns.append(Column("MESSAGE", flexible=True))
    rows = [
        [
            age(event.get("time"), cli.now()),
            str(event.get("type") or ""),
            str(event.get("reason") or ""),
            str(event.get("object") or ""),
            _message(event),
        ]
        for event in events
    ]
    print_table(cli, columns, rows, indent=indent)


def _print_event(event: dict[str, Any]) -> None:
    words = (event.get("time"), event.get("type"), event.get("reason"), event.get("object"), _message(event))
    click.echo("  ".join(str(word) for word in words if word))


def _message(event: dict[str, Any]) -> str:
    count = event.get("count") or 1
    text = " ".join(str(event.get("message") or "").split())
    return f"{text} (×{count})" if count > 1 else text
