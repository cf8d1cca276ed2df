"""`kaji top`: the processes of a member."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, rank_option, run_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji top --rank 3 bert")
@run_argument
@rank_option()
@output_option("json", "yaml")
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, run: str, rank: int, output: str | None, namespace: str | None) -> int:
    """Show the processes of a member.

    Each with its processor time, memory and age. Reads /proc inside the member, with the right that `kaji exec` needs.
    """
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.words.runs import human_duration
    from kajitori.client.lookup import find_run
    from kajitori.client.web_api import run_path
    from kajitori.core.formats.quantities import round_memory
    from kajitori.core.telemetry.processes import processor_time

    with cli.api() as api:
        answer = api.get(run_path(find_run(api, run, namespace), "/processes"), {"rank": rank})
    if output is not None:
        print_document({"items": answer["items"]}, output)
        return 0
    columns = [Column("PID", right=True), Column("PPID", right=True), Column("CPU TIME", right=True)]
    columns += [Column("MEMORY", right=True), Column("AGE"), Column("COMMAND", flexible=True)]
    rows = [
        (
            str(process["pid"]),
            str(process["ppid"]),
            processor_time(process["cpuSeconds"]),
            round_memory(process["memoryBytes"]),
            human_duration(process["ageSeconds"]),
            process["command"],
        )
        for process in answer["items"]
    ]
    print_table(cli, columns, rows)
    return 0
