"""`kaji idle`: runs that hold GPUs and do not use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, server_options
from kajitori.cli.terminal import echo, say

_ANSWERS = {
    "asked": "keep or park it?",
    "warned": "parked at {park_at}",
    "parked": "being parked",
    "kept": "kept until {kept_until}",
    "unsure": "perhaps",
}


@click.command(
    epilog="\b\nExamples:\n  kaji idle                     # yours\n  kaji idle nb                  # the evidence\n"
    "  kaji idle --all-users\n\nAnswers: kaji keep RUN --until 18:00, or kaji park RUN."
)
@click.argument("run", required=False)
@click.option("--all-users", is_flag=True, help="Show the runs of all users.")
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str | None, all_users: bool, namespace: str | None, output: str | None) -> None:
    """List runs that hold GPUs and do not use them.

    With a run: the evidence, and which of its GPUs were idle since then, asked from their nodes, which remember an
    hour.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path

    with cli.api() as api:
        if run is None:
            owner = None if all_users else "@me"
            found = api.get("/v1/idle", {"namespace": namespace, "owner": owner, "limit": 500})
            series: list[dict[str, Any]] = []
        else:
            view = find_run(api, run, namespace)
            found = api.get(run_path(view, "/idle"))
            since = (found.get("found") or {}).get("since")
            wanted = {"since": since, "name": ["gpu.used"]}
            series = api.get(run_path(view, "/metrics"), wanted)["series"] if since and output is None else []
    if output is not None:
        print_document(found, output)
    elif run is None:
        _print_list(cli, found, all_users=all_users)
    else:
        _print_report(cli, found, series)


def _print_list(cli: Cli, found: Mapping[str, Any], *, all_users: bool) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import age
    from kajitori.cli.words.telemetry import idle_gpu_words

    if not found["items"]:
        say("no GPUs are idle" if all_users else "none of your runs holds idle GPUs")
        return
    has_cost = any(each["cost"] for each in found["items"])
    columns = [Column("RUN"), *([Column("OWNER")] if all_users else []), Column("NAMESPACE"), Column("IDLE GPUS")]
    columns += [Column("SINCE"), Column("GPU HOURS", right=True)]
    columns += [Column(f"COST {found['currency']}".strip(), right=True)] if has_cost else []
    columns.append(Column("ANSWER", flexible=True))
    rows = []
    for each in found["items"]:
        words = _ANSWERS.get(each["answer"], each["answer"])
        times = {"park_at": _local_time(each["parkAt"]), "kept_until": _local_time(each["keptUntil"])}
        row = [each["run"], *([each["owner"]] if all_users else []), each["namespace"]]
        row += [idle_gpu_words(each), age(each["since"], cli.now()), f"{each['gpuHours']:.1f}"]
        rows.append([*row, *([f"{each['cost']:.2f}"] if has_cost else []), words.format(**times)])
    print_table(cli, columns, rows)


def _print_report(cli: Cli, report: Mapping[str, Any], series: list[dict[str, Any]]) -> None:
    found = report.get("found")
    name = report["run"]
    if found is None:
        echo(f"No idle GPUs of {name} were found, or not for long enough.")
    else:
        price = f", {found['cost']:.2f} {found['currency']}".rstrip() if found["cost"] else ""
        echo(f"{found['says']} That is {found['gpuHours']:.1f} GPU hours{price}.")
        if series:
            _plot_utilisation(cli, series)
    if report.get("lookedGpus"):
        places = report.get("idleGpus") or []
        minutes = -(-report["lookedSeconds"] // 60)
        time = "hour" if minutes == 60 else f"{minutes} minutes"
        echo(f"In the last {time} {len(places)} of {report['lookedGpus']} GPUs were idle, say their nodes.")
        if places and len(places) < report["lookedGpus"]:
            by_rank: dict[tuple[int, str], list[int]] = {}
            for each in places:
                by_rank.setdefault((each["rank"], each["node"]), []).append(each["gpu"])
            for (rank, node), gpus in by_rank.items():
                echo(f"  rank {rank} on {node}: GPU {', '.join(map(str, gpus))}")
    if report.get("silentRanks"):
        silent = report["silentRanks"]
        say(f"the nodes of {silent} rank{'s' if silent > 1 else ''} did not answer which GPUs are idle")
    if found is not None and found["answer"] in ("asked", "warned"):
        if found["parkAt"]:
            say(f"policy parks it at {_local_time(found['parkAt'])} unless somebody answers")
        say(f"Still needed: kaji keep {name} --until 18:00. Free the GPUs: kaji park {name}")
    elif found is not None and found["answer"] == "kept":
        say(f"It is kept until {_local_time(found['keptUntil'])}.")


def _plot_utilisation(cli: Cli, series: list[dict[str, Any]]) -> None:
    """Plot the utilisation, if the library is there."""
    from kajitori.cli.verbs.watching.metrics import print_plots
    from kajitori.errors import Unsupported

    try:
        print_plots(cli, series)
    except Unsupported:
        return


def _local_time(text: str) -> str:
    """Return a time of the server in this machine's time zone."""
    from kajitori.cli.words.runs import moment

    then = moment(text)
    return then.astimezone().strftime("%d %b %H:%M") if then is not None else ""
