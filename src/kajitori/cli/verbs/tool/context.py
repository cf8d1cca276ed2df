"""`kaji context`: which cluster commands use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_context, done_option, output_option, server_options

if TYPE_CHECKING:
    from kajitori.client.target import Context


@click.group(epilog="\b\nExamples:\n  kaji context ls\n  kaji context use lab")
def command() -> None:
    """Choose the cluster that commands use.

    A context names a server: each local cluster that runs, by its data folder, and the one of $KAJI_SERVER. If several
    run and none is chosen, commands ask to choose. What counts, first to last: --cluster, $KAJI_SERVER, $KAJI_CONTEXT,
    the choice of `kaji context use`, the only cluster that runs. Commands without -N use $KAJI_NAMESPACE, else the
    namespace of the context.
    """


@command.command("ls", epilog="\b\nExample:\n  kaji context ls")
@click.option("-q", "--quiet", is_flag=True, help="Print names only.")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def list_contexts(cli: Cli, quiet: bool, output: str | None) -> None:
    """List the clusters that commands can use.

    A star marks the one in use.
    """
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.terminal import echo
    from kajitori.client.target import contexts

    found = contexts(cli.environment, cli.cluster, cli.runtime_dir)
    if output is not None:
        print_document({"items": [_context_document(context) for context in found]}, output)
    elif quiet:
        for context in found:
            echo(context.name)
    else:
        columns = [Column("NAME"), Column("SERVER"), Column("NAMESPACE"), Column("DATA", flexible=True)]
        rows = [
            (
                f"{context.name} *" if context.why else context.name,
                context.target.url if context.runs else "(does not run)",
                context.target.namespace,
                str(context.target.data or ""),
            )
            for context in found
        ]
        print_table(cli, columns, rows)


@command.command("show", epilog="\b\nExample:\n  kaji context show")
@output_option("json", "yaml", "name")
@server_options
@click.pass_obj
def show(cli: Cli, output: str | None) -> None:
    """Show the cluster that commands use, and why this one."""
    from kajitori.cli.printing.output import print_document, print_pairs
    from kajitori.cli.terminal import echo
    from kajitori.client.target import contexts

    target = cli.find_target()  # raises what keeps commands from using any
    found = [context for context in contexts(cli.environment, cli.cluster, cli.runtime_dir) if context.why]
    name, why = (found[0].name, found[0].why) if found else (str(target.data or target.url), "--cluster")
    if output == "name":
        echo(name)
    elif output is not None:
        print_document(_row_of(name, why, target.url, target.namespace, str(target.data or "")), output)
    else:
        print_pairs(
            (
                ("Name", name),
                ("Server", target.url),
                ("Namespace", target.namespace),
                ("Data", str(target.data or "")),
                ("Because", why),
            )
        )


@command.command("use", epilog="\b\nExamples:\n  kaji context use lab\n  kaji context use --none")
@click.argument("name", required=False, shell_complete=complete_context)
@click.option("--none", "nothing", is_flag=True, help="Choose no cluster.")
@done_option
@server_options
@click.pass_obj
def use(cli: Cli, name: str | None, nothing: bool) -> None:
    """Choose the cluster that commands use from now on."""
    from kajitori.cli.many import Done
    from kajitori.cli.terminal import say
    from kajitori.client.target import choose

    if (name is None) != nothing:
        raise click.UsageError("name a context, or say --none")
    choose(name, cli.runtime_dir)
    report = Done()
    if name is not None:
        report.add({"name": name})
    report.finish()
    for variable in ("KAJI_SERVER", "KAJI_CONTEXT"):
        if cli.environment.get(variable):
            say(f"note: ${variable} is set, and counts before this choice")


def _context_document(context: Context) -> dict[str, Any]:
    target = context.target
    words = _row_of(context.name, context.why, target.url, target.namespace, str(target.data or ""))
    return words | {"running": context.runs}


def _row_of(name: str, why: str, url: str, namespace: str, data: str) -> dict[str, Any]:
    return {"name": name, "current": bool(why), "because": why, "server": url, "namespace": namespace, "data": data}
