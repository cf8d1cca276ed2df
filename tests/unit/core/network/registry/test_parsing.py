"""The address registry: all faults at once with their lines, and warnings."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.documents.reference import reference_page
from kajitori.core.network.registry.findings import findings
from kajitori.core.network.registry.model import Networks
from kajitori.core.network.registry.parsing import parse_networks
from kajitori.core.network.registry.ranges import named_ranges, node_ranges, overlap, smallest_prefix
from kajitori.errors import Fault, InvalidInput

GOOD = """
researchers: [10.200.0.0/16, "fd00:200::/48"]
hub: {addresses: [10.255.0.1, "fd00:255::1"]}
natHosts:
- {name: nat, addresses: [10.255.0.9, "fd00:255::9"]}
clusters:
- name: alpha
  nodes: [10.1.0.0/16, "fd00:1::/64"]
  pods: [10.16.0.0/13, "fd00:1:1::/48"]
  services: [10.32.0.0/16, "fd00:1:2::/112"]
  publicServices: [10.132.0.0/16, "fd00:132::/112"]
  natHost: nat
  gateways: [10.255.0.11, "fd00:255::11"]
  size: {nodes: 2000, podsPerNode: 30, nodePrefix: 24, nodePrefix6: 64}
  probes: ["10.1.0.4:22", "[fd00:1::4]:22"]
- name: beta
  nodes: [10.2.0.0/16]
  pods: [10.24.0.0/14]
  services: [10.33.0.0/16]
"""


def faults(text: str) -> dict[str, Fault]:
    """Return the faults of a registry by field."""
    with pytest.raises(InvalidInput) as caught:
        parse_networks(text)
    return {fault.field: fault for fault in caught.value.faults}


def cluster(name: str = "gamma", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def codes(**document: Any) -> dict[str, str]:
    """Return the code of each fault by field."""
    with pytest.raises(InvalidInput) as caught:
        parse_networks(document)
    assert all(fault.hint for fault in caught.value.faults), "each fault names a way out"
    return {fault.field: fault.code for fault in caught.value.faults}


def test_a_valid_file_is_read_and_written_unchanged() -> None:
    """With both families and several ranges each."""
    networks = parse_networks(GOOD)
    alpha = networks.clusters[0]
    assert alpha.translations[0] == (ip_network("10.132.0.0/16"), ip_network("10.32.0.0/16"))
    assert ip_network("10.32.0.0/16") not in alpha.own_ranges
    assert len(named_ranges(networks)) == 2 + 8 + 3
    assert parse_networks(networks.model_dump(mode="json", by_alias=True, exclude_none=True)) == networks


def test_an_empty_file_has_no_clusters() -> None:
    assert parse_networks("") == Networks()


def test_all_faults_of_single_fields_come_at_once_with_their_lines() -> None:
    """Each with its value and a hint."""
    text = GOOD.replace("10.1.0.0/16", "10.1.0.7/16").replace("10.2.0.0/16", "10.2.0.0/33").replace("gateways", "gates")
    found = faults(text)
    assert found["clusters[0].nodes[0] (line 8)"].hint == "write 10.1.0.0/16"
    assert found["clusters[0].nodes[0] (line 8)"].code == "HostBitsSet"
    assert "ADDRESS/LENGTH" in found["clusters[1].nodes[0] (line 17)"].hint
    assert "gateways" in found["clusters[0].gates (line 13)"].hint


def test_faults_between_fields_have_lines_too() -> None:
    """An overlap names both ranges and their owners."""
    (field, fault), *more = faults(GOOD.replace("10.24.0.0/14", "10.1.128.0/24")).items()
    assert not more
    assert field == "clusters[1].pods[0] (line 18)"
    assert fault.message == "10.1.128.0/24 (Pods of beta) overlaps 10.1.0.0/16 (nodes of alpha, clusters[0].nodes[0])"


@pytest.mark.parametrize("bad", [5, "10.1.0.4", "ten", "10.0.0.0/8/8", ""])
def test_invalid_ranges_are_refused(bad: object) -> None:
    assert list(codes(researchers=[bad])) == ["researchers[0]"]


def test_a_small_range_inside_a_large_one_is_found_past_others() -> None:
    """Not only neighbours in the order of addresses are compared."""
    clusters = [cluster("a", pods=["10.0.0.0/8"]), cluster("b", nodes=["10.1.0.0/24"], pods=["10.9.0.0/24"])]
    assert codes(clusters=clusters) == {"clusters[1].nodes[0]": "Overlap", "clusters[1].pods[0]": "Overlap"}


def test_service_ranges_may_be_equal_behind_different_nat_hosts() -> None:
    """Every cluster may have an installer's default range; public ranges differ."""
    hosts = [{"name": name, "addresses": [f"10.255.0.{n}"]} for n, name in enumerate(("n1", "n2"), 1)]
    one = cluster("a", services=["10.96.0.0/16"], publicServices=["10.130.0.0/16"], natHost="n1")
    two = cluster("b", services=["10.96.0.0/16"], publicServices=["10.131.0.0/16"], natHost="n2")
    assert parse_networks({"natHosts": hosts, "clusters": [one, two]}).clusters
    assert codes(natHosts=hosts, clusters=[one, two | {"natHost": "n1"}]) == {"clusters[1].services[0]": "Overlap"}
    without = cluster("c", services=["10.96.0.0/16"])
    assert codes(natHosts=hosts, clusters=[one, without]) == {"clusters[1].services[0]": "Overlap"}


