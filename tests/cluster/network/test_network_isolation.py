"""What `kaji network render` writes, in real network namespaces: a researcher, a hub, two clusters, NAT hosts, Pods.

A separate host translates the addresses of alpha's Services and hides the caller. beta's gateway does it there and
keeps the caller's address. Both clusters use the same Service range, the default of installers.

    researcher --- hub --- transit --- nat
                             |  `----- alpha-gw --- a1 (Pod), a2 (Pod)
                             `-------- beta-gw ---- b1 (Pod), b2 (Pod)

The ports of the two gateways at the transit switch are isolated from each other, as peered networks are, so packets
from one cluster to the other pass through the hub.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.helpers.network.netns import Namespace, Server, answered, call, connect, knock, namespaces
from tests.unit.cli.fake_web_api import FakeWebApi, invoke

from kajitori.core.network.hubs.render import Rendered, render_hub, render_nat
from kajitori.core.network.registry.model import Networks
from kajitori.core.network.registry.parsing import parse_networks

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("network-isolation")]
"""One worker runs all these tests, because of the hosts that they share."""

FILE = """
researchers: [10.200.0.0/16, "fd00:200::/48"]
hub: {addresses: [10.255.0.1, "fd00:255::1"]}
natHosts:
- {name: nat, addresses: [10.255.0.9, "fd00:255::9"]}
- {name: beta-gw, addresses: [10.255.0.12, "fd00:255::12"], keepSource: true}
clusters:
- name: alpha
  nodes: [10.1.0.0/24, "fd00:1::/64"]
  pods: [10.16.0.0/16, "fd00:1:1::/48"]
  services: [10.96.0.0/24, "fd00:96::/112"]
  publicServices: [10.132.0.0/24, "fd00:132::/112"]
  natHost: nat
  gateways: [10.255.0.11, "fd00:255::11"]
  probes: ["10.1.0.11:8080", "10.16.2.2:8080", "[fd00:1:1:2::2]:8080", "10.96.0.10:80"]
- name: beta
  nodes: [10.2.0.0/24, "fd00:2::/64"]
  pods: [10.17.0.0/16, "fd00:2:1::/48"]
  services: [10.96.0.0/24, "fd00:96::/112"]
  publicServices: [10.133.0.0/24, "fd00:133::/112"]
  natHost: beta-gw
  gateways: [10.255.0.12, "fd00:255::12"]
  probes: ["10.17.2.2:8080"]
