"""Size of the objects that a very large run leaves in the API server after several restarts.

    python -m bench.gangs.footprint            a run of 7,500 members on as many simulated nodes, restarted five times
    python -m bench.gangs.footprint --small    200 members, restarted twice

A real kube-apiserver with etcd; `kaji sim` in a process of its own plays the kubelets. Then the embedded one, with at
most 1,000 members; its nodes send heartbeats, because it expects them. Measured:
the bytes of the Run's object after each attempt, how much the database grew with it (etcd's own figure of what is in
use after a compaction; the size of SQLite's files), and how long it takes after `DELETE /v1/runs/…` until the last Pod
is gone.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop
from tests.harness.servers.real_server import RealServer, running_real_server

from bench.parts.common import CONSOLE, Limit, print_limits, print_table
from bench.parts.gangs import (
    DIRECTLY,
    POOL_LABEL,
    Platform,
    fail,
    label_nodes,
    lacks,
    platform,
    simulated_nodes,
    spec_of,
    wait_until,
)
from bench.parts.options import option_parser
from bench.parts.processes import in_words, processor_seconds, since
from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.policy.file import parse_policy
from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.entrypoints.parts.run_adapter import RUN_WORKLOAD
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NAMESPACES

NAMESPACE = "footprint"
RUN = "large"
Database = Callable[[], Awaitable[int]]
"""Return how many bytes of the database are in use now."""


@dataclass(frozen=True, slots=True)
class Size:
    members: int
    restarts: int


FULL = Size(members=7500, restarts=5)
SMALL = Size(members=200, restarts=2)
MOST_EMBEDDED = 1000
"""Largest number of members on the embedded server, which is made for one machine."""


@dataclass(frozen=True, slots=True)
class Footprint:
    object_bytes: list[int]
    """Bytes of the Run's object after each attempt had started."""
    database_bytes: list[int]
    """Bytes in use at the same moments; the first one is from before the run."""
    removal_seconds: float
    removal_processors: str
    """Processor seconds of each process until then, as text."""


async def measure(config: KubeConfig, kubeconfig: Path, size: Size, database: Database, *options: str) -> Footprint:
    """Measure one run from its submission to the end of its last Pod. options: those of `kaji sim`."""
    async with KubeClient(config) as client:
        await install(client)
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        with simulated_nodes(kubeconfig, size.members, *options):
            async with platform(client, parse_policy(DIRECTLY), NAMESPACE) as there:
                await label_nodes(there, size.members)
                in_use = [await database()]
                objects = []
                spec = spec_of(size.members, nodeSelector=POOL_LABEL, restarts=size.restarts + 1)
                await there.submit(RUN, spec)
                for attempt in range(1, size.restarts + 2):
                    began = time.perf_counter()
                    await there.runs(RUN, attempt=attempt)
                    objects.append(len(msgspec.json.encode(await client.get(RUNS, RUN, NAMESPACE))))
                    in_use.append(await database())
                    seconds = time.perf_counter() - began
                    CONSOLE.print(f"attempt {attempt} up after {seconds:.0f} s: the Run has {objects[-1]:,} bytes")
                    if attempt <= size.restarts:
                        await fail(there, f"{RUN}-{attempt}-0")
                before = processor_seconds()
                removal = await _remove(there)
                spent = in_words(since(before, processor_seconds()))
    return Footprint(objects, in_use, removal, spent)


async def _remove(there: Platform) -> float:
    """Return the seconds from the request of `kaji rm -f` until the last Pod is deleted."""
    headers = {"Authorization": f"Bearer {there.client.config.credentials.token}"}
    began = time.perf_counter()
    url = f"{there.url}/v1/runs/{NAMESPACE}/{RUN}"
    async with aiohttp.ClientSession(headers=headers) as http, http.delete(url) as answer:
        answer.raise_for_status()
    await wait_until(lambda: (NAMESPACE, RUN) not in there.mirror.runs and not there.pods(f"{RUN}-"))
    return time.perf_counter() - began


def real(size: Size) -> Footprint:
    """On a real API server."""
    with running_real_server("--etcd-compaction-interval=0") as cluster:
        return uvloop.run(measure(cluster.config, cluster.kubeconfig, size, lambda: _etcd_bytes(cluster)))


async def _etcd_bytes(cluster: RealServer) -> int:
    """Return the bytes in use in etcd after a compaction, which happens every five minutes."""
    async with aiohttp.ClientSession(cluster.etcd_url) as etcd:
        async with etcd.post("/v3/kv/range", json={"key": "AA=="}) as answer:
            revision = (await answer.json())["header"]["revision"]
        async with etcd.post("/v3/kv/compaction", json={"revision": revision, "physical": True}) as answer:
            await answer.read()
        async with etcd.post("/v3/maintenance/status", json={}) as answer:
            return int((await answer.json())["dbSizeInUse"])


def embedded(size: Size) -> Footprint:
    """On the embedded API server, durable as it is by default."""

    async def all_in_one(folder: Path) -> Footprint:
        settings = EmbeddedSettings(folder, cluster_cidr="10.240.0.0/12")
        async with EmbeddedCluster(settings) as cluster, KubeClient(cluster.client_config()) as client:
            stop = asyncio.Event()
            working = asyncio.create_task(cluster.run_controllers(client, stop, workload=RUN_WORKLOAD))
            database = partial(asyncio.to_thread, _file_bytes, folder)
            try:
                alive = ("--heartbeat", "10")
                return await measure(cluster.client_config(), cluster.kubeconfig, size, database, *alive)
            finally:
                stop.set()
                await working

    with tempfile.TemporaryDirectory(prefix="kajitori-footprint-") as folder:
        return uvloop.run(all_in_one(Path(folder)))


def _file_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.sqlite*"))


def show(where: str, size: Size, found: Footprint) -> None:
    """Print the figures of each attempt."""
    grown = [after - before for before, after in zip(found.database_bytes, found.database_bytes[1:], strict=False)]
    rows: list[tuple[Any, ...]] = [
        (str(number + 1), f"{found.object_bytes[number]:,}", f"{grown[number] / 1024:,.0f}")
        for number in range(len(grown))
    ]
    title = f"{where}: a run of {size.members} members; all Pods gone {found.removal_seconds:.1f} s after its removal"
    print_table(title, ("attempt", "bytes of the Run", "database, KiB more"), rows)
    CONSOLE.print(f"processor seconds of the removal: {found.removal_processors} (bench: controller and Web API, too)")


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a quick run; its figures say little")
    size = SMALL if parser.parse_args().small else FULL
    if lacks("kube-apiserver", "etcd"):
        return 2
    found = real(size)
    show("a real API server", size, found)
    fewer = replace(size, members=min(size.members, MOST_EMBEDDED))
    show("the embedded API server", fewer, embedded(fewer))
    if size is SMALL:
        CONSOLE.print("the limits are those of the full size; nothing is judged here")
        return 0
    return print_limits(
        [
            Limit("the Run's object at its largest", max(found.object_bytes) / 1000, most=300, unit=" kB"),
            Limit("all Pods gone after the removal", found.removal_seconds, most=60, unit=" s"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
