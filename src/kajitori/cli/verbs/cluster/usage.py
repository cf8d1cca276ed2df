"""`kaji usage`: the usage of teams, owners, GPU types, runs, nodes, days or hours, and its cost."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, server_options
from kajitori.cli.terminal import say

_HOUR = 3600
_TITLES = {"team": "TEAM", "owner": "OWNER", "type": "GPU TYPE", "run": "RUN", "node": "NODE"}
_TITLES |= {"day": "DAY (UTC)", "hour": "HOUR (UTC)"}


@click.command(
    epilog="\b\nExamples:\n  kaji usage\n  kaji usage --by owner --since 7d -N vision\n"
    "  kaji usage --by run --owner ana\n  kaji usage --by day -N vision\n"
    "  kaji usage --by team --since 2026-10-01T00:00:00Z -o csv > october.csv\n"
    "  kaji usage --by run -o parquet > runs.parquet\n\n"
    "A member counts from the time at which it was given its node until it gave it back, by what it asked for. Prices "
    "are in the policy (prices)."
)
@click.option(
    "--by",
    type=click.Choice([*_TITLES]),
    default="team",
    show_default=True,
    help="Group the sums by this; a team is a namespace.",
)
@click.option("--since", default="30d", show_default=True, metavar="TIME", help="A duration, or 2026-11-21T10:00:00Z.")
@click.option("--until", metavar="TIME", help="End of the time; default: now.")
@click.option("--owner", metavar="USER", help="Runs of this user only; @me are yours.")
@namespace_option("Look in this namespace only.")
@output_option("json", "yaml", "csv", "parquet")
@server_options
@click.pass_obj
def command(
    cli: Cli, by: str, since: str, until: str | None, owner: str | None, namespace: str | None, output: str | None
) -> None:
    """Show usage by team, owner, node or day, and its cost."""
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.times import moment_option

    params = {
        "by": by,
        "since": moment_option("--since", since, cli.now()),
        "until": moment_option("--until", until, cli.now()),
        "owner": owner,
        "namespace": namespace,
    }
    with cli.api() as api:
        found = api.get("/v1/usage", params)
    if output in ("json", "yaml"):
        print_document(found, output)
    elif output is not None:
        _print_data(output, found)
    else:
        _print(cli, found)


def _print_data(form: str, found: dict[str, Any]) -> None:
    from kajitori.cli.printing.export import Kind, print_data

    columns = {found["by"]: Kind.TEXT, "gpuSeconds": Kind.COUNT, "coreSeconds": Kind.NUMBER}
    columns |= {"memoryGibSeconds": Kind.NUMBER, "memberSeconds": Kind.COUNT, "cost": Kind.MONEY}
    print_data(form, columns, ({found["by"]: row["key"], **row} for row in found["items"]))


def _print(cli: Cli, found: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import Column, print_table

    if not found["items"]:
        say(f"nothing was used from {found['since']} to {found['until']}")
        return
    has_cost = any(row["cost"] for row in found["items"])
    columns = [Column(_TITLES[found["by"]], flexible=True), Column("GPU HOURS", right=True)]
    columns += [Column("CORE HOURS", right=True), Column("GIB HOURS", right=True)]
    if has_cost:
        columns.append(Column(f"COST {found['currency']}".strip(), right=True))
    rows = [_row(row, row["key"] or "(none)", has_cost=has_cost) for row in found["items"]]
    if len(rows) > 1:
        rows.append(_row(found["total"], "total", has_cost=has_cost))
    print_table(cli, columns, rows)


def _row(row: dict[str, Any], key: str, *, has_cost: bool) -> list[str]:
    hours = (row["gpuSeconds"], row["coreSeconds"], row["memoryGibSeconds"])
    return [key, *(f"{value / _HOUR:.2f}" for value in hours), *([f"{row['cost']:.2f}"] if has_cost else [])]