"""

PORT = 8080
RESEARCHER, RESEARCHER6 = "10.200.0.2", "fd00:200::2"
NAMES = (
    "switch",
    "researcher",
    "hub",
    "nat",
    "alpha-gw",
    "beta-gw",
    *(f"{c}{n}{p}" for c in "ab" for n in "12" for p in ("", "-pod")),
)


@dataclass
class Scene:
    """All hosts, and the servers in their Pods and on their nodes."""

    networks: Networks
    hosts: dict[str, Namespace]
    servers: list[Server] = field(default_factory=list)
    seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def newly_counted(self, host: str) -> set[str]:
        """Return the counters of our rules on a host that have changed since the last call."""
        now, before = self.counters(host), self.seen.get(host, {})
        self.seen[host] = now
        return {name for name in now if now[name] != before.get(name)}

    def counters(self, host: str, table: str = "") -> dict[str, int]:
        """Return packets by counter, without counters at zero."""
        table = table or ("kajitori_hub" if host == "hub" else "kajitori_nat")
        found = json.loads(self.hosts[host].run(f"nft -j list counters table inet {table}"))["nftables"]
        return {
            entry["counter"]["name"]: entry["counter"]["packets"]
            for entry in found
            if entry.get("counter", {}).get("packets")
        }

    def apply(self, host: str, rendered: Rendered) -> None:
        self.hosts[host].run("sh -s", stdin=rendered.script())


def wire(hosts: dict[str, Namespace]) -> None:
    """Connect the hosts, and set the addresses and routes that exist before our rules."""
    switch, hub = hosts["switch"], hosts["hub"]
    switch.run("ip link add transit type bridge && ip link set transit up")
    for name, address in (("hub", 1), ("nat", 9), ("alpha-gw", 11), ("beta-gw", 12)):
        connect(switch, f"to-{name}", hosts[name], "transit")
        switch.run(f"ip link set to-{name} master transit")
        configure(hosts[name], "transit", f"10.255.0.{address}/24", f"fd00:255::{address}/64")
    configure(switch, "transit", "10.255.0.66/24", via=("10.255.0.1",))
    switch.run("ip route add 10.132.0.0/24 via 10.255.0.9")
    switch.run("for gateway in alpha beta; do bridge link set dev to-$gateway-gw isolated on; done")
    connect(hub, "people", hosts["researcher"], "eth0")
    configure(hub, "people", "10.200.0.1/24", "fd00:200::1/64")
    configure(hosts["researcher"], "eth0", f"{RESEARCHER}/24", f"{RESEARCHER6}/64", via=("10.200.0.1", "fd00:200::1"))
    for letter, cluster, number in (("a", "alpha", 1), ("b", "beta", 2)):
        gateway = hosts[f"{cluster}-gw"]
        gateway.run("ip link add nodes type bridge && ip link set nodes up")
        configure(gateway, "nodes", f"10.{number}.0.1/24", f"fd00:{number}::1/64")
        forward(gateway)
        gateway.run("ip route add default via 10.255.0.1; ip -6 route add default via fd00:255::1")
        for index in (1, 2):
            node, pod = hosts[f"{letter}{index}"], hosts[f"{letter}{index}-pod"]
            connect(gateway, f"node{index}", node, "eth0")
            gateway.run(f"ip link set node{index} master nodes")
            ways = (f"10.{number}.0.1", f"fd00:{number}::1")
            configure(node, "eth0", f"10.{number}.0.1{index}/24", f"fd00:{number}::1{index}/64", via=ways)
            forward(node)
            connect(node, "pod", pod, "eth0")
            range4, range6 = f"10.{15 + number}.{index}", f"fd00:{number}:1:{index}:"
            configure(node, "pod", f"{range4}.1/24", f"{range6}:1/64")
            configure(pod, "eth0", f"{range4}.2/24", f"{range6}:2/64", via=(f"{range4}.1", f"{range6}:1"))
            gateway.run(
                f"ip route add {range4}.0/24 via 10.{number}.0.1{index};"
                f"ip -6 route add {range6}:/64 via fd00:{number}::1{index}"
            )
        # As the network of a cloud does, Service addresses go to some node, where kube-proxy takes them to a Pod.
        gateway.run(
            f"ip route add 10.96.0.0/24 via 10.{number}.0.11; ip -6 route add fd00:96::/112 via fd00:{number}::11"
        )
        proxy(hosts[f"{letter}1"], number)


def configure(host: Namespace, device: str, *addresses: str, via: tuple[str, ...] = ()) -> None:
    """Add addresses, usable at once, and default routes."""
    commands = [f"ip address add {address} dev {device} {'nodad' if ':' in address else ''}" for address in addresses]
    commands += [f"ip -{6 if ':' in hop else 4} route add default via {hop}" for hop in via]
    host.run(" && ".join(commands))


def forward(host: Namespace) -> None:
    host.run("sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")


def proxy(node: Namespace, number: int) -> None:
    """Do the work of kube-proxy on a node: translate a Service's address to a Pod on the other node and hide the caller
    behind the node. Counters record the callers of Service addresses."""
    node.run(
        "nft -f -",
        stdin=f"""
        table inet proxy {{
            counter hidden {{ }}
            counter kept {{ }}
            chain count {{
                type filter hook prerouting priority mangle;
                ip saddr 10.255.0.9 ip daddr 10.96.0.10 counter name hidden
                ip6 saddr fd00:255::9 ip6 daddr fd00:96::10 counter name hidden
                ip saddr {RESEARCHER} ip daddr 10.96.0.10 counter name kept
                ip6 saddr {RESEARCHER6} ip6 daddr fd00:96::10 counter name kept
            }}
            chain services {{
                type nat hook prerouting priority dstnat;
                ip daddr {{ 10.96.0.1, 10.96.0.10 }} tcp dport {{ 80, 443 }} dnat ip to 10.{15 + number}.2.2:{PORT}
                ip6 daddr fd00:96::10 tcp dport 80 dnat ip6 to [fd00:{number}:1:2::2]:{PORT}
            }}
            chain hide {{
                type nat hook postrouting priority srcnat;
                ct original ip daddr 10.96.0.0/24 masquerade
                ct original ip6 daddr fd00:96::10 masquerade
            }}
        }}""",
    )


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with namespaces(*NAMES) as hosts:
        wire(hosts)
        networks = parse_networks(FILE)
        made = Scene(networks, hosts)
        try:
            for name in ("a1", "a2-pod", "a1-pod", "b1", "b2-pod", "researcher"):
                made.servers.append(Server(hosts[name], PORT))
            made.apply("hub", render_hub(networks))
            for name in ("nat", "beta-gw"):
                made.apply(name, render_nat(networks, name))
            yield made
        finally:
            for server in made.servers:
                server.close()


def test_a_researcher_reaches_every_cluster(scene: Scene) -> None:
    """Nodes and Pods see the researcher's own address and the other way round, over IPv4 and IPv6."""
    researcher = scene.hosts["researcher"]
    for address in ("10.1.0.11", "10.16.1.2", "10.16.2.2", "10.2.0.11", "10.17.2.2"):
        assert call(researcher, address, PORT) == (RESEARCHER, address)
    for address in ("fd00:1::11", "fd00:1:1:1::2", "fd00:2:1:2::2"):
        assert call(researcher, address, PORT) == (RESEARCHER6, address)
    counted = scene.counters("hub")
    assert counted["researchers-to-alpha"] >= 5
    assert counted["researchers-to-beta"] >= 3
    assert not {"spoofed", "alpha-to-beta", "beta-to-alpha", "strangers-to-alpha"} & set(counted)


