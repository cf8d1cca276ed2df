"""Cost of counting traffic: throughput through a node with 250 Pods, counted in different ways; and the agent.

    python -m bench.network.traffic            30 rounds, a second for each way with and without large packets
    python -m bench.network.traffic --small    3 rounds of a third of a second

A network namespace is the node: it forwards between a Pod and the world, and has 249 more Pods. iperf3 sends from the
Pod, one TCP connection, which the processor limits. The ways take turns within each round, so that other
work on the machine affects all of them alike. Without large packets (GSO off) the kernel handles each packet of 1,500
bytes by itself, which shows the cost of one.

Needs root, ip, nft, iptables and iperf3. It creates networks of its own and removes them at the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import math
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
from tests.helpers.network.networks import Node, ip, leave_for_a_network_of_ones_own, nft, socket_in

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from kajitori.agent.engines.interface import InterfaceEngine
from kajitori.agent.engines.nft import change
from kajitori.agent.engines.sets import SetsEngine
from kajitori.agent.state import LedgerFile
from kajitori.core.policy.network.traffic import TrafficPolicy
from kajitori.core.traffic.totals import (
    DIRECTIONS,
    Count,
    Counter,
    CounterName,
    Kind,
    Ledger,
    Pod,
    with_pods,
    with_reading,
)

PODS = 250
WORLD = "198.51.100.2"
CLASSES = TrafficPolicy.model_validate({"classes": {"internal": ["10.0.0.0/8"]}}).address_classes
NONE, INTERFACE, SETS, ARTICLE = "not at all", "interface", "sets", "the article's rules"
HOOKS = "hooks without rules"
"""Hooks at each interface without a rule. No rules of ours can cost less than these."""
NEEDED = ("ip", "nft", "iptables-restore", "iperf3")
EVERY_SECONDS = 15.0
MIB = 2**20

_SIOCETHTOOL = 0x8946
_SET_TSO, _SET_GSO = 0x1F, 0x24


def pods_of_node(number: int) -> dict[str, Pod]:
    """Return this many Pods, each with an address and, on this node, an interface."""
    return {
        f"{each:08d}-0000-4000-8000-000000000000": Pod(
            uid=f"{each:08d}-0000-4000-8000-000000000000",
            namespace=f"team-{each % 20}",
            name=f"run-{each}-1-0",
            run=f"run-{each}",
            run_uid=f"run-{each}",
            user=f"user-{each % 50}",
            interface=f"p{each}",
            addresses=(f"10.{32 + (each >> 16)}.{each >> 8 & 255}.{each & 255}",),
        )
        for each in range(1, number + 1)
    }


def large_packets(network: str, wanted: bool) -> None:
    """Whether programs in the network may hand packets larger than the wire to its `eth0`."""
    with socket_in(network, socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (_SET_TSO, _SET_GSO):
            value = ctypes.create_string_buffer(struct.pack("II", command, wanted))
            fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16sP", b"eth0", ctypes.addressof(value)))


def article(pods: Mapping[str, Pod]) -> str:
    """Return the article's four rules for each Pod, in the form of iptables-restore."""
    lines = ["*mangle"]
    for pod in pods.values():
        for direction, own, other in (("out", "-s", "-d"), ("in", "-d", "-s")):
            for name, match in (("internet", f"! {other}"), ("internal", other)):
                comment = f"iptables-exporter {pod.name} traffic={name}-{direction}"
                rule = f"{own} {pod.addresses[0]} {match} 10.0.0.0/8"
                lines.append(f'-A FORWARD {rule} -m comment --comment "{comment}"')
    return "\n".join([*lines, "COMMIT", ""])


class Transfer(NamedTuple):
    """Result of one run of iperf3."""

    gbits: float
    """A second."""
    cost: float
    """Processor seconds per GB of sender and receiver, including the kernel's work on the way. Other work on the same
    machine makes a transfer slower, but not more expensive."""


