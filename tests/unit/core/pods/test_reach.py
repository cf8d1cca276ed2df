"""Network access of runs: what is refused, and what the NetworkPolicy allows."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.helpers.scenes.deciding import codes, decided, refused

from kajitori.core.naming import names
from kajitori.core.pods import manifests
from kajitori.core.pods.reach import Reach, network_rules
from kajitori.core.policy.file import Policy, on_own_cluster, parse_policy
from kajitori.core.policy.network.traffic import TrafficPolicy
from kajitori.core.traffic.address_classes import Address
from kajitori.errors import InvalidInput

Rules = dict[str, Any]
CLASSES = {"classes": {"internal": ["10.0.0.0/8", "fd00::/8"], "storage": ["10.9.0.0/16"], "tape": ["10.9.8.0/24"]}}
STEP = {"image": "kajitori:1", "server": "http://kajitori.ops.svc.cluster.local:8600"}
MEMBERS = {"podSelector": {"matchLabels": {names.LABEL_RUN_UID: "uid-1"}}}
DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}


def rules_of(network: Rules | None, **more: Any) -> Rules:
    """Return the spec of a run's NetworkPolicy."""
    policy = more.pop("policy", {})
    decision = decided({"network": network, **more} if network is not None else more, {"traffic": CLASSES, **policy})
    assert decision.network is not None
    made = manifests.network_policy(run_name="bert", namespace="vision", run_uid="uid-1", rules=decision.network)
    spec: Rules = made["spec"]
    return spec


def blocks(rules: list[Rules], peers: str) -> list[Rules]:
    return [peer["ipBlock"] for rule in rules for peer in rule[peers] if "ipBlock" in peer and "ports" not in rule]


def lets_through(rules: list[Rules], address: str, peers: str = "to") -> bool:
    """Return whether the ranges of some rules let an address through."""
    one = ip_address(address)

    def holds(cidr: str) -> bool:
        network = ip_network(cidr)
        return one.version == network.version and one in network

    return any(holds(block["cidr"]) and not any(map(holds, block.get("except", ()))) for block in blocks(rules, peers))


def test_without_any_rule_there_is_no_network_policy() -> None:
    """The same if a run asks for everything."""
    assert decided().network is None
    open_to_all = {"defaults": {"network": {"from": ["namespace"], "to": []}}}
    assert decided({"network": {"from": ["all"], "to": ["all"]}}, open_to_all).network is None


@pytest.mark.parametrize(
    ("spec", "isolation"),
    [
        ({"network": {"from": [], "to": []}}, "loopback"),
        ({"network": {"from": [], "to": []}, "array": "0-9"}, "loopback"),
        ({"network": {"from": [], "to": []}, "replicas": 2}, "members"),
        ({"network": {"to": []}}, None),
        ({"network": {"from": [], "to": ["namespace"]}}, None),
        ({}, None),
    ],
)
def test_pods_without_network_are_marked_for_process_kubelets(spec: dict[str, Any], isolation: str | None) -> None:
    """These enforce no NetworkPolicy. A cluster on which nothing is enforced has no marks."""
    annotations = decided(spec).template["metadata"].get("annotations", {})
    assert annotations.get(names.ANNOTATION_ISOLATION) == isolation
    closed_by_default = {"defaults": {"network": {"from": [], "to": []}}, "network": {"enforced": False}}
    assert names.ANNOTATION_ISOLATION not in decided({}, closed_by_default).template["metadata"]["annotations"]


def test_members_always_reach_each_other() -> None:
    """Even if all other connections are forbidden."""
    spec = rules_of({"from": [], "to": []})
    assert spec["podSelector"] == MEMBERS["podSelector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"from": [MEMBERS]}]
    assert spec["egress"][0] == {"to": [MEMBERS]}
    assert not blocks(spec["egress"], "to")


def test_a_restriction_of_targets_does_not_restrict_sources() -> None:
    spec = rules_of({"to": ["storage"]})
    assert spec["policyTypes"] == ["Egress"]
    assert "ingress" not in spec
    spec = rules_of({"from": ["namespace"]})
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"from": [MEMBERS]}, {"from": [{"podSelector": {}}]}]


