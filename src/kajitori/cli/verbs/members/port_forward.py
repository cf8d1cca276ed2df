"""`kaji port-forward`: ports of a member on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, rank_option, run_argument, server_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kajitori.cli.connection.forwarding import Forward
    from kajitori.client.views import View


_LOOPBACK = "127.0.0.1"
_POLL_SECONDS = 1.0


@click.command(
    "port-forward",
    epilog="\b\nExamples:\n  kaji port-forward web 8888           # http://127.0.0.1:8888\n"
    "  kaji port-forward web 9000:80 :5432  # local 9000, and any free port",
)
@run_argument
@click.argument("ports", nargs=-1, metavar="[[LOCAL:]PORT]...")
@rank_option()
@click.option(
    "--address",
    default=_LOOPBACK,
    metavar="ADDRESS",
    help="Address of this machine to listen on; default: 127.0.0.1.",
)
@namespace_option()
@server_options
@click.pass_obj
def command(cli: Cli, run: str, ports: tuple[str, ...], rank: int, address: str, namespace: str | None) -> int:
    """Make ports of a member reachable on this machine.

    Connections to LOCAL lead to PORT at localhost of the member. Without LOCAL it is the same number; `:PORT` takes any
    local port that is free. Without ports, those that `kaji run -p` named, or that of a notebook. It lasts until Ctrl-C
    or the run's end, and survives restarts of the run and of the server. Use an `--address` of the network only if
    everybody there may connect. For a notebook, the link with its token is printed.
    """
    from kajitori.cli.connection.forwarding import Forward, Forwarder, forward_until_end
    from kajitori.cli.terminal import say
    from kajitori.cli.words.runs import require_member
    from kajitori.client.lookup import find_run
    from kajitori.client.views import is_final, phase_of
    from kajitori.errors import InvalidInput, WrongState

    with cli.api() as api:
        view: View = find_run(api, run, namespace)
    name = view["name"]
    if is_final(view):
        raise WrongState(
            f"{name} is {phase_of(view)}: nothing listens there", hint=f"start it again: kaji resume {name}"
        )
    require_member(view, rank, "--rank")
    forwards = _ports_to_forward(view, ports)
    secret = _notebook_link(cli, view) if rank == 0 else None
    if secret is not None and not ports and not forwards:
        forwards = [Forward(secret["port"], secret["port"])]
    if not forwards:
        hint = f"name one: kaji port-forward {name} 8888"
        raise InvalidInput.one("PORT", f"{name} publishes no port", hint=hint)
    if cli.find_target().is_local and address == _LOOPBACK and any(map(_is_same, forwards)):
        view = _wait_until_it_runs(cli, view)
        secret = secret or (_notebook_link(cli, view) if rank == 0 else None)
        if _shares_network(cli, view, rank):
            forwards = _without_own(view, forwards, has_token=secret is not None)
            if not forwards:
                return 0
    if phase_of(view) != "Running":
        say(f"{name} is {phase_of(view)}; connections fail until it runs")

    def find() -> Any:
        cli.target = None
        return cli.find_target()

    forward_until_end(cli.api, Forwarder(find, view, rank, say), view, forwards, address, secret)
    return 0


def _is_same(forward: Forward) -> bool:
    return forward.local == forward.remote


def _wait_until_it_runs(cli: Cli, view: View) -> View:
    """Return the view of a run that runs: on a `kaji up` its program may need the very port of this machine that would
    be taken from it. Raises WrongState if it ends before."""
    from kajitori.cli.terminal import say
    from kajitori.client.views import is_final, phase_of
    from kajitori.client.web_api import run_path
    from kajitori.errors import WrongState

    explained = False
    while phase_of(view) != "Running":
        if is_final(view):
            raise WrongState(f"{view['name']} is {phase_of(view)}: nothing listens there")
        if not explained:
            say(f"{view['name']} is {phase_of(view)}; waits until it runs")
            explained = True
        cli.sleep(_POLL_SECONDS)
        with cli.api() as api:
            view = api.get(run_path(view))
    return view


def _without_own(view: View, forwards: Sequence[Forward], *, has_token: bool) -> list[Forward]:
    """Return what is left to forward of a member that listens on this machine itself, and say where it does. The link
    of a notebook comes with a forward, so it gets another local port."""
    from kajitori.cli.terminal import say

    if has_token:
        return [replace(forward, local=0) if _is_same(forward) else forward for forward in forwards]
    for forward in filter(_is_same, forwards):
        say(
            f"{view['name']} listens on this machine itself, so nothing is forwarded: http://{_LOOPBACK}:{forward.local}"
        )
    return [forward for forward in forwards if not _is_same(forward)]


def _shares_network(cli: Cli, view: View, rank: int) -> bool:
    """Return whether the member listens on this machine itself, as on a `kaji up` without networks of members."""
    from kajitori.client.views import has_network_of_this_machine
    from kajitori.client.web_api import run_path

    if not cli.find_target().is_local:
        return False
    with cli.api() as api:
        members = api.all_items(run_path(view, "/members"))
    return any(member["rank"] == rank and has_network_of_this_machine(member) for member in members)


def _notebook_link(cli: Cli, view: View) -> View | None:
    """Return port, path and token of a running notebook; None for other runs and for notebooks without a token."""
    from kajitori.client.views import phase_of
    from kajitori.client.web_api import run_path
    from kajitori.errors import NotFound, Unavailable, WrongState

    if view["spec"].get("type") != "notebook" or phase_of(view) != "Running":
        return None
    try:
        with cli.api() as api:
            found: View = api.get(run_path(view, "/notebook"))
    except (NotFound, Unavailable, WrongState):  # NotFound: an older server
        return None
    return found


def _ports_to_forward(view: View, ports: Sequence[str]) -> list[Forward]:
    """Return the ports to forward: if none are named here, those of the run. Raises InvalidInput with all faults."""
    from kajitori.cli.connection.forwarding import Forward
    from kajitori.errors import Fault, FieldError, InvalidInput

    texts = [*ports] or [str(port) for port in (view.get("spec") or {}).get("ports") or ()]
    found, faults = [], []
    for text in texts:
        try:
            found.append(Forward.parse(text))
        except FieldError as error:
            faults.append(Fault("PORT", error.message, text, error.hint))
    if faults:
        raise InvalidInput(faults)
    return found
