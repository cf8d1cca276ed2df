"""Cost and delay of a relay.

    python -m bench.network.relay            7,500 agents at one relay, 100 new Pods a second for 20 s
    python -m bench.network.relay --small    500 agents, 50 a second for 5 s

A real kube-apiserver with etcd, `kaji relay` in a process of its own, and all agents in another, each with a stream of
its own that it keeps open. Nodes are names only. All agents connect at once. Then Pods are created with the names of
their nodes; measured is the time from before each is sent to the API server until its node's agent has read the line.
The watches that the API server has open are its own figure.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil
from tests.harness.servers.real_server import RealServer, running_real_server

from bench.parts.common import CONSOLE, Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.processes import answer, helper, say
from kajitori.cluster.nodes.client_evidence import open_watches_in
from kajitori.cluster.platform.install import install
from kajitori.core.traffic.node_feed import PATH, decode_line
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NAMESPACES, PODS

NAMESPACE = "relay"
PATIENCE_SECONDS = 120.0
STRAGGLERS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Size:
    agents: int
    pods_per_second: int
    seconds: int


FULL = Size(agents=7500, pods_per_second=100, seconds=20)
SMALL = Size(agents=500, pods_per_second=50, seconds=5)


# ---------------------------------------------------------------------------------------------- the agents


async def listen(url: str, count: int) -> None:
    """Run all agents: print how long it took until each knew its node's Pods, then on request the times of news."""
    heard: dict[str, float] = {}
    first = asyncio.Semaphore(0)
    host, port = urlsplit(url).hostname, urlsplit(url).port
    began = time.monotonic()

    async def agent(number: int) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, port)
                break
            except OSError:
                await asyncio.sleep(random.random())
        request = f"GET {PATH.format(node=node(number))} HTTP/1.1\r\nHost: relay\r\n\r\n"
        writer.write(request.encode())
        await reader.readuntil(b"\r\n\r\n")
        is_first = True
        while size := int(await reader.readline(), 16):
            line = decode_line(await reader.readexactly(size))
            await reader.readexactly(2)
            now = time.monotonic()
            for pod in line.pods:
                heard.setdefault(pod.name, now)
            if is_first:
                is_first = False
                first.release()

    agents = [asyncio.create_task(agent(number)) for number in range(count)]
    for _ in range(count):
        await first.acquire()
    say(time.monotonic() - began)
    await asyncio.to_thread(sys.stdin.readline)
    say(heard)
    for each in agents:
        each.cancel()


def node(number: int) -> str:
    return f"gpu-{number:05}"


# ---------------------------------------------------------------------------------------------- the measurement


@dataclass(frozen=True, slots=True)
class Figures:
    watches_before: int
    watches_after: int
    """Watches of Pods at the API server, before the relay started and with all agents."""
    connect_seconds: float
    latencies: list[float]
    lost: int
    relay_mib: float
    relay_cpu_share: float
    """Share of one core while Pods were created."""


async def measure(cluster: RealServer, size: Size) -> Figures:
    async with KubeClient(cluster.config) as client:
        await install(client)
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        before = await watches(client)
        command = [
            sys.executable,
            "-m",
            "kajitori.cli",
            "relay",
            "--kubeconfig",
            str(cluster.kubeconfig),
            "--port",
            "0",
        ]
        relay = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: ASYNC220 - nothing else runs in this loop yet
        agents = None
        try:
            assert relay.stderr is not None
            url = (await asyncio.to_thread(relay.stderr.readline)).split()[-1]
            agents = helper("bench.network.relay", "--listen", url, "--agents", str(size.agents))
            connected = await asyncio.to_thread(answer, agents)
            after = await watches(client)
            process = psutil.Process(relay.pid)
            cpu, began = process.cpu_times(), time.monotonic()
            sent = await churn(client, size)
            spent, seconds = process.cpu_times(), time.monotonic() - began
            await asyncio.sleep(STRAGGLERS_SECONDS)
            assert agents.stdin is not None
            agents.stdin.write("tell\n")
            agents.stdin.flush()
            heard = await asyncio.to_thread(answer, agents)
            return Figures(
                before,
                after,
                connected,
                sorted(heard[name] - at for name, at in sent.items() if name in heard),
                sum(name not in heard for name in sent),
                process.memory_info().rss / 2**20,
                (spent.user + spent.system - cpu.user - cpu.system) / seconds,
            )
        finally:
            for each in (agents, relay):
                if each is not None:
                    each.send_signal(signal.SIGTERM)
                    each.wait(PATIENCE_SECONDS)


async def watches(client: KubeClient) -> int:
    """Return the number of watches of all Pods that are open at the API server."""
    return open_watches_in((await client.request("GET", "/metrics")).decode()).get("pods", 0)


async def churn(client: KubeClient, size: Size) -> dict[str, float]:
    """Create Pods at an even pace; return when each was sent."""
    sent: dict[str, float] = {}
    began = time.monotonic()

    async def create(number: int) -> None:
        await asyncio.sleep(max(0.0, began + number / size.pods_per_second - time.monotonic()))
        name = f"pod-{number}"
        spec = {"nodeName": node(random.randrange(size.agents)), "containers": [{"name": "main", "image": "x"}]}
        sent[name] = time.monotonic()
        await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)

    await asyncio.gather(*(create(number) for number in range(size.pods_per_second * size.seconds)))
    return sent


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a quick look")
    parser.add_argument("--listen", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--agents", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.listen:
        asyncio.run(listen(arguments.listen, arguments.agents))
        return 0
    size = SMALL if arguments.small else FULL
    with running_real_server() as cluster:
        found = asyncio.run(measure(cluster, size))
    return show(found, size)


def show(found: Figures, size: Size) -> int:
    load = os.getloadavg()[0]
    rows = [
        ("watches of Pods at the API server, before and after", f"{found.watches_before}, {found.watches_after}"),
        (f"until {size.agents:,} agents had heard", f"{found.connect_seconds:.1f} s"),
        ("from a Pod to its agent, median", f"{statistics.median(found.latencies) * 1000:.0f} ms"),
        ("the same, p99", f"{percentile(found.latencies, 99) * 1000:.0f} ms"),
        ("the relay's memory", f"{found.relay_mib:.0f} MiB"),
        ("the relay's processor time, of a core", f"{found.relay_cpu_share:.0%}"),
    ]
    CONSOLE.print(f"load {load:.1f}")
    print_table(f"{size.agents:,} agents, {size.pods_per_second} Pods a second for {size.seconds} s", ("", ""), rows)
    return print_limits(
        [
            Limit("watches that agents added", found.watches_after - found.watches_before, most=1),
            Limit("Pods that an agent was not told of", found.lost, most=0),
            Limit("from a Pod to its agent, p99", percentile(found.latencies, 99) * 1000, most=200, unit=" ms"),
        ]
    )


def percentile(values: list[float], part: int) -> float:
    """Return a percentile of sorted values."""
    return values[min(len(values) - 1, len(values) * part // 100)]


if __name__ == "__main__":
    sys.exit(main())