@pytest.mark.parametrize(
    ("places", "inside", "outside"),
    [
        (["internet"], ["8.8.8.8", "2001:db8::1"], ["10.1.0.1", "10.9.0.1", "fd00::1"]),
        (["internal"], ["10.1.0.1", "fd00::1"], ["10.9.0.1", "10.9.8.1", "8.8.8.8", "2001:db8::1"]),
        (["storage"], ["10.9.0.1"], ["10.1.0.1", "10.9.8.1", "8.8.8.8"]),
        (["internal", "tape"], ["10.1.0.1", "10.9.8.1"], ["10.9.0.1"]),
        (["10.9.0.0/16", "2001:db8::/32"], ["10.9.8.1", "2001:db8::1"], ["10.1.0.1", "2001:db9::1"]),
    ],
)
def test_a_class_becomes_its_ranges_without_nested_classes(
    places: list[str], inside: list[str], outside: list[str]
) -> None:
    """For IPv4 and IPv6, and for both directions."""
    spec = rules_of({"to": places, "from": places})
    for rules, peers in ((spec["egress"], "to"), (spec["ingress"], "from")):
        assert all(lets_through(rules, address, peers) for address in inside)
        assert not any(lets_through(rules, address, peers) for address in outside)


NETWORKS = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 32)).map(
    lambda pair: str(ip_network((pair[0], pair[1]), strict=False))
)
NEAR = st.tuples(st.integers(0, 15), st.integers(1, 4)).map(
    lambda pair: str(ip_network((pair[0] << 28, pair[1]), strict=False))
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, list[str]], list[str]]:
    """Draw nested address classes, a subset of them, and additional ranges."""
    ranges = draw(st.lists(NEAR | NETWORKS, min_size=1, max_size=10, unique=True))
    classes: dict[str, list[str]] = {}
    for network in ranges:
        classes.setdefault(draw(st.sampled_from(["a", "b", "c"])), []).append(network)
    named = st.lists(st.sampled_from(ranges) | NEAR, unique=True, max_size=2)
    return classes, draw(st.lists(st.sampled_from([*classes, "internet"]), unique=True, max_size=4)) + draw(named)


def in_one_set(rule: Rules, address: Address) -> bool:
    """Return whether a rule lets an address through on a plugin that keeps all ranges of a rule in one set, in which
    none may contain another, and all exceptions in a second set."""
    blocks = [peer["ipBlock"] for peer in rule["to"]]
    ranges = [ip_network(block["cidr"]) for block in blocks]
    assert not any(one.overlaps(other) for one, other in combinations(ranges, 2) if one.version == other.version)
    holes = [ip_network(text) for block in blocks for text in block.get("except", ())]
    return any(address in network for network in ranges) and not any(address in hole for hole in holes)


INSIDE = {"a": ["10.0.0.0/8"], "b": ["10.9.0.0/16"]}


@given(worlds(), st.integers(0, 2**32 - 1))
@example((INSIDE, ["a", "10.9.0.0/16"]), 0)
@example((INSIDE, ["a", "10.8.0.0/15"]), 0)
@example((INSIDE, ["a", "b", "internet"]), 0)
def test_an_address_passes_exactly_if_its_class_may(world: tuple[dict[str, list[str]], list[str]], number: int) -> None:
    """For any nesting of ranges. No exception equals its range, which Kubernetes refuses. It holds on network plugins
    that keep the ranges of a rule in sets, as kube-router does."""
    classes, places = world
    traffic = TrafficPolicy(classes=classes)
    of_class = traffic.address_classes
    rules = network_rules(Reach(targets=tuple(places)), Policy(traffic=traffic), first_step=False)
    assert rules is not None
    of_ranges = [rule for rule in rules["egress"] if "ports" not in rule and "ipBlock" in rule["to"][0]]
    written = [
        (ip_network(block["cidr"]), [*map(ip_network, block.get("except", ()))]) for block in blocks(of_ranges, "to")
    ]
    assert all(hole != outer and hole.subnet_of(outer) for outer, holes in written for hole in holes)  # type: ignore[arg-type]
    named = [ip_network(place) for place in places if "/" in place]
    ranges = [ip_network(text) for of_one in classes.values() for text in of_one]
    for address in (ip_address(number), *(network[0] for network in ranges), *(network[-1] for network in ranges)):
        passes = any(address in outer and not any(address in hole for hole in holes) for outer, holes in written)
        assert passes == (of_class.at(address) in places or any(address in network for network in named))
        assert passes == any(in_one_set(rule, address) for rule in of_ranges)


