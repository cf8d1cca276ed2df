"""`kaji traffic`: traffic to the internet, by run, user and namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_run, namespace_option, output_option, server_options
from kajitori.cli.terminal import echo, heading, say

_SHOWN_SILENT = 60


@click.command(
    epilog="\b\nExamples:\n  kaji traffic\n  kaji traffic bert\n  kaji traffic --by user --class storage\n"
    "  kaji traffic --by node -o wide\n  kaji traffic --since 7d --by namespace\n\n"
    "Counted by kaji agent on each node; classes are those of policy's section traffic. IN is to the Pods."
)
@click.argument("run", required=False, shell_complete=complete_run)
@click.option(
    "--by",
    type=click.Choice(("run", "user", "namespace", "node")),
    default="run",
    show_default=True,
    help="Sum by run, user, namespace or node.",
)
@click.option(
    "--class", "address_class", metavar="CLASS", help="Sort by traffic with these addresses; default: internet."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="Rows.")
@click.option("--since", metavar="TIME", help="Only traffic since then: a duration, or 2026-11-21T10:00:00Z.")
@namespace_option("Only runs of this namespace.")
@output_option("json", "yaml", "wide")
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str | None,
    by: str,
    address_class: str | None,
    limit: int,
    since: str | None,
    namespace: str | None,
    output: str | None,
) -> None:
    """Show who talks to the internet, and how much.

    Bytes by class of the addresses at the other end, and how fast it went over the last minutes. With RUN: that run,
    and its share of each node. With --since: what history recorded, by hour for 14 days and by day before that.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.problems import fields_named

    if since is not None:
        _print_past(cli, run, by, since, {"class": address_class, "limit": limit}, namespace, output)
        return
    with fields_named({"class": "--class"}), cli.api() as api:
        if run is not None:
            from kajitori.client.lookup import find_run
            from kajitori.client.web_api import run_path

            view = find_run(api, run, namespace)
            answer = api.get(run_path(view, "/traffic"), {"class": address_class})
        else:
            where = namespace if by == "run" else None
            answer = api.get("/v1/traffic", {"by": by, "class": address_class, "limit": limit, "namespace": where})
    if output in ("json", "yaml"):
        print_document(answer, output)
        return
    wide = output == "wide"
    if run is not None:
        _print_run(cli, answer, limit, wide=wide)
    elif answer["items"]:
        _print(cli, by.upper(), answer["items"], by_run=by == "run", wide=wide)
        _say_more(len(answer["items"]), answer["total"])
    else:
        echo("Nothing was counted.")
    _say_what_is_missing(answer)
    if answer.get("hidden"):
        from kajitori.cli.words.runs import plural

        hidden = plural(answer["hidden"], "run")
        say(f"{hidden} of namespaces that you may not read: kaji traffic --by namespace has their sums.")


def _print_past(
    cli: Cli,
    run: str | None,
    by: str,
    since: str,
    query: dict[str, Any],
    namespace: str | None,
    output: str | None,
) -> None:
    """Print sums of traffic since a time."""
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.problems import fields_named
    from kajitori.cli.times import moment_option
    from kajitori.cli.words.runs import plural
    from kajitori.client.lookup import find_run
    from kajitori.errors import InvalidInput

    if by == "node":
        raise InvalidInput.one("--by", "history has no traffic of single nodes", value=by, hint="leave out --since")
    query |= {"by": by, "since": moment_option("--since", since, cli.now())}
    with fields_named({"class": "--class"}), cli.api() as api:
        if run is not None:
            view = find_run(api, run, namespace)
            query |= {"by": "run", "name": f"{view['namespace']}/{view['name']}"}
            namespace = view["namespace"]
        found = api.get("/v1/traffic/history", query | {"namespace": namespace if query["by"] == "run" else None})
    if output in ("json", "yaml"):
        print_document(found, output)
        return
    if found["items"]:
        _print(cli, str(query["by"]).upper(), found["items"], by_run=query["by"] == "run", wide=False, rates=False)
        _say_more(len(found["items"]), found["total"])
    else:
        echo(f"Nothing was recorded from {found['since']} to {found['until']}.")
    known = [point["classes"] is not None for point in found["points"]]
    if True in known:
        kind, first = ("hour" if found["intervalSeconds"] == 3600 else "day"), known.index(True)
        if first:
            say(f"Traffic is recorded since {found['points'][first]['at']}.")
        if gaps := known[first:].count(False):
            say(f"No server recorded anything in {plural(gaps, kind)}; traffic of that time is in the {kind} after it.")
    if found.get("hidden"):
        say(f"{plural(found['hidden'], 'run')} of namespaces that you may not read: --by namespace has their sums.")


