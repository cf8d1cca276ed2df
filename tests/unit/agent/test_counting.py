"""Counting in real networks: sent traffic is counted to the byte, whatever happens meanwhile."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
from pathlib import Path
from typing import cast

import msgspec
import pytest
from tests.helpers.network.networks import (
    Node,
    counted_by_interface,
    in_a_network_of_its_own,
    ip,
    need_egress_hooks,
    needs_networks,
    nft,
    socket_in,
    wait_for_carrier,
    without_ipv6,
)

from kajitori.agent.counting import Counting
from kajitori.agent.engines import nft as nft_of_agent
from kajitori.agent.engines import sets
from kajitori.agent.engines.engine import Engine
from kajitori.agent.engines.interface import InterfaceEngine
from kajitori.agent.engines.iptables import IptablesEngine
from kajitori.agent.engines.sets import SetsEngine
from kajitori.agent.pods import PodFolder
from kajitori.agent.state import LedgerFile
from kajitori.core.policy.network.traffic import TrafficPolicy
from kajitori.core.traffic.address_classes import Classes
from kajitori.core.traffic.totals import Count, Pod

pytestmark = [needs_networks, pytest.mark.root]

NOISE = ["fe80::/10", "ff00::/8", "::/127"]
"""Addresses of traffic that IPv6 itself sends at any time."""
CLASSES = TrafficPolicy.model_validate(
    {"classes": {"internal": ["10.0.0.0/8"], "storage": ["10.9.0.0/16", "fd09::/16"], "noise": NOISE}}
).address_classes
OTHER_CLASSES = TrafficPolicy.model_validate({"classes": {"internal": ["10.0.0.0/8"], "noise": NOISE}}).address_classes
INTERNAL, STORAGE, WORLD = "10.200.0.2", "10.9.0.2", "198.51.100.2"
STORAGE6, WORLD6 = "fd09::2", "2001:db8::2"
TABLES: dict[object, str] = {
    InterfaceEngine: "netdev kajitori_traffic",
    SetsEngine: "inet kajitori_addresses",
    IptablesEngine: "ip mangle",
}
HEADERS = {4: 28, 6: 48}
"""Bytes of the IP and UDP headers, by IP version."""
Kind = type[InterfaceEngine] | type[SetsEngine] | type[IptablesEngine]
_WITH_IPTABLES = pytest.mark.skipif(
    shutil.which("ip6tables-restore") is None, reason="ip6tables-restore is not installed: apt-get install iptables"
)
EACH = pytest.mark.parametrize(
    "kind", [InterfaceEngine, SetsEngine, pytest.param(IptablesEngine, marks=_WITH_IPTABLES)]
)


class Agent:
    """A node with an agent: `round` runs one of its rounds, `restart` replaces its process."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.node = Node()
        self.node.wire("world", "up0", INTERNAL, STORAGE, WORLD, STORAGE6, WORLD6)
        self.sink = Sink("world")
        self.folder = folder / "pods"
        self.folder.mkdir()
        self.kind = kind
        self.data = folder
        self.restart()

    @classmethod
    def of_a_pod(cls, folder: Path, kind: Kind) -> Agent:
        """Return an agent that already counts the Pod `a`."""
        agent = cls(folder, kind)
        agent.pod("a", "10.1.0.2")
        agent.round()
        return agent

    def restart(self, *former: Kind) -> None:
        if InterfaceEngine in (self.kind, *former):
            need_egress_hooks()
        engines = [cast(Engine, kind()) for kind in (self.kind, *former)]
        source, file = PodFolder(self.folder), LedgerFile(self.data)
        self.counting = Counting(engines[:1], source, file, lambda: 0.0, engines[1:])

    def round(self, classes: Classes = CLASSES) -> None:
        self.counting.round(classes, 3600.0)

    def pod(self, name: str, *addresses: str, uid: str = "", namespace: str = "vision") -> None:
        """Add a Pod with the interface `v` and its name."""
        uid = uid or f"uid-{name}"
        self.node.wire(name, f"v{name}", *addresses)
        pod = Pod(
            uid=uid,
            namespace=namespace,
            name=name,
            run=f"run-{name}",
            run_uid=f"run-{uid}",
            user="ada",
            interface=f"v{name}",
            addresses=addresses,
        )
        (self.folder / f"{uid}.json").write_bytes(msgspec.json.encode(pod))

    def end(self, name: str, uid: str = "") -> None:
        """Remove a Pod as the kubelet does: its interface first."""
        self.node.unwire(name, f"v{name}")
        (self.folder / f"{uid or f'uid-{name}'}.json").unlink()

    def totals(self, name: str, uid: str = "") -> dict[str, Count]:
        return quiet(self.counting.ledger.runs[f"run-{uid or f'uid-{name}'}"].totals)


