"""`kaji plan`: whether a kind of network can carry a cluster, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options
from kajitori.cli.terminal import echo, heading

if TYPE_CHECKING:
    from kajitori.cli.printing.output import Column
    from kajitori.core.network.limits import Figure
    from kajitori.core.network.planning.plan import IpFamily, Plan, PlanRequest, Ranges, Stop
    from kajitori.core.network.use.nodes import NodeUse


@click.group(epilog="\b\nExample:\n  kaji plan network --nodes 7500 --pods-per-node 30")
def command() -> None:
    """Tell how large a cluster can become."""


@command.command(
    epilog="\b\nExamples:\n  kaji plan network --nodes 7500 --pods-per-node 30 --growth 2x/year\n"
    "  kaji plan network --from-cluster --growth +500/month\n"
    "  kaji plan network --nodes 1000 --compare\n"
    "  kaji plan network --nodes 30000 --pods-per-node 30 --ip-family ipv6"
)
@click.option("--nodes", type=int, metavar="N", help="Nodes.")
@click.option("--pods-per-node", type=int, metavar="N", help="Most Pods on a node.  [default: 110]")
@click.option(
    "--from-cluster", is_flag=True, help="Begin with the cluster's nodes; tell which of them run out of addresses."
)
@click.option(
    "--ip-family",
    type=click.Choice(["ipv4", "ipv6", "dual"]),
    help="Addresses that Pods have: of one family or of both.  [default: ipv4, or what the cluster's nodes have]",
)
@click.option("--growth", metavar="GROWTH", help="Growth of the number of nodes: 2x/year, 30%/year, +500/month.")
@click.option("--years", type=float, default=3.0, show_default=True, metavar="Y", help="Plan ranges that far ahead.")
@click.option(
    "--pod-prefix",
    type=int,
    metavar="LEN",
    help="Prefix length of the present range for Pods; tells when it is used up.",
)
@click.option(
    "--node-prefix",
    type=int,
    metavar="LEN",
    help="Prefix length of each node's range, if it can be chosen.  [default: 24]",
)
@click.option(
    "--pod-prefix6",
    type=int,
    metavar="LEN",
    help="Prefix length of the present IPv6 range for Pods; tells when it is used up.",
)
@click.option(
    "--node-prefix6",
    type=int,
    metavar="LEN",
    help="Prefix length of each node's IPv6 range, if it can be chosen.  [default: 64]",
)
@click.option(
    "--mtu", type=int, metavar="BYTES", help="Largest packet on the links between nodes; default: that of each cloud."
)
@click.option(
    "--gbit",
    "link_gbit",
    type=float,
    default=100.0,
    show_default=True,
    metavar="G",
    help="Speed of a node's link, in Gbit/s.",
)
@click.option("--compare", is_flag=True, help="Show how many nodes each kind of network carries, up to 100,000.")
@output_option("json", "yaml", "wide")
@server_options
@click.pass_obj
def network(
    cli: Cli,
    /,
    from_cluster: bool,
    compare: bool,
    growth: str | None,
    ip_family: IpFamily | None,
    output: str | None,
    **asked: Any,
) -> None:
    """Compare kinds of Pod networks for a cluster: native, route-based and overlay.

    Shows how many addresses each needs, which ranges, what limits it and when, and how much of a link is usable.
    Clouds' limits are those that they publish; `-o wide` names the page of each, and when it was read.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.core.network.planning.growth import NO_GROWTH, parse_growth
    from kajitori.core.network.planning.plan import PlanRequest, notes, plan_all
    from kajitori.core.network.use.nodes import NodeUse, usual_family

    present = _present_cluster(cli) if from_cluster else []
    uses = [NodeUse(node["name"], tuple(node["podCidrs"]), node["mostPods"], node["pods"]) for node in present]
    nodes, pods = _cluster_size(uses, from_cluster, asked.pop("nodes"), asked.pop("pods_per_node"))
    grows = parse_growth(growth) if growth is not None else NO_GROWTH
    family = ip_family if ip_family is not None else usual_family(uses)
    wanted = PlanRequest(nodes=nodes, pods_per_node=pods, ip_family=family, growth=grows, **asked)
    plans = plan_all(wanted)
    if output in ("json", "yaml"):
        document: dict[str, Any] = {"nodes": nodes, "podsPerNode": pods, "ipFamily": family}
        document |= {"kinds": [_document(plan) for plan in plans], "notes": notes(wanted)}
        if from_cluster:
            document["cluster"] = present
        if compare:
            document["comparison"] = _comparison(wanted)
        print_document(document, output)
        return
    if from_cluster:
        _print_present_nodes(present, uses)
    if compare:
        _print_comparison(cli, wanted)
    else:
        _print_plans(cli, wanted, plans, growth)
    if output == "wide":
        _print_sources(wanted, plans)


