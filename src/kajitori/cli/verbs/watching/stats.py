"""`kaji stats`: what members of runs use now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_run, namespace_option, output_option, ranks_option, server_options
from kajitori.cli.terminal import begin_page, echo, say


@click.command(
    epilog="\b\nExamples:\n  kaji stats bert\n  kaji stats --rank 3,77 bert\n  kaji stats --no-stream bert\n"
    "  kaji stats\n\nRates are per second. kaji metrics shows the past."
)
@click.argument("run", required=False, shell_complete=complete_run)
@ranks_option("Only these ranks, such as 3 or 0-3,77.")
@click.option("--all-users", is_flag=True, help="Without RUN: show the runs of all users.")
@click.option("--no-stream", is_flag=True, help="Print the values once and exit.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=64, show_default=True, metavar="N", help="Print at most N rows."
)
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str | None,
    ranks: Sequence[int],
    all_users: bool,
    no_stream: bool,
    limit: int,
    namespace: str | None,
    output: str | None,
) -> None:
    """Show what the members of a run use now: a live table.

    Processor, memory, network, disks, GPUs, and what the program wrote to $KAJI_METRICS. With RUN: a row for each rank,
    asked from its node. Without: a row for each of your runs, over all ranks of the last minute.
    """
    import time

    from kajitori.cli.printing.output import print_document
    from kajitori.cli.terminal import json_text
    from kajitori.client.lookup import find_run
    from kajitori.client.views import is_final
    from kajitori.client.web_api import run_path

    once = no_stream or (run is None and output is not None)
    with cli.api() as api:
        if run is None:
            params = {"owner": None if all_users else "@me", "namespace": namespace, "limit": limit}
            while True:
                answer = api.get("/v1/stats", params)
                if output is not None:
                    print_document(answer, output)
                    return
                _clear(cli, once)
                _print_runs(cli, answer)
                if once or not cli.is_terminal:
                    return
                time.sleep(5.0)
        view = find_run(api, run, namespace)
        wanted: dict[str, Any] = {"rank": list(ranks) or None, "limit": limit}
        over = f"{view['name']} has ended; the past: kaji metrics {view['name']}"
        if once and is_final(view) and output is None:
            say(over)
            return
        if once:
            answer = api.get(run_path(view, "/stats"), wanted)
            if output is not None:
                print_document(answer, output)
            else:
                _print_ranks(cli, answer)
            return
        silent = False
        for answer in api.documents(run_path(view, "/stats/watch"), wanted):
            was_silent, silent = silent, not answer["ranks"]
            if silent and was_silent and output is None:
                continue  # it was said
            if output == "json":
                echo(json_text(answer))
            elif output is not None:
                echo("---")
                print_document(answer, output)
            else:
                _clear(cli, once)
                _print_ranks(cli, answer)
        say(over)


def _clear(cli: Cli, once: bool) -> None:
    if not once and cli.is_terminal:
        begin_page()


def _print_ranks(cli: Cli, answer: Mapping[str, Any]) -> None:
    """Print a row for each rank; columns without any value are left out."""
    from kajitori.cli.printing.output import Column, print_table

    rows = [_rank_row(each) for each in answer["ranks"]]
    if not rows:
        echo("No member reports yet: a program is sampled once it runs, on nodes with an agent.")
        return
    titles = [title for title in rows[0] if any(row[title] for row in rows)]
    columns = [Column(title, right=title not in ("NODE",), flexible=title == "NODE") for title in titles]
    print_table(cli, columns, [[row[title] for title in titles] for row in rows])
    if answer["total"] > len(rows):
        echo(f"… and {answer['total'] - len(rows)} more ranks (--limit, --rank); bands over all: kaji metrics")
    old = sum(not each.get("live") for each in answer["ranks"])
    if old:
        say(f"{old} rows are means of the last minute: their nodes did not answer, or were not asked.")


def _rank_row(each: Mapping[str, Any]) -> dict[str, str]:
    from kajitori.cli.words.telemetry import value_words

    values: Mapping[str, float] = each["values"]
    gpus: list[Mapping[str, float]] = [gpu["values"] for gpu in each.get("gpus", ())]

    def show(name: str, unit: str) -> str:
        return value_words(values[name], unit) if name in values else ""

    def both(first: str, second: str, unit: str) -> str:
        found = [show(name, unit) for name in (first, second)]
        return " / ".join(text or "-" for text in found) if any(found) else ""

    memory, limit = values.get("memory.used"), values.get("memory.limit")
    return {
        "RANK": str(each["rank"]),
        "NODE": each["node"],
        "CPU %": f"{100 * values['cpu.used']:.0f}%" if "cpu.used" in values else "",
        "MEM / LIMIT": both("memory.used", "memory.limit", "bytes"),
        "MEM %": f"{100 * memory / limit:.0f}%" if memory is not None and limit else "",
        "NET IN / OUT": both("network.received", "network.sent", "bytes/s"),
        "DISK IN / OUT": both("disk.read", "disk.written", "bytes/s"),
        "PIDS": show("processes", ""),
        "GPU %": _over(gpus, "gpu.used", "%"),
        "GPU MEM": _over(gpus, "gpu.memory.used", "bytes"),
        "POWER": _over(gpus, "gpu.power", "W"),
        "STEP": show("train.step", ""),
        "STEPS": show("train.step.rate", "1/s"),
        "TOKENS": show("train.tokens.rate", "1/s"),
        "LOSS": show("train.loss", ""),
        "SILENT": f"{values['output.age']:.0f}s" if values.get("output.age", 0) >= 60 else "",
    }


def _over(gpus: Sequence[Mapping[str, float]], name: str, unit: str) -> str:
    """Return the value over a rank's GPUs: the mean, and the range if they differ much."""
    from kajitori.cli.words.telemetry import value_words

    found = [gpu[name] for gpu in gpus if name in gpu]
    if not found:
        return ""
    low, high = min(found), max(found)
    if high - low > 0.1 * max(abs(high), 1.0):
        return f"{value_words(low, unit)} – {value_words(high, unit)}"
    return value_words(sum(found) / len(found), unit)


