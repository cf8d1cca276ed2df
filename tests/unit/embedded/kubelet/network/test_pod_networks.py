"""Pods with addresses of their own, inside a network namespace that stands for the whole machine."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.helpers.network.networks import in_a_network_of_its_own, ip, needs_networks, nft
from tests.unit.embedded.kubelet.conftest import Machine, until

from kajitori.embedded.kubelet.adapter import Isolation, LocalProgram, PodAdapter
from kajitori.embedded.kubelet.engine.detection import Engine
from kajitori.embedded.kubelet.http.port_forward import PodPorts
from kajitori.embedded.kubelet.kubelet import require_pod_network
from kajitori.embedded.kubelet.machine.cgroup_layout import group_name, groups_named
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.network.links import addresses, run
from kajitori.embedded.kubelet.network.pod_networks import PodNetwork
from kajitori.embedded.kubelet.uninstall import uninstall
from kajitori.errors import InvalidInput, Unavailable, Unsupported, WrongState
from kajitori.kube.resources import NODES

SERVE = (
    "import http.server, os; os.chdir('/'); "
    "server = http.server.ThreadingHTTPServer(('', 8000), http.server.BaseHTTPRequestHandler); "
    "print('listens', flush=True); server.serve_forever()"
)
FETCH = (
    "import socket, os, time\n"
    "for _ in range(500):\n"
    "    try: s = socket.create_connection((os.environ['MASTER_ADDR'], 8000), 5); break\n"
    "    except OSError: time.sleep(0.02)\n"
    "print(socket.gethostname(), s.getsockname()[0], s.getpeername()[0])\n"
)

CALL_TWICE = (
    "import os, pathlib, socket, time\n"
    "def call(): socket.create_connection((os.environ['ADDRESS'], 8000), 2).close(); print('answered', flush=True)\n"
    "for _ in range(500):\n"
    "    try: call(); break\n"
    "    except OSError: time.sleep(0.02)\n"
    "while not pathlib.Path(os.environ['GO']).exists(): time.sleep(0.02)\n"
    "call()\n"
)

SHOW = "cut -d: -f1 -s /proc/net/dev"
"""Prints the names of the network interfaces."""
CALLS = (
    "import socket\n"
    'try: socket.create_connection(("192.0.2.1", 80), 2)\n'
    'except OSError as error: print("unreachable" if error.errno == 101 else error)\n'
    'server = socket.create_server(("", 8000))\n'
    'socket.create_connection(("10.99.0.2", 8000), 2)\n'
    'print("itself")\n'
)
"""Connects to an address outside, then to itself by its own address."""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="network namespaces need root and ip: run as root, apt-get install iproute2",
)


def test_a_network_that_can_not_be_had_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kaji up` once started its kubelet again and again for it."""
    docker = Engine("docker.sock", "docker", "28.5")
    require_pod_network("host", docker)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unsupported, match="need root"):
        require_pod_network("namespace", None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda program: program)
    require_pod_network("namespace", None)
    with pytest.raises(Unsupported, match="Docker can't put containers"):
        require_pod_network("namespace", docker)


@pytest.mark.root
@needs_root
@in_a_network_of_its_own
def test_pods_have_addresses_of_their_own(tmp_path: Path) -> None:
    """Two Pods listen on the same port, a third reaches one by name, and an ended Pod's address is free again."""
    ip("link set lo up")
    asyncio.run(pods_with_addresses(tmp_path / "kubelet"))
    assert not list(Path("/run/netns").iterdir())
    assert bridges() == [], "it goes with the last Pod's kubelet: another folder's may have its addresses next"
    if shutil.which("nft"):
        assert nft("list", "tables") == ""


async def pods_with_addresses(folder: Path) -> None:
    machine = Machine(folder, pod_network="namespace", pod_cidr="10.99.0.0/24")
    try:
        await story(machine)
    finally:
        await machine.tear_down()


class OneIsolated(PodAdapter):
    """Isolates Pods with a label; their init containers are local programs."""

    def isolation(self, pod: Manifest) -> Isolation:
        return Isolation[pod["metadata"].get("labels", {}).get("isolation", "NONE")]

    def local_program(self, pod: Manifest, container: Mapping[str, Any]) -> LocalProgram | None:
        return InterfacesOfTheStep() if container["name"] == "step" else None


