"""Runs' NetworkPolicies, read as Kubernetes' documentation says: they allow exactly the connections that policy
means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.naming import names
from kajitori.core.pods import manifests
from kajitori.core.pods.reach import network_rules, reach_of
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.run import RunSpec

Address = IPv4Address | IPv6Address
OWN = "vision"
MEMBER = {names.LABEL_RUN_UID: "uid-1"}


@dataclass(frozen=True)
class End:
    """The other end of a connection: a Pod if it has a namespace, otherwise a host with an address."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    address: Address | None = None


# ------------------------------------------------------------------------ concepts/services-networking/network-policies


def allows(spec: Mapping[str, Any], direction: str, other: End, port: int, protocol: str) -> bool:
    """Return whether a policy allows its Pods this connection. A direction that is not among its types is not isolated;
    in an isolated one, some rule has to allow it."""
    if direction not in spec["policyTypes"]:
        return True
    peers = "from" if direction == "Ingress" else "to"
    return any(
        (not rule.get(peers) or any(_is_peer(peer, other) for peer in rule[peers]))
        and (not rule.get("ports") or {"port": port, "protocol": protocol} in rule["ports"])
        for rule in spec.get(direction.lower(), ())
    )


def _is_peer(peer: Mapping[str, Any], other: End) -> bool:
    """Ranges are for addresses outside the cluster. Pods are selected by their labels, by default in the policy's own
    namespace."""
    if "ipBlock" in peer:
        assert peer.keys() == {"ipBlock"}, "a range stands alone"
        block = peer["ipBlock"]
        return other.address is not None and (
            _within(other.address, block["cidr"])
            and not any(_within(other.address, hole) for hole in block.get("except", ()))
        )
    if not other.namespace:
        return False
    namespaces = peer.get("namespaceSelector")
    there = other.namespace == OWN if namespaces is None else _chosen(namespaces, _labels_of(other.namespace))
    return there and _chosen(peer.get("podSelector", {}), dict(other.labels))


def _labels_of(namespace: str) -> dict[str, str]:
    return {"kubernetes.io/metadata.name": namespace}