def test_services_are_reached_at_their_public_addresses(scene: Scene) -> None:
    """Each public address belongs to one Service. Packets reach the cluster with the Service's own address as their
    destination. Their source is the NAT host or, if that keeps the source, the researcher."""
    researcher = scene.hosts["researcher"]
    translated = (("nat", "translated-alpha"), ("beta-gw", "translated-beta"))
    before = [scene.counters(host).get(counter, 0) for host, counter in translated]
    assert call(researcher, "10.132.0.10", 80) == ("10.1.0.11", "10.132.0.10")
    assert call(researcher, "fd00:132::10", 80) == ("fd00:1::11", "fd00:132::10")
    assert call(researcher, "10.133.0.10", 80) == ("10.2.0.11", "10.133.0.10")
    assert call(researcher, "fd00:133::10", 80) == ("fd00:2::11", "fd00:133::10")
    assert set(scene.counters("a1", "proxy")) == {"hidden"}
    assert set(scene.counters("b1", "proxy")) == {"kept"}
    after = [scene.counters(host)[counter] for host, counter in translated]
    assert after == [number + 2 for number in before]


def check_dropped(scene: Scene, attempt: socket.socket, host: str, counter: str) -> None:
    """Check that this connection attempt is dropped at that host, counted by that counter only, and gets no answer."""
    with attempt:
        assert counted_by(scene, host) == {counter}
        assert not answered(attempt)


def counted_by(scene: Scene, host: str) -> set[str]:
    """Wait until counters change on a host, and return them."""
    deadline = time.monotonic() + 60
    while not (counted := scene.newly_counted(host)):
        assert time.monotonic() < deadline, f"{host} counted nothing"
    return counted


