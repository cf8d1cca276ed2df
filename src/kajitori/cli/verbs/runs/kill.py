"""`kaji kill`: end runs at once, or send their programs a signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_or_all_argument, server_options

_STOPS = {"TERM": "TERM", "15": "TERM", "INT": "TERM", "2": "TERM", "QUIT": "TERM", "3": "TERM"}
_ENDS = {"KILL": "KILL", "9": "KILL", **_STOPS}
"""Signals that end a run unless `--rank` is given, by what they stand for."""


@click.command(
    epilog="\b\nExamples:\n  kaji kill bert gpt\n  kaji kill -s USR1 bert             # to the program of each member\n"
    "  kaji kill -s KILL --rank 3 bert    # one member fails, as in a test of restarts"
)
@runs_or_all_argument("All of your runs that have not ended.")
@click.option("-s", "--signal", metavar="SIGNAL", default="KILL", help="KILL ends the run; TERM, INT, QUIT: kaji stop.")
@click.option("--rank", "--index", "ranks", metavar="R[-S]", help="Send it to the programs of these ranks only.")
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(
    cli: Cli, runs: tuple[str, ...], everything: bool, signal: str, ranks: str | None, namespace: str | None
) -> int:
    """End runs at once, or send their programs a signal.

    Without -s members have one second between SIGTERM and SIGKILL, even if `kaji stop` gave them more; checkpoints are
    kept. Other signals, such as USR1, go to the first process of each member, and the run goes on: a program that ends
    by one has ended by itself. Prints each name.
    """
    from kajitori.cli.many import all_of_mine, for_each
    from kajitori.client.web_api import run_path
    from kajitori.errors import InvalidInput

    name = signal.upper().removeprefix("SIG")
    end = _ENDS.get(name) if ranks is None else None
    with cli.api() as api:

        def act(view: dict[str, Any]) -> None:
            if end is not None:
                api.post(run_path(view, "/stop"), {"grace": "0s"} if end == "KILL" else {}, uid=view["uid"])
                return
            body = {"signal": _name_of(name)} | ({"ranks": ranks} if ranks else {})
            try:
                answer = api.post(run_path(view, "/signal-programs"), body, uid=view["uid"])
            except InvalidInput as error:
                raise error.renamed({"signal": "--signal", "ranks": "--rank"}) from None
            _check(view["name"], answer)

        found = all_of_mine(api, namespace, {"active": True}) if everything else None
        return for_each(api, runs, namespace, act, everything=found)


def _name_of(name: str) -> str:
    """Return the name of a signal that was given by its number; another one as it is."""
    import signal
    from contextlib import suppress

    with suppress(ValueError):
        return signal.Signals(int(name)).name.removeprefix("SIG")
    return name


def _check(run: str, answer: Mapping[str, Any]) -> None:
    """Say which members ignore the signal. Raises WrongState if a program did not get it."""
    from kajitori.cli.terminal import say
    from kajitori.core.formats.node_lists import compress_ranks
    from kajitori.errors import WrongState

    name, items = answer["signal"], answer["items"]
    if ignoring := [item["rank"] for item in items if item.get("ignored")]:
        why = "it is the first process of its container and has no handler for it"
        say(f"note: the program of rank {compress_ranks(ignoring)} of {run} ignores {name}: {why}")
    if failed := [item for item in items if item.get("error")]:
        ranks = compress_ranks([item["rank"] for item in failed])
        message = f"rank {ranks} of {run} did not get {name}: {failed[0]['error']}"
        raise WrongState(message, hint=f"see what runs there: kaji top --rank {failed[0]['rank']} {run}")