def _present_cluster(cli: Cli) -> list[dict[str, Any]]:
    with cli.api() as api:
        found: list[dict[str, Any]] = api.get("/v1/networks/use")["items"]
    return found


def _cluster_size(uses: list[NodeUse], from_cluster: bool, nodes: int | None, pods: int | None) -> tuple[int, int]:
    """Return the numbers of nodes and of Pods on each: from the options, else from the cluster."""
    from kajitori.core.network.use.nodes import usual_pods_per_node
    from kajitori.errors import InvalidInput

    if not from_cluster and nodes is None:
        hint = "name a number, or --from-cluster"
        raise InvalidInput.one("--nodes", "how many nodes is not said", hint=hint)
    if from_cluster and not uses and nodes is None:
        raise InvalidInput.one("--from-cluster", "this cluster has no nodes", hint="name a number with --nodes")
    usual_pods = usual_pods_per_node(uses) or 110
    return nodes if nodes is not None else len(uses), pods if pods is not None else usual_pods


def _print_present_nodes(present: list[dict[str, Any]], uses: list[NodeUse]) -> None:
    from kajitori.cli.words.runs import plural

    ranges = [use for use in uses if use.rooms]
    pods = sum(use.pods for use in uses)
    words = f"There are {plural(len(present), 'node')} with {plural(pods, 'Pod')} that have addresses of their own"
    echo(f"{words}, and room for {_describe_rooms(ranges)}." if ranges else f"{words}.")
    without = len(present) - len(ranges)
    if without:
        echo(f"{plural(without, 'node')} without a range of addresses: Kubernetes does not know how many are left.")
    short = [node for node in present if node["runsOut"]]
    for node in short[:_SHOWN]:
        echo(f"  {node['name']}: {node['runsOut']}")
    if len(short) > _SHOWN:
        echo(f"  and {len(short) - _SHOWN} more nodes; -o json names all")
    if ranges and not short:
        echo("No node runs out of addresses before it is full.")
    echo()


_SHOWN = 20


def _describe_rooms(uses: list[NodeUse]) -> str:
    """Return how many nodes the ranges of these uses have room for, by address family if IPv6 is among them."""
    from kajitori.core.network.use.nodes import BEYOND_COUNTING

    words = {}
    for version in sorted({version for use in uses for version in use.rooms}):
        room = sum(use.rooms.get(version, 0) for use in uses)
        words[version] = f"{room:,}" if room < BEYOND_COUNTING else "more than anybody counts"
    if set(words) == {4}:
        return words[4]
    return ", ".join(f"{room} of IPv{version}" for version, room in words.items())


def _describe_pods(wanted: PlanRequest) -> str:
    return f"{wanted.pods_per_node:,} {'Pod' if wanted.pods_per_node == 1 else 'Pods'}"


def _print_plans(cli: Cli, wanted: PlanRequest, plans: list[Plan], growth: str | None) -> None:
    from kajitori.cli.printing.output import Column, print_table
    from kajitori.core.network.planning.kinds import FAMILIES
    from kajitori.core.network.planning.plan import notes

    grows = f", growing {growth}" if growth is not None else ""
    nodes = "node" if wanted.nodes == 1 else "nodes"
    families = {"ipv4": "", "ipv6": ", IPv6 alone", "dual": ", IPv4 and IPv6"}[wanted.ip_family]
    echo(f"{wanted.nodes:,} {nodes} with {_describe_pods(wanted)} each{families}{grows}")
    echo()
    columns = [Column("KIND"), Column("CARRIES IT", styled=True), Column("NODES AT MOST", right=True), Column("UNTIL")]
    for version in wanted.versions:
        columns += _range_columns(wanted, version, growth)
    columns += [Column("MTU", right=True), Column("DATA", right=True), Column("EACH POD", right=True)]
    rows = []
    for plan in plans:
        until = "not offered"
        if plan.lacks is None:
            until = _describe_until(plan.years_left, growth, holds=wanted.nodes <= plan.most_nodes)
        row = [plan.kind.key, plan.verdict, f"{plan.most_nodes:,}", until]
        for ranges in plan.ranges:
            row += _range_cells(wanted, ranges, growth, offered=plan.lacks is None)
        link = [f"{plan.throughput.pod_mtu:,}", f"{plan.throughput.goodput:.1%}", f"{plan.pod_gbit:.3g} Gbit/s"]
        row += link if plan.lacks is None else [""] * len(link)
        rows.append(row)
    print_table(cli, columns, rows, cut=False)
    for family, words in FAMILIES.items():
        echo(f"\n{family}: {words}")
        for plan in plans:
            if plan.kind.family == family:
                about_kind = plan.kind.notes if plan.lacks is None else ()
                echo("; ".join((f"  {plan.kind.key}: {plan.kind.title}", _describe_limit(plan), *about_kind)))
    echo()
    for note in notes(wanted):
        echo(f"note: {note}")
    rate = plans[0].throughput.packets_per_gbit * wanted.link_gbit
    echo(
        "DATA is what a TCP program gets of a link's bits, EACH POD its share when all on a node of "
        f"{wanted.link_gbit:g} Gbit/s send. The wire sets that, and processors may set less: at an MTU of "
        f"{plans[0].throughput.link_mtu:,} they see {rate / 1e6:.2g} million packets a second."
    )


