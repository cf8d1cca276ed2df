"""`kaji history`: runs of all times, also removed ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, server_options
from kajitori.cli.terminal import echo

_TEXTS = ("name", "namespace", "uid", "owner", "type", "phase", "reason")
_TIMES = ("createdAt", "startedAt", "endedAt", "removedAt")
_COUNTS = ("members", "gpus", "attempts")


@click.command(
    epilog="\b\nExamples:\n  kaji history\n  kaji history --all-users --since 7d --status failed\n"
    "  kaji history --search stage=final\n  kaji history --name bert -o csv > runs.csv\n"
    "  kaji history --all-users -n 1000000 -o parquet > runs.parquet\n"
    "  kaji describe UID    # a run whose name another one has now"
)
@click.option("--all-users", is_flag=True, help="Show the runs of all users.")
@click.option("--owner", metavar="USER", help="Only runs of this user.")
@click.option("--name", default="", metavar="TEXT", help="Only runs whose names begin with TEXT.")
@click.option("--search", default="", metavar="WORDS", help="Only runs with these words in name, labels, note …")
@click.option(
    "--status", "statuses", multiple=True, metavar="STATUS", help="Only runs that ended like this; repeat it."
)
@click.option("--since", metavar="TIME", help="Created in the last 30d, or since 2026-11-21T10:00:00Z.")
@click.option("--until", metavar="TIME", help="Created before this time.")
@click.option(
    "-n", "--last", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="The newest N."
)
@namespace_option("Look in this namespace only.")
@output_option("json", "yaml", "csv", "parquet", "wide", "name")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    all_users: bool,
    owner: str | None,
    name: str,
    search: str,
    statuses: tuple[str, ...],
    since: str | None,
    until: str | None,
    last: int,
    namespace: str | None,
    output: str | None,
) -> None:
    """List runs of all times, also removed ones.

    By default yours, the newest first. kaji describe, logs and results show a removed run by its name or its UID.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.times import moment_option
    from kajitori.cli.words.phases import phases_of

    params: dict[str, Any] = {
        "owner": owner or (None if all_users else "@me"),
        "name": name or None,
        "search": search or None,
        "phase": phases_of("--status", statuses) or None,
        "since": moment_option("--since", since, cli.now()),
        "until": moment_option("--until", until, cli.now()),
        "namespace": namespace,
    }
    is_table = output in (None, "wide")
    with cli.api() as api:
        if output in ("csv", "parquet"):
            _print_data(output, api.each_item("/v1/history", params, limit=last))
            return
        runs = api.all_items("/v1/history", params | {"details": is_table or None}, limit=last)
    if output in ("json", "yaml"):
        print_document({"items": runs}, output)
    elif output == "name":
        for run in runs:
            echo(run["name"])
    else:
        _print(cli, runs, wide=output == "wide", owners=all_users or owner is not None)


def _print_data(form: str, runs: Iterable[dict[str, Any]]) -> None:
    from kajitori.cli.printing.export import Kind, print_data

    columns = dict.fromkeys(_TEXTS, Kind.TEXT) | dict.fromkeys(_TIMES, Kind.TIME) | dict.fromkeys(_COUNTS, Kind.COUNT)
    print_data(form, columns, runs)


def _print(cli: Cli, runs: list[dict[str, Any]], *, wide: bool, owners: bool) -> None:
    """Print what `kaji ps` shows of each run, and whether it was removed."""
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words import runs as words

    now = cli.now()
    columns = [Column("NAME"), Column("STATUS", styled=True), Column("REASON", flexible=True), Column("MEMBERS")]
    columns += [Column("GPUS"), Column("TIME"), Column("AGE"), Column("REMOVED")]
    namespaces = wide or len({run["namespace"] for run in runs}) > 1
    if namespaces:
        columns.append(Column("NAMESPACE"))
    if wide or owners:
        columns.append(Column("OWNER"))
    if wide:
        columns += [Column("UID"), Column("RESTARTS"), Column("MEMORY PEAK"), Column("NODES"), Column("IMAGE")]
    columns.append(Column("COMMAND", flexible=True, optional=True))
    rows = []
    for recorded in runs:
        run = recorded["run"]
        row = [run["name"], words.status_words(run), words.reason_words(run), words.member_words(run)]
        row += [words.gpu_words(run), words.time_words(run, now), words.age(run["createdAt"], now)]
        row.append("yes" if recorded["removedAt"] else "")
        if namespaces:
            row.append(run["namespace"])
        if wide or owners:
            row.append(run["owner"])
        if wide:
            row += [run["uid"], words.restart_words(run), words.peak_words(run), words.node_words(run)]
            row.append(str(run["spec"].get("image", "")))
        rows.append([*row, words.program_words(run, cut=not wide)])
    print_table(cli, columns, rows, cut=not wide)