def _print_run(cli: Cli, answer: dict[str, Any], limit: int, *, wide: bool) -> None:

    if not answer["run"]["classes"]:
        echo("Nothing was counted of this run.")
        return
    _print(cli, "RUN", [answer["run"]], by_run=True, wide=wide)
    if len(answer["items"]) > 1:
        heading("By node")
        _print(cli, "NODE", answer["items"][:limit], by_run=False, wide=wide, rates=False, indent=2)
        _say_more(min(limit, answer["total"]), answer["total"])


def _print(
    cli: Cli,
    title: str,
    items: list[dict[str, Any]],
    *,
    by_run: bool,
    wide: bool,
    rates: bool = True,
    indent: int = 0,
) -> None:
    """Print a line for each holder and class of addresses."""
    from kajitori.cli.printing.output import Column, print_table

    columns = [Column(title, flexible=not by_run)]
    columns += [Column("USER", flexible=True)] if by_run else []
    columns += [Column("CLASS"), Column("IN", right=True), Column("OUT", right=True)]
    columns += [Column("IN/S", right=True), Column("OUT/S", right=True)] if rates else []
    columns += [Column("PACKETS IN", right=True), Column("PACKETS OUT", right=True)] if wide else []
    rows = [row for item in items for row in _rows(item, by_run=by_run, wide=wide, rates=rates)]
    print_table(cli, columns, rows, cut=not wide, indent=indent)


def _rows(item: Mapping[str, Any], *, by_run: bool, wide: bool, rates: bool) -> Iterator[list[str]]:
    from kajitori.core.formats.quantities import round_memory

    name = f"{item['namespace']}/{item['name']}" if item.get("namespace") else item["name"]
    for traffic in item["classes"]:
        received, sent = traffic["received"], traffic["sent"]
        row = [name, *([item.get("user", "")] if by_run else []), traffic["name"]]
        row += [round_memory(_bytes(received)), round_memory(_bytes(sent))]
        if rates:
            row += [_rate(received["bytesPerSecond"]), _rate(sent["bytesPerSecond"])]
        if wide:
            row += [str(received["packets"]), str(sent["packets"])]
        yield row


def _bytes(count: int | Mapping[str, Any]) -> int:
    """Return the bytes of a direction: sums of the past are plain numbers."""
    return count if isinstance(count, int) else int(count["bytes"])


def _rate(bytes_per_second: int) -> str:
    from kajitori.core.formats.quantities import round_memory

    return round_memory(bytes_per_second) if bytes_per_second else ""


def _say_more(shown: int, total: int) -> None:
    if total > shown:
        echo(f"… and {total - shown} more (--limit)")


def _say_what_is_missing(answer: Mapping[str, Any]) -> None:
    """Print which traffic the figures leave out."""
    from kajitori.cli.words.runs import plural

    nodes = answer["nodes"]
    silent = nodes["silent"]
    if len(silent) > _SHOWN_SILENT:
        silent = silent[:_SHOWN_SILENT] + "…"
    if not nodes["counted"]:
        say("No node is counted now: `kaji agent --report` on each node does that (docs/operate/network/traffic.md).")
    elif nodes["silentCount"]:
        silent_nodes = plural(nodes["silentCount"], "node")
        say(f"{silent_nodes} told nothing lately, so that this may be too little: {silent}")
    if nodes["uncountedPods"]:
        say(
            f"{plural(nodes['uncountedPods'], 'Pod')} can't be counted: see kajitori_agent_uncounted_pods of each node."
        )
    if not answer["kept"]:
        say("The server keeps no totals (it has no --blobs): those of ended runs go with it.")
