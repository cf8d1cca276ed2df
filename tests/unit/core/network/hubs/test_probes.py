"""The connections that are tried from each place, and their expected outcomes."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from kajitori.core.network.hubs.probes import Outcome, Place, Probe, place_named, place_of, probes
from kajitori.core.network.registry.model import read_endpoint
from kajitori.core.network.registry.parsing import parse_networks
from kajitori.errors import InvalidInput

NETWORKS = parse_networks("""
researchers: [10.200.0.0/16]
hub: {addresses: [10.255.0.1]}
natHosts: [{name: nat, addresses: [10.255.0.9]}]
clusters:
- {name: alpha, nodes: [10.1.0.0/24, "fd00:1::/64"], pods: [10.16.0.0/16], services: [10.96.0.0/24],
   publicServices: [10.132.0.0/24], natHost: nat,
   probes: ["10.1.0.4:22", "[fd00:1::4]:22", "10.16.0.9:80", "10.96.0.10:80"]}
- {name: beta, nodes: [10.2.0.0/24], services: [10.97.0.0/24], probes: ["10.2.0.4:22"]}
""")


def outcomes_of(place: Place) -> dict[str, bool]:
    """Return whether each probe should pass, by cluster and endpoint."""
    return {f"{probe.cluster} {probe.endpoint}": probe.passes for probe in probes(NETWORKS, place)}


DIRECT = ("alpha 10.1.0.4:22", "alpha [fd00:1::4]:22", "alpha 10.16.0.9:80")
OUTSIDE = (*DIRECT, "alpha 10.132.0.10:80", "alpha 10.132.0.1:443")
INSIDE = (*DIRECT, "alpha 10.96.0.10:80", "alpha 10.96.0.1:443")


def test_researchers_reach_everything_by_public_addresses() -> None:
    """Services without a public range are not tried."""
    assert outcomes_of(Place("researchers")) == {**dict.fromkeys(OUTSIDE, True), "beta 10.2.0.4:22": True}
    assert outcomes_of(Place("elsewhere")) == {**dict.fromkeys(OUTSIDE, False), "beta 10.2.0.4:22": False}


def test_a_cluster_reaches_only_itself() -> None:
    """Its Services by their own addresses."""
    assert outcomes_of(Place("cluster", "alpha")) == {**dict.fromkeys(INSIDE, True), "beta 10.2.0.4:22": False}
    from_beta = outcomes_of(Place("cluster", "beta"))
    assert from_beta == {**dict.fromkeys(OUTSIDE, False), "beta 10.2.0.4:22": True, "beta 10.97.0.1:443": True}


def test_hosts_reach_what_they_route_to() -> None:
    """The hub has no translation; a NAT host is connected to its own clusters only."""
    assert outcomes_of(Place("hub")) == {**dict.fromkeys(DIRECT, True), "beta 10.2.0.4:22": True}
    assert set(outcomes_of(Place("nat", "nat"))) == set(INSIDE)


@pytest.mark.parametrize(
    ("own", "place"),
    [
        (["10.200.0.5"], Place("researchers")),
        (["10.200.0.1", "10.255.0.1"], Place("hub")),
        (["10.255.0.9", "10.1.0.9"], Place("nat", "nat")),
        (["10.16.3.3"], Place("cluster", "alpha")),
        (["fd00:1::7"], Place("cluster", "alpha")),
        (["192.0.2.1"], Place("elsewhere")),
        ([], Place("elsewhere")),
    ],
)
def test_a_place_is_found_by_addresses(own: list[str], place: Place) -> None:
    assert place_of(NETWORKS, [ip_address(address) for address in own]) == place


def test_a_place_is_found_by_name() -> None:
    assert place_named(NETWORKS, "nat") == Place("nat", "nat")
    assert place_named(NETWORKS, "beta") == Place("cluster", "beta")
    assert str(place_named(NETWORKS, "researchers")) == "among the researchers"
    with pytest.raises(InvalidInput) as caught:
        place_named(NETWORKS, "alhpa")
    assert "alpha" in caught.value.faults[0].hint


@pytest.mark.parametrize(
    ("outcome", "reached"), [("answered", True), ("refused", True), ("silent", False), ("unreachable", False)]
)
def test_a_refused_connection_reached_its_target(outcome: Outcome, reached: bool) -> None:
    for passes in (True, False):
        assert Probe("alpha", "node", ip_address("10.1.0.4"), 22, passes).is_right(outcome) == (passes == reached)


@pytest.mark.parametrize(
    "text", ["10.1.0.4", "10.1.0.4:0", "10.1.0.4:x", "fd00::1:22", "[10.1.0.4]:22", "host:22", ":22"]
)
def test_invalid_endpoints_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no|is not an address"):
        read_endpoint(text)
