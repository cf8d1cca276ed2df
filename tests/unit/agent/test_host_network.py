"""Pods on the node's own network: their control groups separate them from the node and from each other."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.helpers.network.networks import in_a_network_of_its_own, needs_networks, socket_in
from tests.unit.agent.test_counting import CLASSES, HEADERS, INTERNAL, WORLD, WORLD6, Agent, quiet
from tests.unit.agent.test_telling import pod

from kajitori.agent.engines import cgroups
from kajitori.agent.engines.sets import SetsEngine
from kajitori.agent.pods import PodFolder
from kajitori.agent.relay import RelayPods
from kajitori.agent.servers import Servers
from kajitori.core.traffic.node_feed import Line
from kajitori.core.traffic.totals import Count

_SEND = """
import socket, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
target = sys.argv[2]
sender = socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_DGRAM)
for size in sys.argv[3:]: sender.sendto(b"x" * int(size), (target, 9))
"""
_LISTEN = """
import socket, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taker.bind(("", 7))
print("listens", flush=True)
taker.recv(65536)
print("heard", flush=True)
"""


class Groups:
    """Control groups of this test, of any depth."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def make(self, name: str) -> str:
        (self.top / name).mkdir(parents=True)
        return str(self.top / name)

    def remove(self, name: str) -> None:
        (self.top / name).rmdir()

    def close(self) -> None:
        for folder, _, _ in os.walk(self.top, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                Path(folder).rmdir()


@contextlib.contextmanager
def groups() -> Iterator[Groups]:
    """Skip the test if control groups cannot be created."""
    mount = cgroups._mount()
    if mount is None or not cgroups.are_supported():
        pytest.skip("nftables cannot match control groups here: mount cgroup2, and use a kernel with CONFIG_NFT_SOCKET")
    made = Groups(mount / f"kajitori-test-{secrets.token_hex(4)}")
    try:
        made.top.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be created ({error}): run as root with a writable /sys/fs/cgroup")
    try:
        yield made
    finally:
        made.close()


def send_from(group: str, target: str, *sizes: int) -> Count:
    """Send UDP packets from the node's own network, by a process in that group."""
    words = [sys.executable, "-c", _SEND, group, target, *map(str, sizes)]
    subprocess.run(words, check=True, timeout=60)
    return Count(sum(sizes) + HEADERS[6 if ":" in target else 4] * len(sizes), len(sizes))


def on_host(agent: Agent, name: str, *paths: str) -> None:
    """Return a Pod on the node's network, with present or future processes in these groups."""
    told = pod(uid=f"uid-{name}", name=name, run=f"run-{name}", runUid=f"run-uid-{name}", cgroups=paths)
    (agent.folder / f"uid-{name}.new").write_bytes(msgspec.json.encode(told))
    (agent.folder / f"uid-{name}.new").rename(agent.folder / f"uid-{name}.json")


def route_to_the_world(agent: Agent) -> None:
    """Give the node addresses of its own for answers."""
    subprocess.run(["ip", "addr", "add", "10.0.0.1/32", "dev", "up0"], check=True)
    subprocess.run(["ip", "-6", "addr", "add", "2001:db8:9::1/128", "dev", "up0", "nodad"], check=True)


@needs_networks
@pytest.mark.root
@in_a_network_of_its_own
def test_host_network_pods_are_counted_apart_from_the_node(tmp_path: Path) -> None:
    """Both ways, IPv4 and IPv6, groups of any depth, several groups of one Pod, also ones that appear and vanish
    later."""
    with groups() as made:
        agent = Agent(tmp_path, SetsEngine)
        route_to_the_world(agent)
        a, b = made.make("a"), made.make("deep/er/b")
        on_host(agent, "a", a, str(made.top / "later"))
        on_host(agent, "b", b)
        agent.round()
        wanted_a = {"internet.out": send_from(a, WORLD, 100, 1000).plus(send_from(a, WORLD6, 50))}
        wanted_b = {"internal.out": send_from(b, INTERNAL, 7)}
        host = send_from(made.make("others"), WORLD, 33)
        later = made.make("later")
        agent.round()
        wanted_a["internet.out"] = wanted_a["internet.out"].plus(send_from(later, WORLD, 5))
        listener = subprocess.Popen([sys.executable, "-c", _LISTEN, b], stdout=subprocess.PIPE, text=True)
        assert listener.stdout is not None
        listener.stdout.readline()
        with socket_of_the_world() as sender:
            sender.sendto(b"x" * 60, ("10.0.0.1", 7))
        assert listener.stdout.readline() == "heard\n"
        assert listener.wait(60) == 0
        wanted_b["internet.in"] = Count(60 + HEADERS[4], 1)
        agent.round()
        runs = {run.run: quiet(run.totals) for run in agent.counting.ledger.runs.values()}
        assert runs == {"run-a": wanted_a, "run-b": wanted_b}
        assert quiet(agent.counting.ledger.host)["internet.out"] == host

        # Its group is gone before the Pod is, and nothing is lost.
        made.remove("later")
        agent.round()
        wanted_a["internet.out"] = wanted_a["internet.out"].plus(send_from(a, WORLD, 9))
        (agent.folder / "uid-b.json").unlink()
        agent.round()
        agent.restart()
        agent.round()
        runs = {run.run: quiet(run.totals) for run in agent.counting.ledger.runs.values()}
        assert runs == {"run-a": wanted_a, "run-b": wanted_b}
        assert (agent.counting.health.repairs, agent.counting.health.counters_lost) == (0, 0)
        after = send_from(b, WORLD, 11)
        agent.round()
        assert quiet(agent.counting.ledger.host)["internet.out"] == host.plus(after), "b is no Pod any more"


@contextlib.contextmanager
def socket_of_the_world() -> Iterator[socket.socket]:
    with socket_in("world", socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((WORLD, 0))
        yield sender


@needs_networks
@pytest.mark.root
@in_a_network_of_its_own
def test_without_kernel_support_host_network_pods_count_as_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "are_supported", lambda: False)
    agent = Agent(tmp_path, SetsEngine)
    route_to_the_world(agent)
    on_host(agent, "a", "/sys/fs/cgroup/anything")
    agent.round(CLASSES)
    sent = send_as_the_node()
    agent.round()
    assert quiet(agent.counting.ledger.host) == {"internet.out": sent}
    assert agent.counting.health.uncounted_pods == 0


def send_as_the_node() -> Count:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x" * 70, (WORLD, 9))
    return Count(70 + HEADERS[4], 1)


def test_the_groups_of_kubelets_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For either driver and each class of service; a Pod without a group counts as the node."""
    monkeypatch.setattr(cgroups, "_mount", lambda: tmp_path)
    uid, other = "3f2c-1", "3f2c_1"
    for path in (
        f"kubepods.slice/kubepods-pod{other}.slice",
        f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{other}.slice",
        f"kubepods/pod{uid}",
        f"kubepods/burstable/pod{uid}",
    ):
        assert cgroups.groups_of_pod(uid) == ()
        (tmp_path / path).mkdir(parents=True)
        assert cgroups.groups_of_pod(uid) == (str(tmp_path / path),)
        (tmp_path / path).rmdir()


def test_a_relays_pods_are_looked_up_until_found() -> None:
    """Pods on the node's network by their groups, others by their interface."""
    found: dict[str, tuple[str, ...]] = {}
    now = 0.0
    pods = RelayPods(
        Servers(["http://unused"]),
        "n1",
        interface_of=lambda _: "veth1",
        cgroups_of=lambda uid: found.get(uid, ()),
        clock=lambda: now,
    )
    pods._apply(Line("1", True, (pod(uid="u1"), pod(uid="u2", addresses=["10.0.0.1"]))), "relay")
    assert [(pod.interface, pod.cgroups) for pod in pods.pods().values()] == [("", ()), ("veth1", ())]
    found["u1"] = ("/sys/fs/cgroup/a",)
    now += 10
    assert pods.pods()["u1"].cgroups == ("/sys/fs/cgroup/a",)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/sys/fs/cgroup/../a", '/sys/fs/cgroup/a" }', "/sys/fs/cgroup/", "sys/fs/cgroup/a"]
)
def test_invalid_groups_are_ignored(tmp_path: Path, path: str) -> None:
    (tmp_path / "u1.json").write_bytes(msgspec.json.encode(pod(cgroups=[path])))
    assert PodFolder(tmp_path).pods() == {}
