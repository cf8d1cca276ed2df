"""`kaji ssh`: OpenSSH's client into a member. The member's image needs no SSH server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, rank_option, run_argument, server_options
from kajitori.cli.terminal import say

if TYPE_CHECKING:
    from kajitori.cli.ssh.configuration import SshFolder


@click.command(
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    epilog="\b\nExamples:\n  kaji ssh bert\n  kaji ssh bert nvidia-smi\n"
    "  kaji ssh --rank 3 bert -L 6006:localhost:6006",
)
@run_argument
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SSH OPTIONS] [COMMAND]...")
@rank_option()
@click.option("--proxy", is_flag=True, help="For OpenSSH's client: serve SSH on stdin and stdout.")
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, run: str, words: tuple[str, ...], rank: int, proxy: bool, namespace: str | None) -> None:
    """Open a shell in a member with OpenSSH's client.

    Words after RUN are passed to ssh: options and a command. The image needs a shell, but no SSH server. To use ssh,
    scp, sftp, rsync or an editor by themselves: kaji ssh-config.
    """
    from kajitori.cli.ssh.configuration import Host, SshFolder, read_host
    from kajitori.client.lookup import find_run

    folder = SshFolder(Path.home())
    if proxy:
        _serve_host(cli, folder, run)
        return
    if shutil.which("ssh") is None:
        raise click.UsageError("OpenSSH's client is missing. Debian: apt-get install openssh-client")
    place = read_host(run) if run.endswith(".kaji") else Host(run, namespace or "", rank)
    with cli.api() as api:
        view = find_run(api, place.run, place.namespace or None)
    _make_key(folder)
    host = Host(view["name"], view["namespace"], place.rank)
    options = [word for name, value in folder.options(proxy_command(cli)) for word in ("-o", f"{name}={value}")]
    command = ["ssh", *options, host.name, *words]
    if sys.platform == "win32":  # whose exec returns to the shell at once
        sys.exit(subprocess.call(command))
    os.execvp("ssh", command)


def proxy_command(cli: Cli) -> list[str]:
    """Return the command by which OpenSSH's client starts the server for a host."""
    chosen = ["--cluster", str(cli.cluster)] if cli.cluster is not None else []
    return [sys.executable, "-P", "-m", "kajitori.cli", *chosen, "ssh", "--proxy"]


def _serve_host(cli: Cli, folder: SshFolder, name: str) -> None:
    """Serve SSH for a host until the client hangs up."""
    import asyncio
    from functools import partial

    from kajitori.cli.ssh.configuration import read_host
    from kajitori.cli.ssh.member import Member
    from kajitori.cli.ssh.serving import serve
    from kajitori.client.lookup import find_run

    host = read_host(name)
    with cli.api() as api:
        view = find_run(api, host.run, host.namespace or None)
    _make_key(folder)

    async def main() -> None:
        await serve(Member(cli.find_target(), view, host.rank), folder.key, 0, 1, partial(say, end="\r\n"))

    asyncio.run(main())


def _make_key(folder: SshFolder) -> None:
    from kajitori.errors import KajitoriError

    try:
        folder.make_key()
    except OSError as error:
        raise KajitoriError(f"{error.filename} can't be written: {error.strerror}") from error