@pytest.mark.parametrize(
    "cidr",
    [
        "169.254.0.0/24",
        "127.0.0.0/8",
        "224.0.0.0/8",
        "fe80::/64",
        "fd00:ec2::/64",
        "::/0",
        "0.0.0.0/0",
        "100::/64",
        "fd20:ce::/64",
    ],
)
def test_unroutable_ranges_are_refused(cidr: str) -> None:
    """Link-local, loopback, multicast, metadata services."""
    assert codes(clusters=[cluster(nodes=[cidr])]) == {"clusters[0].nodes[0]": "WellKnown"}


@pytest.mark.parametrize(
    ("cidr", "said"),
    [
        ("100.64.0.0/16", "RFC 6598"),
        ("172.17.128.0/20", "docker"),
        ("172.16.0.0/12", "AWS"),
        ("10.96.0.0/16", "kubeadm"),
        ("10.240.0.0/12", "flannel"),
        ("8.8.0.0/16", "public"),
        ("2001:db8::/48", "documentation"),
        ("3fff:1::/32", "documentation"),
        ("2a00:1450::/32", "public"),
        ("fc00:1::/48", "undefined half"),
        ("fec0::/48", "deprecated"),
        ("64:ff9b::/96", "NAT64"),
        ("fdaa::/47", "each has a /48"),
    ],
)
def test_well_known_ranges_are_findings(cidr: str, said: str) -> None:
    """The registry is valid, but its author should know."""
    found = findings(parse_networks({"clusters": [cluster(pods=[cidr], nodes=["10.1.0.0/24"])]}))
    assert any(said in finding.message and finding.field == "clusters[0].pods[0]" for finding in found), found


def test_a_quiet_registry_has_no_findings() -> None:
    """Its Services are reachable, and its ranges are large enough and its own."""
    networks = parse_networks(GOOD)
    assert [finding.code for finding in findings(networks)] == ["NearlyFull", "ServicesInside"]
    assert "98%" in findings(networks)[0].message
    alone = networks.clusters[0].model_copy(update={"size": None})
    assert findings(networks.model_copy(update={"clusters": [alone]})) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"nodes": ["10.1.0.0/24"], "size": {"nodes": 300}}, {"nodes": "TooSmall"}),
        ({"pods": ["10.8.0.0/16"], "size": {"nodes": 300, "podsPerNode": 300}}, {"pods": "TooSmall"}),
        ({"pods": ["10.8.0.0/16"], "size": {"nodes": 300, "nodePrefix": 24}}, {"pods": "TooSmall"}),
        ({"pods": ["10.8.0.0/16"], "size": {"nodes": 3, "nodePrefix": 26}}, {"size.nodePrefix": "TooSmall"}),
        ({"pods": ["10.8.0.0/16"], "size": {"nodes": 3, "nodePrefix": 99}}, {"size.nodePrefix": "OutOfRange"}),
        ({"pods": ["fd00::/112"], "size": {"nodes": 2000, "nodePrefix6": 120}}, {"pods": "TooSmall"}),
        ({"pods": ["fd00::/112"], "size": {"nodes": 3, "nodePrefix6": 122}}, {"size.nodePrefix6": "TooSmall"}),
        ({"pods": ["fd00::/120"], "size": {"nodes": 3}}, {"pods": "TooSmall"}),
        ({"nodes": ["fd00::/126"], "size": {"nodes": 5}}, {"nodes": "TooSmall"}),
        ({"services": ["10.8.0.0/16"], "publicServices": ["10.9.0.0/17"]}, {"publicServices[0]": "PrefixMismatch"}),
        ({"services": ["10.8.0.0/16"], "publicServices": ["fd00::/112"]}, {"publicServices[0]": "PrefixMismatch"}),
        ({"services": [], "publicServices": ["10.9.0.0/16"]}, {"publicServices": "PrefixMismatch"}),
        ({"pods": ["10.8.0.0/16"], "gateways": ["10.8.0.1"]}, {"gateways[0]": "Overlap"}),
        ({"gateways": ["10.8.0.1", "10.8.0.2"]}, {"gateways": "TwoOfAFamily"}),
        ({"natHost": "nat"}, {"natHost": "NothingToDo"}),
        (
            {"nodes": ["10.1.0.0/16"], "probes": ["10.1.0.4", "10.2.0.4:22"]},
            {"probes[0]": "Invalid", "probes[1]": "NotHere"},
        ),
    ],
)
def test_an_impossible_cluster_is_refused(fields: dict[str, Any], expected: dict[str, str]) -> None:
    """Too small for its nodes and Pods, unevenly translated, or reached through itself."""
    if fields.get("publicServices"):
        fields = fields | {"natHost": "nat"}
    hosts = [{"name": "nat", "addresses": ["10.255.0.9", "fd00:255::9"]}]
    found = codes(natHosts=hosts, clusters=[cluster(**fields)])
    assert found == {f"clusters[0].{field}": code for field, code in expected.items()}