def test_the_class_of_the_clusters_pods_also_selects_pods() -> None:
    """Some network plugins do not match Pods by address."""
    every_pod: Rules = {"namespaceSelector": {}}
    assert every_pod in rules_of({"to": ["internal"]})["egress"][1]["to"]
    assert every_pod not in rules_of({"to": ["storage"]})["egress"][1]["to"]
    assert every_pod in rules_of({"to": ["storage"]}, policy={"network": {"pods": "storage"}})["egress"][1]["to"]


@pytest.mark.parametrize("url", [STEP["server"], "http://kajitori.ops.svc:8600"])
def test_resolvers_and_the_first_steps_server_stay_reachable(url: str) -> None:
    """Resolvers as Pods and on the node; the Web API only for members with a first step."""
    server = {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}}]}
    gang = rules_of({"to": []}, replicas=2, policy={"start": {**STEP, "server": url}})["egress"]
    assert {"to": [DNS]} in gang
    assert server in gang
    alone = rules_of({"to": []}, policy={"start": STEP})["egress"]
    assert {"to": [DNS]} in alone
    assert server not in alone


@pytest.mark.parametrize(
    ("url", "cidr", "port"),
    [
        ("http://10.0.0.5:8600", "10.0.0.5/32", 8600),
        ("https://[2001:db8::5]", "2001:db8::5/128", 443),
        ("http://10.0.0.5", "10.0.0.5/32", 80),
    ],
)
def test_a_server_with_an_address_is_reachable_at_its_port_only(url: str, cidr: str, port: int) -> None:
    egress = rules_of({"to": []}, replicas=2, policy={"start": {**STEP, "server": url}})["egress"]
    assert {"to": [{"ipBlock": {"cidr": cidr}}], "ports": [{"port": port, "protocol": "TCP"}]} in egress


def test_a_server_with_unknown_addresses_is_refused() -> None:
    """Members would wait for it in vain, unless policy names what is always reachable."""
    policy = {"start": {**STEP, "server": "https://kaji.example.com"}}
    fault = refused({"network": {"to": []}, "replicas": 2}, policy)["spec.network.to"]
    assert fault.code == "ServerOutOfReach"
    assert "network.always.to" in fault.hint
    assert decided({"network": {"from": []}, "replicas": 2}, policy).network is not None
    known = {**policy, "network": {"always": {"to": ["10.0.0.5/32"]}}}
    assert decided({"network": {"to": []}, "replicas": 2}, known).network is not None


def test_destinations_that_policy_always_allows_are_added() -> None:
    """`all` opens a direction whatever runs ask for."""
    always = {"from": ["10.0.0.7/32"], "to": ["storage"]}
    spec = rules_of({"from": [], "to": []}, policy={"network": {"always": always}})
    assert lets_through(spec["ingress"], "10.0.0.7", "from")
    assert lets_through(spec["egress"], "10.9.0.1")
    spec = rules_of({"from": [], "to": []}, policy={"network": {"always": {"from": ["all"]}}})
    assert spec["policyTypes"] == ["Egress"]


def test_every_invalid_destination_is_named() -> None:
    """Unknown classes with the known ones, entries beside `all`, and entries above a ceiling."""
    policy = {
        "traffic": CLASSES,
        "ceilings": {"run": {"network": {"from": ["namespace"], "to": ["internal", "10.9.0.0/20"]}}},
    }
    asked = {
        "from": ["namespace", "storrage"],
        "to": [
            "internal",
            "all",
            "internet",
            "10.9.4.0/24",
            "10.9.128.0/24",
            "10.1.0.0/16",
            "namespace",
            "none",
            "10.0.0.1/8",
        ],
    }
    faults = refused({"network": asked}, policy)
    assert set(faults) == {"spec.network.from[1]", *(f"spec.network.to[{index}]" for index in (1, 2, 4, 7, 8))}
    unknown = faults["spec.network.from[1]"]
    assert unknown.code == "UnknownPlace"
    assert "did you mean storage? known: internal, storage, tape, internet, namespace, all" in unknown.hint
    assert faults["spec.network.to[8]"].hint == "write 10.0.0.0/8"
    assert "[]" in faults["spec.network.to[7]"].hint
    assert faults["spec.network.to[2]"].code == "AboveCeiling"
    assert faults["spec.network.to[2]"].hint == "allowed: internal, 10.9.0.0/20"


