"""Pools of nodes that can grow, below a board or a list of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.terminal import heading


def print_pools(cli: Cli, answer: Mapping[str, Any]) -> None:
    """Print the pools in an answer of the Web API; print nothing if it has none."""
    from kajitori.cli.printing.output import Column, print_table

    pools = answer.get("pools") or ()
    if not pools:
        return
    heading("Pools that can grow")
    columns = [Column("POOL"), Column("TYPE"), Column("GPUS EACH", right=True), Column("NODES", right=True)]
    columns += [Column("AT MOST", right=True), Column("ASKED FOR", right=True)]
    rows = [
        [
            pool["name"],
            pool["gpuType"],
            str(pool["gpus"] or ""),
            str(pool["nodes"]),
            str(pool["maxNodes"]),
            str(pool["askedFor"] or ""),
        ]
        for pool in pools
    ]
    print_table(cli, columns, rows, indent=2)