def test_gateways_are_in_no_other_cluster_and_not_the_hub() -> None:
    """Clusters would be connected there, and the hub's script would fail half-way."""
    ways: dict[str, Any] = {"gateways": ["10.9.0.1", "fd00:255::1"], "serviceGateways": ["10.255.0.7", "10.132.0.1"]}
    other = cluster("other", nodes=["10.9.0.0/24"], services=["10.32.0.0/16"], publicServices=["10.132.0.0/16"])
    found = codes(
        hub={"addresses": ["10.255.0.1", "fd00:255::1"]},
        natHosts=[{"name": "nat", "addresses": ["10.255.0.9"]}],
        clusters=[cluster(**ways), other | {"natHost": "nat"}],
    )
    fields = ("gateways[0]", "gateways[1]", "serviceGateways[1]")
    assert found == {f"clusters[0].{field}": "Overlap" for field in fields}


def test_a_nat_host_must_exist_and_have_the_family() -> None:
    hosts = [{"name": "nat", "addresses": ["10.255.0.9"]}]
    six = cluster(services=["fd00::/112"], publicServices=["fd01::/112"], natHost="nat")
    assert codes(natHosts=hosts, clusters=[six]) == {"clusters[0].natHost": "NoAddress"}
    four = cluster(services=["10.8.0.0/16"], publicServices=["10.9.0.0/16"])
    assert codes(clusters=[four]) == {"clusters[0].natHost": "NoNatHost"}
    assert codes(natHosts=hosts, clusters=[four | {"natHost": "nut"}]) == {"clusters[0].natHost": "NoNatHost"}


def test_hosts_and_names_are_unique() -> None:
    hosts = [{"name": "n", "addresses": ["10.8.0.9"]}, {"name": "n", "addresses": ["10.255.0.1"]}]
    clusters = [cluster("a", pods=["10.8.0.0/16"]), cluster("a")]
    assert codes(hub={"addresses": ["10.255.0.1"]}, natHosts=hosts, clusters=clusters) == {
        "clusters[1].name": "NameTaken",
        "natHosts[1].name": "NameTaken",
        "natHosts[0].addresses[0]": "Overlap",
        "natHosts[1].addresses[0]": "Overlap",
    }


@pytest.mark.parametrize("name", ["a-to", "to-b", "a-to-b", "hub"])
def test_no_two_counters_have_one_name(name: str) -> None:
    """From `a` to `to-b` would be counted where `a-to` to `b` is."""
    assert codes(clusters=[cluster(name)]) == {"clusters[0].name": "NameTaken"}
    assert parse_networks({"clusters": [cluster("tokyo"), cluster("goto")]}).clusters[1].name == "goto"


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(26, 32)), min_size=1, max_size=8))
def test_exactly_what_overlaps_is_refused(blocks: list[tuple[int, int]]) -> None:
    """Compared with a check of every pair."""
    ranges = [
        ip_network((int(ip_network("10.0.0.0/26").network_address) + start, length), strict=False)
        for start, length in blocks
    ]
    document = {"clusters": [cluster(f"c{n}", pods=[str(network)]) for n, network in enumerate(ranges)]}
    pairs = sum(overlap(one, other) for n, one in enumerate(ranges) for other in ranges[:n])
    if not pairs:
        parse_networks(document)
        return
    with pytest.raises(InvalidInput) as caught:
        parse_networks(document)
    assert len(caught.value.faults) == pairs


