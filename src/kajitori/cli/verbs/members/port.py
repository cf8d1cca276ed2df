"""`kaji port`: where members of a run listen."""

from __future__ import annotations

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import namespace_option, output_option, run_argument, server_options


@click.command(epilog="\b\nExample:\n  kaji port web 8888")
@run_argument
@click.argument("port", required=False, metavar="[PORT]")
@namespace_option()
@output_option("json", "yaml")
@server_options
@click.pass_obj
def command(cli: Cli, run: str, port: str | None, namespace: str | None, output: str | None) -> None:
    """Show where members of a run listen.

    The ports that `kaji run -p` named, at each member's address, which is inside the cluster. `kaji port-forward` makes
    them reachable on this machine.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.terminal import echo, say
    from kajitori.client.lookup import find_run
    from kajitori.client.views import has_network_of_this_machine
    from kajitori.client.web_api import run_path
    from kajitori.errors import NotFound, WrongState

    with cli.api() as api:
        view = find_run(api, run, namespace)
        members = api.all_items(run_path(view, "/members"))
    name, ports = view["name"], (view.get("spec") or {}).get("ports") or []
    if not ports:
        raise NotFound(f"{name} publishes no port", hint="a run publishes its ports with kaji run -p PORT")
    wanted = [port_number for port_number in ports if port in (None, str(port_number), f"{port_number}/tcp")]
    if not wanted:
        raise NotFound(f"{name} says nothing of port {port}", hint=f"it names {', '.join(map(str, ports))}")
    listening = [member for member in members if member.get("phase") == "Running" and member.get("address")]
    if not listening:
        raise WrongState(f"no member of {name} runs and has an address", hint=f"see kaji describe {name}")
    if output is not None:
        found = [
            {"rank": member["rank"], "address": member["address"], "port": number}
            for member in listening
            for number in wanted
        ]
        print_document({"items": found}, output)
        return
    for member in listening:
        who = f"rank {member['rank']}: " if len(members) > 1 else ""
        address = f"[{member['address']}]" if ":" in member["address"] else member["address"]
        for number in wanted:
            echo(f"{who}{number}/tcp -> {address}:{number}")
    if cli.find_target().is_local and all(map(has_network_of_this_machine, listening)):
        return  # the addresses above are of this machine
    say(f"from this machine: kaji port-forward {name} {' '.join(map(str, wanted))}")
