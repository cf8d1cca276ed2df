"""The address planner: what each kind of network needs, its limits, and what packets carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.network import limits
from kajitori.core.network.limits import Figure
from kajitori.core.network.planning.encapsulation import ENCAPSULATIONS, throughput
from kajitori.core.network.planning.growth import Growth, parse_growth
from kajitori.core.network.planning.kinds import FAMILIES, KINDS
from kajitori.core.network.planning.plan import MAX_NODES, IpFamily, Plan, PlanRequest, Ranges, notes, plan_all
from kajitori.core.network.use.nodes import BEYOND_COUNTING, NodeUse, shortages, usual_family, usual_pods_per_node
from kajitori.errors import InvalidInput


def plans(nodes: int = 7_500, pods: int = 30, growth: str = "2x/year", **more: Any) -> dict[str, Plan]:
    wanted = PlanRequest(nodes=nodes, pods_per_node=pods, growth=parse_growth(growth), **more)
    return {plan.kind.key: plan for plan in plan_all(wanted)}


def ranges(plan: Plan, version: int = 4) -> Ranges:
    return next(range_ for range_ in plan.ranges if range_.version == version)


def test_the_clusters_of_the_articles() -> None:
    """7,500 nodes with 30 Pods: some 200,000 addresses, far beyond any route limit; calculated by hand from the
    figures."""
    found = plans()
    assert {key: plan.verdict for key, plan in found.items()} == {
        "azure-native": "no",
        "azure-blocks": "yes",
        "aws-eni": "on request",
        "aws-prefix": "yes",
        "gcp-alias": "no",
        "azure-routes": "no",
        "aws-routes": "no",
        "gcp-routes": "no",
        "azure-overlay": "no",
        "overlay-vxlan": "yes",
        "overlay-geneve": "yes",
        "overlay-ipip": "yes",
        "overlay-wireguard": "yes",
    }
    assert ranges(found["azure-native"]).pod_addresses == 225_000
    assert found["azure-native"].most_nodes == 65_536 // 31
    assert ranges(found["azure-blocks"]).per_node == 32
    assert found["azure-blocks"].most_nodes == 65_536 // 3
    assert found["aws-eni"].most_nodes == 256_000 // 31
    assert ranges(found["aws-prefix"]).per_node == (2 + 1) * 16
    assert ranges(found["gcp-alias"]).per_node == 64
    assert found["gcp-alias"].most_nodes == 200_000 // 30
    vxlan = ranges(found["overlay-vxlan"])
    assert (vxlan.node_prefix, vxlan.pod_prefix) == (19, 11)
    assert (found["overlay-vxlan"].nodes_later, vxlan.pod_prefix_later) == (60_000, 8)


def test_large_clusters_of_the_clouds_own_kubernetes() -> None:
    """GKE has 65,000 nodes on request with few Pods; if AKS allows less than its network, a note says so."""
    found = plans(nodes=65_000, pods=3, growth="1x/year")["gcp-alias"]
    assert (found.verdict, found.most_nodes) == ("on request", 65_000)
    assert plans(nodes=65_001, pods=3)["gcp-alias"].verdict == "no"
    assert plans(nodes=5_000, pods=30)["gcp-alias"].verdict == "yes"
    for key in ("azure-native", "azure-blocks"):
        assert "AKS allows at most 5,000 nodes" in plans()[key].kind.notes[0]


def test_route_based_networks_stop_at_their_routes() -> None:
    """With any number of addresses left, one node more than routes is too many."""
    routes = {"azure-routes": 400, "aws-routes": 1_000, "gcp-routes": 300}
    for key, most in routes.items():
        assert plans(nodes=most)[key].verdict in ("yes", "on request")
        assert plans(nodes=most + 1)[key].verdict == "no"
    assert plans(nodes=500)["aws-routes"].verdict == "yes"
    assert plans(nodes=501)["aws-routes"].verdict == "on request"


def test_two_thousand_and_five_hundred_nodes_that_double() -> None:
    """The year of the limit follows from the growth."""
    found = plans(nodes=1_057, growth="2x/year")["azure-native"]
    assert found.verdict == "yes"
    assert found.years_left == pytest.approx(1.0)
    assert plans(nodes=2_000, growth="+120/year")["azure-native"].years_left == pytest.approx(114 / 120)
    assert plans(nodes=2_000, growth="1x/year")["azure-native"].years_left is None


def test_a_present_range_is_full_one_day() -> None:
    """A /12 holds 4,096 ranges of length 24, and more of smaller ones."""
    found = ranges(plans(nodes=2_048, pod_prefix=12)["overlay-vxlan"])
    assert found.prefix_nodes == 4_096
    assert found.prefix_years_left == pytest.approx(1.0)
    small = ranges(plans(nodes=2_048, pod_prefix=12, node_prefix=26)["overlay-vxlan"])
    assert small.prefix_nodes == 4 * 4_096
    fixed = ranges(plans(nodes=2_048, pod_prefix=12, node_prefix=26)["azure-overlay"])
    assert (fixed.per_node, fixed.prefix_nodes) == (256, 4_096), "its length is not ours to choose"
    assert ranges(plans(nodes=5_000, pod_prefix=12)["overlay-vxlan"]).prefix_years_left == 0


def test_more_pods_than_a_node_may_have_stop_a_kind_at_once() -> None:
    assert plans(nodes=10, pods=250)["azure-overlay"].verdict == "yes"
    found = plans(nodes=10, pods=251)
    assert found["azure-overlay"].most_nodes == 0
    assert found["azure-overlay"].stops[0].figure is limits.AZURE_OVERLAY_PODS
    assert found["overlay-vxlan"].verdict == "yes"


@given(st.integers(1, MAX_NODES), st.integers(1, 500), st.integers(0, 2_000))
def test_more_is_never_easier(nodes: int, pods: int, more: int) -> None:
    """More nodes or Pods need at least as many addresses, and no kind carries them that did not carry fewer; ranges
    hold what they must."""
    order = {"yes": 0, "on request": 1, "no": 2}
    few, many = plans(nodes, pods), plans(min(nodes + more, MAX_NODES), pods + more % 7)
    for key, plan in few.items():
        assert order[plan.verdict] <= order[many[key].verdict]
        its = ranges(plan)
        assert its.pod_addresses <= ranges(many[key]).pod_addresses
        assert its.per_node >= pods or plan.verdict == "no"
        assert 2 ** (32 - its.pod_prefix) >= its.pod_addresses + 2
        assert (plan.verdict == "no") == (nodes > plan.most_nodes)


def test_what_packets_carry() -> None:
    """By the headers' sizes: VXLAN's 50 bytes leave 1,450; a plain 1,500 carries 1,448 of 1,538 on the wire."""
    plain = throughput(1_500, None)
    assert plain.pod_mtu == 1_500
    assert plain.goodput == pytest.approx(1_448 / 1_538)
    assert plain.packets_per_gbit == pytest.approx(1e9 / 8 / 1_538)
    overheads = {
        encapsulation.name: (encapsulation.overhead_bytes(4), encapsulation.overhead_bytes(6))
        for encapsulation in ENCAPSULATIONS
    }
    assert overheads == {"VXLAN": (50, 70), "Geneve": (50, 70), "IP-in-IP": (20, 40), "WireGuard": (60, 80)}
    assert throughput(9_001, ENCAPSULATIONS[0]).goodput == pytest.approx((9_001 - 50 - 52) / 9_039)
    assert plans(mtu=9_000)["overlay-wireguard"].throughput.pod_mtu == 8_940


def figures() -> Iterator[Figure]:
    return (value for value in vars(limits).values() if isinstance(value, Figure))


def test_every_figure_has_a_source_and_is_used() -> None:
    for figure in figures():
        assert figure.source.startswith("https://")
        assert figure.as_of[:4].isdigit()
    used = {limits.KUBERNETES_NODES, limits.PRIVATE_ADDRESSES, limits.IPV6_MTU}
    used |= {limits.KUBERNETES_DUAL, limits.KUBERNETES_SERVICES6}
    for kind in KINDS:
        assert kind.family in FAMILIES
        six = kind.ipv6
        of_ipv6 = [six.bounds(alone=True), six.bounds(alone=False)]
        used |= {kind.mtu, *kind.figures, six.node_range, *six.figures}
        used |= {figure for figure in (kind.pods_per_node, six.shared, *of_ipv6) if isinstance(figure, Figure)}
        bounds = [*kind.bounds, *(bound for some in of_ipv6 if isinstance(some, tuple) for bound in some)]
        used |= {figure for bound in bounds for figure in (bound.figure, bound.raised) if figure}
    assert set(figures()) == used


def test_notes_that_hold_for_all_kinds() -> None:
    assert "more than the 5,000" in notes(PlanRequest(nodes=5_001, pods_per_node=1))[0]
    assert notes(PlanRequest(nodes=5_000, pods_per_node=1)) == []
    both = notes(PlanRequest(nodes=1, pods_per_node=1, ip_family="dual"))
    assert "every Pod also has an IPv4 address" in both[0]
    assert "/108" in both[1]
    assert "NAT64" in notes(PlanRequest(nodes=1, pods_per_node=1, ip_family="ipv6"))[0]


def test_ipv6_alone_and_beside_ipv4() -> None:
    """7,500 nodes with 30 Pods, calculated by hand from published figures; what is not offered says so."""
    alone = plans(ip_family="ipv6")
    assert {key for key, plan in alone.items() if plan.lacks is None} == {
        "aws-prefix",
        "gcp-alias",
        "aws-routes",
        "overlay-vxlan",
        "overlay-geneve",
        "overlay-wireguard",
    }
    assert alone["aws-prefix"].most_nodes == 256_000 // 3
    assert alone["aws-prefix"].ipv4_only_for_nodes == 7_500
    assert (ranges(alone["aws-prefix"], 6).node_range, ranges(alone["aws-prefix"], 6).pod_prefix) == (80, 64)
    assert alone["gcp-alias"].ipv4_only_for_nodes == 0
    assert alone["overlay-vxlan"].most_nodes == 2**16
    vxlan = ranges(alone["overlay-vxlan"], 6)
    assert (vxlan.node_range, vxlan.node_prefix, vxlan.pod_prefix) == (64, 64, 51)
    assert vxlan.pod_prefix_later == 48
    assert [range_.version for range_ in alone["overlay-vxlan"].ranges] == [6]
    both = plans(ip_family="dual")
    assert {key for key, plan in both.items() if plan.lacks is None} == {
        "gcp-alias",
        "azure-routes",
        "aws-routes",
        "azure-overlay",
        "overlay-vxlan",
        "overlay-geneve",
        "overlay-wireguard",
    }
    assert both["azure-routes"].most_nodes == 400 // 2
    assert both["azure-overlay"].most_nodes == 5_000
    assert (ranges(both["azure-overlay"], 6).node_range, ranges(both["azure-overlay"], 6).pod_prefix) == (80, 64)
    assert ranges(both["overlay-vxlan"]).pod_addresses == 7_500 * 256


def test_more_nodes_than_one_range_of_kubernetes_holds() -> None:
    """Its 16 bits end at 65,536 nodes; other kinds go on to their own limits."""
    assert plans(nodes=65_536, ip_family="ipv6")["overlay-vxlan"].verdict == "yes"
    assert plans(nodes=65_537, ip_family="ipv6")["overlay-vxlan"].verdict == "no"
    assert plans(nodes=65_537, ip_family="ipv6")["aws-prefix"].verdict == "on request"
    assert ranges(plans(nodes=65_537, ip_family="ipv6")["aws-prefix"], 6).pod_prefix == 63


def test_a_present_ipv6_range_is_full_one_day() -> None:
    found = ranges(plans(nodes=2_048, ip_family="ipv6", pod_prefix6=52)["overlay-vxlan"], 6)
    assert found.prefix_nodes == 4_096
    assert found.prefix_years_left == pytest.approx(1.0)
    small = plans(nodes=2_048, ip_family="dual", pod_prefix6=52, node_prefix6=66)
    assert ranges(small["overlay-vxlan"], 6).prefix_nodes == 4 * 4_096
    assert ranges(small["azure-overlay"], 6).prefix_nodes == 2 ** (80 - 52), "its length is not ours to choose"
    one = ranges(plans(nodes=1, ip_family="ipv6", pod_prefix6=64)["overlay-vxlan"], 6)
    assert one.prefix_nodes == 1
    none = ranges(plans(ip_family="ipv6", pod_prefix6=65)["overlay-vxlan"], 6)
    assert (none.prefix_nodes, none.prefix_years_left) == (0, 0)


def test_packets_of_ipv6_carry_less() -> None:
    """Inner and outer headers have 40 bytes; a tunnel that leaves less than 1,280 bytes carries no IPv6."""
    assert plans(ip_family="ipv6")["overlay-vxlan"].throughput.pod_mtu == 1_430
    assert plans(ip_family="dual")["gcp-alias"].throughput.goodput == pytest.approx((1_460 - 72) / 1_498)
    thin = plans(ip_family="dual", mtu=1_359)
    assert thin["overlay-wireguard"].stops[0].figure is limits.IPV6_MTU
    assert thin["overlay-wireguard"].verdict == "no"
    assert plans(ip_family="dual", mtu=1_360, nodes=9)["overlay-wireguard"].verdict == "yes"
    assert plans(mtu=1_359)["overlay-wireguard"].verdict == "yes", "IPv4 passes"


@given(
    st.integers(1, MAX_NODES),
    st.integers(1, 256),
    st.integers(0, 2_000),
    st.sampled_from(("ipv6", "dual")),
    st.integers(50, 116),
)
def test_ipv6_in_exact_numbers(nodes: int, pods: int, more: int, family: IpFamily, node_prefix6: int) -> None:
    """The range for Pods holds one range per node and half of it would not, unless a cloud fixes its length; both
    families never carry more nodes than IPv4 alone."""
    order = {"yes": 0, "on request": 1, "no": 2}
    there = node_prefix6 - 16
    found = plans(nodes, pods, ip_family=family, node_prefix6=node_prefix6, pod_prefix6=there)
    many = plans(min(nodes + more, MAX_NODES), pods, ip_family=family)
    four = plans(nodes, pods)
    for key, plan in found.items():
        its = ranges(plan, 6)
        assert its.node_range is not None
        cut = its.node_range - its.pod_prefix
        assert 2**cut >= nodes
        assert nodes == 1 or 2 ** (cut - 1) < nodes or plan.kind.ipv6.shared is not None
        assert its.per_node == 2 ** (128 - its.node_range) >= pods
        assert its.prefix_nodes == (2 ** (its.node_range - there) if there <= its.node_range else 0)
        assert order[plan.verdict] <= order[many[key].verdict]
        assert (plan.verdict == "no") == (nodes > plan.most_nodes)
        if family == "dual":
            assert plan.most_nodes <= four[key].most_nodes
            assert ranges(plan, 4) == ranges(four[key], 4)


def test_lengths_of_the_other_family_are_refused() -> None:
    """No option is silently ignored; and what Kubernetes would refuse at its start is refused here."""

    def refused(**fields: Any) -> dict[str, tuple[str, str]]:
        with pytest.raises(InvalidInput) as caught:
            PlanRequest(nodes=10, pods_per_node=30, **fields)
        return {fault.field: (fault.code, fault.hint) for fault in caught.value.faults}

    assert refused(pod_prefix6=48, node_prefix6=64).keys() == {"--pod-prefix6", "--node-prefix6"}
    other = refused(pod_prefix=12, ip_family="ipv6")["--pod-prefix"]
    assert other == (
        "OtherFamily",
        "leave it out, or plan with --ip-family ipv4 or dual; --pod-prefix6 is that of IPv6 ranges",
    )
    code, hint = refused(pod_prefix6=40, ip_family="ipv6")["--pod-prefix6"]
    assert code == "TooLarge"
    assert hint == "--node-prefix6 56 at most, or a --pod-prefix6 of 48 at least"
    assert refused(pod_prefix6=48, node_prefix6=65, ip_family="dual")["--pod-prefix6"][0] == "TooLarge"
    assert refused(node_prefix6=124, ip_family="ipv6") == {"--node-prefix6": ("TooSmall", "123 at most")}
    assert refused(node_prefix6=129, ip_family="ipv6")["--node-prefix6"][0] == "OutOfRange"
    assert refused(node_prefix=33)["--node-prefix"][0] == "OutOfRange"
    assert refused(node_prefix=0)["--node-prefix"] == ("OutOfRange", "between 4 and 32")  # no node takes all addresses
    assert refused(node_prefix6=0, ip_family="ipv6")["--node-prefix6"] == ("OutOfRange", "between 8 and 128")
    assert refused(pod_prefix6=7, ip_family="ipv6")["--pod-prefix6"][0] == "OutOfRange"


@pytest.mark.parametrize(
    ("text", "now", "after_two_years"),
    [("2x/year", 100, 400), ("50%/year", 100, 225), ("+10/month", 100, 340), ("+1/week", 100, 205), ("1x/month", 9, 9)],
)
def test_growth(text: str, now: int, after_two_years: int) -> None:
    growth = parse_growth(text)
    assert growth.after(now, 2) == after_two_years
    if after_two_years > now:
        assert growth.years_until(now, after_two_years) == pytest.approx(2, abs=0.02)


@pytest.mark.parametrize("text", ["", "fast", "2x", "2x/day", "-5/year", "0.5x/year", "5000x/year", "x/year"])
def test_invalid_growth_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_growth(text)
    assert caught.value.faults[0].field == "--growth"
    assert caught.value.faults[0].hint


@pytest.mark.parametrize(
    ("field", "option", "least", "most"),
    [
        ("nodes", "--nodes", 1, 100_000),
        ("pods_per_node", "--pods-per-node", 1, 4_096),
        ("years", "--years", 0, 50),
        ("link_gbit", "--gbit", 0.001, 100_000),
        ("mtu", "--mtu", 1_280, 65_535),
        ("pod_prefix", "--pod-prefix", 4, 30),
        ("pod_prefix6", "--pod-prefix6", 48, 126),
        ("node_prefix", "--node-prefix", 4, 32),
        ("node_prefix6", "--node-prefix6", 8, 128),
    ],
)
def test_options_are_accepted_up_to_their_limits(field: str, option: str, least: float, most: float) -> None:
    """The next value is refused by name. (No IPv6 range is so large that Kubernetes would assign no /64 from it.)"""
    wish: dict[str, Any] = {"nodes": 1, "pods_per_node": 1, "ip_family": "dual"}
    for value in (least, most):
        PlanRequest(**wish | {field: value})
    step = 0.0001 if field == "link_gbit" else 1
    for value in (least - step, most + 1):
        with pytest.raises(InvalidInput) as caught:
            PlanRequest(**wish | {field: value})
        assert [fault.field for fault in caught.value.faults] == [option]


def test_ranges_include_reserved_addresses() -> None:
    """First and last address of a subnet, and three that clouds reserve."""
    assert [ranges(plans(nodes=nodes)["azure-native"]).node_prefix for nodes in (251, 252)] == [24, 23]
    assert [ranges(plans(nodes=1, pods=pods)["azure-native"]).pod_prefix for pods in (11, 12)] == [28, 27]


def test_pods_of_a_node_share_its_link() -> None:
    """100 Gbit/s for 25 Pods, less the headers; a tenth of the link gives a tenth."""
    plain = plans(pods=25)["azure-native"]
    assert plain.pod_gbit == pytest.approx(4 * plain.throughput.goodput)
    assert plans(pods=25, link_gbit=10)["azure-native"].pod_gbit == pytest.approx(0.4 * plain.throughput.goodput)


def test_limits_are_ordered_by_nodes() -> None:
    """Raised limits first, then limits without a request."""
    few, many = plans(nodes=100, pods=100)["gcp-alias"], plans(nodes=100, pods=2)["gcp-alias"]
    assert [stop.figure for stop in few.stops[:2]] == [limits.GCP_PODS, limits.GCP_NODES_UNASKED]
    assert [stop.figure for stop in many.stops[:2]] == [limits.GCP_NODES_UNASKED, limits.GCP_PODS]
    assert [stop.max_nodes for stop in few.stops] == sorted(stop.max_nodes for stop in few.stops)


def test_growth_that_never_reaches_the_limit() -> None:
    assert Growth(factor=1.0000001).years_until(10, 1_000_000) is None
    assert Growth().years_until(10, 9) == 0


def test_all_invalid_options_are_named_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        PlanRequest(nodes=200_000, pods_per_node=0, mtu=100, node_prefix=30, pod_prefix=2, years=-1, link_gbit=0)
    fields = {fault.field for fault in caught.value.faults}
    assert fields == {"--nodes", "--pods-per-node", "--mtu", "--pod-prefix", "--years", "--gbit"}
    with pytest.raises(InvalidInput, match="/30 is too small for 30 Pods"):
        PlanRequest(nodes=1, pods_per_node=30, node_prefix=30)


@pytest.mark.parametrize(
    ("ranges_of_nodes", "family"),
    [
        ([("10.0.0.0/24",), ("10.0.1.0/24",), ("10.0.2.0/24", "fd00::/64")], "ipv4"),
        ([("10.0.0.0/24", "fd00::/64"), ("fd00:1::/64", "10.0.1.0/24"), ("10.0.2.0/24",), ()], "dual"),
        ([("fd00::/64",)], "ipv6"),
        ([(), ()], "ipv4"),
        ([], "ipv4"),
    ],
)
def test_the_usual_family_is_that_of_most_nodes(ranges_of_nodes: list[tuple[str, ...]], family: str) -> None:
    assert usual_family([NodeUse("n", cidrs, 110, 0) for cidrs in ranges_of_nodes]) == family


def test_nodes_that_run_out_of_addresses() -> None:
    """Now, or before their kubelet is full; a node without a range has no shortage."""
    roomy = NodeUse("roomy", ("10.16.0.0/24",), 110, 90)
    small = NodeUse("small", ("10.16.1.0/26", "fd00::/64"), 110, 30)
    full = NodeUse("full", ("10.16.2.0/26",), 60, 55)
    native = NodeUse("native", (), 250, 249)
    found = shortages([roomy, small, full, native])
    assert [(shortage.node.name, shortage.now) for shortage in found] == [("full", True), ("small", False)]
    assert found[0].why == "55 of 61 addresses for Pods are in use (10.16.2.0/26)"
    assert "admits 110 Pods, but 10.16.1.0/26, fd00::/64 has 61 addresses" in found[1].why
    assert small.rooms == {4: 61, 6: BEYOND_COUNTING}
    assert NodeUse("tight", ("fd00::/122",), 110, 0).rooms == {6: 62}, "IPv6 knows no broadcast address"
    assert NodeUse("wide", ("fd00::/40",), 110, 0).addresses == BEYOND_COUNTING
    assert usual_pods_per_node([roomy, small, full, native]) == 110
    assert usual_pods_per_node([]) == 0
