"""The figures of a node over time, and the runs that held it, as `kaji metrics --node` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori.cli.context import Cli
from kajitori.cli.terminal import echo, heading


def samples_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the series of an answer with samples of their own, as those of a rank have them."""
    return [
        {
            **series,
            "samples": [
                {"at": at, "value": value}
                for at, value in zip(answer["at"], series["values"], strict=True)
                if value is not None
            ],
        }
        for series in answer["series"]
    ]


def print_node_csv(answer: Mapping[str, Any]) -> None:
    """Print all values as CSV."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "unit", "node", "gpu", "at", "value"))
    for each in samples_of(answer):
        about = (each["name"], each["unit"], answer["node"], each.get("gpu", ""))
        writer.writerows((*about, sample["at"], sample["value"]) for sample in each["samples"])
    echo(text.getvalue(), nl=False)


def print_holders(cli: Cli, answer: Mapping[str, Any]) -> None:
    """Print the runs that held the node, the last one first."""
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.core.formats.node_lists import compress_ranks

    if not answer["holders"]:
        return
    heading("Held by")
    rows = [
        [
            f"{held['namespace']}/{held['run']}" if held["run"] else "(a run that you may not read)",
            compress_ranks(held["gpus"]),
            held["since"],
            held["until"],
        ]
        for held in reversed(answer["holders"])
    ]
    columns = [Column("RUN", flexible=True), Column("GPUS"), Column("SINCE"), Column("UNTIL")]
    print_table(cli, columns, rows, indent=2)
