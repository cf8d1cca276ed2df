"""`kaji report`: how the time of one run, or of all runs in a period, was spent."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_run, namespace_option, output_option, server_options
from kajitori.cli.terminal import echo, echo_data, say

_HOUR = 3600
_CSV = ("key", "times", "category", "gpuSeconds", "memberSeconds")
_TITLES = {"cause": "CAUSE", "team": "TEAM", "owner": "OWNER", "node": "NODE"}


@click.command(
    epilog="\b\nExamples:\n  kaji report bert\n  kaji report --since 7d\n  kaji report --all-users --since 30d\n"
    "  kaji report --all-users --by node\n  kaji report --by owner -N vision -o csv\n\n"
    "The ratio is productive time divided by all time since the run was submitted, for several runs by all time that "
    "nodes were held. Sums of several runs are of whole days (UTC)."
)
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--all-users", is_flag=True, help="Runs of all users; needs the right to list all runs.")
@click.option("--by", type=click.Choice([*_TITLES]), help="Group the sums by this; default: cause.")
@click.option("--since", metavar="TIME", help="A duration, or 2026-11-21T10:00:00Z; 30d if left out.")
@click.option("--until", metavar="TIME", help="End of the time; default: now.")
@click.option("--owner", metavar="USER", help="Runs of this user only; @me are yours.")
@namespace_option()
@output_option("json", "yaml", "csv")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str | None,
    all_users: bool,
    by: str | None,
    since: str | None,
    until: str | None,
    owner: str | None,
    namespace: str | None,
    output: str | None,
) -> None:
    """Tell where the time of a run went, or that of all runs.

    How much was productive, and what was lost: waiting, starting, work since the last checkpoint, hung, restarts. Each
    cause is shown with what it cost.
    """
    from kajitori.cli.printing.output import print_document

    if run is not None:
        if all_users or by or since or until or owner or output == "csv":
            message = "--all-users, --by, --since, --until, --owner and -o csv are for reports about several runs"
            raise click.UsageError(message)
        found = _of_run(cli, run, namespace)
    else:
        found = _of_several(cli, all_users, by or "cause", since or "30d", until, owner, namespace)
    if output in ("json", "yaml"):
        print_document(found, output)
    elif output == "csv":
        from kajitori.cli.printing.export import csv_text

        rows = (
            (item["key"], item["times"], part["category"], part["gpuSeconds"], part["memberSeconds"])
            for item in found["items"]
            for part in item["categories"]
        )
        echo_data(csv_text([found["by"], *_CSV[1:]], rows))
    elif run is not None:
        _print_run(cli, found)
    else:
        _print_several(cli, found)


def _of_run(cli: Cli, run: str, namespace: str | None) -> dict[str, Any]:
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path

    with cli.api() as api:
        view = find_run(api, run, namespace, or_removed=True)
        if view.get("removedAt"):  # its name may belong to a newer run
            view |= {"name": view["uid"]}
        found: dict[str, Any] = api.get(run_path(view, "/report"))
        return found


def _of_several(
    cli: Cli, all_users: bool, by: str, since: str, until: str | None, owner: str | None, namespace: str | None
) -> dict[str, Any]:
    from kajitori.cli.times import moment_option

    params = {
        "by": by,
        "since": moment_option("--since", since, cli.now()),
        "until": moment_option("--until", until, cli.now()),
        "owner": owner,
        "namespace": namespace,
        "cluster": "true" if all_users else None,
    }
    with cli.api() as api:
        found: dict[str, Any] = api.get("/v1/report", params)
        return found


def _print_run(cli: Cli, found: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.core.formats.quantities import format_duration

    whole = sum(part["seconds"] for part in found["categories"])
    unit, title = _shown_unit(sum(part["gpuSeconds"] for part in found["categories"]))
    columns = [Column("TIME"), Column("LASTED", right=True), Column("SHARE", right=True)]
    columns += [Column(title, right=True), Column("MEANING", flexible=True)]
    rows = []
    for part in found["categories"]:
        if part["seconds"] or part["memberSeconds"]:
            share = f"{part['seconds'] / whole:.1%}" if whole else ""
            name, lasted = part["category"], format_duration(part["seconds"])
            rows.append([name, lasted, share, _format_hours(part[unit]), part["meaning"]])
    print_table(cli, columns, rows)
    if found["causes"]:
        echo("")
        columns = [Column("CAUSE"), Column("TIMES", right=True), Column(title, right=True)]
        causes = [[cause["cause"], str(cause["times"]), _format_hours(cause[unit])] for cause in found["causes"]]
        print_table(cli, columns, causes)
    for sentence in found["words"]:
        say(sentence)


def _print_several(cli: Cli, found: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import Column, print_table

    total = found["total"]
    if not total["memberSeconds"]:
        say(f"no run had nodes from {found['since']} to {found['until']}")
        return
    by_cost = found["by"] in ("cause", "node")
    shown = [part["category"] for part in total["categories"]] if not by_cost else _costs_in(found["items"])
    columns = [Column(_TITLES[found["by"]], flexible=True), Column("TIMES", right=True)]
    unit, title = _shown_unit(total["gpuSeconds"])
    columns += [Column(title, right=True), Column("SHARE", right=True)]
    columns += [Column(category.upper(), right=True) for category in shown]
    rows = [_row(item, unit, shown, total[unit]) for item in found["items"]]
    if not by_cost and len(rows) > 1:
        rows.append(_row(total | {"key": "total"}, unit, shown, total[unit]))
    if rows:
        print_table(cli, columns, rows)
    parts = {part["category"]: part[unit] for part in total["categories"]}
    held = f"{_format_hours(total[unit])} {_UNITS[unit]}"
    say(f"{found['ratio'] or 0.0:.1%} of {held} were productive, from {found['since']} to {found['until']}.")
    if parts.get("unclear"):
        say(
            f"{_format_hours(parts['unclear'])} of them are unclear: attempts were interrupted, and it is not known "
            "when their programs wrote the last checkpoint (kaji report RUN)."
        )


def _shown_unit(gpu_seconds: int) -> tuple[str, str]:
    """Return the field to show and its title. Without GPUs, the time of members is shown."""
    return ("gpuSeconds", "GPU HOURS") if gpu_seconds else ("memberSeconds", "MEMBER HOURS")


_UNITS = {"gpuSeconds": "GPU hours", "memberSeconds": "member hours"}


def _costs_in(items: list[dict[str, Any]]) -> list[str]:
    from kajitori.core.usage.lost_time.slices import Category

    present = {part["category"] for item in items for part in item["categories"]}
    return [category for category in Category if category in present]


def _row(item: dict[str, Any], unit: str, shown: list[str], whole: int) -> list[str]:
    parts = {part["category"]: part[unit] for part in item["categories"]}
    share = f"{item[unit] / whole:.1%}" if whole else ""
    return [
        item["key"],
        str(item["times"]),
        _format_hours(item[unit]),
        share,
        *(_format_hours(parts.get(category, 0)) for category in shown),
    ]


def _format_hours(seconds: float) -> str:
    hours = seconds / _HOUR
    return "<0.01" if 0 < hours < 0.005 else f"{hours:.2f}"
