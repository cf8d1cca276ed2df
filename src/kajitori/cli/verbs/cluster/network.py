"""`kaji network`: the owners of address ranges, and the scripts for hubs and NAT hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_file, namespace_option, output_option, read_file, server_options
from kajitori.cli.terminal import echo, echo_data, say

if TYPE_CHECKING:
    from kajitori.cli.network.check import Found
    from kajitori.core.network.hubs.probes import Place
    from kajitori.core.network.registry.model import Networks


@click.group(epilog="\b\nExamples:\n  kaji network ls\n  kaji network ls 10.16.3.4    # whose is it?")
def command() -> None:
    """Show what every address belongs to."""


@command.command(epilog="\b\nExamples:\n  kaji network ls\n  kaji network ls 10.16.3.4")
@click.argument("address", metavar="[ADDRESS]", required=False)
@output_option("json", "yaml")
@server_options
@click.pass_obj
def ls(cli: Cli, address: str | None, output: str | None) -> None:
    """List the ranges of every cluster, and how each is reached from outside of it.

    With an ADDRESS only those that it lies in, as its cluster uses it or as it is seen from outside.
    """
    from kajitori.cli.printing.output import print_document

    with cli.api() as api:
        view = api.get("/v1/networks")
    if address is not None:
        view["ranges"] = _ranges_around(view["ranges"], address)
    if output is not None:
        print_document(view, output)
        return
    if view["faults"]:
        say(f"{view['path']} is faulty; this older registry stays in force:")
        for fault in view["faults"]:
            say(f"  {fault['field']}: {fault['message']}")
    if view["ranges"]:
        _print_ranges(cli, view["ranges"])
    elif address is not None and view["path"]:
        echo(f"{address} is in no range of {view['path']}.")
    else:
        echo("No addresses are registered: the server was started without --networks.")
    if address is None:
        for finding in view["findings"]:
            say(f"note: {finding['message']}")


def _ranges_around(ranges: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the ranges that contain an address."""
    from ipaddress import ip_address, ip_network

    from kajitori.errors import InvalidInput

    try:
        address = ip_address(text)
    except ValueError:
        message = f"{text!r:.80} is not an address"
        raise InvalidInput.one("ADDRESS", message, value=text, hint="write one such as 10.16.3.4") from None
    return [
        used
        for used in ranges
        if any(address in ip_network(cidr) for cidr in (used["cidr"], used.get("public")) if cidr)
    ]


def _print_ranges(cli: Cli, ranges: list[dict[str, Any]]) -> None:
    from kajitori.cli.printing.output import Column, print_table

    columns = [Column("CLUSTER"), Column("WHAT"), Column("RANGE"), Column("ADDRESSES", right=True)]
    columns += [Column("FROM OUTSIDE"), Column("THROUGH", flexible=True)]
    rows = []
    for used in ranges:
        through = ", ".join(used.get("via") or ())
        if used.get("natHost"):
            through = f"{used['natHost']} ({through})"
        outside = "not reached" if used["kind"] == "services" else "as it is"
        row = [used.get("cluster") or "-", used["kind"], used["cidr"], _count(used["cidr"])]
        rows.append([*row, used.get("public") or outside, through])
    print_table(cli, columns, rows)


def _count(cidr: str) -> str:
    from ipaddress import ip_network

    network = ip_network(cidr)
    bits = network.max_prefixlen - network.prefixlen
    return f"{network.num_addresses:,}" if bits <= 32 else f"2^{bits}"


@command.command(epilog="\b\nExample:\n  kaji network forecast")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def forecast(cli: Cli, output: str | None) -> None:
    """Tell when this cluster's addresses run out.

    Extends the trend of the last 90 days of each range that is in use. Two weeks of history are needed.
    """
    from kajitori.cli.printing.output import Column, print_document, print_table

    with cli.api() as api:
        view = api.get("/v1/networks/forecast")
    if output is not None:
        print_document(view, output)
        return
    if not view["items"]:
        echo("No range of the registry, and no node's own range, is in use.")
        return
    columns = [Column("RANGE"), Column("OF"), Column("USED", right=True), Column("A DAY", right=True)]
    columns += [Column("RUNS OUT"), Column("95 %", flexible=True)]
    rows = []
    for pool in view["items"]:
        unit = "" if pool["unit"] == "addresses" else " node ranges"
        used = f"{pool['used']:,} of {pool['capacity']:,}{unit}"
        per_day = f"{pool['perDay']:+.1f}" if pool.get("perDay") else ""
        rows.append([pool["cidr"] or "all nodes", pool["kind"], used, per_day, *_when_exhausted(pool)])
    print_table(cli, columns, rows)