def _range_columns(wanted: PlanRequest, version: int, growth: str | None) -> list[Column]:
    from kajitori.cli.printing.output import Column

    six = " (6)" if wanted.ip_family == "dual" and version == 6 else ""
    columns = [Column("POD ADDRESSES", right=True)] if version == 4 else [Column(f"EACH NODE{six}")]
    columns += [Column(f"NODES{six}"), Column(f"PODS{six}")]
    columns += [Column(f"PODS{six} IN {wanted.years:g} YEARS")] if growth is not None else []
    pod_prefix = wanted.pod_prefix if version == 4 else wanted.pod_prefix6
    return columns + ([Column(f"FULL{six}")] if pod_prefix is not None else [])


def _range_cells(wanted: PlanRequest, ranges: Ranges, growth: str | None, *, offered: bool) -> list[str]:
    cells = [f"{ranges.pod_addresses:,}" if ranges.version == 4 else f"/{ranges.node_range}"]
    cells += [f"/{ranges.node_prefix}", _format_prefix(ranges.pod_prefix)]
    cells += [_format_prefix(ranges.pod_prefix_later)] if growth is not None else []
    if ranges.prefix_nodes is not None:
        cells.append(_describe_until(ranges.prefix_years_left, growth, holds=wanted.nodes <= ranges.prefix_nodes))
    return cells if offered else ["" for _ in cells]


def _describe_limit(plan: Plan) -> str:
    if plan.lacks is not None:
        return f"does not offer {plan.lacks.what}"
    first = next(stop for stop in plan.stops if stop.max_nodes == plan.most_nodes)
    words = f"stops at {_describe_stop(first)}"
    asked = [stop for stop in plan.stops if stop.raised is not None and stop is not first]
    if asked:
        words += f"; before that at {_describe_stop(asked[0])}"
    if plan.ipv4_only_for_nodes:
        words += f"; nodes still have {plan.ipv4_only_for_nodes:,} IPv4 addresses"
    return words


def _describe_stop(stop: Stop) -> str:
    words = f"{stop.nodes:,} nodes ({stop.figure.value:,} {stop.figure.what})"
    if stop.raised is not None and stop.raised_nodes is not None:
        words += f", on request {stop.raised_nodes:,} ({stop.raised.value:,})"
    return words


def _format_prefix(length: int) -> str:
    return f"/{length}" if length >= 8 else "none so large"


def _describe_until(years: float | None, growth: str | None, *, holds: bool) -> str:
    """Return a text about how long a kind of network carries the growing cluster. `holds`: whether it carries the
    cluster today."""
    if not holds:
        return "too small now"
    if years is None:
        return "not in sight" if growth is not None else ""
    days, weeks, months = years * 365, years * 52, years * 12
    if months >= 24:
        return f"{years:.1f} years"
    if months >= 1.5:
        return f"{months:.0f} months"
    if weeks >= 1.5:
        return f"{weeks:.0f} weeks"
    return f"{days:.0f} days" if days >= 1.5 else "full at once"


def _comparison(wanted: PlanRequest) -> list[dict[str, Any]]:
    """Return for each kind of network and each number of nodes whether the kind carries that many."""
    from dataclasses import replace

    from kajitori.core.network.planning.plan import SIZES_TO_COMPARE, plan_all

    by_size = {nodes: plan_all(replace(wanted, nodes=nodes)) for nodes in SIZES_TO_COMPARE}
    return [
        {"kind": plan.kind.key, "nodes": {str(nodes): plans[index].verdict for nodes, plans in by_size.items()}}
        for index, plan in enumerate(next(iter(by_size.values())))
    ]


