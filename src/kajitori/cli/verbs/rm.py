"""`kaji rm`: delete runs."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, runs_argument, server_options


@click.command(epilog="\b\nExamples:\n  kaji rm bert\n  kaji rm -f -v bert    # even while it runs, checkpoint and all")
@runs_argument
@click.option("-f", "--force", is_flag=True, help="Runs that have not ended, too; a missing one is no error.")
@click.option("-v", "--volumes", is_flag=True, help="Remove the checkpoint with the run.")
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, runs: tuple[str, ...], force: bool, volumes: bool, namespace: str | None) -> int:
    """Delete runs.

    A run that has not ended is deleted with -f only. Its checkpoint outlives it unless -v is given. Prints each name.
    """
    from kajitori.cli.http import Api, run_path
    from kajitori.cli.many import for_each
    from kajitori.cli.words import is_final, phase_of
    from kajitori.errors import NotFound, WrongState

    def delete(api: Api, view: dict[str, Any]) -> None:
        if not force and not is_final(view):
            name = view["name"]
            raise WrongState(
                f"{name} is {phase_of(view)}", hint=f"stop it first: kaji stop {name}; or kaji rm -f {name}"
            )
        try:
            api.delete(run_path(view), {"checkpoint": volumes})
        except NotFound:
            if not force:
                raise

    with cli.api() as api:
        return for_each(api, runs, namespace, lambda view: delete(api, view), missing_is_fine=force)
