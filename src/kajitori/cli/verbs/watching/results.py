"""`kaji results`: the ends and results of a sweep's members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options
from kajitori.cli.terminal import echo_data, json_text, say

_STATES = ("Waiting", "Pending", "Running", "Succeeded", "Failed", "NotRun")
_FIELDS = ("index", "state", "exitCode", "restarts", "attempt", "node", "startedAt", "endedAt", "peakBytes")
_WORDS = ("reason", "message")
_MOST_COLUMNS = 200


@click.command(
    epilog="\b\nExamples:\n  kaji results grid\n  kaji results grid --state failed -o wide\n"
    "  kaji results grid --best 10\n  kaji results grid -o csv > grid.csv\n\n"
    "A member's result is what its program writes to the file that KAJI_RESULT names, such as JSON: at most 4096 bytes."
)
@run_argument
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    help=f"Only members in it: {', '.join(word.lower() for word in _STATES)}.",
)
@click.option("--best", type=click.IntRange(min=1), metavar="N", help="Only the N members with the best results.")
@click.option(
    "--by", metavar="NAME", help="With --best: the value to sort by, such as loss. Default: chosen by its name."
)
@click.option("--order", type=click.Choice(["lowest", "highest"]), help="With --best: which values are better.")
@namespace_option()
@output_option("json", "csv", "wide")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str,
    states: tuple[str, ...],
    best: int | None,
    by: str | None,
    order: str | None,
    namespace: str | None,
    output: str | None,
) -> None:
    """Show the results of a sweep's members.

    One row for each index of the array (KAJI_ARRAY_INDEX): how its member ended, how long it took, and its result.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path

    if best is None and (by or order):
        raise click.UsageError("--by and --order need --best N")
    if best is not None and states:
        raise click.UsageError("--best lists members that succeeded; leave out --state")
    with cli.api() as api:
        view = find_run(api, run, namespace, or_removed=True)
        rows: list[dict[str, Any]] = []
        params: dict[str, Any] = {"limit": min(500, best or 500), "state": list(states)}
        params |= {"best": True, "by": by, "order": order} if best is not None else {}
        while True:
            page = api.get(run_path(view, "/results"), params)
            rows += page["items"]
            if page.get("incomplete"):
                say(f"some details are missing: {page['incomplete']}")
            if not page.get("continue") or (best is not None and len(rows) >= best):
                break
            params["continue"] = page["continue"]
    if best is not None:
        rows = rows[:best]
        _say_order(page)
    if output == "json":
        print_document({"items": rows}, output)
    elif output == "csv":
        _print_csv(rows)
    else:
        _print_table(cli, rows, wide=output == "wide")


def _say_order(page: Mapping[str, Any]) -> None:
    """Say which value orders the rows, or that none does."""
    if page.get("by"):
        say(f"the {page['order']} {page['by']} first")
    elif page.get("names"):
        say(f"no name in the results tells which value counts; choose one: --by {' or --by '.join(page['names'][:5])}")
    else:
        say("no member has succeeded with a number in its result yet")


def _print_table(cli: Cli, rows: Sequence[Mapping[str, Any]], *, wide: bool) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.core.formats.quantities import round_memory

    columns = [Column("INDEX", right=True), Column("STATE", styled=True), Column("EXIT", right=True)]
    columns += [Column("RESTARTS", right=True), Column("TIME", right=True)]
    if wide:
        columns += [Column("MEMORY", right=True), Column("NODE"), Column("STARTED"), Column("ENDED")]
    columns.append(Column("RESULT", flexible=True))
    lines = []
    for row in rows:
        line = [str(row["index"]), row["state"], _text(row.get("exitCode")), str(row.get("restarts", 0))]
        line.append(_format_duration_of(row, cli))
        if wide:
            line += [round_memory(row["peakBytes"]) if row.get("peakBytes") else "", row.get("node", "")]
            line += [row.get("startedAt", ""), row.get("endedAt", "")]
        lines.append([*line, _describe_result(row)])
    print_table(cli, columns, lines, cut=not wide)


def _print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows as CSV. Each key of a result that is a mapping becomes a column."""
    import csv
    import io

    keys: dict[str, None] = {}
    for row in rows:
        if isinstance(row.get("result"), dict):
            keys.update(dict.fromkeys(row["result"]))
    named = list(keys)[:_MOST_COLUMNS]
    plain = any(row.get("result") is not None and not isinstance(row["result"], dict) for row in rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_FIELDS, "seconds", *_WORDS, *(["result"] if plain else []), *(f"result.{key}" for key in named)])
    for row in rows:
        result = row.get("result")
        values = result if isinstance(result, dict) else {}
        whole = [] if not plain else ["" if isinstance(result, dict) else _cell(result)]
        seconds = _seconds(row)
        writer.writerow(
            [
                *(_text(row.get(field, 0 if field == "restarts" else None)) for field in _FIELDS),
                _text(seconds),
                *(_text(row.get(field)) for field in _WORDS),
                *whole,
                *(_cell(values.get(key)) for key in named),
            ]
        )
    echo_data(out.getvalue())


def _format_duration_of(row: Mapping[str, Any], cli: Cli) -> str:
    from kajitori.cli.words.runs import moment
    from kajitori.core.formats.quantities import format_duration

    seconds = _seconds(row)
    started = moment(row.get("startedAt"))
    if seconds is None and started is not None and row["state"] == "Running":
        seconds = max(0, round((cli.now() - started).total_seconds()))
    return format_duration(seconds) if seconds is not None else ""


def _seconds(row: Mapping[str, Any]) -> int | None:
    from kajitori.cli.words.runs import moment

    started, ended = moment(row.get("startedAt")), moment(row.get("endedAt"))
    return max(0, round((ended - started).total_seconds())) if started is not None and ended is not None else None


def _describe_result(row: Mapping[str, Any]) -> str:
    """Return the result of a member: `loss=0.5 epochs=3`; without one, why the member failed."""
    result = row.get("result")
    if isinstance(result, dict):
        return " ".join(f"{key}={_cell(value)}" for key, value in result.items())
    if result is not None:
        return _cell(result)
    return ": ".join(str(row[field]) for field in _WORDS if row.get(field))


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json_text(value)


def _text(value: Any) -> str:
    return "" if value is None else str(value)