def _print_runs(cli: Cli, answer: Mapping[str, Any]) -> None:
    """Print a row for each run, with the median over its ranks and the extreme that is worth a look."""
    from kajitori.cli.printing.output import Column, print_table

    rows = list(_run_rows(answer["items"]))
    if not rows:
        echo("None of your runs was measured in the last minutes. For the present figures of one run: kaji stats RUN")
        return
    titles = [title for title in rows[0] if any(row[title] for row in rows)]
    columns = [Column(title, right=title not in ("RUN", "OWNER"), flexible=title == "RUN") for title in titles]
    print_table(cli, columns, [[row[title] for title in titles] for row in rows])
    if answer["total"] > len(rows):
        echo(f"… and {answer['total'] - len(rows)} more (--limit)")


def _run_rows(items: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, str]]:
    from kajitori.cli.words.telemetry import rank_words, value_words

    for each in items:
        bands = each["bands"]

        def show(name: str, unit: str, what: str = "p50", bands: Mapping[str, Any] = bands) -> str:
            if name not in bands:
                return ""
            found = bands[name][what]
            return value_words(found["value"] if isinstance(found, dict) else found, unit)

        least = bands.get("gpu.used")
        cpu = bands.get("cpu.used")
        yield {
            "RUN": f"{each['namespace']}/{each['run']}",
            "OWNER": each["owner"],
            "RANKS": str(
                max((band["count"] for name, band in bands.items() if not name.startswith("gpu.")), default=0)
            ),
            "CPU %": f"{100 * cpu['p50']:.0f}%" if cpu else "",
            "MEM": show("memory.used", "bytes"),
            "MOST MEM": show("memory.used", "bytes", "max"),
            "GPU %": show("gpu.used", "%"),
            "LEAST GPU %": f"{show('gpu.used', '%', 'min')} ({rank_words(least['min'])})" if least else "",
            "STEP": show("train.step", "", "max"),
            "STEPS": show("train.step.rate", "1/s"),
            "TOKENS": show("train.tokens.rate", "1/s"),
            "LOSS": show("train.loss", ""),
            "SILENT": show("output.age", "s", "min") if bands.get("output.age", {"p50": 0})["p50"] >= 60 else "",
        }
