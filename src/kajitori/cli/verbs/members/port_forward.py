"""`kaji port-forward`: ports of a member on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, run_argument, server_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kajitori.cli.connection.forwarding import Forward
    from kajitori.client.views import View


@click.command(
    "port-forward",
    epilog="\b\nExamples:\n  kaji port-forward web 8888           # http://127.0.0.1:8888\n"
    "  kaji port-forward web 9000:80 :5432  # local 9000, and any free port",
)
@run_argument
@click.argument("ports", nargs=-1, metavar="[[LOCAL:]PORT]...")
@click.option(
    "--rank", "--index", "rank", type=click.IntRange(min=0), default=0, metavar="R", help="Rank of the member."
)
@click.option(
    "--address",
    default="127.0.0.1",
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
    from kajitori.cli.connection.forwarding import Forwarder, forward_until_end
    from kajitori.cli.terminal import say
    from kajitori.client.lookup import find_run
    from kajitori.client.views import is_final, phase_of
    from kajitori.errors import InvalidInput, WrongState

    with cli.api() as api:
        view = find_run(api, run, namespace)
    name = view["name"]
    if is_final(view):
        raise WrongState(
            f"{name} is {phase_of(view)}: nothing listens there", hint=f"start it again: kaji resume {name}"
        )
    secret = _notebook(cli, view) if rank == 0 else None
    if secret is not None and not ports and not view["spec"].get("ports"):
        # On this machine's own network the notebook itself has the port.
        ports = (f":{secret['port']}" if _shares_network(cli, view, rank) else str(secret["port"]),)
    forwards = _forwards(view, ports)
    if phase_of(view) != "Running":
        say(f"{name} is {phase_of(view)}; connections fail until it runs")

    def find() -> Any:
        cli.target = None
        return cli.find_target()

    try:
        forward_until_end(cli.api, Forwarder(find, view, rank, say), view, forwards, address, secret)
    except InvalidInput as error:
        same = [forward.remote for forward in forwards if forward.local == forward.remote]
        if same and _shares_network(cli, view, rank):
            hint = _open_directly(same, has_token=secret is not None)
            raise InvalidInput([replace(fault, hint=hint) for fault in error.faults]) from error
        raise
    return 0


def _shares_network(cli: Cli, view: View, rank: int) -> bool:
    """Return whether the member listens on this machine itself, as on a `kaji up` without networks of members."""
    from kajitori.client.views import has_network_of_this_machine
    from kajitori.client.web_api import run_path

    if not cli.find_target().is_local:
        return False
    with cli.api() as api:
        members = api.all_items(run_path(view, "/members"))
    return any(member["rank"] == rank and has_network_of_this_machine(member) for member in members)


def _open_directly(ports: Sequence[int], *, has_token: bool) -> str:
    shares = "the member shares this machine's network"
    if has_token:
        return f"{shares}: forward :{ports[0]}, which prints the notebook's link"
    return f"{shares}: open http://127.0.0.1:{ports[0]}, or forward :{ports[0]}"


def _notebook(cli: Cli, view: View) -> View | None:
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


def _forwards(view: View, ports: Sequence[str]) -> list[Forward]:
    """Return the ports to forward. Raises InvalidInput with all faults."""
    from kajitori.cli.connection.forwarding import Forward
    from kajitori.errors import Fault, FieldError, InvalidInput

    texts = [*ports] or [str(port) for port in (view.get("spec") or {}).get("ports") or ()]
    if not texts:
        hint = f"name one: kaji port-forward {view['name']} 8888"
        raise InvalidInput.one("PORT", f"{view['name']} publishes no port", hint=hint)
    found, faults = [], []
    for text in texts:
        try:
            found.append(Forward.parse(text))
        except FieldError as error:
            faults.append(Fault("PORT", error.message, text, error.hint))
    if faults:
        raise InvalidInput(faults)
    return found
