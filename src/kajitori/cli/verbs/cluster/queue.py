"""`kaji queue`: the waiting runs, in the order in which the queue considers them."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options
from kajitori.cli.terminal import echo


@click.command(epilog="\b\nExample:\n  kaji queue")
@output_option("json", "yaml", "wide")
@server_options
@click.pass_obj
def command(cli: Cli, output: str | None) -> None:
    """Show the runs that wait for nodes, in order.

    The first run is considered first when nodes become free. The time at which a run is expected to start is an
    estimate: it assumes that every run takes as long as expected and that no other run is submitted. `-o wide` shows
    the numbers behind the order.
    """
    from kajitori.cli.printing.output import print_document

    cli.notices.hush()
    with cli.api() as api:
        queue = api.get("/v1/queue")
    if output in ("json", "yaml"):
        print_document(queue, output)
        return
    if (queue.get("controller") or {}).get("absent"):
        echo(f"Nothing starts: {queue['controller']['says']}.")
    if not queue["items"]:
        echo("No run waits for nodes." if queue.get("dependents") else "Nobody waits.")
    else:
        print_queue(cli, queue["items"], wide=output == "wide")
    if queue.get("dependents"):
        _print_dependents(cli, queue["dependents"])


def _print_dependents(cli: Cli, dependents: list[dict[str, Any]]) -> None:
    """Print the runs that wait for other runs. They have no place in the queue yet."""
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.terminal import heading

    heading("Wait for other runs")
    rows = [
        [
            f"{run['namespace']}/{run['name']}",
            run["owner"],
            ", ".join(f"{o['run']} ({o['condition']})" for o in run["after"]),
        ]
        for run in dependents
    ]
    print_table(cli, [Column("RUN"), Column("OWNER"), Column("AFTER", flexible=True)], rows)


def print_queue(cli: Cli, items: list[dict[str, Any]], *, wide: bool = False) -> None:
    """Print a line for each waiting run."""
    from kajitori.cli.pages.queue_words import expectation_words, in_words, part_words
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import human_duration

    columns = [Column("#", right=True), Column("RUN"), Column("OWNER"), Column("ASKS FOR"), Column("WAITED")]
    columns += [Column("EXPECTED TO TAKE"), Column("STARTS")]
    numbers = ("PRIORITY", "SIZE", "USER HAD", "TEAM HAD", "SCORE")
    columns += [Column(title, right=True) for title in numbers] if wide else []
    columns.append(Column("NOTE", flexible=True))
    rows = []
    for waiting in items:
        place = waiting["place"]
        row = [
            str(place["position"]),
            f"{waiting['namespace']}/{waiting['name']}",
            waiting["owner"],
            _describe_request(waiting),
            human_duration(place["waitedSeconds"]),
            expectation_words(place),
            in_words(cli, waiting.get("expectedAt")) or "unknown",
        ]
        if wide:
            shares = (part_words(place[key]) for key in ("size", "userShare", "teamShare"))
            score = place["score"]
            row += [str(waiting["priority"]), *shares, "" if score is None else f"{score:.3g}"]
        rows.append([*row, _remarks(waiting)])
    print_table(cli, columns, rows, cut=not wide)


def _describe_request(item: dict[str, Any]) -> str:
    from kajitori.cli.words.runs import plural

    fewest, most = item["members"], item.get("mostMembers", item["members"])
    if item["gpus"]:
        upwards = f"-{item['gpus'] // fewest * most}" if most > fewest else ""
        unit = item["gpuType"] or ("GPU" if item["gpus"] == 1 and not upwards else "GPUs")
        return f"{item['gpus']}{upwards} {unit}"
    return f"{fewest}-{most} members" if most > fewest else plural(fewest, "member")


def _remarks(item: dict[str, Any]) -> str:
    """Return remarks about a waiting run."""
    from kajitori.core.formats.node_lists import brief
    from kajitori.core.suggestions import first_few

    notes = []
    if item["place"]["overdue"]:
        notes.append("waited longest, too long")
    if item.get("kept"):
        notes.append(f"{brief(item['kept']['nodes'])} kept for it")
    if item["behind"]:
        notes.append(f"would delay {first_few(item['behind'], 1)}")
    return "; ".join(notes)
