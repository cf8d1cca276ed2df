"""`kaji metrics`: the resources that a run used over time, and its training figures; with --node those of a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_run, namespace_option, output_option, server_options
from kajitori.cli.terminal import echo, echo_as_is, plain, say

_SHOWN = (
    *("train.loss", "train.step.rate", "train.tokens.rate", "gpu.used", "gpu.memory.used", "gpu.power"),
    *("cpu.used", "memory.used"),
)
"""Quantities that are plotted if none is named."""
_HEIGHT = 12
_WIDEST = 120


@click.command(
    epilog="\b\nExamples:\n  kaji metrics bert\n  kaji metrics --since 6h bert gpu.used train.loss\n"
    "  kaji metrics --rank 3 bert gpu.\n  kaji metrics --list bert\n  kaji metrics -o csv bert > bert.csv\n"
    "  kaji metrics --node gpu-00012 --since 1d gpu.used\n\n"
    "The names and what they mean: kaji metrics --list. `gpu.` names all that begin with it."
)
@click.argument("run", metavar="RUN", required=False, shell_complete=complete_run)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--node", metavar="NODE", help="Show the figures of this node in the last week, instead of those of a run."
)
@click.option("--gpu", type=click.IntRange(min=0), metavar="N", help="With --node: this GPU alone, counted from 0.")
@click.option(
    "--rank",
    "--index",
    "rank",
    type=click.IntRange(min=0),
    metavar="R",
    help="Show this rank alone: its last hour in full resolution.",
)
@click.option(
    "--since", default="1h", show_default=True, metavar="TIME", help="Beginning of the plots: 30m or 2d ago, or a time."
)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt; default: all.")
@click.option("--list", "listed", is_flag=True, help="List what was measured, with the newest values, without plots.")
@namespace_option()
@output_option("json", "csv")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str | None,
    names: Sequence[str],
    node: str | None,
    gpu: int | None,
    rank: int | None,
    since: str,
    attempt: int | None,
    listed: bool,
    namespace: str | None,
    output: str | None,
) -> None:
    """Plot what a run used, and its training figures.

    Over all ranks: the median, and the range from the 10th to the 90th percentile, with the ranks of the extremes. With
    --rank: that rank alone, a value each 15 seconds. Also of runs that have ended.

    With --node NODE in place of RUN: processors, memory and GPUs of a node, and which runs held it.
    """
    from kajitori.errors import InvalidInput

    if node is not None:
        if rank is not None or attempt is not None:
            raise InvalidInput.one("--node", "a node has no ranks and attempts; name the run instead")
        _show_node(cli, node, [*([run] if run else []), *names], since, gpu, output, listed=listed)
        return
    if run is None:
        raise click.UsageError("missing argument 'RUN', or --node NODE")
    if gpu is not None:
        raise InvalidInput.one("--gpu", "is a GPU of a node", hint=f"of a run: kaji metrics --rank R {run} gpu.")
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.problems import fields_named
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path

    if rank is not None and attempt is not None:
        raise InvalidInput.one("--attempt", "nodes keep members that run, so --rank means the present attempt")
    with fields_named({"since": "--since"}), cli.api() as api:
        view = find_run(api, run, namespace, or_removed=True)
        wanted: dict[str, Any] = {"since": since, "name": list(names) or None}
        if rank is None:
            answer = api.get(run_path(view, "/metrics"), wanted | {"attempt": attempt})
        else:
            answer = api.get(run_path(view, f"/members/{rank}/metrics"), wanted)
    if output == "json":
        print_document(answer, output)
        return
    if output == "csv":
        _print_csv(answer, rank)
        return
    series = answer["series"]
    if not series:
        echo(f"Nothing was measured for {view['name']} in this time. First values appear two minutes after its start.")
        return
    if listed:
        _print_list(cli, series, of_rank=rank is not None)
        return
    shown = [each for each in series if names or each["name"] in _SHOWN]
    shown = shown or series
    print_plots(cli, shown, "" if rank is None else f"rank {rank}")
    others = [name for name in dict.fromkeys(each["name"] for each in series) if name not in {s["name"] for s in shown}]
    if others:
        say(f"Also measured: {', '.join(others)} (kaji metrics {view['name']} NAME)")


def _show_node(
    cli: Cli, node: str, names: Sequence[str], since: str, gpu: int | None, output: str | None, *, listed: bool
) -> None:
    """Show the figures of a node, and the runs that held it."""
    from kajitori.cli.pages.node_figures import print_holders, print_node_csv, samples_of
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.problems import fields_named

    with fields_named({"since": "--since"}), cli.api() as api:
        wanted = {"since": since, "name": list(names) or None, "gpu": gpu}
        answer = api.get(f"/v1/nodes/{quote(node, safe='')}/metrics", wanted)
    if output == "json":
        print_document(answer, output)
        return
    if output == "csv":
        print_node_csv(answer)
        return
    series = samples_of(answer)
    if series and listed:
        _print_list(cli, series, of_rank=True)
    elif series:
        print_plots(cli, [each for each in series if each["name"] != "gpu.memory.total"], node)
    elif answer["lastAt"]:
        echo(f"No agent reported {node} in this time. The last report is of {answer['lastAt']}.")
    elif answer["at"]:
        echo(f"Of {node} this was not measured in this time.")
    else:
        echo(f"No agent reported {node} in the last week. Simulated nodes have no agent.")
    print_holders(cli, answer)


def _print_csv(answer: Mapping[str, Any], rank: int | None) -> None:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if rank is None:
        writer.writerow(
            ("name", "unit", "at", "attempt", "count", "min", "min_rank", "p10", "p50", "p90", "max", "max_rank")
        )
        for each in answer["series"]:
            for point in each["points"]:
                low, high = point["min"], point["max"]
                row = (each["name"], each["unit"], point["at"], point["attempt"], point["count"], low["value"])
                writer.writerow(
                    (*row, low["rank"], point["p10"], point["p50"], point["p90"], high["value"], high["rank"])
                )
    else:
        writer.writerow(("name", "unit", "rank", "gpu", "at", "value"))
        for each in answer["series"]:
            for sample in each["samples"]:
                row = (each["name"], each["unit"], rank, each.get("gpu", ""), sample["at"], sample["value"])
                writer.writerow(row)
    echo(text.getvalue(), nl=False)


def _print_list(cli: Cli, series: Sequence[Mapping[str, Any]], *, of_rank: bool) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.telemetry import rank_words, value_words

    rows = []
    for each in series:
        unit = each["unit"]
        if of_rank:
            gpu = each.get("gpu")
            about = (each["name"], "" if gpu is None else str(gpu))
            rows.append((*about, value_words(each["samples"][-1]["value"], unit), each["description"]))
            continue
        last = each["points"][-1]
        extremes = [
            f"{value_words(last[end]['value'], unit)} ({rank_words(last[end])})" if last["count"] > 1 else ""
            for end in ("min", "max")
        ]
        rows.append((each["name"], value_words(last["p50"], unit), *extremes, each["description"]))
    if of_rank:
        columns = [Column("NAME"), Column("GPU", right=True), Column("NEWEST", right=True)]
    else:
        columns = [
            Column("NAME"),
            Column("MEDIAN", right=True),
            Column("LEAST", right=True),
            Column("MOST", right=True),
        ]
    print_table(cli, [*columns, Column("WHAT IT IS", flexible=True, optional=True)], rows)


def print_plots(cli: Cli, series: Iterable[Mapping[str, Any]], whose: str = "") -> None:
    """Plot series over time: bands over all ranks, or the samples of the rank or node that `whose` names.

    Raises Unsupported without the library for it.
    """
    try:
        import plotext
    except ModuleNotFoundError as error:
        from kajitori.errors import Unsupported

        hint = "pip install 'kajitori[plots]', or use --list, -o csv or -o json"
        raise Unsupported("plots need the library plotext", hint=hint) from error
    width = min(cli.page_width(), _WIDEST)
    first = True
    for title, lines in _plots_of(series, whose):
        if not first:
            echo()
        first = False
        figure = plotext.figure
        figure.clear()
        figure.theme("simple" if cli.is_coloured else "colorless")
        figure.plot_size(width, _HEIGHT)
        for points in lines:
            signal = figure.signal([at for at, _ in points], [value for _, value in points], marker="braille")
            signal.lines(True)
            figure.draw(signal)
        times = sorted({at for points in lines for at, _ in points})
        marks = _time_marks(times)
        figure.ruler("x").ticks(marks, [_format_clock(at, times) for at in marks])
        values = [value for points in lines for _, value in points]
        low, high = min(values), max(values)
        unit = title[1]
        levels = [low, (low + high) / 2, high] if high > low else [low]
        from kajitori.cli.words.telemetry import value_words

        figure.ruler("y").ticks(levels, [plain(value_words(level, unit)) for level in levels])
        echo(title[0])
        text = figure.build().string() if cli.is_coloured else plotext.uncolorize(str(figure.build()))
        echo_as_is(text.rstrip("\n"), colour=cli.is_coloured or None)


_Points = list[tuple[float, float]]


def _plots_of(series: Iterable[Mapping[str, Any]], whose: str) -> Iterator[tuple[tuple[str, str], list[_Points]]]:
    """Yield title, unit and lines of each plot."""
    from kajitori.cli.words.telemetry import rank_words, value_words

    if not whose:
        for each in series:
            points, unit = each["points"], each["unit"]
            last = points[-1]
            title = f"{each['name']}: {value_words(last['p50'], unit)}"
            if last["count"] > 1:
                low, high = last["min"], last["max"]
                title = (
                    f"{each['name']}: median {value_words(last['p50'], unit)} of {last['count']:,} values, "
                    f"least {value_words(low['value'], unit)} ({rank_words(low)}), "
                    f"most {value_words(high['value'], unit)} ({rank_words(high)})"
                )
            ends = ("p50", "p10", "p90") if any(point["count"] > 1 for point in points) else ("p50",)
            yield (title, unit), [[(_seconds(point["at"]), point[end]) for point in points] for end in ends]
        return
    together: dict[str, list[Mapping[str, Any]]] = {}
    for each in series:
        together.setdefault(each["name"], []).append(each)
    for name, several in together.items():
        unit = several[0]["unit"]
        newest = ", ".join(value_words(each["samples"][-1]["value"], unit) for each in several[:8])
        lines = [[(_seconds(sample["at"]), sample["value"]) for sample in each["samples"]] for each in several]
        yield (f"{name} of {whose}: {newest}", unit), lines


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _time_marks(times: Sequence[float]) -> list[float]:
    first, last = times[0], times[-1]
    return [first, (first + last) / 2, last] if last > first else [first]


def _format_clock(at: float, times: Sequence[float]) -> str:
    span = times[-1] - times[0]
    form = "%d %b %H:%M" if span > 86_400 else "%H:%M" if span >= 600 else "%H:%M:%S"
    return datetime.fromtimestamp(at).astimezone().strftime(form)
