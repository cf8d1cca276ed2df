"""`kaji gpus`: the board of free and used GPUs."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options
from kajitori.cli.terminal import echo


@click.command(epilog="\b\nExamples:\n  kaji gpus\n  kaji gpus --nodes")
@click.option("--nodes", is_flag=True, help="Node by node.")
@output_option("json", "yaml", "wide")
@server_options
@click.pass_obj
def command(cli: Cli, nodes: bool, output: str | None) -> None:
    """Show which GPUs are free, and who uses the others.

    A bar shows used, broken (▒) and free (░) ones; broken are those of nodes that take no work.
    """
    from kajitori.cli.output import print_document

    with cli.api() as api:
        if nodes:
            found = [node for node in api.get("/v1/nodes")["items"] if (node.get("gpus") or {}).get("total")]
            if output in ("json", "yaml"):
                print_document({"items": found}, output)
            else:
                _print_nodes(cli, found)
            return
        board = api.get("/v1/gpus")
    if output in ("json", "yaml"):
        print_document(board, output)
    else:
        print_board(cli, board, wide=output == "wide")


def print_board(cli: Cli, board: dict[str, Any], *, wide: bool = False) -> None:
    """The board by type and by user."""
    from kajitori.cli.output import Column, bar, print_table
    from kajitori.cli.pools import print_pools
    from kajitori.cli.words import age

    if not board["types"]:
        echo("This cluster has no GPUs.")
        print_pools(cli, board)
        return
    columns = [Column("TYPE"), Column("FREE", right=True), Column("USED", right=True), Column("BROKEN", right=True)]
    columns += [Column("TOTAL", right=True), Column("")]
    rows = [
        [
            each["type"] or "unknown",
            *(str(each.get(key, 0)) for key in ("free", "used", "broken", "total")),
            bar(each["used"], each.get("broken", 0), each["total"]),
        ]
        for each in board["types"]
    ]
    print_table(cli, columns, rows)
    print_pools(cli, board)
    users = board.get("users") or ()
    if not users:
        return
    total = sum(each["total"] for each in board["types"])
    echo()
    columns = [Column("USER"), Column("GPUS", right=True), Column(""), Column("TYPES"), Column("RUNS", flexible=True)]
    rows = [
        [
            user["owner"] or "nobody of ours",
            str(user["gpus"]),
            bar(user["gpus"], 0, total, 10),
            ", ".join(f"{count} {kind}" for kind, count in (user.get("types") or {}).items()),
            ", ".join(run["name"] for run in user.get("runs") or ()),
        ]
        for user in users
    ]
    print_table(cli, columns, rows, cut=not wide)
    if not wide:
        return
    echo()
    columns = [Column("RUN"), Column("USER"), Column("GPUS", right=True), Column("TYPE"), Column("SINCE")]
    columns.append(Column("NODES"))
    rows = [
        [
            run["name"],
            user["owner"],
            str(run["gpus"]),
            run.get("type") or "",
            age(run.get("since"), cli.now()),
            run.get("nodes") or "",
        ]
        for user in users
        for run in user.get("runs") or ()
    ]
    print_table(cli, columns, rows, cut=False)


def _print_nodes(cli: Cli, nodes: list[dict[str, Any]]) -> None:
    from kajitori.cli.output import Column, bar, print_table

    columns = [Column("NODE"), Column("TYPE"), Column("FREE", right=True), Column("TOTAL", right=True), Column("")]
    columns.append(Column("TAKES NO WORK", flexible=True))
    rows = []
    for node in nodes:
        used, total, why = node["gpus"]["used"], node["gpus"]["total"], node.get("why") or ""
        broken = total - used if why else 0
        free = max(0, total - used - broken)
        rows.append([node["name"], node.get("gpuType") or "", str(free), str(total), bar(used, broken, total, 8), why])
    print_table(cli, columns, rows)