class Scene:
    """A node with Pods, and the way in which traffic is counted on it now."""

    def __init__(self) -> None:
        self.pods = pods_of_node(PODS)
        node = Node()
        node.wire("world", "up0", WORLD)
        first, *others = self.pods.values()
        node.wire("pod", first.interface, *first.addresses)
        ip("netns add crowd")
        ip(*(f"link add name {pod.interface} up type veth peer name {pod.interface} netns crowd" for pod in others))
        ip(*(f"route add {pod.addresses[0]} dev {pod.interface}" for pod in others))
        self._undo: Callable[[], object] = lambda: None
        self._server = subprocess.Popen(
            ["ip", "netns", "exec", "world", "iperf3", "-s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        """End all processes that were started."""
        self._server.terminate()
        self._server.wait()

    def count(self, way: str) -> None:
        """Count traffic in this way only from now on."""
        self._undo()
        self._undo = lambda: None
        if way in (INTERFACE, SETS):
            engine = InterfaceEngine() if way == INTERFACE else SetsEngine()
            engine.count(self.pods, CLASSES)
            self._undo = engine.uninstall
        elif way == HOOKS:
            script = ["add table netdev empty"]
            for pod in self.pods.values():
                for hook in ("ingress", "egress"):
                    at = f'hook {hook} device "{pod.interface}" priority -500;'
                    script.append(f"add chain netdev empty {hook}.{pod.interface} {{ type filter {at} }}")
            change("\n".join(script) + "\n")
            self._undo = lambda: nft("delete", "table", "netdev", "empty")
        elif way == ARTICLE:
            subprocess.run(["iptables-restore"], input=article(self.pods).encode(), check=True)
            self._undo = lambda: nft("delete", "table", "ip", "mangle")

    def transfer(self, seconds: float) -> Transfer:
        """Send from the Pod to the outside for about this long."""
        size = ["-t", "1"] if seconds >= 1 else ["-n", f"{int(seconds * 600)}M"]
        command = ["ip", "netns", "exec", "pod", "iperf3", "-c", WORLD, "-J", *size]
        for _ in range(5):
            done = subprocess.run(command, capture_output=True, text=True)
            end = json.loads(done.stdout or "{}").get("end", {})
            if "sum_received" in end:
                received, use = end["sum_received"], end["cpu_utilization_percent"]
                spent = (use["host_total"] + use["remote_total"]) / 100 * end["sum_sent"]["seconds"]
                return Transfer(received["bits_per_second"] / 1e9, spent / (received["bytes"] / 1e9))
            time.sleep(0.3)  # the server is not there yet, or not ready for the next
        raise SystemExit(f"iperf3 failed: {done.stdout}{done.stderr}")


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % confidence interval (normal, with about 30 samples)."""
    width = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return statistics.fmean(values), width


def measure_throughput(rounds: int, seconds: float) -> list[Limit]:
    """Measure each way in turn, in this many rounds, with and without large packets; return the limits."""
    ways = (NONE, HOOKS, INTERFACE, SETS, ARTICLE)
    found: dict[tuple[str, bool], list[Transfer]] = {(way, large): [] for way in ways for large in (False, True)}
    scene = Scene()
    try:
        for number in range(rounds):
            for way in (*ways[number % len(ways) :], *ways[: number % len(ways)]):
                scene.count(way)
                for large in (False, True):
                    large_packets("pod", large)
                    found[way, large].append(scene.transfer(seconds))
        scene.count(NONE)
    finally:
        scene.close()
    limits = []
    for large in (False, True):
        rows = []
        for way in ways:
            transfers, others = found[way, large], found[NONE, large]
            speed = mean_and_interval([each.gbits for each in transfers])
            cost = mean_and_interval([each.cost for each in transfers])
            ratio = mean_and_interval([other.cost / one.cost for one, other in zip(transfers, others, strict=True)])
            cells = [f"{mean:.3f} ± {width:.3f}" for mean, width in (speed, cost, ratio)]
            rows.append((way, *cells))
            if way in (INTERFACE, SETS):
                # Within noise: the interval reaches the promise.
                least = 1.0 if large else (0.95 if way == INTERFACE else 0.9)
                what = f"{way}, GSO {'on' if large else 'off'}: what the same processor time carries, to no counting"
                limits.append(Limit(what, sum(ratio), least=least))
        title = f"GSO {'on' if large else 'off'}: a node with {PODS} Pods; means of {rounds}, 95 % intervals"
        print_table(title, ("counted", "Gbit/s", "processor s a GB", "GB a processor s, to none"), rows)
    return limits


def measure_reading() -> list[Limit]:
    """Measure the processor time of a read-out by number of Pods, including the kernel's."""
    rows, limits = [], []
    for number, most in ((PODS, 20.0), (5000, 200.0)):
        engine = SetsEngine()
        engine.count(pods_of_node(number), CLASSES)
        times = []
        for _ in range(9):
            started = time.process_time()
            counters = len(engine.read())
            times.append((time.process_time() - started) * 1000)
        engine.uninstall()
        middle = statistics.median(times)
        rows.append((f"{number} Pods", f"{counters}", f"{middle:.1f}", f"{min(times):.1f}–{max(times):.1f}"))
        limits.append(Limit(f"read-out of {number} Pods", middle, most=most, unit=" ms"))
    print_table("a read-out, processor time in ms", ("node", "counters", "median", "range"), rows)
    return limits


def ledger_of(pods: Mapping[str, Pod]) -> Ledger:
    """Return the state of an agent when every Pod of a node has had traffic of every kind."""
    kinds = [Kind(name, direction) for name in CLASSES.names for direction in DIRECTIONS]
    counters = {str(CounterName(uid, 0, kind)): Counter("", Count(10**12, 10**9)) for uid in pods for kind in kinds}
    ledger, _ = with_reading(with_pods(Ledger(), pods.values()), counters, time.time())
    return msgspec.structs.replace(ledger, seen={})


def measure_agent(seconds: float) -> list[Limit]:
    """Measure `kaji agent` on a node with Pods, read and scraped every second; the result is scaled to every 15 s."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        pods, policy = Path(folder, "pods"), Path(folder, "policy.yaml")
        pods.mkdir()
        for uid, pod in pods_of_node(PODS).items():
            (pods / f"{uid}.json").write_bytes(msgspec.json.encode(pod))
        LedgerFile(Path(folder)).save(ledger_of(pods_of_node(PODS)))
        policy.write_text("traffic: {every: 1s, engine: sets}")
        command = [sys.executable, "-m", "kajitori.cli", "agent", "--port", "0", "--data", folder]
        command += ["--pods", str(pods), "--policy", str(policy)]
        agent = psutil.Popen(command, stderr=subprocess.PIPE, text=True)
        stack.callback(agent.wait)
        stack.callback(agent.terminate)
        url = next(line for line in agent.stderr if "metrics at" in line).split()[-1].rstrip(".")
        began, started = _cpu_seconds(agent), time.monotonic()
        while time.monotonic() < started + seconds:
            with urllib.request.urlopen(url) as answer:
                size = len(answer.read())
            time.sleep(1.0)
        spent = (_cpu_seconds(agent) - began) / (time.monotonic() - started)
        memory = agent.memory_info().rss / MIB
    share = 100 * spent / EVERY_SECONDS
    rows = [(f"{memory:.0f}", f"{spent * 1000:.1f}", f"{share:.2f}", f"{size / 1e3:.0f}")]
    columns = ("MiB", "ms a round and a scrape", f"% of a core, every {EVERY_SECONDS:.0f} s", "kB a scrape")
    print_table(f"the agent on a node with {PODS} Pods", columns, rows)
    return [Limit("the agent's memory", memory, most=60, unit=" MiB"), Limit("of a core", share, most=0.5, unit=" %")]


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="3 rounds of a third of a second")
    small = parser.parse_args().small
    lacking = [program for program in NEEDED if shutil.which(program) is None]
    if os.geteuid() != 0 or lacking:
        raise SystemExit(f"needs root{', and ' + ', '.join(lacking) if lacking else ''}")
    leave_for_a_network_of_ones_own()
    limits = measure_throughput(3, 0.3) if small else measure_throughput(30, 1.0)
    limits += measure_reading()
    limits += measure_agent(5.0 if small else 30.0)
    return print_limits(limits)


if __name__ == "__main__":
    raise SystemExit(main())