def test_ranges_are_compared_with_the_classes_in_a_ceiling() -> None:
    policy = {"traffic": CLASSES, "ceilings": {"run": {"network": {"to": ["internet", "storage"]}}}}
    fine = ["8.8.8.0/24", "10.9.4.0/24", "2001:db8::/32"]
    assert decided({"network": {"to": fine}}, policy).network is not None
    asked = {"to": ["8.0.0.0/5", "10.9.8.0/24", "fd00::/16", "all"]}
    faults = refused({"network": asked}, policy)
    assert {field: fault.code for field, fault in faults.items() if fault.code == "AboveCeiling"} == {
        f"spec.network.to[{index}]": "AboveCeiling" for index in range(3)
    }
    whole = {"traffic": CLASSES, "ceilings": {"run": {"network": {"to": ["internet", "storage", "internal", "tape"]}}}}
    assert decided({"network": {"to": ["all"]}}, whole).network is None


def test_a_run_without_rules_gets_the_default_or_the_ceiling() -> None:
    """A finding says so."""
    ceiling = {"traffic": CLASSES, "ceilings": {"run": {"network": {"to": ["internal", "storage"]}}}}
    decision = decided({}, ceiling)
    assert "NetworkDefaulted" in codes(decision)
    assert (
        decision.template["metadata"]["annotations"][names.ANNOTATION_NETWORK]
        == "connects only to internal and storage"
    )
    both = {**ceiling, "defaults": {"network": {"to": ["storage"]}}}
    message = next(finding.message for finding in decided({}, both).findings if finding.code == "NetworkDefaulted")
    assert message == "connects only to storage"
    told = next(
        finding
        for finding in decided({"network": {"from": [], "to": ["internal"]}}, both).findings
        if "Network" in finding.code
    )
    assert (told.code, told.message) == ("NetworkRestricted", "accepts no connections, connects only to internal")


def test_restrictions_of_the_hosts_network_are_refused() -> None:
    """By a run or a ceiling; with a default alone there is a finding."""
    allowed = {"security": {"allowHostNetwork": True}}
    assert refused({"network": {"to": []}, "hostNetwork": True}, allowed)["spec.hostNetwork"].code == "HostNetwork"
    ceiling = {**allowed, "ceilings": {"run": {"network": {"to": ["internal"]}}}}
    assert refused({"hostNetwork": True}, ceiling)["spec.hostNetwork"].code == "HostNetwork"
    default = decided({"hostNetwork": True}, {**allowed, "defaults": {"network": {"to": ["internal"]}}})
    assert default.network is None
    assert "NetworkOfTheNode" in codes(default)


INTERNAL: Rules = {"networks": [{"name": "back", "internal": True}]}


def test_a_run_whose_networks_are_all_internal_stays_in_its_namespace() -> None:
    """One network that is not internal lifts that, and so does a direction that the run names itself. The run keeps the
    resolvers, and gets no more than policy gives to others."""
    within = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    spec = rules_of(None, **INTERNAL)
    assert spec["ingress"] == [{"from": [MEMBERS]}, {"from": [{"podSelector": {}}]}]
    assert spec["egress"][:2] == [{"to": [MEMBERS]}, {"to": [{"podSelector": {}}]}]
    assert within.items() <= spec["egress"][2]["to"][0].items() and not lets_through(spec["egress"], "93.184.215.14")
    front = INTERNAL["networks"] + [{"name": "front"}]
    assert decided({"networks": front}).network is None
    assert lets_through(rules_of({"to": ["internet"]}, **INTERNAL)["egress"], "93.184.215.14")
    pods: list[Rules] = [{"podSelector": {}}]
    for limit, peers in (("internal", pods), ("storage", [])):
        spec = rules_of(None, policy={"defaults": {"network": {"to": [limit]}}}, **INTERNAL)
        assert [peer for rule in spec["egress"][1:-2] for peer in rule["to"]] == peers


def test_internal_networks_are_told_as_what_the_user_asked_for() -> None:
    """And on the cluster of `kaji up` as what has no effect there."""
    told = {one.code: one.message for one in decided(INTERNAL).findings if "Network" in one.code}
    where = "accepts connections only from namespace, connects only to namespace"
    assert told == {"NetworkRestricted": f"{where}, since its networks are internal"}
    policy = on_own_cluster(parse_policy({}), "kajitori:1", "http://127.0.0.1:1")
    assert "NetworkNotEnforced" in codes(decided(INTERNAL, policy))


