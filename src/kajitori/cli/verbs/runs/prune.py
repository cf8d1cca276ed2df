"""`kaji prune`: delete runs that have ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, seconds_of, server_options

_SHOWN = 10


@click.command(epilog="\b\nExamples:\n  kaji prune\n  kaji prune -f --older-than 7d")
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@click.option("--older-than", metavar="TIME", help="Only those that ended longer ago, such as 7d.")
@click.option("--filter", "filters", multiple=True, hidden=True)
@click.option("-v", "--volumes", is_flag=True, help="Remove their checkpoints, too.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the names are free.")
@namespace_option("Look in this namespace only.")
@done_option
@server_options
@click.pass_obj
def command(
    cli: Cli,
    force: bool,
    older_than: str | None,
    filters: tuple[str, ...],
    volumes: bool,
    no_wait: bool,
    namespace: str | None,
) -> int:
    """Delete your runs that have ended.

    Asks first, except with -f, which -o json needs. Their logs and results go with them, their checkpoints stay unless
    -v is given.
    """
    from kajitori.cli.many import Done, all_of_mine, delete_each
    from kajitori.cli.problems import is_json_wanted
    from kajitori.cli.terminal import say
    from kajitori.cli.words.runs import plural
    from kajitori.client.views import FINAL
    from kajitori.core.suggestions import first_few

    if is_json_wanted() and not force:
        raise click.UsageError("-o json asks nothing: add -f to delete without a question")
    for word in filters:  # docker prune's only filter that makes sense here
        key, _, older_than = word.partition("=")
        if key != "until":
            raise click.UsageError(f"--filter {word}: only until=TIME is known here, which is --older-than TIME")
    limit = cli.now() - timedelta(seconds=seconds_of(older_than, "--older-than")) if older_than is not None else None
    with cli.api() as api:
        found = all_of_mine(api, namespace, {"phase": sorted(FINAL)})
        found = [run for run in found if limit is None or _ended_before(run, limit)]
        if not found:
            say("there is nothing to delete")
            Done().finish()
            return 0
        if not force:
            names = first_few([run["name"] for run in found], _SHOWN)
            with_them = ", with their checkpoints" if volumes else ""
            say(f"This deletes {plural(len(found), 'run')}{with_them}: {names}")
            if not _is_sure():
                say("nothing was deleted")
                return 1
        return delete_each(api, (), None, everything=found, checkpoints=volumes, wait=not no_wait)


def _is_sure() -> bool:
    try:
        return click.confirm("Are you sure?", err=True)
    except click.Abort:  # stdin has ended, or Ctrl-C
        return False


def _ended_before(run: dict[str, Any], limit: datetime) -> bool:
    from kajitori.cli.words.runs import moment
    from kajitori.client.views import status_of

    ended = moment(status_of(run).get("finishedAt"))
    return ended is not None and ended < limit