class InterfacesOfTheStep:
    """Prints its network interfaces."""

    argv = ("sh", "-c", SHOW)

    def environment(
        self,
        container_environment: Mapping[str, str],
        user: int | None,
        group: int | None,
        *,
        mounts: bool,
        is_process: bool,
    ) -> dict[str, str]:
        return dict(container_environment)


@pytest.mark.root
@needs_root
@in_a_network_of_its_own
def test_an_isolated_pod_has_only_the_loopback_interface(tmp_path: Path) -> None:
    """Its first step has the Pod's own network, and so have other Pods. Nothing of it is left behind."""
    ip("link set lo up")
    asyncio.run(an_isolated_pod(tmp_path / "kubelet"))
    assert not list(Path("/run/netns").iterdir())


async def an_isolated_pod(folder: Path) -> None:
    machine = Machine(folder, adapter=OneIsolated(), pod_network="namespace", pod_cidr="10.99.0.0/24")
    try:
        await machine.start()
        step: dict[str, Any] = {"initContainers": [{"name": "step", "image": "step:1"}]}
        isolated: dict[str, Any] = {"metadata": {"labels": {"isolation": "LOOPBACK"}}}
        await machine.cluster.submit("alone", "sh", "-c", f"{SHOW}; {sys.executable} -c '{CALLS}'", **step, **isolated)
        await machine.cluster.submit("other", "sh", "-c", SHOW, **step)
        for name in ("alone", "other"):
            await machine.phase(name, "Succeeded")
            (of_step,) = (machine.root / "logs").glob(f"*_{name}_*/step/0.log")
            assert "eth0" in of_step.read_text()
        said = [line.split()[-1] for line in machine.log("alone").splitlines()]
        assert said == ["lo", "unreachable", "itself"], said
        assert "eth0" in machine.log("other")
        await machine.cluster.submit("gang", "true", metadata={"labels": {"isolation": "GROUP"}})
        status = await machine.phase("gang", "Failed")
        assert status["reason"] == "Unsupported" and "must still reach each other" in status["message"]
    finally:
        await machine.tear_down()


async def test_a_node_without_pod_networks_refuses_isolated_pods(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "kubelet", adapter=OneIsolated())
    try:
        await machine.start()
        await machine.cluster.submit("alone", "true", metadata={"labels": {"isolation": "LOOPBACK"}})
        status = await machine.phase("alone", "Failed")
        assert status["reason"] == "Unsupported" and "--pod-network namespace" in status["message"]
    finally:
        await machine.tear_down()


def bridges() -> list[str]:
    return [name for _, name in socket.if_nameindex() if name.startswith("kaji-")]


def link(name: str) -> str:
    return subprocess.check_output(["ip", "link", "show", name], text=True)


def uid_of(machine: Machine, name: str) -> str:
    pod = machine.cluster.pod(name)
    assert pod is not None
    return str(pod["metadata"]["uid"])


