"""`kaji uninstall`: the parts go, users' data stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.process_options import kubeconfig_options
from kajitori.cli.terminal import echo, say
from kajitori.cli.verbs.platform.install import namespace_of_parts

if TYPE_CHECKING:
    from kajitori.entrypoints.installation.removing import Leftovers


@click.command(epilog="\b\nExample:\n  kaji uninstall")
@kubeconfig_options
@namespace_of_parts
@click.option("--delete-runs", is_flag=True, help="Also delete every run with its Pods, and the definition of runs.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def command(delete_runs: bool, yes: bool, **options: Any) -> int:
    """Remove an installation, and leave users' data.

    Runs, their checkpoints, policy and blobs stay; it says where. Pods of active runs continue, but nothing restarts
    them until Kajitori is installed again.
    """
    from kajitori.configuration.options.operators import InstallOptions

    settings = InstallOptions(**options)
    from kajitori.entrypoints.installation import removing

    if not yes:
        say(_question(removing.user_data(settings), delete_runs=delete_runs))
        if not click.confirm("Are you sure?", err=True):
            return 1
    stays = removing.uninstall(settings, say, delete_runs=delete_runs)
    echo("Kajitori is removed. What stays:")
    for document in stays:
        echo(f"  {document}")
    return 0


def _question(found: Leftovers, *, delete_runs: bool) -> str:
    from kajitori.cli.words.runs import plural

    count = f"{plural(found.runs, 'run')} ({found.active} active)"
    if delete_runs:
        return f"This deletes {count} with all Pods, and all parts of Kajitori."
    return (
        f"This removes all parts of Kajitori. What stays: {count}, which nothing restarts until it is installed again."
    )
