"""`kaji ssh-config`: members as hosts of OpenSSH."""

from __future__ import annotations

from pathlib import Path

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import server_options


@click.command(
    "ssh-config",
    epilog="\b\nExamples:\n  kaji ssh-config\n  ssh bert.kaji\n  rsync -a bert.kaji:/ckpt/ ckpt/\n"
    "  code --remote ssh-remote+bert.kaji /work",
)
@click.option("--print", "print_only", is_flag=True, help="Print the configuration, and write nothing.")
@click.option("--remove", is_flag=True, help="Remove what an earlier call wrote.")
@server_options
@click.pass_obj
def command(cli: Cli, print_only: bool, remove: bool) -> None:
    """Let ssh, scp, rsync and editors reach members as hosts.

    RUN.kaji is rank 0 of a run, 3.RUN.kaji is rank 3, RUN.NAMESPACE.kaji is a run of another namespace. The
    configuration is a file of its own, which ~/.ssh/config includes.
    """
    from kajitori.cli.ssh.configuration import SshFolder, home_of_account
    from kajitori.cli.terminal import echo, say
    from kajitori.cli.verbs.members.ssh import proxy_command
    from kajitori.errors import KajitoriError

    if print_only and remove:
        raise click.UsageError("--print and --remove exclude each other")
    folder = SshFolder(Path.home())
    try:
        if print_only:
            folder.make_key()
            echo(folder.text(proxy_command(cli)).rstrip("\n"))
        elif remove:
            say("Removed." if folder.remove() else "There was nothing to remove.")
        else:
            changed = folder.install(proxy_command(cli))
            say(f"Wrote {folder.configuration}{f', which {folder.main} now includes' if changed else ''}.")
            is_read = home_of_account() == Path.home()
            say(
                "Try: ssh RUN.kaji"
                if is_read
                else f"OpenSSH reads it only if you name it: ssh -F {folder.main} RUN.kaji"
            )
    except OSError as error:
        raise KajitoriError(f"{error.filename} can't be written: {error.strerror}") from error