async def story(machine: Machine) -> None:
    await machine.start()
    named = machine.root / "named"
    beside = {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", f"uname -n >>{named}"]}}}}
    for name in ("a", "b"):
        await machine.cluster.submit(name, sys.executable, "-c", SERVE, subdomain="gang", container=beside)
        await machine.phase(name, "Running")
    env = [{"name": "MASTER_ADDR", "value": "b.gang"}]
    await machine.cluster.submit("c", sys.executable, "-c", FETCH, subdomain="gang", container={"env": env})
    await machine.phase("c", "Succeeded")
    # A program may run before what is executed beside it has printed.
    assert sorted(named.read_text().split()) == ["a", "b"], "what is executed beside a program finds the same name"
    await machine.cluster.submit("host", "sh", "-c", "ip -o link; uname -n", hostNetwork=True)
    await machine.phase("host", "Succeeded")
    assert machine.cluster.status("host")["podIP"] == "127.0.0.1"
    assert "kaji-" in machine.log("host")
    assert machine.log("host").split()[-1] == socket.gethostname()
    await port_forward_reaches_localhost(machine)
    await a_reused_address_reaches_the_new_pod(machine)
    await a_partial_interface_does_not_count(machine.kubelet.context.network)
    addresses = [machine.cluster.status(name)["podIP"] for name in ("a", "b", "c")]
    assert addresses == ["10.99.0.2", "10.99.0.3", "10.99.0.4"], addresses
    assert machine.log("c").split()[-3:] == ["c", "10.99.0.4", "10.99.0.3"], machine.log("c")
    await machine.stop()
    assert len(bridges()) == 1, "Pods run on"
    await machine.start()
    await machine.cluster.submit("d", "sleep", "1000")
    await machine.phase("d", "Running")
    assert machine.cluster.status("d")["podIP"] == "10.99.0.4"
    packet_paths_are_written(machine)


def packet_paths_are_written(machine: Machine) -> None:
    files = {file.name: json.loads(file.read_text()) for file in (machine.root / "network").iterdir()}
    uid = uid_of(machine, "d")
    told = files.pop(f"{uid}.json")
    assert (told["uid"], told["name"], told["addresses"]) == (uid, "d", ["10.99.0.4"])
    assert told["interface"] in {name for _, name in socket.if_nameindex()}
    assert {file["name"] for file in files.values()} == {"a", "b"}, "c has ended, host has none of its own"


async def port_forward_reaches_localhost(machine: Machine) -> None:
    """Port-forward reaches the Pod's own `localhost`, and no thread stays in the Pod's network."""
    local = SERVE.replace("('', 8000)", "('127.0.0.1', 8001)")
    await machine.cluster.submit("local", sys.executable, "-c", local)
    await until(lambda: machine.log("local"), "it listens")
    namespace = machine.kubelet.context.network.namespace(uid_of(machine, "local"))

    def ports(namespace: str) -> PodPorts:
        return PodPorts("local", "its-uid", namespace, machine.kubelet.registered.wait)

    (await ports(namespace).connect(8001)).close()
    for elsewhere in ("", machine.kubelet.context.network.namespace(uid_of(machine, "a"))):
        with pytest.raises(ConnectionRefusedError):
            await ports(elsewhere).connect(8001)
    with pytest.raises(FileNotFoundError):
        await ports("/run/netns/gone").connect(8001)
    here = os.readlink("/proc/self/ns/net")  # noqa: PTH115
    await until(lambda: {task.readlink().name for task in Path("/proc/self/task").glob("*/ns/net")} == {here})
    machine.cluster.vanish("local")
    await until(lambda: len(machine.kubelet.workers) == 4, "it is gone")


async def a_reused_address_reaches_the_new_pod(machine: Machine) -> None:
    """A client of the address' last owner reaches the new owner at once, without waiting for its neighbour cache."""
    await machine.cluster.submit("old", sys.executable, "-c", SERVE)
    await machine.phase("old", "Running")
    address, go = machine.cluster.status("old")["podIP"], machine.root / "go"
    env = [{"name": "ADDRESS", "value": address}, {"name": "GO", "value": str(go)}]
    await machine.cluster.submit("caller", sys.executable, "-c", CALL_TWICE, container={"env": env})
    await until(lambda: machine.log("caller"), "the old one answered")
    network, uid = machine.kubelet.context.network, uid_of(machine, "old")
    path, _ = await network.attach(uid)
    held = os.open(path, os.O_RDONLY)  # like a connection whose other end never closes
    before = {name for _, name in socket.if_nameindex()}
    machine.cluster.vanish("old")
    await until(lambda: len(machine.kubelet.workers) == 5, "the old one is gone")
    assert len(before - {name for _, name in socket.if_nameindex()}) == 1, "else two would answer at its address"
    await machine.cluster.submit("new", sys.executable, "-c", SERVE)
    await machine.phase("new", "Running")
    assert machine.cluster.status("new")["podIP"] == address
    await until(lambda: machine.log("new"), "the new one listens")
    go.touch()
    await machine.phase("caller", "Succeeded")
    os.close(held)
    for name in ("new", "caller"):
        machine.cluster.vanish(name)
    await until(lambda: len(machine.kubelet.workers) == 4, "both are gone")


async def a_partial_interface_does_not_count(network: PodNetwork) -> None:
    """An interface that a killed kubelet left half-made does not count."""
    end = network.interface("half")
    before = await network.attach("half")
    ip(f"link set {end} nomaster down")
    assert await network.attach("half") == before
    assert "master kaji-" in link(end)
    assert "UP" in link(end)
    await network.detach("half")


@pytest.mark.root
@needs_root
@in_a_network_of_its_own
def test_a_node_waits_for_its_range_and_accepts_another(tmp_path: Path) -> None:
    """The node is not ready and says why until it has a range; existing Pods keep their addresses when it changes."""
    ip("link set lo up")
    asyncio.run(ranges_that_come_and_go(tmp_path / "kubelet"))
    assert bridges() == []


async def ranges_that_come_and_go(folder: Path) -> None:
    machine = Machine(folder, pod_network="namespace")
    try:
        await machine.start()
        assert ready(machine) == (
            "False",
            "container runtime network not ready: the Node has no range of Pod addresses (spec.podCIDR). `kaji up` "
            "assigns one, and so does kube-controller-manager with --allocate-node-cidrs; otherwise start "
            "this node with --pod-cidr RANGE",
        )
        assert [taint["key"] for taint in machine.cluster.node()["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
        await machine.cluster.submit("a", sys.executable, "-c", SERVE)
        await machine.cluster.submit("host", "true", hostNetwork=True)
        await machine.phase("host", "Succeeded")
        await until(lambda: machine.cluster.events("FailedCreatePodSandBox"), "it says why the other one waits")
        await given(machine, "fd00::/64")
        await until(lambda: "need an IPv4 range of /29 or larger" in ready(machine)[1], "a range that it can't use")
        await given(machine, "fd00::/64", "10.99.1.0/24")
        await machine.phase("a", "Running")
        await until(lambda: ready(machine)[0] == "True", "the node is ready")
        await until(lambda: not machine.cluster.node()["spec"]["taints"], "Pods may come")
        await machine.stop()
        machine.cluster.objects.pop(("nodes", "", "node"))
        await machine.start()
        assert ready(machine)[0] == "False", "a new Node has none"
        assert await gateways() == ["10.99.1.1"], "for the Pod that is there"
        assert machine.cluster.status("a")["podIP"] == "10.99.1.2"
        await given(machine, "10.99.2.0/24")
        env = [{"name": "MASTER_ADDR", "value": "10.99.1.2"}]
        await machine.cluster.submit("c", sys.executable, "-c", FETCH, container={"env": env})
        await machine.phase("c", "Succeeded")
        assert machine.log("c").split()[-2:] == ["10.99.2.2", "10.99.1.2"], machine.log("c")
        assert await gateways() == ["10.99.1.1", "10.99.2.1"]
        for name in ("a", "c", "host"):
            machine.cluster.vanish(name)
        await until(lambda: not machine.kubelet.workers, "all Pods are gone")
        await machine.kubelet.context.network.use([])
        assert await gateways() == [], "others may have them now"
    finally:
        await machine.tear_down()


async def given(machine: Machine, *cidrs: str) -> None:
    """Give the Node a range, as a controller does."""
    await machine.cluster.patch(NODES, "node", {"spec": {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}})


async def gateways() -> list[str]:
    """Return the addresses of the bridge."""
    return sorted(found.address for found in await addresses() if found.interface.startswith("kaji-"))


def ready(machine: Machine) -> tuple[str, str]:
    """Return status and message of the Node's condition."""
    found = next(
        condition for condition in machine.cluster.node()["status"]["conditions"] if condition["type"] == "Ready"
    )
    return found["status"], found["message"]


@pytest.mark.root
@needs_root
@in_a_network_of_its_own
def test_two_nodes_of_one_machine(tmp_path: Path) -> None:
    """The second of two nodes with overlapping ranges is refused, and leaves nothing behind."""
    ip("link set lo up", "link add name site type bridge", "addr add 10.77.0.1/16 dev site", "link set site up")
    asyncio.run(two_nodes(tmp_path))
    assert bridges() == []


async def two_nodes(folder: Path) -> None:
    one = Machine(folder / "one", pod_network="namespace", pod_cidr="10.77.1.0/24")
    try:
        await one.start()
        there = bridges()
        said = await refused(folder, "10.77.1.0/24")
        assert said == (
            "--pod-cidr: this machine has the Pod addresses 10.77.1.0/24 already: 10.77.1.1/24 is on "
            f"{there[0]}, the node of {folder / 'one'}. give this node another: --pod-cidr on a new Node, or delete "
            "its Node if the cluster assigns ranges, which then assigns a new one; to remove a node that is gone for "
            f"good, run `kaji node uninstall --data {folder / 'one'}`"
        )
        assert f"is on {there[0]}" in await refused(folder, "10.77.1.64/26"), "a part of it"
        assert "10.77.0.1/16 is on site. " in await refused(folder, "10.77.0.0/16"), "not a node's"
        assert bridges() == there
        other = Machine(folder / "two", pod_network="namespace", pod_cidr="10.77.2.0/24")
        other.cluster.put(NODES, "far", spec={"podCIDRs": ["10.77.2.0/25"]})
        with pytest.raises(InvalidInput, match=r"node far has the Pod range 10\.77\.2\.0/25"):
            await other.start()
        assert ("nodes", "", "node") not in other.cluster.objects
    finally:
        await one.tear_down()


@pytest.mark.root
@needs_networks
@in_a_network_of_its_own
def test_uninstalling_removes_everything_of_this_node_only(tmp_path: Path) -> None:
    ip("link set lo up")
    asyncio.run(uninstalled(tmp_path))
    assert bridges() == []


async def uninstalled(folder: Path) -> None:
    root = folder / "one"
    other = Machine(folder / "other", pod_network="namespace", pod_cidr="10.77.2.0/24", cgroups=True)
    gone = Machine(root, pod_network="namespace", pod_cidr="10.77.1.0/24", cgroups=True)
    for machine in (other, gone):
        await machine.start()
        await machine.cluster.submit("p", "sleep", "1000")
        await machine.phase("p", "Running")
    try:
        before = (namespaces(), bridges(), nft("list", "tables"), groups(other))
        with pytest.raises(Unavailable, match=f"another kubelet uses {root}"):
            await uninstall(root, force=True)
        await gone.stop()
        with pytest.raises(WrongState, match=f"containers of {root} still run: default/p"):
            await uninstall(root)
        assert (namespaces(), bridges(), nft("list", "tables"), groups(other)) == before, "nothing is touched yet"
        (root / "mine").touch()
        removed = await uninstall(root, force=True)
        assert removed[0] == "1 container"
        assert removed[-1] == str(root)
        assert [file.name for file in everything_in(root)] == ["mine"]
        assert groups(gone) == []
        assert groups(other) == before[-1]
        assert len(namespaces()) == len(bridges()) == len(nft("list", "tables").split("\n")) - 1 == 1
        assert await uninstall(root) == [], "a second time there is nothing"
        bridge = next(line for line in removed if line.startswith("bridge "))
        name = bridge.removeprefix("bridge ")
        ip(f"link add {name} type bridge", "link add one type veth peer name two", f"link set one master {name}")
        assert await uninstall(root) == [bridge], "by its name alone, with what hangs on it"
        assert (await other.phase("p", "Running"))["podIP"] == "10.77.2.2"
        assert other.kubelet.workers
    finally:
        await other.tear_down()


def namespaces() -> list[str]:
    return [entry.name for entry in Path("/run/netns").iterdir()]


def groups(machine: Machine) -> list[Path]:
    return groups_named(group_name(machine.root))


def everything_in(root: Path) -> list[Path]:
    return list(root.iterdir())


async def refused(folder: Path, cidr: str) -> str:
    """Return the error message of the next node."""
    with pytest.raises(InvalidInput) as caught:
        await Machine(folder / "two", pod_network="namespace", pod_cidr=cidr).start()
    return str(caught.value)


def test_a_command_that_ends_without_reading_is_no_error() -> None:
    """Such as `ip` on the kubelet's event loop, which fails on a write to an ended process."""

    async def often() -> None:
        for _ in range(30):
            await run(["true"])

    uvloop.run(often())
