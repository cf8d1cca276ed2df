"""`kaji kill`: end runs at once, or send their programs a signal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, ranks_option, runs_or_all_argument, server_options

_ENDS = {"KILL": "KILL", "TERM": "TERM", "INT": "TERM", "QUIT": "TERM"}
"""Signals that end a run unless `--rank` is given, by what they stand for."""


@click.command(
    epilog="\b\nExamples:\n  kaji kill bert gpt\n  kaji kill -s USR1 bert             # to the program of each member\n"
    "  kaji kill -s KILL --rank 3 bert    # one member fails, as in a test of restarts"
)
@runs_or_all_argument("All of your runs that have not ended.")
@click.option("-s", "--signal", metavar="SIGNAL", default="KILL", help="KILL ends the run; TERM, INT, QUIT: kaji stop.")
@ranks_option("Send it to the programs of these ranks only, such as 3 or 0-3,7.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(
    cli: Cli, runs: tuple[str, ...], everything: bool, signal: str, ranks: tuple[int, ...], namespace: str | None
) -> int:
    """End runs at once, or send their programs a signal.

    Without -s members have one second between SIGTERM and SIGKILL, even if `kaji stop` gave them more; checkpoints are
    kept. Other signals, such as USR1, go to the first process of each member, and the run goes on: a program that ends
    by one has ended by itself. Prints each name.
    """
    from kajitori.cli.many import all_of_mine, for_each
    from kajitori.client.signals import signal_name, signal_programs
    from kajitori.client.web_api import run_path
    from kajitori.errors import InvalidInput

    name = signal_name(signal)
    end = None if ranks else _ENDS.get(name)
    with cli.api() as api:

        def act(view: dict[str, Any]) -> None:
            if end is not None:
                api.post(run_path(view, "/stop"), {"grace": "0s"} if end == "KILL" else {}, uid=view["uid"])
                return
            try:
                items = signal_programs(api, view, name, ranks)
            except InvalidInput as error:
                raise error.renamed({"signal": "--signal", "ranks": "--rank"}) from None
            _say_ignored(view["name"], name, items)

        found = all_of_mine(api, namespace, {"active": True}) if everything else None
        return for_each(api, runs, namespace, act, everything=found)


def _say_ignored(run: str, name: str, items: Sequence[Mapping[str, Any]]) -> None:
    """Say which members ignore the signal."""
    from kajitori.cli.terminal import say
    from kajitori.core.formats.node_lists import compress_ranks

    if ignoring := [item["rank"] for item in items if item.get("ignored")]:
        why = "it is the first process of its container and has no handler for it"
        say(f"note: the program of rank {compress_ranks(ignoring)} of {run} ignores {name}: {why}")
