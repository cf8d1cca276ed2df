"""`kaji files`: the files of a run's checkpoint folder."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_run, namespace_option, output_option, server_options

_MOST = 1000
"""Default of --limit: the number of entries that are listed."""


@click.command(
    epilog="\b\nExamples:\n  kaji files bert\n  kaji files bert step-100\n  kaji cp bert:/ckpt/step-100/model.pt ."
)
@click.argument("run", shell_complete=complete_run)
@click.argument("path", default="")
@click.option(
    "--limit", type=click.IntRange(min=1), default=_MOST, metavar="N", show_default=True, help="At most N entries."
)
@namespace_option()
@output_option("json", "yaml", "name")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, path: str, limit: int, namespace: str | None, output: str | None) -> int:
    """List the files of a run's checkpoint, also of an ended run.

    PATH is a folder of the checkpoint. The first look opens the folder, which takes some seconds; five minutes after
    the last one it is closed. `kaji cp` copies files from there.
    """
    from kajitori.cli.connection.folders import find_with_folder, list_folder
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.problems import fields_named
    from kajitori.cli.terminal import echo, one_line, say

    with fields_named({"path": "PATH"}), cli.api() as api:
        view = find_with_folder(api, run, namespace)
        items: list[dict[str, Any]] = []
        page: dict[str, Any] = {"continue": None}
        while len(items) < limit:
            part = {"path": path, "limit": min(10_000, limit - len(items)), "continue": page["continue"]}
            page = {"continue": None, **list_folder(api, view, part)}
            items += page["items"]
            if not page["continue"]:
                break
        now = api.now()
    if output in ("json", "yaml"):
        print_document({**page, "items": items}, output)
        return 0
    if output == "name":
        for item in items:
            echo(one_line(item["name"]))
        return 0
    columns = [Column("NAME", flexible=True), Column("SIZE", right=True), Column("CHANGED")]
    print_table(cli, columns, [_row(item, now) for item in items])
    where = "/".join(part for part in (page["folder"], page["path"]) if part)
    if not items:
        say(f"{where} is empty")
    elif page["continue"]:
        say(f"{len(items)} of {page['count']} entries of {where}; more with --limit")
    return 0


def _row(item: dict[str, Any], now: Any) -> tuple[str, ...]:
    from kajitori.cli.terminal import one_line
    from kajitori.cli.words.runs import age
    from kajitori.core.formats.quantities import round_memory

    name = one_line(item["name"]) + ("/" if item["kind"] == "folder" else "")
    if item.get("leadsTo"):
        name = f"{name} -> {one_line(item['leadsTo'])}"
    size = round_memory(item["sizeBytes"]) if item["kind"] == "file" else ""
    return name, size, f"{age(item['modifiedAt'], now)} ago"