def quiet(totals: dict[str, Count]) -> dict[str, Count]:
    """Return totals without noise."""
    return {kind: count for kind, count in totals.items() if not kind.startswith("noise")}


def send(network: str, target: str, *sizes: int, source: str = "") -> Count:
    """Send UDP packets of these sizes; return their amount on the wire."""
    version = 6 if ":" in target else 4
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    with socket_in("world" if network == "world" else network, family, socket.SOCK_DGRAM) as sender:
        if source:
            sender.bind((source, 0))
        for size in sizes:
            sender.sendto(b"x" * size, (target, 9))
    return Count(sum(sizes) + HEADERS[version] * len(sizes), len(sizes))


class Sink:
    """Receives what is sent to these addresses of a network, so that no ICMP error answers it."""

    def __init__(self, network: str) -> None:
        self.sockets = []
        for family in (socket.AF_INET, socket.AF_INET6):
            taker = socket_in(network, family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                taker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taker.bind(("", 9))
            self.sockets.append(taker)


@EACH
@in_a_network_of_its_own
def test_every_byte_is_counted_by_class(tmp_path: Path, kind: Kind) -> None:
    """UDP over IPv4 and IPv6, both ways: bytes and packets are those that were sent, in the class of the other end."""
    agent = Agent(tmp_path, kind)
    agent.pod("a", "10.1.0.2", "2001:db8:1::2")
    sink = Sink("a")
    agent.round()
    wanted = {
        "internal.out": send("a", INTERNAL, 1, 1000, 1472),
        "storage.out": send("a", STORAGE, 100).plus(send("a", STORAGE6, 7, 1400)),
        "internet.out": send("a", WORLD, *[500] * 20).plus(send("a", WORLD6, 1)),
        "internal.in": send("world", "10.1.0.2", 333, source=INTERNAL),
        "storage.in": send("world", "2001:db8:1::2", 1452, source=STORAGE6),
        "internet.in": send("world", "10.1.0.2", 44, 55, source=WORLD),
    }
    agent.round()
    assert agent.totals("a") == wanted
    ledger = agent.counting.ledger
    assert quiet(ledger.namespaces["vision"]) == quiet(ledger.users["ada"]) == wanted
    assert quiet(ledger.pods["uid-a"].totals) == wanted
    assert sink


@EACH
@in_a_network_of_its_own
def test_tcp_with_large_packets(tmp_path: Path, kind: Kind) -> None:
    """Every byte of a TCP connection at the Pod's interface counts, without the link header."""
    agent = Agent(tmp_path, kind)
    agent.pod("a", "10.1.0.2")
    without_ipv6("va")
    agent.round()
    before = counted_by_interface("va")
    server = socket_in("world", socket.AF_INET, socket.SOCK_STREAM)
    server.bind((WORLD, 80))
    server.listen()
    client = socket_in("a", socket.AF_INET, socket.SOCK_STREAM)
    client.connect((WORLD, 80))
    taken, _ = server.accept()
    for _ in range(40):
        client.sendall(b"x" * 65536)
        left = 65536
        while left:
            left -= len(taken.recv(left))
    taken.sendall(b"done")
    assert client.recv(4) == b"done"
    agent.round()
    after = counted_by_interface("va")
    size_in, packets_in, size_out, packets_out = (new - old for new, old in zip(after, before, strict=True))
    totals = agent.counting.ledger.pods["uid-a"].totals
    assert totals["internet.out"] == Count(size_out - 14 * packets_out, packets_out)
    assert totals["internet.in"] == Count(size_in - 14 * packets_in, packets_in)
    assert totals["internet.out"].bytes >= 40 * 65536
    assert packets_out < 40 * 65536 / 1448, "large packets were not cut: it is they that are counted"


@EACH
@in_a_network_of_its_own
def test_nothing_is_lost_or_doubled_over_restarts(tmp_path: Path, kind: Kind) -> None:
    """The kernel counts on without an agent; the next agent adds the difference."""
    agent = Agent.of_a_pod(tmp_path, kind)
    sent = send("a", WORLD, 100)
    agent.round()
    sent = sent.plus(send("a", WORLD, 200))
    agent.restart()
    sent = sent.plus(send("a", WORLD, 300))
    counters = agent.counting.ledger.seen.keys()
    agent.round()
    assert agent.counting.ledger.seen.keys() == counters, "it takes over what is there"
    sent = sent.plus(send("a", WORLD, 400))
    agent.end("a")
    agent.restart()
    agent.round()
    assert agent.totals("a") == {"internet.out": sent}, "what a Pod sent last, too"
    assert agent.counting.ledger.pods == {}
    agent.restart()
    agent.round()
    assert agent.totals("a") == {"internet.out": sent}
    assert "uid-a" not in nft("list", "ruleset"), "nothing of it stays in the kernel"
    assert agent.counting.health.counters_lost == 0


@pytest.mark.parametrize("kind", [InterfaceEngine, SetsEngine])
@in_a_network_of_its_own
def test_chains_stay_where_they_are_hooked_in(tmp_path: Path, kind: Kind) -> None:
    """Over restarts and changed classes.

    Created again, they would exist twice for a moment and count packets twice. A chain that is hooked in elsewhere is
    created again.
    """
    agent = Agent.of_a_pod(tmp_path, kind)

    def hooks() -> list[str]:
        lines = nft("-a", "list", "table", *TABLES[kind].split()).splitlines()
        return [line for line in lines if line.startswith("\tchain ")]

    before = hooks()
    agent.restart()
    agent.round()
    agent.round(OTHER_CLASSES)
    assert hooks() == before
    chain = before[0].split()[1]
    nft("flush", "table", *TABLES[kind].split())
    nft("delete", "chain", *TABLES[kind].split(), chain)
    nft("add", "chain", *TABLES[kind].split(), chain)
    agent.round(OTHER_CLASSES)
    sent = send("a", WORLD, 100)
    agent.round(OTHER_CLASSES)
    assert agent.totals("a") == {"internet.out": sent}


@pytest.mark.parametrize("kind", [InterfaceEngine, SetsEngine])
@in_a_network_of_its_own
def test_sets_are_deleted_after_the_rules_that_use_them(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a separate change: the kernel empties sets at once, while packets may still be in the former rules."""
    agent = Agent.of_a_pod(tmp_path, kind)
    scripts: list[str] = []
    change = nft_of_agent.change

    def noting(script: str) -> None:
        scripts.append(script)
        change(script)

    monkeypatch.setattr(nft_of_agent, "change", noting)
    tables = [nft("list", "table", *TABLES[kind].split())]
    for _ in range(2):
        agent.restart()
        agent.round()
        tables.append(nft("list", "table", *TABLES[kind].split()))
    assert any("delete set" in script for script in scripts)
    assert not any("flush table" in script and "delete set" in script for script in scripts)
    assert len({len(table.splitlines()) for table in tables}) == 1, "nothing of the former ones is left"


@EACH
@pytest.mark.parametrize("meddling", ["flush ruleset", "flush table", "delete chains"])
@in_a_network_of_its_own
def test_flushed_rules_are_restored_with_a_warning(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    kind: Kind,
    meddling: str,
) -> None:
    """Traffic in between is lost."""
    agent = Agent(tmp_path, kind)
    table = TABLES[kind]
    agent.pod("a", "10.1.0.2")
    agent.round()
    sent = send("a", WORLD, 100)
    agent.round()
    if meddling == "flush ruleset":
        nft("flush", "ruleset")
    else:
        nft("flush", "table", *table.split())
    if meddling == "delete chains":
        for line in nft("list", "table", *table.split()).splitlines():
            if line.strip().startswith("chain "):
                nft("delete", "chain", *table.split(), line.split()[1])
    send("a", WORLD, 5000)
    with caplog.at_level(logging.WARNING):
        agent.round()
    assert agent.counting.health.repairs == 1
    assert "another program changed the rules" in caplog.text
    lost = meddling == "flush ruleset" or kind is IptablesEngine  # its counters are in its rules
    assert ("is lost" in caplog.text) == bool(agent.counting.health.counters_lost) == lost
    sent = sent.plus(send("a", WORLD, 300))
    agent.round()
    assert agent.totals("a") == {"internet.out": sent}
    assert agent.counting.health.repairs == 1


@EACH
@in_a_network_of_its_own
def test_a_reused_address_or_interface_adds_nothing_to_a_dead_pod(tmp_path: Path, kind: Kind) -> None:
    """Another Pod gets them before the agent's next round."""
    agent = Agent(tmp_path, kind)
    agent.pod("a", "10.1.0.2", uid="old")
    agent.round()
    sent = send("a", WORLD, 100)
    agent.end("a", "old")
    agent.pod("a", "10.1.0.2", uid="new", namespace="speech")
    if kind is InterfaceEngine:
        send("a", WORLD, 5000)  # by address it cannot be known yet; an interface is known by its number
    agent.round()
    assert agent.totals("a", "old") == {"internet.out": sent}
    later = send("a", WORLD, 200)
    agent.round()
    assert agent.totals("a", "new") == {"internet.out": later}
    namespaces = {name: quiet(totals) for name, totals in agent.counting.ledger.namespaces.items()}
    assert namespaces == {"vision": {"internet.out": sent}, "speech": {"internet.out": later}}


@EACH
@in_a_network_of_its_own
def test_an_interface_that_is_renamed_or_gone(tmp_path: Path, kind: Kind) -> None:
    """A renamed interface goes on counting; a Pod without a found interface is reported as uncounted."""
    agent = Agent.of_a_pod(tmp_path, kind)
    sent = send("a", WORLD, 100)
    ip("link set va down", "link set va name vb", "link set vb up", "route replace 10.1.0.2 dev vb")
    wait_for_carrier("vb")
    wait_for_carrier("eth0", "a")
    agent.round()
    sent = sent.plus(send("a", WORLD, 200))
    agent.round()
    assert agent.totals("a") == {"internet.out": sent}
    assert agent.counting.health.uncounted_pods == 0
    ip("link del vb")
    agent.round()
    assert agent.counting.health.uncounted_pods == (kind is InterfaceEngine)
    assert agent.totals("a") == {"internet.out": sent}


@EACH
@in_a_network_of_its_own
def test_any_range_can_be_a_class(tmp_path: Path, kind: Kind) -> None:
    """Also one that nft prints differently; its counters go on when Pods come and go."""
    written = {"world": ["0.0.0.0/0", "::/0"], "mapped": ["::ffff:10.0.0.0/104"], "low": ["::1:0/112"], "noise": NOISE}
    classes = TrafficPolicy.model_validate({"classes": written, "others": "rest"}).address_classes
    agent = Agent(tmp_path, kind)
    agent.pod("a", "10.1.0.2", "2001:db8:1::2")
    agent.round(classes)
    agent.round(classes)
    counters = agent.counting.ledger.seen.keys()
    agent.pod("b", "10.1.0.3")
    sent = send("a", WORLD, 100).plus(send("a", WORLD6, 200))
    agent.round(classes)
    agent.end("b")
    agent.round(classes)
    agent.round(classes)
    assert agent.totals("a") == {"world.out": sent}
    assert agent.counting.ledger.seen.keys() == counters


@_WITH_IPTABLES
@in_a_network_of_its_own
def test_repeated_flushes_leave_no_empty_chains(tmp_path: Path) -> None:
    """As by a firewall that restarts."""
    agent = Agent.of_a_pod(tmp_path, IptablesEngine)

    def chains() -> int:
        said = subprocess.check_output("iptables-save -t mangle; ip6tables-save -t mangle", shell=True, text=True)
        return said.count(":KAJI-")

    before = chains()
    for _ in range(3):
        subprocess.run(["iptables", "-t", "mangle", "-F"], check=True)
        agent.round()
    assert chains() == before


@EACH
@in_a_network_of_its_own
def test_new_classes_count_from_the_next_round(tmp_path: Path, kind: Kind) -> None:
    """Totals of the old classes stay."""
    agent = Agent.of_a_pod(tmp_path, kind)
    first = send("a", STORAGE, 100)
    agent.round(OTHER_CLASSES)
    second = send("a", STORAGE, 200)
    agent.round(OTHER_CLASSES)
    assert agent.totals("a") == {"storage.out": first, "internal.out": second}
    assert agent.counting.health.repairs == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (InterfaceEngine, SetsEngine),
        (SetsEngine, InterfaceEngine),
        pytest.param(IptablesEngine, SetsEngine, marks=_WITH_IPTABLES),
        pytest.param(InterfaceEngine, IptablesEngine, marks=_WITH_IPTABLES),
    ],
)
@in_a_network_of_its_own
def test_another_engine_continues_and_removes_the_former(tmp_path: Path, before: Kind, after: Kind) -> None:
    agent = Agent.of_a_pod(tmp_path, before)
    sent = send("a", WORLD, 100)
    agent.round()
    sent = sent.plus(send("a", WORLD, 200))
    agent.kind = after
    agent.restart(before)
    agent.round()
    sent = sent.plus(send("a", WORLD, 300))
    agent.round()
    assert agent.totals("a") == {"internet.out": sent}
    assert agent.counting.health.counters_lost == 0
    assert not before().uninstall()


