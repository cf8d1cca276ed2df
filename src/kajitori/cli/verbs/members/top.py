"""`kaji top`: the processes of a member."""

from __future__ import annotations

import io

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji top --rank 3 bert")
@run_argument
@click.option(
    "--rank", "--index", "rank", type=click.IntRange(min=0), default=0, metavar="R", help="Rank of the member."
)
@output_option("json", "yaml")
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, run: str, rank: int, output: str | None, namespace: str | None) -> int:
    """Show the processes of a member.

    Each with its processor time, memory and age. Reads /proc inside the member, with the right that `kaji exec` needs.
    """
    from kajitori.cli.connection.execution import execute
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.terminal import say
    from kajitori.cli.words.runs import human_duration
    from kajitori.client.lookup import find_run
    from kajitori.client.processes import LOOK, read_processes
    from kajitori.core.words.quantities import round_memory

    with cli.api() as api:
        view = find_run(api, run, namespace)
    told, complaints = io.BytesIO(), io.BytesIO()
    words = ("/bin/sh", "-c", LOOK)
    code = execute(cli.find_target(), view, words, rank=rank, stdout=told, stderr=complaints, debug=cli.debug)
    processes = read_processes(told.getvalue().decode("utf-8", "replace"))
    if not processes:
        say(f"kaji: the processes of {view['name']} can't be read: {complaints.getvalue().decode('utf-8', 'replace')}")
        say("      this needs /bin/sh and head in the image")
        return code or 125
    if output is not None:
        print_document({"items": [process.document() for process in processes]}, output)
        return 0
    columns = [Column("PID", right=True), Column("PPID", right=True), Column("CPU TIME", right=True)]
    columns += [Column("MEMORY", right=True), Column("AGE"), Column("COMMAND", flexible=True)]
    rows = [
        (
            str(process.pid),
            str(process.parent),
            process.cpu_words,
            round_memory(process.memory_bytes),
            human_duration(process.age_seconds),
            process.command,
        )
        for process in processes
    ]
    print_table(cli, columns, rows)
    return 0
