"""`kaji nodes`: the nodes, their use, and why some take no work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options
from kajitori.cli.pages.gpus import gpu_types_of
from kajitori.cli.terminal import echo, heading


@click.command(epilog="\b\nExamples:\n  kaji nodes\n  kaji nodes gpu-00012\n  kaji nodes gpu-00012 --healthy")
@click.argument("node", required=False)
@click.option("--healthy", is_flag=True, help="Let NODE back into the pool: it is repaired, or was never broken.")
@output_option("json", "yaml", "wide", "name")
@server_options
@click.pass_obj
def command(cli: Cli, node: str | None, healthy: bool, output: str | None) -> None:
    """Show the nodes and why some take no work.

    With NODE: everything about it, who uses it, and how it left the pool and came back.
    """
    from kajitori.cli.printing.output import print_document

    if healthy and node is None:
        raise click.UsageError("--healthy needs a node: kaji nodes NODE --healthy")
    with cli.api() as api:
        if healthy:
            echo(api.post(f"/v1/nodes/{quote(node or '', safe='')}/healthy", {})["name"])
            return
        if node is not None:
            view = api.get(f"/v1/nodes/{quote(node, safe='')}")
            if output in ("json", "yaml"):
                print_document(view, output)
            else:
                _describe(cli, view)
            return
        answer = api.get("/v1/nodes")
        nodes = answer["items"]
    if output in ("json", "yaml"):
        print_document(answer, output)
    elif output == "name":
        for item in nodes:
            echo(item["name"])
    else:
        from kajitori.cli.pages.pools import print_pools

        _print(cli, nodes, wide=output == "wide")
        print_pools(cli, answer)


def _print(cli: Cli, nodes: list[dict[str, Any]], *, wide: bool) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import age

    columns = [Column("NAME"), Column("STATUS", styled=True), Column("GPUS", right=True), Column("TYPE")]
    columns += [Column("CPU", right=True), Column("MEMORY", right=True), Column("PODS", right=True)]
    if wide:
        columns += [Column("AGE"), Column("DOMAINS"), Column("TAINTS")]
    columns.append(Column("TAKES NO WORK", flexible=True))
    rows = []
    for node in nodes:
        gpus = gpu_types_of(node)
        shares = ", ".join(f"{amount['used']}/{amount['total']}" for _, amount in gpus)
        row = [node["name"], _describe_status(node), shares, ", ".join(gpu_type for gpu_type, _ in gpus)]
        row += [_used_of_total(node, "cpuMillis"), _used_of_total(node, "memoryBytes"), _used_of_total(node, "pods")]
        if wide:
            row.append(age(node.get("createdAt"), cli.now()))
            row.append("/".join((node.get("domains") or {}).values()))
            row.append(", ".join(node.get("taints") or ()))
        rows.append([*row, node.get("why") or ""])
    print_table(cli, columns, rows, cut=not wide)


def _describe(cli: Cli, node: dict[str, Any]) -> None:
    from kajitori.cli.printing.output import print_pairs
    from kajitori.cli.words.runs import age

    created = age(node.get("createdAt"), cli.now())
    print_pairs(
        (
            ("Name", node["name"]),
            ("Status", _describe_status(node)),
            ("Takes no work", node.get("why") or ""),
            ("Created", f"{created} ago" if created else ""),
            (
                "GPUs",
                ", ".join(f"{amount['used']}/{amount['total']} {word}".strip() for word, amount in gpu_types_of(node)),
            ),
            ("CPU", _used_of_total(node, "cpuMillis")),
            ("Memory", _used_of_total(node, "memoryBytes")),
            ("Pods", _used_of_total(node, "pods")),
            ("Domains", ", ".join(f"{key}={value}" for key, value in (node.get("domains") or {}).items())),
            ("Taints", ", ".join(node.get("taints") or ())),
            ("Test", _describe_test(node)),
            ("Labels", "\n".join(f"{key}={value}" for key, value in sorted((node.get("labels") or {}).items()))),
        )
    )
    if health := node.get("health"):
        _print_health(cli, health)
    if members := node.get("members"):
        _print_members(cli, members)


def _print_health(cli: Cli, health: Sequence[Mapping[str, Any]]) -> None:
    """Print how the node left the pool and came back, the newest entry first."""
    from kajitori.cli.printing.output import Column, print_table

    heading("Health")
    rows = []
    for entry in reversed(health):
        rows.append([entry["at"], entry["says"]])
        rows += [["", line] for line in entry.get("evidence", ())[1:]]
    print_table(cli, [Column("WHEN"), Column("WHAT", flexible=True)], rows, cut=False, indent=2)


def _print_members(cli: Cli, members: Sequence[Mapping[str, Any]]) -> None:
    """Print who uses the node: members of runs, and Pods of other programs."""
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.cli.words.runs import age, cpu_words
    from kajitori.core.formats.quantities import round_memory

    heading("Used by")
    columns = [Column("RUN"), Column("RANK", right=True), Column("OWNER"), Column("GPUS", right=True)]
    columns += [Column("CPU", right=True), Column("MEMORY", right=True), Column("SINCE"), Column("POD", flexible=True)]
    rows = [
        [
            member["holder"] if member.get("isRun", True) else f"Pod {member['holder']}",
            "" if member.get("rank") is None else str(member["rank"]),
            member.get("owner") or "",
            str(member.get("gpus") or ""),
            cpu_words(member.get("cpuMillis") or 0),
            round_memory(member.get("memoryBytes") or 0),
            age(member.get("since"), cli.now()),
            member.get("pod") or "",
        ]
        for member in members
    ]
    print_table(cli, columns, rows, indent=2)


def _describe_test(node: dict[str, Any]) -> str:
    """Return the running test of a node, or the last one."""
    test = node.get("test") or {}
    words = " ".join(part for part in (test.get("state", ""), test.get("at", "")) if part)
    run = f"; kaji logs -N {test['namespace']} {test['run']}" if test.get("state") in ("testing", "failed") else ""
    return f"{words}{run}"


def _describe_status(node: dict[str, Any]) -> str:
    words = ["Ready" if node.get("ready") else "NotReady"]
    if not node.get("schedulable", True):
        words.append("drained" if node.get("draining") else "cordoned")
    elif words == ["Ready"] and node.get("why"):
        words.append("out")
    return ", ".join(words)


def _used_of_total(node: dict[str, Any], key: str) -> str:
    """Return `used/total`; empty if the node has none."""
    from kajitori.cli.words.runs import cpu_words
    from kajitori.core.formats.quantities import round_memory

    amounts = node.get(key) or {}
    total, used = amounts.get("total") or 0, amounts.get("used") or 0
    if not total:
        return ""
    words = {"cpuMillis": cpu_words, "memoryBytes": round_memory}.get(key, str)
    return f"{words(used)}/{words(total)}"