@EACH
@in_a_network_of_its_own
def test_uninstall_removes_our_rules_and_no_others(tmp_path: Path, kind: Kind) -> None:
    nft("add", "table", "inet", "theirs")
    nft("add", "counter", "inet", "theirs", "mine")
    before = nft("list", "ruleset")
    agent = Agent.of_a_pod(tmp_path, kind)
    assert nft("list", "ruleset") != before
    assert agent.kind().uninstall()
    if kind is IptablesEngine:  # a rule creates its table and chains, which all programs share
        assert nft("list", "ruleset").startswith(before)
        left = subprocess.check_output("iptables-save; ip6tables-save", shell=True, text=True)
        assert "-A" not in left and "KAJI" not in left
    else:
        assert nft("list", "ruleset") == before
    assert not agent.kind().uninstall()


@in_a_network_of_its_own
def test_maps_are_replaced_by_larger_ones_when_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier counts stay."""
    monkeypatch.setattr(sets, "_MIN_ROOM", 1)
    agent = Agent.of_a_pod(tmp_path, SetsEngine)
    sent = send("a", WORLD, 100)
    for number, name in enumerate("bcd", 3):
        agent.pod(name, f"10.1.0.{number}")
    agent.round()
    sent = sent.plus(send("a", WORLD, 10))
    others = [send(name, WORLD, 7) for name in "bcd"]
    agent.round()
    assert agent.totals("a") == {"internet.out": sent}
    assert [agent.totals(name) for name in "bcd"] == [{"internet.out": total} for total in others]


@in_a_network_of_its_own
def test_the_nodes_own_programs_are_counted_apart(tmp_path: Path) -> None:
    """Traffic of the node with itself is not counted."""
    agent = Agent(tmp_path, SetsEngine)
    agent.pod("a", "10.1.0.2")
    ip("addr add 10.0.0.1/32 dev lo")
    agent.round()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("10.0.0.1", 9))
        sender.sendto(b"x" * 100, (WORLD, 9))
        sender.sendto(b"x" * 100, ("10.0.0.1", 9))
        back = send("world", "10.0.0.1", 50, source=STORAGE)
        agent.round()
    assert quiet(agent.counting.ledger.host) == {"internet.out": Count(128, 1), "storage.in": back}
    assert agent.counting.ledger.namespaces == {}
