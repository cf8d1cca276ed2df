"""How fast and how small the mirror is: `python -m bench.state.mirror [--small]`.

A separate process serves a synthetic cluster over loopback HTTP. Measured: the time until 7,500 nodes and 200,000 Pods
are mirrored, the memory it takes, and how many watch events are applied per second of processor time, beside the
official Python client on the same stream (what it decodes is put into a dictionary, no more). The exit code says
whether the limits were kept.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from typing import Any

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.processes import answer, helper, memory_mib, say
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RUNS
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NODES, PODS, Resource

PAIRS = 3


def main() -> int:
    """Run the whole benchmark; return the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the cluster, for a quick look")
    parser.add_argument("--role", choices=["mirror", "events", "official"], help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "mirror":
        say(asyncio.run(mirror_all(f"{arguments.url}/full", arguments.events)))
        return 0
    if arguments.role == "events":
        say(asyncio.run(apply_events(f"{arguments.url}/busy", arguments.events)))
        return 0
    if arguments.role == "official":
        say(apply_events_with_official_client(f"{arguments.url}/busy", arguments.events))
        return 0
    return measure(nodes=750, pods=20_000, events=10_000) if arguments.small else measure(7_500, 200_000, 10_000)


def measure(nodes: int, pods: int, events: int) -> int:
    """Start the server, then each measured process alone, one after the other."""
    server = helper("bench.parts.synthetic", str(nodes), str(pods), str(events))
    try:
        served = answer(server)
        whole = _role("mirror", served["url"], events)
        pairs = [
            (_role("events", served["url"], events), _role("official", served["url"], events)) for _ in range(PAIRS)
        ]
    finally:
        server.communicate("")
    ours = statistics.median(pair[0]["events_per_cpu_second"] for pair in pairs)
    official = statistics.median(pair[1]["events_per_cpu_second"] for pair in pairs)
    print_table(
        f"{nodes:,} nodes, {pods:,} Pods of {served['pod_bytes']:,} bytes; {events:,} events; medians of {PAIRS} pairs",
        ("", "events/s per core", "times the official", "MiB after the events"),
        [
            _row("mirror, with that cluster in it", whole, official),
            _row("mirror, from nothing", pairs[-1][0] | {"events_per_cpu_second": ours}, official),
            _row("official client, from nothing", pairs[-1][1] | {"events_per_cpu_second": official}, official),
        ],
    )
    return print_limits(
        [
            Limit("everything mirrored", whole["seconds"], most=60, unit=" s"),
            Limit("memory, settled", whole["settled_mib"], most=700, unit=" MiB"),
            Limit("memory, at the peak", whole["peak_mib"], most=1024, unit=" MiB"),
            Limit("events applied, times the official client", ours / official, least=10),
        ]
    )


def _row(what: str, found: dict[str, float], official: float) -> tuple[str, ...]:
    rate = found["events_per_cpu_second"]
    return what, f"{rate:,.0f}", f"{rate / official:.1f}", f"{found['after_mib']:.0f}"


def _role(role: str, url: str, events: int) -> Any:
    process = helper("bench.state.mirror", "--role", role, "--url", url, "--events", str(events))
    found = answer(process)
    process.communicate()
    return found


# ---------------------------------------------------------------------------------------------- measured processes


class _Counter:
    """Counts changes of Pods, and notes the processor time at which the last one was seen."""

    def __init__(self, awaited: int) -> None:
        self._awaited = awaited
        self._seen = 0
        self.done = asyncio.Event()

    def __call__(self, resource: Resource, namespace: str, name: str) -> None:
        self._seen += resource is PODS
        if self._seen >= self._awaited:
            self.done.set()


async def mirror_all(url: str, events: int) -> dict[str, float]:
    """List the whole cluster, then apply events to it."""
    began = time.monotonic()
    async with KubeClient(KubeConfig(server=url)) as client:
        mirror = Mirror(client, [NODES, PODS, RUNS])
        mirror.start()
        await mirror.wait_synced()
        seconds, cpu = time.monotonic() - began, time.process_time()
        settled, _ = memory_mib()
        counter = _Counter(events)
        mirror.on_change(counter)
        async with asyncio.timeout(120):
            await counter.done.wait()
        cpu = time.process_time() - cpu
        after, peak = memory_mib()
        await mirror.stop()
    return {
        "seconds": seconds,
        "settled_mib": max(settled, after),
        "peak_mib": peak,
        "after_mib": after,
        "events_per_cpu_second": events / cpu,
    }


async def apply_events(url: str, events: int) -> dict[str, float]:
    """Apply events to a mirror that is empty at first."""
    async with KubeClient(KubeConfig(server=url)) as client:
        mirror = Mirror(client, [PODS])
        counter = _Counter(events)
        mirror.on_change(counter)
        cpu = time.process_time()
        mirror.start()
        async with asyncio.timeout(120):
            await counter.done.wait()
        cpu = time.process_time() - cpu
        await mirror.stop()
    return {"events_per_cpu_second": events / cpu, "after_mib": memory_mib()[0]}


def apply_events_with_official_client(url: str, events: int) -> dict[str, float]:
    """Put the objects that the official client decodes from the same events into a dictionary."""
    from kubernetes import client
    from kubernetes import watch as official

    follow: Any = official.Watch()
    api = client.CoreV1Api(client.ApiClient(client.Configuration(host=url)))
    pods: dict[tuple[str, str], Any] = {}
    cpu = time.process_time()
    stream = follow.stream(api.list_pod_for_all_namespaces, resource_version="1")
    for seen, event in enumerate(stream, 1):
        pod = event["object"]
        key = (pod.metadata.namespace, pod.metadata.name)
        if event["type"] == "DELETED":
            del pods[key]
        else:
            pods[key] = pod
        if seen == events:
            break
    cpu = time.process_time() - cpu
    return {"events_per_cpu_second": events / cpu, "after_mib": memory_mib()[0]}


if __name__ == "__main__":
    sys.exit(main())