def _chosen(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Match by equality, which is all that is used; an empty selector matches every Pod."""
    assert selector.keys() <= {"matchLabels"}
    wanted: Mapping[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


@cache
def _network(cidr: str) -> IPv4Network | IPv6Network:
    return ip_network(cidr)


def _within(address: Address, cidr: str) -> bool:
    return address.version == _network(cidr).version and address in _network(cidr)


# ------------------------------------------------------------------------------------------------ what policy means


@dataclass(frozen=True)
class World:
    """Classes of addresses, and what a run asks for and policy always allows, by direction; None means everything."""

    classes: dict[str, list[str]]
    said: dict[str, list[str] | None]
    always: dict[str, list[str]]
    pods: str
    server: str

    def means(self, direction: str, other: End, port: int, protocol: str) -> bool:
        """Return whether the run may have this connection."""
        key = "from" if direction == "Ingress" else "to"
        said = self.said[key]
        if said is None:
            return True
        places = [*said, *self.always[key]]
        if other.address is not None:
            in_class = self.class_of(other.address) in places
            in_range = any("/" in place and _within(other.address, place) for place in places)
            return in_class or in_range or (direction == "Egress" and self._is_service(other.address, port, protocol))
        if other.labels == tuple(MEMBER.items()) and other.namespace == OWN:
            return True
        if self.pods in places or ("namespace" in places and other.namespace == OWN):
            return True
        resolver = other.namespace == "kube-system" and ("k8s-app", "kube-dns") in other.labels
        asked = self.server.endswith(".svc:8600") and other.namespace == "ops"
        return direction == "Egress" and (resolver or asked)

    def class_of(self, address: Address) -> str:
        """Return the class of the smallest range around the address."""
        around = [
            (_network(network).prefixlen, name)
            for name, ranges in self.classes.items()
            for network in ranges
            if _within(address, network)
        ]
        return max(around)[1] if around else "internet"

    def _is_service(self, address: Address, port: int, protocol: str) -> bool:
        """Return whether this is the resolver on each node, or the server of the first step."""
        if str(address) == "169.254.20.10":
            return port == 53
        return self.server == f"http://{address}:8600" and (port, protocol) == (8600, "TCP")

    def spec(self) -> dict[str, Any] | None:
        """Return the run's NetworkPolicy."""
        document = {
            "traffic": {"classes": self.classes},
            "network": {"pods": self.pods, "always": self.always},
            "start": {"image": "kajitori:1", "server": self.server},
        }
        policy = parse_policy(document)
        network = {key: value for key, value in self.said.items() if value is not None}
        run = RunSpec.model_validate({"image": "x", "network": network})
        rules = network_rules(reach_of(run.network, policy), policy, first_step=True)
        if rules is None:
            return None
        made = manifests.network_policy(run_name="bert", namespace=OWN, run_uid="uid-1", rules=rules)
        assert made["metadata"]["namespace"] == OWN and made["spec"]["podSelector"] == {"matchLabels": MEMBER}
        spec: dict[str, Any] = made["spec"]
        return spec


RANGES = st.tuples(st.integers(0, 255), st.integers(2, 8)).map(
    lambda pair: str(ip_network((pair[0] << 24, pair[1]), strict=False))
) | st.tuples(st.integers(0, 255), st.integers(2, 8)).map(
    lambda pair: str(ip_network((pair[0] << 120, pair[1]), strict=False))
)
SERVERS = ("http://kajitori.ops.svc:8600", "http://10.0.0.5:8600")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw nested ranges of both families, and runs with rules for one direction, both or none."""
    ranges = draw(st.lists(RANGES, min_size=1, max_size=8, unique=True))
    classes: dict[str, list[str]] = {"pods": ["100.64.0.0/10"]}
    for network in ranges:
        if network not in classes["pods"]:
            classes.setdefault(draw(st.sampled_from(["a", "b"])), []).append(network)
    known = [*classes, "internet", "namespace"]
    places = st.lists(st.sampled_from(known) | RANGES, unique=True, max_size=3)
    said = {key: draw(st.none() | places) for key in ("from", "to")}
    always = {key: draw(st.just([]) | places) for key in ("from", "to")}
    return World(classes, said, always, draw(st.sampled_from([*classes])), draw(st.sampled_from(SERVERS)))


def others(world: World) -> Iterator[End]:
    """Return Pods of each kind, and addresses at all edges of the ranges."""
    for namespace in (OWN, "kube-system", "ops", "elsewhere"):
        for labels in (tuple(MEMBER.items()), (("k8s-app", "kube-dns"),), ()):
            yield End(namespace, labels)
    lists: list[Sequence[str] | None] = [*world.classes.values(), *world.said.values(), *world.always.values()]
    written = {place for places in lists for place in places or () if "/" in place}
    found = {ip_address("169.254.20.10"), ip_address("10.0.0.5"), ip_address("2001:db8::1")}
    for network in map(ip_network, written):
        first, last = int(network[0]), int(network[-1])
        most = 2**network.max_prefixlen - 1
        found |= {type(network[0])(number) for number in (max(0, first - 1), first, last, min(most, last + 1))}
    yield from (End(address=address) for address in found)


@given(worlds())
def test_a_run_has_exactly_the_connections_that_policy_means(world: World) -> None:
    """In both directions and families: Pods, resolvers, the first step's server, and each edge of a range."""
    spec = world.spec()
    for other in others(world):
        for port, protocol in ((53, "UDP"), (53, "TCP"), (8600, "TCP"), (8600, "UDP"), (443, "TCP")):
            for direction in ("Ingress", "Egress"):
                found = spec is None or allows(spec, direction, other, port, protocol)
                assert found == world.means(direction, other, port, protocol), (direction, other, port, protocol)
