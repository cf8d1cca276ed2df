"""Pools of nodes that can grow, below a board or a list of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.terminal import heading


def print_pools(cli: Cli, answer: Mapping[str, Any]) -> None:
    """The pools that an answer of the API names; nothing where it names none."""
    from kajitori.cli.output import Column, print_table

    pools = answer.get("pools") or ()
    if not pools:
        return
    heading("Pools that can grow")
    columns = [Column("POOL"), Column("TYPE"), Column("GPUS EACH", right=True), Column("NODES", right=True)]
    columns += [Column("AT MOST", right=True), Column("ASKED FOR", right=True)]
    rows = [
        [
            each["name"],
            each["gpuType"],
            str(each["gpus"] or ""),
            str(each["nodes"]),
            str(each["maxNodes"]),
            str(each["askedFor"] or ""),
        ]
        for each in pools
    ]
    print_table(cli, columns, rows, indent=2)
