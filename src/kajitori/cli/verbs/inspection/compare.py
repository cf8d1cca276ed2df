"""`kaji compare`: what differs between runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, runs_argument, server_options
from kajitori.cli.terminal import echo, heading, say

_TITLES = {
    "asked": "Asked for",
    "outcome": "What became of it",
    "figures": "Last values of what the programs wrote (median of all ranks)",
}


@click.command(
    epilog="\b\nExamples:\n  kaji compare bert-small bert-large\n  kaji compare --all vision/bert speech/bert\n"
    "  kaji compare -o csv bert-small bert-large > curves.csv\n\nThe curves as plots: kaji open, then Compare."
)
@runs_argument
@click.option("--all", "everything", is_flag=True, help="Also what is the same.")
@namespace_option()
@output_option("json", "csv")
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], everything: bool, namespace: str | None, output: str | None) -> None:
    """Show what differs between two to four runs.

    The table has their requests (also the options of their programs), their results, and the last values of the figures
    that their programs wrote. With -o csv: the curves of these figures and of the use of GPUs and processors, as
    medians of all ranks. Also of removed runs, by their name or UID.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.problems import fields_named
    from kajitori.client.lookup import find_run

    with fields_named({"run": "RUN"}), cli.api() as api:
        views = [find_run(api, text, namespace, or_removed=True) for text in runs]
        answer = api.get("/v1/compare", {"run": [_address(view) for view in views]})
    if output == "json":
        print_document(answer, output)
    elif output == "csv":
        _print_csv(answer)
    else:
        _print_rows(cli, answer, everything=everything)


def _address(view: Mapping[str, Any]) -> str:
    """Return the name of a run for the server: of a removed run by its UID, because a newer one may have its name."""
    return f"{view['namespace']}/{view['uid'] if view.get('removedAt') else view['name']}"


def _print_rows(cli: Cli, answer: Mapping[str, Any], *, everything: bool) -> None:
    from kajitori.cli.printing.output import Column, print_table

    several_namespaces = len({run["namespace"] for run in answer["runs"]}) > 1
    names = [f"{run['namespace']}/{run['name']}" if several_namespaces else run["name"] for run in answer["runs"]]
    columns = [Column(""), *(Column(name, flexible=True) for name in names)]
    for part, title in _TITLES.items():
        rows = [row for row in answer["rows"] if row["part"] == part and (everything or row["differs"])]
        if rows:
            heading(title)
            print_table(cli, columns, [(row["name"], *row["values"]) for row in rows], indent=2)
    if not any(row["differs"] for row in answer["rows"]):
        echo("Nothing differs.")
    same = sum(not row["differs"] for row in answer["rows"])
    if same and not everything:
        say(f"Values that are the same: {same} (kaji compare --all)")


def _print_csv(answer: Mapping[str, Any]) -> None:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("run", "name", "unit", "at", "attempt", "p50"))
    for figure in answer["figures"]:
        for line in figure["lines"]:
            run = answer["runs"][line["run"]]
            for point in line["points"]:
                where = f"{run['namespace']}/{run['name']}"
                writer.writerow((where, figure["name"], figure["unit"], point["at"], point["attempt"], point["p50"]))
    echo(text.getvalue(), nl=False)
