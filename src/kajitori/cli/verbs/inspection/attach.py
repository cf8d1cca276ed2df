"""`kaji attach`: follow an existing run."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, run_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji attach bert")
@run_argument
@click.option("--rank", "--index", "rank", type=click.IntRange(min=0), metavar="R", help="This member's log only.")
@click.option("--all-ranks", is_flag=True, help="The logs of all members, up to 256.")
@click.option("--no-stdin", is_flag=True, help="Follow the log, although the run has standard input.")
@click.option(
    "--detach-keys", default="ctrl-p,ctrl-q", metavar="KEYS", help="Keys that detach; default: ctrl-p,ctrl-q."
)
@click.option("-q", "--quiet", is_flag=True, help="No notes and no progress.")
@namespace_option()
@server_options
@click.pass_obj
def command(
    cli: Cli,
    run: str,
    rank: int | None,
    all_ranks: bool,
    no_stdin: bool,
    detach_keys: str,
    quiet: bool,
    namespace: str | None,
) -> int:
    """Follow a run from now to its end.

    Ends with the run's exit code, as `kaji run` does. A run that was started with -i gets this command's input and
    terminal; Ctrl-P Ctrl-Q detaches. Ctrl-C leaves other runs alone. For a shell beside the program: kaji exec -it RUN
    bash.
    """
    from kajitori.cli.follow.attached import attach_to_the_end
    from kajitori.cli.follow.follow import Follower, follow_to_the_end
    from kajitori.cli.follow.interrupts import Signals
    from kajitori.client.lookup import find_run
    from kajitori.client.members.detach_keys import detach_keys_of
    from kajitori.client.views import is_final, phase_of
    from kajitori.errors import WrongState

    if rank is not None and all_ranks:
        raise click.UsageError("--rank and --all-ranks exclude each other")
    keys = detach_keys_of(detach_keys)
    with cli.api() as api:
        view = find_run(api, run, namespace)
        if is_final(view):
            name = view["name"]
            raise WrongState(f"{name} is {phase_of(view)}", hint=f"what it printed: kaji logs {name}")
        if (view.get("spec") or {}).get("stdin") and not no_stdin:
            return attach_to_the_end(cli, api, view, keys=keys, from_start=False, quiet=quiet, remove=False)
    with cli.api() as api, Signals() as signals:
        follower = Follower(cli, api, view, rank=rank, all_ranks=all_ranks, quiet=quiet, from_now=True)
        return follow_to_the_end(cli, api, follower, signals, remove=False, stops=False)