@pytest.mark.parametrize(
    ("source", "target", "host", "counter"),
    [
        ("a1-pod", "10.17.2.2", "hub", "alpha-to-beta"),
        ("a1", "10.2.0.11", "hub", "alpha-to-beta"),
        ("a2-pod", "fd00:2:1:2::2", "hub", "alpha-to-beta"),
        ("a1-pod", "10.133.0.10", "hub", "alpha-to-beta"),
        ("b2-pod", "10.16.2.2", "beta-gw", "beta-to-alpha"),
        ("b1", "fd00:1::11", "beta-gw", "beta-to-alpha"),
        ("a1-pod", RESEARCHER, "hub", "alpha-to-researchers"),
        ("b1-pod", RESEARCHER6, "beta-gw", "beta-to-researchers"),
        ("switch", "10.17.2.2", "hub", "strangers-to-beta"),
    ],
)
def test_forbidden_connections_are_dropped_and_counted(
    scene: Scene, source: str, target: str, host: str, counter: str
) -> None:
    """These are connections from one cluster to the other and its Services, from a cluster to researchers, and from
    unknown hosts."""
    scene.newly_counted(host)
    check_dropped(scene, knock(scene.hosts[source], target, 80 if target.endswith(".0.10") else PORT), host, counter)


@pytest.mark.parametrize(("forged", "counter"), [("10.200.0.77", "spoofed"), ("10.17.9.9", "beta-to-beta")])
def test_a_forged_source_address_does_not_pass(scene: Scene, forged: str, counter: str) -> None:
    """Packets with a researcher's address arrive on the wrong interface. An address of the other cluster gives no
    further rights there."""
    gateway = scene.hosts["alpha-gw"]
    gateway.run(f"ip address replace {forged}/32 dev lo")
    scene.newly_counted("hub")
    check_dropped(scene, knock(gateway, "10.2.0.11", PORT, source=forged), "hub", counter)


@dataclass
class Checked:
    """Results of `kaji network check`."""

    exit_code: int
    place: str
    found: dict[str, tuple[str, str, bool]]
    """(expected, found, right) by place and check."""
    dropped: dict[str, int]


def check(scene: Scene, host: str, path: Path, seconds: int) -> Checked:
    words = ("network", "check", str(path), "--wait", str(seconds), "-o", "json")
    result = scene.hosts[host].inside(lambda: invoke(FakeWebApi(), *words))
    document = json.loads(result.stdout)
    items = {f"{item['where']}: {item['what']}": item for item in document["items"]}
    found = {key: (item["expected"], item["found"], item["right"]) for key, item in items.items()}
    return Checked(
        result.exit_code, f"{document['from']['kind']} {document['from']['name']}".strip(), found, document["dropped"]
    )


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "networks.yaml"
    path.write_text(FILE)
    return path


def test_a_check_from_a_researchers_machine(scene: Scene, registry: Path) -> None:
    """The machine reaches everything from its own address, and Services at their public addresses."""
    checked = check(scene, "researcher", registry, 60)
    assert (checked.exit_code, checked.place) == (0, "researchers")
    assert checked.found == {
        "alpha: node at 10.1.0.11:8080": ("reached", f"reached, from {RESEARCHER}", True),
        "alpha: Pod at 10.16.2.2:8080": ("reached", f"reached, from {RESEARCHER}", True),
        "alpha: Pod at [fd00:1:1:2::2]:8080": ("reached", f"reached, from {RESEARCHER6}", True),
        "alpha: Service 10.96.0.10 at 10.132.0.10:80": ("reached", f"reached, from {RESEARCHER}", True),
        "alpha: Service 10.96.0.1 at 10.132.0.1:443": ("reached", f"reached, from {RESEARCHER}", True),
        "beta: Pod at 10.17.2.2:8080": ("reached", f"reached, from {RESEARCHER}", True),
        "beta: Service 10.96.0.1 at 10.133.0.1:443": ("reached", f"reached, from {RESEARCHER}", True),
    }


def test_a_check_from_a_cluster(scene: Scene, registry: Path) -> None:
    """As expected, a host of the cluster reaches its own cluster and not the other one."""
    checked = check(scene, "a1-pod", registry, 3)
    assert (checked.exit_code, checked.place) == (0, "cluster alpha")
    silence = ("not reached", "not reached: nothing came back in 3 s", True)
    assert checked.found["beta: Pod at 10.17.2.2:8080"] == silence
    assert checked.found["beta: Service 10.96.0.1 at 10.133.0.1:443"] == silence
    assert checked.found["alpha: Service at 10.96.0.10:80"] == ("reached", "reached, from 10.16.1.2", True)


