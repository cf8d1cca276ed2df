"""`kaji explain`: why a run waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji explain bert")
@run_argument
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, namespace: str | None, output: str | None) -> None:
    """Tell why a run waits, and what would start it.

    Shows what is missing by kind, who holds it, and what would start at once.
    """
    from kajitori.cli.http import run_path
    from kajitori.cli.lookup import find_run
    from kajitori.cli.output import print_document

    with cli.api() as api:
        view = find_run(api, run, namespace)
        answer = api.get(run_path(view, "/explain"))
    if output is not None:
        print_document(answer, output)
    else:
        print_explanation(cli, view["name"], answer)


def print_explanation(cli: Cli, name: str, answer: dict[str, Any]) -> None:
    """An answer of `explain` for people."""
    from kajitori.cli import words
    from kajitori.cli.output import Column, heading, print_pairs, print_table
    from kajitori.core.quantity import round_memory

    click.echo(f"{name}: {', '.join(filter(None, (answer.get('phase'), answer.get('reason'))))}")
    if answer.get("message"):
        click.echo(f"  {answer['message']}")
    missing = missing_words(answer.get("missing") or {})
    ahead = answer.get("ahead")
    if missing or ahead:
        heading("Missing")
        print_pairs((*missing, ("ahead in the queue", words.plural(ahead, "run") if ahead else "")), indent=2)
    held = answer.get("held") or ()
    if held:
        heading("Held by")
        columns = [Column("RUN"), Column("OWNER"), Column("GPUS", right=True), Column("CPU", right=True)]
        columns += [Column("MEMORY", right=True), Column("SINCE"), Column("NODES", flexible=True)]
        rows = [
            [
                each["holder"] if each.get("isRun", True) else f"Pod {each['holder']}",
                each.get("owner") or "",
                str(each.get("gpus") or ""),
                words.cpu_words(each.get("cpuMillis") or 0),
                round_memory(each.get("memoryBytes") or 0),
                words.age(each.get("since"), cli.now()),
                each.get("nodes") or "",
            ]
            for each in held
        ]
        print_table(cli, columns, rows, indent=2)
    blocked = answer.get("blocked") or ()
    if blocked:
        heading("Nodes that take no work")
        print_pairs(((each["why"], f"{each['count']}: {each['nodes']}") for each in blocked), indent=2)
    sooner = answer.get("sooner") or ()
    if sooner:
        heading("Would start now")
        for each in sooner:
            click.echo(f"  with {each}")


def missing_words(missing: dict[str, int]) -> list[tuple[str, str]]:
    """What is missing by kind, as labelled amounts."""
    from kajitori.cli.words import cpu_words
    from kajitori.core.quantity import round_memory

    forms: dict[str, tuple[str, Callable[[int], str]]] = {
        "members": ("members", str),
        "gpu": ("GPUs", str),
        "cpuMillis": ("cores", cpu_words),
        "memoryBytes": ("memory", round_memory),
    }
    return [
        (forms[kind][0], forms[kind][1](amount)) if kind in forms else (kind, str(amount))
        for kind, amount in missing.items()
        if amount
    ]
