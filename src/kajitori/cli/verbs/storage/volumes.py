"""`kaji volumes`: volumes and checkpoints that runs can mount."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_checkpoint, done_option, namespace_option, output_option, server_options


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  kaji volumes\n  kaji volumes rm bert-checkpoint",
)
@namespace_option("Namespace to look in.")
@output_option("json", "yaml", "name")
@server_options
@click.pass_context
def command(ctx: click.Context, namespace: str | None, output: str | None) -> None:
    """Show what runs can mount, and their checkpoints.

    What is under NAME goes before the colon of `kaji run -v NAME:/path`; of a folder, anything below it, too. A
    checkpoint is used by the next run of the same name.
    """
    if ctx.invoked_subcommand is not None:
        return
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.terminal import echo, say

    cli: Cli = ctx.obj
    with cli.api() as api:
        answer = api.get("/v1/volumes", {"namespace": namespace or api.target.namespace})
    if output in ("json", "yaml"):
        print_document(answer, output)
        return
    if output == "name":
        for volume in answer["items"]:
            echo(volume["name"])
        return
    columns = [
        Column("NAME"),
        Column("KIND"),
        Column("SOURCE", flexible=True),
        Column("MODE"),
        Column("SIZE", right=True),
    ]
    columns.append(Column("USED BY"))
    print_table(cli, columns, [_row(volume) for volume in answer["items"]])
    if answer.get("note"):
        say(f"note: {answer['note']}")


def _row(volume: dict[str, Any]) -> tuple[str, ...]:
    from kajitori.core.formats.quantities import round_memory

    size = round_memory(volume["sizeBytes"]) if volume.get("sizeBytes") is not None else ""
    state = volume.get("state") or ""
    source = volume["source"] if state in ("", "Bound") else f"{volume['source']} ({state})"
    mode = "read-only" if volume.get("readOnly") else ""
    return volume["name"], volume["kind"], source, mode, size, ", ".join(volume["usedBy"])


@command.command(epilog="\b\nExample:\n  kaji volumes rm bert-checkpoint")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_checkpoint)
@namespace_option("Namespace to look in.")
@done_option
@server_options
@click.pass_obj
def rm(cli: Cli, names: tuple[str, ...], namespace: str | None) -> int:
    """Delete checkpoints and everything in them.

    Only those of runs that are gone or have ended. This cannot be undone. Prints the name of each.
    """
    from kajitori.cli.many import delete_named

    with cli.api() as api:
        return delete_named(api, "/v1/volumes", names, {"namespace": namespace or api.target.namespace})
