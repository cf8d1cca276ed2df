"""`kaji tensorboard`: TensorBoard beside a run's program, opened in the browser."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from importlib.resources import files as package_files
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, rank_option, server_options
from kajitori.cli.terminal import write_as_is

if TYPE_CHECKING:
    from kajitori.client.views import View

NOT_INSTALLED = 127
USUAL_PORT = 6006
_LISTENS = re.compile(rb"at http://\S*:(\d+)/")
"""TensorBoard prints this once it listens."""
_LONGEST_LINE_BYTES = 4096


@click.command(
    epilog="\b\nExamples:\n  kaji tensorboard bert\n  kaji tensorboard bert --logdir /ckpt/events --port 6007",
)
@click.argument("run")
@click.option("--logdir", metavar="PATH", help="Folder with event files; default: that of kaji run --tensorboard.")
@click.option(
    "--port", type=click.IntRange(1, 65_535), help="Port to listen on; default: the first free one from 6006."
)
@rank_option("The member that has the files; rank 0 by default.")
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open no browser.")
@namespace_option()
@server_options
@click.pass_obj
def command(
    cli: Cli, run: str, logdir: str | None, port: int | None, rank: int, print_only: bool, namespace: str | None
) -> int:
    """Show a run in TensorBoard, until Ctrl-C.

    TensorBoard runs inside a member of a running run, whose image must have it, and reads the event files there. For a
    run that has ended, the files are copied from its checkpoint folder, and the TensorBoard of this machine shows them.
    """
    from kajitori.cli.connection import own_board
    from kajitori.cli.opening import open_address
    from kajitori.client.lookup import find_run
    from kajitori.client.views import is_final, phase_of
    from kajitori.errors import WrongState

    with cli.api() as api:
        view = find_run(api, run, namespace)
        name, spec = view["name"], view["spec"]
        folder = logdir or spec.get("tensorboard")
        if not folder:
            hint = f"name the folder: kaji tensorboard {name} --logdir PATH"
            raise WrongState(f"{name} names no folder with event files", hint=hint)
        if is_final(view):
            tell = partial(open_address, cli, print_only=print_only)
            path = cli.environment.get("PATH")
            return own_board.show_here(api, view, folder, port or USUAL_PORT, path=path, tell=tell, sleep=cli.sleep)
        if phase_of(view) != "Running":
            hint = f"kaji metrics {name} plots what was read; try again when it runs"
            raise WrongState(f"{name} is {phase_of(view)}: no member of it runs", hint=hint)
    return _show_in_member(cli, view, folder, port, rank, print_only=print_only)


def _show_in_member(cli: Cli, view: View, folder: str, port: int | None, rank: int, *, print_only: bool) -> int:
    """Start TensorBoard in a member, and open it once it listens. Returns its exit code."""
    from kajitori.cli.connection.execution import execute
    from kajitori.cli.opening import open_place, program_path
    from kajitori.errors import WrongState

    def open_at(port: int) -> None:
        place = program_path(view, f"{port}-{rank}" if rank else str(port))
        with cli.api() as api:
            open_place(cli, api, place, print_only=print_only, is_program=True)

    script = package_files("kajitori.member").joinpath("tensorboard.sh").read_text()
    words = ["/bin/sh", "-c", script.strip(), "sh", folder, str(port or "")]
    stderr = cast("BinaryIO", _Stderr(open_at))
    held, holding = os.pipe()  # stdin of the script, which ends when this process does
    try:
        code = execute(cli.find_target(), view, words, rank=rank, stdin=held, stderr=stderr, debug=cli.debug)
    finally:
        os.close(holding)
    if code == NOT_INSTALLED:
        message = f"TensorBoard is not installed in {view['spec']['image']}"
        where = f"--rank {rank} {view['name']}" if rank else view["name"]
        raise WrongState(message, hint=f"kaji exec {where} python3 -m pip install tensorboard")
    return code


class _Stderr:
    """Passes on what TensorBoard writes, and calls `listens` with its port once TensorBoard has printed it."""

    def __init__(self, listens: Callable[[int], None]) -> None:
        self._listens: Callable[[int], None] | None = listens
        self._end = b""

    def write(self, data: bytes) -> int:
        write_as_is(data, err=True)
        self._end = (self._end + data)[-_LONGEST_LINE_BYTES:]
        if self._listens and (found := _LISTENS.search(self._end)):
            listens, self._listens = self._listens, None
            listens(int(found[1]))
        return len(data)

    def flush(self) -> None:
        """Each write is passed on at once."""