@given(st.integers(1, 2**20), st.integers(8, 24), st.integers(8, 30))
def test_arithmetic_of_ranges(addresses: int, length: int, node_prefix: int) -> None:
    """The smallest range holds enough and half of it does not; node ranges are those that can be taken from it."""
    prefix = smallest_prefix(addresses, 4)
    assert 2 ** (32 - prefix) >= addresses
    assert addresses == 1 or 2 ** (31 - prefix) < addresses
    pods = ip_network((0, length))
    cut = len(list(pods.subnets(new_prefix=node_prefix))) if length <= node_prefix <= length + 10 else None
    assert cut is None or node_ranges([pods], node_prefix) == cut


def test_every_field_is_documented() -> None:
    """The reference is generated from these texts."""
    lines = [line for line in reference_page("The networks file", Networks).splitlines() if line.startswith("- ")]
    assert len(lines) > 20
    assert not [line for line in lines if line.endswith("`: ")]


def test_a_file_with_thousands_of_overlaps_is_checked_fast() -> None:
    """Any user may have a file checked."""
    ranges = ["10.0.0.0/8"] * 64
    clusters = [cluster(f"c{n}", nodes=ranges, pods=ranges, services=ranges) for n in range(30)]
    with pytest.raises(InvalidInput) as caught:
        parse_networks({"clusters": clusters})
    assert len(caught.value.faults) == 200


def test_a_hub_without_researchers_is_a_finding() -> None:
    networks = parse_networks({"hub": {"addresses": ["10.255.0.1"]}})
    assert [finding.code for finding in findings(networks)] == ["NobodyComesIn"]


def test_hosts_may_be_among_nodes_and_researchers() -> None:
    """A NAT host of a cluster is often one of its machines."""
    clusters = [cluster("a", nodes=["10.8.0.0/16"])]
    hosts = [{"name": "n", "addresses": ["10.8.0.9"]}]
    document = {"researchers": ["10.7.0.0/16"], "hub": {"addresses": ["10.7.0.1"]}, "natHosts": hosts}
    assert parse_networks(document | {"clusters": clusters}).nat_hosts


def findings_about(**fields: Any) -> dict[str, str]:
    """Return findings about one cluster by code, without those about omitted fields."""
    found = findings(parse_networks({"clusters": [cluster(**fields)]}))
    return {finding.code: finding.message for finding in found if finding.code not in ("NothingSaid", "ServicesInside")}


def test_a_nearly_full_ipv6_range_for_pods_is_a_finding() -> None:
    """As for IPv4: by node ranges or addresses, each family for itself."""
    pods = ["10.16.0.0/12", "fdaa:1:2::/112"]
    full = {"nodes": 220, "podsPerNode": 10, "nodePrefix": 24, "nodePrefix6": 120}
    assert findings_about(pods=pods, size=full) == {
        "NearlyFull": "gamma will use 86% of its IPv6 addresses for Pods: plan its next range now"
    }
    assert findings_about(pods=pods, size=full | {"nodes": 200}) == {}


def test_ipv6_ranges_that_kubernetes_refuses_are_findings() -> None:
    """Node ranges more than 16 bits longer than their range, Services beyond 20 bits."""
    size = {"nodes": 5, "podsPerNode": 8, "nodePrefix6": 65}
    assert "a nodePrefix6 of 64 would do" in findings_about(pods=["fdaa:1:2::/48"], size=size)["NodePrefixTooLong"]
    assert (
        findings_about(pods=["fdaa:1:2::/48", "10.16.0.0/12"], size=size | {"nodePrefix6": 64, "nodePrefix": 29}) == {}
    )
    assert "a /108" in findings_about(services=["fdaa:1:2::/107"])["ServicesTooLarge"]
    assert "a /12" in findings_about(services=["10.128.0.0/11"])["ServicesTooLarge"]
    assert findings_about(services=["fdaa:1:2::/108", "10.128.0.0/12"]) == {}


def test_a_family_without_a_gateway_is_a_finding() -> None:
    """If a cluster has gateways, no other route is made; without any, the surrounding network routes."""
    nodes = ["10.1.0.0/24", "fdaa:1:2::/64"]
    assert "no gateway with an IPv6 address" in findings_about(nodes=nodes, gateways=["10.255.0.11"])["NoGateway"]
    assert findings_about(nodes=nodes, gateways=["10.255.0.11", "fdaa:1:3::11"]) == {}
    assert findings_about(nodes=nodes) == {}
