"""`kaji cp`: files into a member of a run, and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_copied, namespace_option, rank_option, server_options
from kajitori.errors import Unavailable

if TYPE_CHECKING:
    from kajitori.cli.connection.copying import Meter


@click.command(
    epilog="\b\nExamples:\n  kaji cp bert:/ckpt/last.pt .\n  kaji cp --rank 3 data/ bert:/tmp/data\n"
    "  kaji cp bert:/logs - | tar -x"
)
@click.argument("source", metavar="SOURCE", shell_complete=complete_copied)
@click.argument("target", metavar="TARGET", shell_complete=complete_copied)
@rank_option()
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, source: str, target: str, rank: int, namespace: str | None) -> int:
    """Copy files into a member of a run, or out of it.

    One of the two is RUN:PATH, the other a path here, or - for a tar archive. Names are as for docker cp. Needs tar in
    the image, and the right that `kaji exec` needs. A member's files go with it; a checkpoint or a volume stays. Of a
    run that has ended, files of its checkpoint can be copied; `kaji files` lists them.
    """
    from kajitori.cli.connection.copying import copy_checkpoint, copy_in, copy_out, read_place
    from kajitori.cli.connection.execution import execute
    from kajitori.cli.connection.folders import find_with_folder
    from kajitori.cli.terminal import say
    from kajitori.client.views import is_final

    there, here = read_place(source), read_place(target)
    if bool(there.run) == bool(here.run):
        what = "both are in runs" if there.run else "neither is in a run"
        raise click.UsageError(f"one of the two is RUN:PATH; {what} (write ./NAME for a path here with a colon)")
    with cli.api() as api:
        view = find_with_folder(api, there.run or here.run, namespace)
        try:
            with _meter(cli) as meter:
                if there.run and is_final(view):
                    return _say_left_out(copy_checkpoint(api, view, there.path, target, meter))
                copies = copy_in if here.run else copy_out
                run = partial(execute, cli.find_target(), view, rank=rank, debug=cli.debug)
                shell = f"kaji exec {f'--rank {rank} ' if rank else ''}{view['name']}"
                return _say_left_out(copies(run, there.path, here.path, meter, shell=shell))
        except (KeyboardInterrupt, Unavailable):
            if here.run:
                say(f"kaji: the copy was interrupted: {target} may be incomplete")
            raise


@contextmanager
def _meter(cli: Cli) -> Iterator[Meter]:
    """Show a person how much was copied, in a line that is taken away at the end."""
    from kajitori.cli.connection.copying import Meter
    from kajitori.cli.printing.output import StatusLine

    line: StatusLine | None = None

    def show(text: str) -> None:
        nonlocal line
        if cli.has_person:
            line = line or StatusLine(cli, text)
            line.update(text)

    try:
        yield Meter(show)
    finally:
        if line is not None:
            line.stop()


def _say_left_out(left_out: list[str]) -> int:
    from kajitori.cli.terminal import say

    for path in left_out[:10]:
        say(f"left out: {path}")
    if len(left_out) > 10:
        say(f"left out: {len(left_out) - 10} more")
    return 0