def _print_comparison(cli: Cli, wanted: PlanRequest) -> None:
    from kajitori.cli.printing.output import Column, print_table

    compared = _comparison(wanted)
    sizes = list(compared[0]["nodes"])
    echo(f"Which kind carries so many nodes with {_describe_pods(wanted)} each:")
    echo()
    columns = [Column("KIND"), *(Column(f"{int(size):,}") for size in sizes)]
    print_table(cli, columns, [[row["kind"], *(row["nodes"][size] for size in sizes)] for row in compared], cut=False)


def _print_sources(wanted: PlanRequest, plans: list[Plan]) -> None:

    heading("What is published")
    outer = max(wanted.versions)
    figures: dict[tuple[str, int], Figure] = {}
    for plan in plans:
        mtu = plan.kind.mtu
        named = [figure for stop in plan.stops for figure in (stop.figure, stop.raised) if figure is not None]
        ipv6 = plan.kind.ipv6
        of_ipv6 = [ipv6.node_range, ipv6.shared, *ipv6.figures] if 6 in wanted.versions and plan.lacks is None else []
        of_ipv4 = plan.kind.figures if 4 in wanted.versions else ()
        for figure in (*named, *of_ipv4, *(number for number in of_ipv6 if number is not None), mtu):
            figures.setdefault((figure.what, figure.value), figure)
        if plan.kind.encapsulation is not None:
            tunnel = plan.kind.encapsulation
            echo(
                f"  {tunnel.name}: {tunnel.overhead_bytes(outer)} bytes a packet over IPv{outer} "
                f"({tunnel.parts}, outer IP {20 if outer == 4 else 40})"
            )
            echo(f"    {tunnel.source}")
    for figure in figures.values():
        echo(f"  {f'{figure.value:,}' if figure.value else 'not offered:'} {figure.what}")
        echo(f"    {figure.source} ({figure.as_of})")


def _document(plan: Plan) -> dict[str, Any]:
    """Return the JSON document, with the source of every figure. Results for IPv4 stand beside those of the kind."""
    document: dict[str, Any] = {
        "kind": plan.kind.key,
        "family": plan.kind.family,
        "title": plan.kind.title,
        "carries": plan.verdict,
        "mostNodes": plan.most_nodes,
        "yearsLeft": plan.years_left,
    }
    for ranges in plan.ranges:
        addresses = _ranges_document(plan, ranges)
        document |= addresses if ranges.version == 4 else {"ipv6": addresses}
    if plan.ipv4_only_for_nodes:
        document["nodeAddresses"] = plan.ipv4_only_for_nodes
    return document | {
        "stops": [_stop_document(stop) for stop in plan.stops],
        "linkMtu": plan.throughput.link_mtu,
        "podMtu": plan.throughput.pod_mtu,
        "goodput": plan.throughput.goodput,
        "podGbit": plan.pod_gbit,
        "notes": list(plan.kind.notes),
    }


def _ranges_document(plan: Plan, ranges: Ranges) -> dict[str, Any]:
    """Return the ranges as JSON: numbers of addresses for IPv4, prefix lengths for IPv6."""
    document: dict[str, Any] = {"nodeAddresses": ranges.node_addresses}
    if ranges.version == 4:
        document |= {"podAddresses": ranges.pod_addresses, "podAddressesPerNode": ranges.per_node}
    else:
        document["podPrefixPerNode"] = ranges.node_range
    later = {
        "nodes": plan.nodes_later,
        "nodePrefix": ranges.node_prefix_later,
        "podPrefix": ranges.pod_prefix_later,
    }
    return document | {
        "nodePrefix": ranges.node_prefix,
        "podPrefix": ranges.pod_prefix,
        "later": later,
        "podPrefixYearsLeft": ranges.prefix_years_left,
    }


def _stop_document(stop: Stop) -> dict[str, Any]:
    document: dict[str, Any] = {"nodes": stop.nodes, "limit": _figure(stop.figure)}
    if stop.raised is not None:
        document |= {"nodesOnRequest": stop.raised_nodes, "limitOnRequest": _figure(stop.raised)}
    return document


def _figure(figure: Figure) -> dict[str, Any]:
    return {"value": figure.value, "what": figure.what, "source": figure.source, "asOf": figure.as_of}