def test_a_check_on_the_hub_and_on_nat_hosts(scene: Scene, registry: Path) -> None:
    """Rules, routes and forwarding are compared with the rendered ones; manual changes are found."""
    for source, target, name in (
        ("a1-pod", "10.17.2.2", "hub"),
        ("b1-pod", "10.16.2.2", "beta-gw"),
        ("switch", "10.132.0.10", "nat"),
    ):
        scene.newly_counted(name)
        with knock(scene.hosts[source], target, PORT):
            counted_by(scene, name)
    for host, place, table in (("hub", "hub", "hub"), ("nat", "nat nat", "nat"), ("beta-gw", "nat beta-gw", "nat")):
        checked = check(scene, host, registry, 60)
        assert (checked.exit_code, checked.place) == (0, place), checked.found
        assert checked.found[f"this host: rules in table kajitori_{table}"][2]
        assert checked.found["this host: forwarding of IPv6"] == ("on", "on", True)
        counted = scene.counters(host)
        assert checked.dropped
        assert checked.dropped == {name: counted[name] for name in checked.dropped}
        assert not [name for name in checked.dropped if name.startswith(("researchers-", "translated-"))]
    hub = scene.hosts["hub"]
    hub.run(
        "ip route replace 10.132.0.0/24 via 10.255.0.11; ip -6 route del fd00:1::/64;sysctl -q -w net.ipv4.ip_forward=0"
    )
    registry.write_text(FILE.replace("hub: {", "hub: {clustersMayCall: true, "))
    checked = check(scene, "hub", registry, 5)
    scene.apply("hub", render_hub(scene.networks))
    assert checked.exit_code == 1
    wrong = {key: (expected, found) for key, (expected, found, right) in checked.found.items() if not right}
    assert set(wrong) == {
        "this host: rules in table kajitori_hub",
        "this host: route to 10.132.0.0/24",
        "this host: route to fd00:1::/64",
        "this host: forwarding of IPv4",
    }
    assert wrong["this host: route to 10.132.0.0/24"] == ("via 10.255.0.9", "via 10.255.0.11")
    assert wrong["this host: route to fd00:1::/64"] == ("via fd00:255::11", "none")


def test_applying_again_changes_nothing_else(scene: Scene) -> None:
    """Applying the same file again keeps the counters. Routes of a removed cluster are removed and those of others
    stay. Applying the old file again restores all of them."""
    hub = scene.hosts["hub"]
    counters, routes = scene.counters("hub"), hub.run("ip route; ip -6 route")
    hub.run("ip route add 10.9.0.0/24 via 10.200.0.2")
    scene.apply("hub", render_hub(scene.networks))
    assert scene.counters("hub") == counters
    without = scene.networks.model_copy(update={"clusters": scene.networks.clusters[:1]})
    scene.apply("hub", render_hub(without))
    left = hub.run("ip route; ip -6 route")
    assert "10.17.0.0/16" not in left
    assert "fd00:2::" not in left
    assert "10.16.0.0/16" in left
    assert "10.9.0.0/24" in left
    scene.apply("hub", render_hub(scene.networks))
    hub.run("ip route del 10.9.0.0/24")
    assert sorted(hub.run("ip route; ip -6 route").split("\n")) == sorted(routes.split("\n"))
    assert call(scene.hosts["researcher"], "10.17.2.2", PORT) == (RESEARCHER, "10.17.2.2")


def test_the_rules_keep_clusters_apart(scene: Scene) -> None:
    """Without the rules, one cluster reaches the other. A connection that was opened without them is cut when they are
    applied."""
    hosts = scene.hosts
    for host, table in (("hub", "kajitori_hub"), ("beta-gw", "kajitori_nat")):
        hosts[host].run(f"nft delete table inet {table}")
    old = hosts["a1-pod"].inside(lambda: socket.create_connection(("10.17.2.2", PORT), 30))
    with old:
        assert old.recv(100) == b"10.16.1.2"
        scene.apply("hub", render_hub(scene.networks))
        scene.apply("beta-gw", render_nat(scene.networks, "beta-gw"))
        scene.newly_counted("hub")
        old.send(b"still there?")
        check_dropped(scene, knock(hosts["a1-pod"], "10.17.2.2", PORT), "hub", "alpha-to-beta")