def _when_exhausted(pool: dict[str, Any]) -> tuple[str, str]:
    """Return when a pool runs out, and the dates between which that is known with confidence."""
    if pool["state"] == "runs out":
        latest = pool["latest"][:10] if pool.get("latest") else "more than ten years"
        return pool["at"][:10], f"{pool['earliest'][:10]} to {latest}"
    known = pool["daysKnown"]
    words = {
        "full": "now: none is left",
        "far": "not in ten years",
        "not growing": "not growing",
        "too little history": f"not known yet: {known} of 14 days recorded",
    }
    return words.get(pool["state"], pool["state"]), ""


@command.command(epilog="\b\nExample:\n  kaji network validate networks.yaml")
@click.argument("file", metavar="FILE", shell_complete=complete_file)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if the file is right.")
def validate(file: str, quiet: bool) -> None:
    """Check a file of addresses; needs no server.

    Names every fault at once, with its line, and what may be a mistake; `-` reads stdin.
    """
    from kajitori.core.network.registry.findings import findings

    networks = read_networks(file)
    if quiet:
        return
    for finding in findings(networks):
        say(f"note: {finding.field}: {finding.message}")
    echo(f"{file} is a registry without faults.")


@command.command(
    epilog="\b\nExamples:\n  kaji network render hub networks.yaml | ssh root@hub sh\n"
    "  kaji network render nat networks.yaml --host nat-1 | ssh root@nat-1 sh"
)
@click.argument("what", metavar="hub|nat", type=click.Choice(("hub", "nat")))
@click.argument("file", metavar="FILE", shell_complete=complete_file)
@click.option("--host", metavar="NAME", help="One of natHosts; not needed if there is only one.")
@click.option("--rules", is_flag=True, help="Only the rules, for nft -f.")
def render(what: str, file: str, host: str | None, rules: bool) -> None:
    """Write the script that makes a machine a hub or a NAT host.

    A hub routes researchers to every cluster and keeps clusters apart. A NAT host makes Services reachable from
    outside, each at its own public address. The script sets nftables rules in a table of our own, routes, and
    forwarding. Run it as root, again after each change of the file; running it twice changes nothing. What is dropped
    is counted by name: nft list counters table inet kajitori_hub (kajitori_nat).
    """
    from kajitori.core.network.hubs.render import render_hub, render_nat
    from kajitori.errors import InvalidInput

    if what == "hub" and host is not None:
        raise InvalidInput.one("--host", "there is one hub only", value=host, hint="leave it out")
    networks = read_networks(file)
    rendered = render_hub(networks) if what == "hub" else render_nat(networks, host)
    echo_data(rendered.rules if rules else rendered.script())


@command.command(
    epilog="\b\nExamples:\n  kaji network check                     # with the registry of the server\n"
    "  kaji network check networks.yaml --from hub"
)
@click.argument("file", metavar="[FILE]", required=False, shell_complete=complete_file)
@click.option(
    "--from",
    "place",
    metavar="PLACE",
    help="researchers, hub, a NAT host or a cluster; default: found by this machine's addresses.",
)
@click.option(
    "--wait",
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait for an answer before a connection counts as blocked.",
)
@output_option("json", "yaml")
@server_options
@click.pass_obj
def check(cli: Cli, file: str | None, place: str | None, wait: float, output: str | None) -> int:
    """Check from here which connections pass and which do not.

    Tries to connect to the probes of every cluster and to its API server's Service, and shows what was expected, what
    was found, and its own address. On the hub and on NAT hosts it also compares rules, routes and forwarding with what
    was rendered, and shows what was dropped. Exits with 1 if anything is not as expected.
    """
    from dataclasses import asdict

    from kajitori.cli.network.check import dropped, look_at_host, rendered_for, try_all
    from kajitori.cli.printing.output import print_document
    from kajitori.core.network.hubs.probes import place_named, probes
    from kajitori.errors import InvalidInput

    if not 0 < wait <= 60:
        raise InvalidInput.one("--wait", f"{wait:g} seconds", value=f"{wait:g}", hint="above 0, at most 60")
    networks = read_networks(file) if file is not None else _registry_of_server(cli)
    position = place_named(networks, place) if place is not None else _own_place(networks)
    tries = probes(networks, position)
    rendered = rendered_for(networks, position)
    if not tries and rendered is None:
        hint = "name addresses that answer under probes of each cluster"
        raise InvalidInput.one("clusters", "there is nothing to try", hint=hint)
    found = [*(look_at_host(rendered) if rendered is not None else ()), *try_all(tries, wait)]
    wrong = sum(not check.right for check in found)
    refused = dropped(rendered) if rendered is not None else {}
    if output is not None:
        items = [asdict(check) for check in found]
        document = {"from": {"kind": position.kind, "name": position.name}, "right": not wrong, "items": items}
        print_document(document | {"dropped": refused}, output)
    else:
        _print_found(cli, str(position), found, wrong)
        for name, packets in refused.items():
            echo(f"Dropped since the rules came: {packets:,} {name}")
    return 1 if wrong else 0


