"""`kaji gpus`: the board of free and used GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options
from kajitori.cli.pages.gpus import gpu_types_of
from kajitori.cli.terminal import echo


@click.command(epilog="\b\nExamples:\n  kaji gpus\n  kaji gpus --by team\n  kaji gpus --nodes\n  kaji gpus --public")
@click.option("--nodes", is_flag=True, help="Show each node.")
@click.option("--public", is_flag=True, help="The board that policy may open to everybody: owners, and no runs.")
@click.option(
    "--by",
    type=click.Choice(("user", "team")),
    default="user",
    show_default=True,
    metavar="user|team",
    help="Count runs by user or by team; a team is a namespace.",
)
@output_option("json", "yaml", "wide")
@server_options
@click.pass_obj
def command(cli: Cli, nodes: bool, public: bool, by: str, output: str | None) -> None:
    """Show which GPUs are free, and who uses the others.

    A bar shows used, broken (▒) and free (░) GPUs. Those of nodes that take no work are broken; those of runs that are
    still starting are used. Idle are those of the used GPUs with which nothing was done for long (`kaji idle`). If
    policy has guarantees for teams, it shows how much of them they use.
    """
    from kajitori.cli.printing.output import print_document

    with cli.api() as api:
        if nodes:
            found = [node for node in api.get("/v1/nodes")["items"] if gpu_types_of(node)]
            if output in ("json", "yaml"):
                print_document({"items": found}, output)
            else:
                _print_nodes(cli, found)
            return
        board = api.get("/v1/board" if public else "/v1/gpus")
    if output in ("json", "yaml"):
        print_document(board, output)
    elif public:
        _print_types(cli, board)
        _print_public(cli, board)
    else:
        print_board(cli, board, by=by, wide=output == "wide")


def print_board(cli: Cli, board: dict[str, Any], *, by: str = "user", wide: bool = False) -> None:
    """Print the GPUs by type, then by user or team, then the guarantees of teams."""
    from kajitori.cli.pages.pools import print_pools

    _print_types(cli, board)
    if not board["types"]:
        print_pools(cli, board)
        return
    print_pools(cli, board)
    _print_holders(cli, board, by, wide=wide)
    print_guarantees(cli, board.get("guarantees") or ())
    if wide:
        _print_runs(cli, board.get("users") or ())


def _print_types(cli: Cli, board: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import Column, bar, print_table

    if not board["types"]:
        echo("This cluster has no GPUs.")
        return
    numbers = ("free", "used", "idle", "broken", "total")
    columns = [Column("TYPE"), *(Column(name.upper(), right=True) for name in numbers), Column("")]
    rows = [
        [
            gpus["type"] or "unknown",
            *(str(gpus.get(key, 0)) for key in numbers),
            bar(gpus["used"], gpus.get("broken", 0), gpus["total"]),
        ]
        for gpus in board["types"]
    ]
    print_table(cli, columns, rows)


def _print_public(cli: Cli, board: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import age

    if not board["holdings"]:
        return
    echo()
    columns = [Column("OWNER"), Column("TEAM"), Column("GPUS", right=True), Column("IDLE", right=True)]
    columns += [Column("TYPE"), Column("SINCE")]
    rows = [
        [
            held["owner"] or "nobody of ours",
            held["namespace"],
            str(held["gpus"]),
            str(held["idle"]),
            held["type"],
            age(held["since"], cli.now()),
        ]
        for held in board["holdings"]
    ]
    print_table(cli, columns, rows)


def _print_holders(cli: Cli, board: dict[str, Any], by: str, *, wide: bool) -> None:
    """Print the holders of GPUs with their runs: the first few, or all."""
    from kajitori.cli.printing.output import Column, bar, print_table
    from kajitori.cli.words.runs import age
    from kajitori.core.suggestions import first_few

    key, name = ("teams", "namespace") if by == "team" else ("users", "owner")
    holders = board.get(key) or ()
    if not holders:
        return
    total = sum(gpus["total"] for gpus in board["types"])
    echo()
    columns = [
        Column(by.upper()),
        Column("GPUS", right=True),
        Column(""),
        Column("IDLE", right=True),
        Column("SINCE"),
        Column("TYPES"),
        Column("RUNS", flexible=True),
    ]
    rows = []
    for holder in holders:
        runs = [run["name"] for run in holder.get("runs") or ()]
        rows.append(
            [
                holder[name] or "nobody of ours",
                str(holder["gpus"]),
                bar(holder["gpus"], 0, total, 10),
                str(holder.get("idle", 0)),
                age(holder.get("since"), cli.now()),
                ", ".join(f"{count} {kind}" for kind, count in (holder.get("types") or {}).items()),
                first_few(list(dict.fromkeys(runs)), len(runs) if wide else 5),
            ]
        )
    print_table(cli, columns, rows, cut=not wide)


def print_guarantees(cli: Cli, guarantees: Sequence[Mapping[str, Any]]) -> None:
    """Print the guarantees of policy by team and resource, with their use."""
    from kajitori.cli.printing.output import Column, bar, print_table
    from kajitori.cli.words.runs import guarantee_rows

    rows = [
        [team, what, shown(total), shown(used), bar(min(used, total), 0, total, 10), borrowed]
        for team, what, total, used, shown, borrowed in guarantee_rows(guarantees)
    ]
    if rows:
        echo()
        columns = [Column("TEAM"), Column("IS GUARANTEED"), Column("AMOUNT", right=True), Column("IN USE", right=True)]
        print_table(cli, [*columns, Column(""), Column("BEYOND IT")], rows)


def _print_runs(cli: Cli, users: Sequence[Mapping[str, Any]]) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import age

    echo()
    columns = [Column("RUN"), Column("USER"), Column("TEAM"), Column("GPUS", right=True), Column("IDLE", right=True)]
    columns += [Column("TYPE"), Column("SINCE"), Column("NODES")]
    rows = [
        [
            run["name"],
            user["owner"],
            run.get("namespace") or "",
            str(run["gpus"]),
            str(run.get("idle", 0)),
            run.get("type") or "",
            age(run.get("since"), cli.now()),
            run.get("nodes") or "",
        ]
        for user in users
        for run in user.get("runs") or ()
    ]
    print_table(cli, columns, rows, cut=False)


def _print_nodes(cli: Cli, nodes: list[dict[str, Any]]) -> None:
    from kajitori.cli.printing.output import Column, bar, print_table

    columns = [Column("NODE"), Column("TYPE"), Column("FREE", right=True), Column("TOTAL", right=True), Column("")]
    columns.append(Column("TAKES NO WORK", flexible=True))
    rows = []
    for node in nodes:
        why = node.get("why") or ""
        for gpu_type, amount in gpu_types_of(node):
            used, total = amount["used"], amount["total"]
            broken = total - used if why else 0
            free = max(0, total - used - broken)
            rows.append([node["name"], gpu_type, str(free), str(total), bar(used, broken, total, 8), why])
    print_table(cli, columns, rows)
