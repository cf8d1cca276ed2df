"""`kaji plan`: whether something can carry a cluster, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options

if TYPE_CHECKING:
    from kajitori.core.network.limits import Figure
    from kajitori.core.network.plan import Plan, Stop, Wanted


@click.group(epilog="\b\nExample:\n  kaji plan network --nodes 7500 --pods-per-node 30")
def command() -> None:
    """Tell how large a cluster can become."""


@command.command(
    epilog="\b\nExamples:\n  kaji plan network --nodes 7500 --pods-per-node 30 --growth 2x/year\n"
    "  kaji plan network --from-cluster --growth +500/month\n"
    "  kaji plan network --nodes 1000 --compare"
)
@click.option("--nodes", type=int, metavar="N", help="Nodes.")
@click.option("--pods-per-node", type=int, metavar="N", help="Pods on each, at most.  [default: 110]")
@click.option("--from-cluster", is_flag=True, help="Begin with the nodes that are there; tell which run out.")
@click.option("--growth", metavar="GROWTH", help="Of nodes: 2x/year, 30%/year, +500/month.")
@click.option("--years", type=float, default=3.0, show_default=True, metavar="Y", help="Plan ranges that far ahead.")
@click.option("--pod-prefix", type=int, metavar="LEN", help="Length of the range for Pods that is there: until when?")
@click.option(
    "--node-prefix", type=int, metavar="LEN", help="Of each node's range, where one may choose.  [default: 24]"
)
@click.option("--mtu", type=int, metavar="BYTES", help="Of the links between nodes; else what each cloud has.")
@click.option("--gbit", "link_gbit", type=float, default=100.0, show_default=True, metavar="G", help="A node's link.")
@click.option("--compare", is_flag=True, help="Which kind carries how many nodes, up to 100,000.")
@output_option("json", "yaml", "wide")
@server_options
@click.pass_obj
def network(
    cli: Cli, /, from_cluster: bool, compare: bool, growth: str | None, output: str | None, **asked: Any
) -> None:
    """Compare kinds of Pod networks for a cluster: native, route-based and overlay.

    Tells how many addresses each needs, which ranges, what stops it and when, and what is left of a link. Clouds'
    limits are those that they publish; `-o wide` names the page of each, and when it was read.
    """
    from kajitori.cli.output import print_document
    from kajitori.core.network.growth import NO_GROWTH, parse_growth
    from kajitori.core.network.plan import Wanted, plan_all

    there = _cluster(cli) if from_cluster else []
    nodes, pods = _size(there, from_cluster, asked.pop("nodes"), asked.pop("pods_per_node"))
    grows = parse_growth(growth) if growth is not None else NO_GROWTH
    wanted = Wanted(nodes=nodes, pods_per_node=pods, growth=grows, **asked)
    plans = plan_all(wanted)
    if output in ("json", "yaml"):
        document: dict[str, Any] = {"nodes": nodes, "podsPerNode": pods, "kinds": [_document(plan) for plan in plans]}
        if from_cluster:
            document["cluster"] = there
        if compare:
            document["comparison"] = _comparison(wanted)
        print_document(document, output)
        return
    if from_cluster:
        _print_there(there)
    if compare:
        _print_comparison(cli, wanted)
    else:
        _print_plans(cli, wanted, plans, growth)
    if output == "wide":
        _print_sources(plans)


def _cluster(cli: Cli) -> list[dict[str, Any]]:
    with cli.api() as api:
        found: list[dict[str, Any]] = api.get("/v1/networks/use")["items"]
    return found


def _size(there: list[dict[str, Any]], from_cluster: bool, nodes: int | None, pods: int | None) -> tuple[int, int]:
    """Nodes and Pods on each: as asked for, else as they are."""
    from kajitori.core.network.use import NodeUse, usual_pods_per_node
    from kajitori.errors import InvalidInput

    if not from_cluster and nodes is None:
        hint = "name a number, or --from-cluster"
        raise InvalidInput.one("--nodes", "how many nodes is not said", hint=hint)
    uses = [NodeUse(each["name"], tuple(each["podCidrs"]), each["mostPods"], each["pods"]) for each in there]
    if from_cluster and not uses and nodes is None:
        raise InvalidInput.one("--from-cluster", "this cluster has no nodes", hint="name a number with --nodes")
    return nodes if nodes is not None else len(uses), pods or usual_pods_per_node(uses) or 110


def _print_there(there: list[dict[str, Any]]) -> None:
    from kajitori.cli.words import plural

    ranges = [each for each in there if each["addresses"] is not None]
    pods, room = sum(each["pods"] for each in there), sum(each["addresses"] for each in ranges)
    words = f"There are {plural(len(there), 'node')} with {plural(pods, 'Pod')} that have addresses of their own"
    click.echo(f"{words}, and room for {room:,}." if ranges else f"{words}.")
    without = len(there) - len(ranges)
    if without:
        click.echo(
            f"{plural(without, 'node')} without a range of addresses: Kubernetes does not know how many are left."
        )
    short = [each for each in there if each["runsOut"]]
    for each in short[:_SHOWN]:
        click.echo(f"  {each['name']}: {each['runsOut']}")
    if len(short) > _SHOWN:
        click.echo(f"  and {len(short) - _SHOWN} more nodes; -o json names all")
    if ranges and not short:
        click.echo("No node runs out of addresses before it is full.")
    click.echo()


_SHOWN = 20


def _print_plans(cli: Cli, wanted: Wanted, plans: list[Plan], growth: str | None) -> None:
    from kajitori.cli.output import Column, print_table
    from kajitori.core.network.kinds import FAMILIES
    from kajitori.core.network.plan import notes

    grows = f", growing {growth}" if growth is not None else ""
    click.echo(f"{wanted.nodes:,} nodes with {wanted.pods_per_node:,} Pods each{grows}")
    click.echo()
    columns = [Column("KIND"), Column("CARRIES IT", styled=True), Column("NODES AT MOST", right=True), Column("UNTIL")]
    columns += [Column("POD ADDRESSES", right=True), Column("NODES"), Column("PODS")]
    columns += [Column(f"PODS IN {wanted.years:g} YEARS")] if growth is not None else []
    columns += [Column("FULL")] if wanted.pod_prefix is not None else []
    columns += [Column("MTU", right=True), Column("DATA", right=True), Column("EACH POD", right=True)]
    rows = []
    for plan in plans:
        row = [plan.kind.key, plan.verdict, f"{plan.most_nodes:,}", _until(plan.years_left, growth)]
        row += [f"{plan.pod_addresses:,}", f"/{plan.node_prefix}", _prefix(plan.pod_prefix)]
        row += [_prefix(plan.pod_prefix_later)] if growth is not None else []
        row += [_until(plan.prefix_years_left, growth)] if wanted.pod_prefix is not None else []
        row += [f"{plan.throughput.pod_mtu:,}", f"{plan.throughput.goodput:.1%}", f"{plan.pod_gbit:.3g} Gbit/s"]
        rows.append(row)
    print_table(cli, columns, rows, cut=False)
    for family, words in FAMILIES.items():
        click.echo(f"\n{family}: {words}")
        for plan in plans:
            if plan.kind.family == family:
                click.echo("; ".join((f"  {plan.kind.key}: {plan.kind.title}", _why(plan), *plan.kind.notes)))
    click.echo()
    for note in notes(plans):
        click.echo(f"note: {note}")
    rate = plans[0].throughput.packets_per_gbit * wanted.link_gbit
    click.echo(
        "DATA is what a TCP program gets of a link's bits, EACH POD its share when all on a node of "
        f"{wanted.link_gbit:g} Gbit/s send. The wire sets that, and processors may set less: at an MTU of "
        f"{plans[0].throughput.link_mtu:,} they see {rate / 1e6:.2g} million packets a second."
    )


def _why(plan: Plan) -> str:
    first = next(stop for stop in plan.stops if stop.most == plan.most_nodes)
    words = f"stops at {_stop(first)}"
    asked = [stop for stop in plan.stops if stop.raised is not None and stop is not first]
    if asked:
        words += f"; before that at {_stop(asked[0])}"
    return words


def _stop(stop: Stop) -> str:
    words = f"{stop.nodes:,} nodes ({stop.figure.value:,} {stop.figure.what})"
    if stop.raised is not None and stop.raised_nodes is not None:
        words += f", on request {stop.raised_nodes:,} ({stop.raised.value:,})"
    return words


def _prefix(length: int) -> str:
    return f"/{length}" if length >= 8 else "none so large"


def _until(years: float | None, growth: str | None) -> str:
    if years == 0:
        return "too small now"
    if years is None:
        return "not in sight" if growth is not None else ""
    months = years * 12
    return (
        f"{years:.1f} years" if months >= 24 else f"{months:.0f} months" if months >= 1.5 else f"{years * 52:.0f} weeks"
    )


def _comparison(wanted: Wanted) -> list[dict[str, Any]]:
    """Of each kind, by the number of nodes: whether it carries so many."""
    from dataclasses import replace

    from kajitori.core.network.plan import SIZES_TO_COMPARE, plan_all

    by_size = {nodes: plan_all(replace(wanted, nodes=nodes)) for nodes in SIZES_TO_COMPARE}
    return [
        {"kind": plan.kind.key, "nodes": {str(nodes): plans[index].verdict for nodes, plans in by_size.items()}}
        for index, plan in enumerate(next(iter(by_size.values())))
    ]


def _print_comparison(cli: Cli, wanted: Wanted) -> None:
    from kajitori.cli.output import Column, print_table

    compared = _comparison(wanted)
    sizes = list(compared[0]["nodes"])
    click.echo(f"Which kind carries so many nodes with {wanted.pods_per_node:,} Pods each:")
    click.echo()
    columns = [Column("KIND"), *(Column(f"{int(size):,}") for size in sizes)]
    print_table(
        cli, columns, [[each["kind"], *(each["nodes"][size] for size in sizes)] for each in compared], cut=False
    )


def _print_sources(plans: list[Plan]) -> None:
    from kajitori.cli.output import heading

    heading("What is published")
    figures: dict[tuple[str, int], Figure] = {}
    for plan in plans:
        mtu = plan.kind.mtu
        named = [figure for stop in plan.stops for figure in (stop.figure, stop.raised) if figure is not None]
        for figure in (*named, *plan.kind.figures, mtu):
            figures.setdefault((figure.what, figure.value), figure)
        if plan.kind.encapsulation is not None:
            tunnel = plan.kind.encapsulation
            click.echo(
                f"  {tunnel.name}: {tunnel.overhead_bytes()} bytes a packet over IPv4 ({tunnel.parts}, outer IP 20)"
            )
            click.echo(f"    {tunnel.source}")
    for figure in figures.values():
        click.echo(f"  {figure.value:,} {figure.what}")
        click.echo(f"    {figure.source} ({figure.as_of})")


def _document(plan: Plan) -> dict[str, Any]:
    """As JSON, with every figure and its source."""
    return {
        "kind": plan.kind.key,
        "family": plan.kind.family,
        "title": plan.kind.title,
        "carries": plan.verdict,
        "mostNodes": plan.most_nodes,
        "yearsLeft": plan.years_left,
        "nodeAddresses": plan.node_addresses,
        "podAddresses": plan.pod_addresses,
        "podAddressesPerNode": plan.per_node,
        "nodePrefix": plan.node_prefix,
        "podPrefix": plan.pod_prefix,
        "later": {"nodes": plan.nodes_later, "nodePrefix": plan.node_prefix_later, "podPrefix": plan.pod_prefix_later},
        "podPrefixYearsLeft": plan.prefix_years_left,
        "stops": [_stop_document(stop) for stop in plan.stops],
        "linkMtu": plan.throughput.link_mtu,
        "podMtu": plan.throughput.pod_mtu,
        "goodput": plan.throughput.goodput,
        "podGbit": plan.pod_gbit,
        "notes": list(plan.kind.notes),
    }


def _stop_document(stop: Stop) -> dict[str, Any]:
    document: dict[str, Any] = {"nodes": stop.nodes, "limit": _figure(stop.figure)}
    if stop.raised is not None:
        document |= {"nodesOnRequest": stop.raised_nodes, "limitOnRequest": _figure(stop.raised)}
    return document


def _figure(figure: Figure) -> dict[str, Any]:
    return {"value": figure.value, "what": figure.what, "source": figure.source, "asOf": figure.as_of}
