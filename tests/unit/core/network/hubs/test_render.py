"""Rules and routes of hubs and NAT hosts, for existing pairs of clusters only.

tests/cluster/network/test_network_isolation.py proves with real packets that the rules do what they say.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.network.hubs.render import render_hub, render_nat
from kajitori.core.network.hubs.rules import MARK, digest
from kajitori.core.network.registry.model import Networks
from kajitori.core.network.registry.parsing import parse_networks
from kajitori.errors import InvalidInput

FILE = """
researchers: [10.200.0.0/16]
hub: {addresses: [10.255.0.1]}
natHosts: [{name: nat, addresses: [10.255.0.9]}, {name: inline, addresses: [10.255.0.12], keepSource: true}]
clusters:
- {name: alpha, nodes: [10.1.0.0/24], pods: [10.16.0.0/16], services: [10.96.0.0/24], publicServices: [10.132.0.0/24],
   natHost: nat, gateways: [10.255.0.11], serviceGateways: [10.1.0.4, 10.1.0.5]}
- {name: beta, nodes: [10.2.0.0/24, "fd00:2::/64"], services: [10.96.0.0/24], publicServices: [10.133.0.0/24],
   natHost: inline, gateways: [10.255.0.12]}
- {name: gamma, pods: [10.3.0.0/16]}
"""


def rules(text: str) -> list[str]:
    """Return the rules alone, without their table."""
    return [line.split(" ", 4)[4] for line in text.splitlines() if line.startswith("add rule ")]


def test_a_hub_has_routes_only_for_clusters_with_gateways() -> None:
    """The surrounding network routes the rest."""
    routes = [route.arguments() for route in render_hub(parse_networks(FILE)).routes]
    assert routes == [
        "10.1.0.0/24 via 10.255.0.11",
        "10.16.0.0/16 via 10.255.0.11",
        "10.132.0.0/24 via 10.255.0.9",
        "10.2.0.0/24 via 10.255.0.12",
        "10.133.0.0/24 via 10.255.0.12",
    ]


def test_a_nat_host_routes_services_and_blackholes_public_ranges() -> None:
    """Spread over several gateways; untranslated packets are dropped so that they cannot loop."""
    routes = [route.arguments() for route in render_nat(parse_networks(FILE), "nat").routes]
    assert routes == [
        "10.200.0.0/16 via 10.255.0.1",
        "10.1.0.0/24 via 10.255.0.11",
        "10.16.0.0/16 via 10.255.0.11",
        "10.96.0.0/24 nexthop via 10.1.0.4 nexthop via 10.1.0.5",
        "blackhole 10.132.0.0/24",
    ]
    assert "fib_multipath_hash_policy=1" in render_nat(parse_networks(FILE), "nat").script()
    own = [route.arguments() for route in render_nat(parse_networks(FILE), "inline").routes]
    assert own == ["10.200.0.0/16 via 10.255.0.1", "blackhole 10.133.0.0/24"]


def test_the_caller_is_translated_unless_the_source_is_kept() -> None:
    networks = parse_networks(FILE)
    hiding, keeping = (rules(render_nat(networks, name).rules) for name in ("nat", "inline"))
    assert "hide ct original ip daddr 10.132.0.0/24 snat ip to 10.255.0.9" in hiding
    assert not [rule for rule in keeping if rule.startswith("hide")]
    assert [rule for rule in keeping if "dnat ip prefix to 10.96.0.0/24" in rule]


def test_clusters_may_call_researchers_if_the_file_says_so() -> None:
    """Never each other."""
    networks = parse_networks(FILE.replace("hub: {", "hub: {clustersMayCall: true, "))
    found = rules(render_hub(networks).rules)
    assert "from-alpha ip daddr @researchers4 counter name alpha-to-researchers accept" in found
    assert "from-alpha ip daddr @cluster-beta4 counter name alpha-to-beta drop" in found


@given(st.integers(1, 6))
def test_pairs_of_clusters_are_blocked_before_answers_pass(count: int) -> None:
    """Both ways, by name; so connections from before the rules are cut."""
    clusters = [{"name": f"c{n}", "nodes": [f"10.{n}.0.0/16"]} for n in range(count)]
    found = rules(render_hub(parse_networks({"clusters": clusters})).rules)
    for n in range(count):
        chain = [rule for rule in found if rule.startswith(f"from-c{n} ")]
        drops = [rule for rule in chain if rule.endswith(" drop")]
        assert len(drops) == count
        assert all(f"@cluster-c{m}4 counter name c{n}-to-c{m} drop" in drops[m] for m in range(count))
        assert chain.index(f"from-c{n} ct state established,related accept") == count


def test_installed_rules_are_recognized() -> None:
    """By a digest of the rules in a comment."""
    one, other = render_hub(parse_networks(FILE)), render_hub(parse_networks(FILE.replace("10.3.", "10.4.")))
    for rendered in (one, other):
        assert rendered.digest == digest(rendered.rules)
        assert f'comment "{MARK}{rendered.digest}"' in rendered.rules
    assert one.digest != other.digest
    assert one == render_hub(parse_networks(FILE))


@pytest.mark.parametrize(
    ("networks", "host", "said"),
    [
        (Networks(), None, "there are none"),
        (parse_networks(FILE), None, "there are several NAT hosts"),
        (parse_networks(FILE), "not", "there is no NAT host not"),
    ],
)
def test_registries_that_cannot_be_rendered(networks: Networks, host: str | None, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        render_nat(networks, host)
    assert said in caught.value.faults[0].message
    assert caught.value.faults[0].hint
    with pytest.raises(InvalidInput, match="none to connect"):
        render_hub(Networks())


@pytest.mark.parametrize("name", ["researchers", "strangers", "a-to-b"])
def test_names_that_counters_could_not_tell_apart_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_networks({"clusters": [{"name": name}], "natHosts": [{"name": name}]})
    assert {fault.field for fault in caught.value.faults} >= {"clusters[0].name", "natHosts[0].name"}


def test_a_network_of_ipv6_alone_needs_nothing_of_ipv4() -> None:
    """Prefixes are translated one to one as with IPv4; no rule, route or setting is about IPv4."""
    networks = parse_networks(
        """
        researchers: ["fdaa:200::/48"]
        hub: {addresses: ["fdaa:255::1"]}
        natHosts: [{name: nat, addresses: ["fdaa:255::9"]}]
        clusters:
        - {name: alpha, nodes: ["fdaa:1::/64"], pods: ["fdaa:1:1::/48"], services: ["fdaa:96::/112"],
           publicServices: ["fdaa:132::/112"], natHost: nat, gateways: ["fdaa:255::11"]}
        """
    )
    hub, nat = render_hub(networks), render_nat(networks, "nat")
    for rendered in (hub, nat):
        assert not [rule for rule in rules(rendered.rules) if re.search(r"\bip (saddr|daddr)|snat ip |dnat ip ", rule)]
        assert "net.ipv4" not in rendered.script()
        assert "net.ipv6.conf.all.forwarding=1" in rendered.script()
    assert any(rule.endswith("dnat ip6 prefix to fdaa:96::/112") for rule in rules(nat.rules))
    assert any(rule.endswith("snat ip6 to fdaa:255::9") for rule in rules(nat.rules))
    assert [route.arguments() for route in nat.routes][-1] == "blackhole fdaa:132::/112"
