"""`kaji mcp`: tools for assistants and other programs that act for a person."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, server_options


@click.command(
    epilog="\b\nExamples:\n  kaji mcp                     # your assistant starts it\n"
    "  claude mcp add kajitori -- kaji mcp\n  kaji mcp --allow-changes     # it may also start, stop and delete runs"
)
@click.option(
    "--allow-changes", is_flag=True, help="Also offer tools that start, stop, signal, resume, change and delete runs."
)
@namespace_option("Namespace of runs for which none is named.")
@server_options
@click.pass_obj
def command(cli: Cli, allow_changes: bool, namespace: str | None) -> None:
    """Give assistants tools for your runs (MCP).

    Speaks the Model Context Protocol on stdin and stdout, as assistants and editors start it. Everything is done as
    you, with your sign-in and context. Without --allow-changes the tools only read. docs/howto/assistants.md has the
    configuration of common programs.
    """
    import asyncio

    from kajitori.cli.problems import write_bug_report
    from kajitori.cli.terminal import say
    from kajitori.client.client import Client
    from kajitori.mcp.serving import serve_stdio
    from kajitori.mcp.session import Session

    def connect() -> Client:
        cli.target = None  # it may be another one by now: a `kaji up` that was started again, or a new sign-in
        return Client.of(cli.api(), namespace or "")

    if cli.has_person:
        say("kaji mcp waits for an assistant's messages on stdin; Ctrl-C ends it")
    asyncio.run(serve_stdio(Session(connect, allows_changes=allow_changes), lambda error: write_bug_report(error, cli)))