def _own_place(networks: Networks) -> Place:
    """Return the place of this machine in the registry. Raises InvalidInput if the registry does not know it."""
    from kajitori.cli.network.check import own_addresses
    from kajitori.core.network.hubs.probes import landmarks, place_of
    from kajitori.errors import InvalidInput

    own = own_addresses(landmarks(networks))
    position = place_of(networks, own)
    if position.kind == "elsewhere" and networks.clusters:
        addresses = ", ".join(sorted(str(address) for address in own)) or "none that leads to a cluster"
        message = f"the registry does not know where this is (own addresses: {addresses})"
        raise InvalidInput.one("--from", message, hint="name it; from elsewhere nothing may be reached")
    return position


@command.command(
    epilog="\b\nExamples:\n  kaji network bench                     # two nodes that are ready\n"
    "  kaji network bench gpu-00001 gpu-00002 --streams 4"
)
@click.argument("source", metavar="[NODE", required=False)
@click.argument("target", metavar="NODE]", required=False)
@click.option("--seconds", default=5.0, show_default=True, metavar="N", help="Duration of each measurement.")
@click.option("--streams", type=click.IntRange(1, 64), default=1, show_default=True, help="Connections at once.")
@click.option("--cpus", default="1", show_default=True, metavar="N", help="Cores at each end.")
@click.option("--wait", default=180.0, show_default=True, metavar="SECONDS", help="Longest wait for room on the nodes.")
@namespace_option("Namespace of the runs.")
@output_option("json", "yaml")
@server_options
@click.pass_obj
def bench(cli: Cli, /, source: str | None, target: str | None, output: str | None, **how: Any) -> None:
    """Measure the throughput between two nodes.

    Runs at both ends send TCP from the first node to the second, and find the largest packet that passes whole: as
    Pods, and on the nodes' own network if policy lets runs use it. They have policy's image (start.image), need
    python3 in it, and are deleted afterwards. One stream may be bound by a core rather than by the network.
    """
    from dataclasses import asdict

    from kajitori.cli.network.bench import Bench, Wish, conclusions
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.errors import InvalidInput

    if source is not None and target is None:
        raise InvalidInput.one("NODE", "one node, but a way has two ends", hint="name another, or the same one again")
    if not 0 < how["seconds"] <= 60:
        raise InvalidInput.one("--seconds", f"{how['seconds']:g} seconds", hint="above 0, at most 60")
    nodes = (source, target) if source is not None and target is not None else ()
    wish = Wish(nodes, how["seconds"], how["streams"], how["cpus"], how["wait"])
    with cli.api() as api:
        found = Bench(api, how["namespace"], say).measure(wish)
    if output is not None:
        items = [{_to_camel_case(name): value for name, value in asdict(check).items()} for check in found]
        print_document({"items": items, "conclusions": conclusions(found)}, output)
        return
    columns = [Column("WHAT"), Column("FROM"), Column("TO"), Column("THROUGHPUT", right=True)]
    columns += [Column("PATH MTU", right=True)]
    rows = [
        [check.kind, check.source, check.target, f"{check.bits_per_second / 1e9:.2f} Gbit/s", str(check.mtu or "-")]
        for check in found
    ]
    print_table(cli, columns, rows)
    for line in conclusions(found):
        echo(line)


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _registry_of_server(cli: Cli) -> Networks:
    from kajitori.core.network.registry.parsing import parse_networks
    from kajitori.errors import InvalidInput

    with cli.api() as api:
        view = api.get("/v1/networks")
    if not view["ranges"]:
        hint = "name a FILE, or start the server with --networks"
        raise InvalidInput.one("FILE", "the server has no registry of addresses", hint=hint)
    return parse_networks(view["networks"])


def _print_found(cli: Cli, here: str, found: list[Found], wrong: int) -> None:
    from kajitori.cli.printing.output import Column, print_table

    echo(f"By the registry this is {here}.")
    echo()
    columns = [
        Column("", styled=True),
        Column("WHERE"),
        Column("WHAT"),
        Column("EXPECTED"),
        Column("FOUND", flexible=True),
    ]
    rows = [
        ["right" if check.right else "WRONG", check.where, check.what, check.expected, check.found] for check in found
    ]
    print_table(cli, columns, rows)
    echo()
    echo(
        f"{wrong} of {len(found)} are not as they have to be." if wrong else f"All {len(found)} are as they have to be."
    )


def read_networks(file: str) -> Networks:
    """Return the registry in a file; `-` is stdin. Raises InvalidInput."""
    from kajitori.core.network.registry.parsing import parse_networks

    return parse_networks(read_file(file))