def test_restrictions_that_are_not_enforced_are_a_finding() -> None:
    """As on the cluster of `kaji up`; without restrictions there is no finding."""
    policy = on_own_cluster(parse_policy({}), "kajitori:1", "http://127.0.0.1:1")
    assert "NetworkNotEnforced" in codes(decided({"network": {"to": ["internal"]}}, policy))
    assert "NetworkNotEnforced" not in codes(decided({}, policy))


def test_a_container_engine_isolates_runs_of_one_member() -> None:
    """On `kaji up`. Gangs are refused there, because their members have to reach each other; so is one direction."""
    closed: Rules = {"network": {"from": [], "to": []}}
    policy = on_own_cluster(parse_policy({}), "kajitori:1", "http://127.0.0.1:1", images=True)
    decision = decided(closed, policy)
    assert "NetworkNotEnforced" not in codes(decision)
    assert decision.template["metadata"]["annotations"]["kajitori.dev/isolation"] == "loopback"
    others: list[Rules] = [closed | {"replicas": 2}, {"network": {"to": []}}]
    for document in others:
        assert refused(document, policy)["spec.network"].code == "NotEnforced"
    processes = on_own_cluster(parse_policy({}), "kajitori:1", "http://127.0.0.1:1")
    assert refused(closed, processes)["spec.network"].code == "NotEnforced"
    bridge = "http://10.244.0.1:1"
    with_addresses = on_own_cluster(parse_policy({}), "kajitori:1", bridge, own_addresses=True)
    assert decided(closed, with_addresses).template["metadata"]["annotations"]["kajitori.dev/isolation"] == "loopback"
    assert not with_addresses.start.findings, "the bridge is within the machine"
    assert on_own_cluster(parse_policy({}), "kajitori:1", bridge).start.findings


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"defaults": {"network": {"to": ["intrenet"]}}},
            "defaults.network.to[0]: there is no address class 'intrenet'",
        ),
        ({"network": {"always": {"from": ["nobody"]}}}, "network.always.from[0]: there is no address class 'nobody'"),
        ({"network": {"pods": "pods"}}, "network.pods: there is no address class 'pods'"),
        (
            {"defaults": {"network": {"to": ["internet"]}}, "ceilings": {"run": {"network": {"to": ["internal"]}}}},
            "defaults.network.to[0]: internet exceeds ceilings.run.network.to: internal",
        ),
        ({"traffic": {"classes": {"namespace": ["10.0.0.0/8"]}}}, "namespace is a reserved word"),
        ({"ceilings": {"run": {"network": {"to": ["10.0.0.1/8"]}}}}, "'10.0.0.1/8' is not the canonical form"),
    ],
)
def test_unknown_classes_in_a_policy_are_faults_with_their_path(policy: Rules, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_policy(policy)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("network", "field"),
    [({"to": ["a"] * 65}, "spec.network.to"), ({"from": [""]}, "spec.network.from[0]"), ({"to": ["a" * 65]}, "[0]")],
)
def test_lists_and_names_in_network_rules_have_limits(network: Rules, field: str) -> None:
    """So a run stays small."""
    with pytest.raises(InvalidInput) as caught:
        decided({"network": network})
    assert caught.value.faults[0].field.endswith(field)


def test_a_resolver_selector_without_labels_is_refused() -> None:
    """It would select all Pods of a namespace. The largest number of destinations, and one label, are accepted."""
    with pytest.raises(InvalidInput, match=r"network\.dns\.labels"):
        parse_policy({"network": {"dns": {"labels": {}}}})
    assert (
        parse_policy({"network": {"dns": {"namespace": "dns", "labels": {"app": "dns"}}}}).network.dns.namespace
        == "dns"
    )
    assert decided({"network": {"to": [f"10.0.{n}.0/24" for n in range(64)]}}).network is not None


@pytest.mark.parametrize("network", [{"from": [], "to": []}, {"to": []}, {"from": []}])
def test_isolation_that_is_not_enforced_is_refused(network: Rules) -> None:
    """A program meant to be cut off could reach everything. Other restrictions get a note."""
    not_enforced = {"network": {"enforced": False}, "traffic": CLASSES}
    assert {fault.code for fault in refused({"network": network}, not_enforced).values()} == {"NotEnforced"}
    decided({"network": network}, {"traffic": CLASSES})
    decided({"network": {"to": ["internal"]}}, not_enforced)
