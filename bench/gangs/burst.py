"""How fast a large gang gets its nodes, beside the same Pods left to kube-scheduler alone.

    python -m bench.gangs.burst            7,500 nodes, 6,000 occupied, a gang of 1,000 whole-node members, five rounds
    python -m bench.gangs.burst --small    300 nodes, 240 occupied, a gang of 40, two rounds

A real kube-apiserver with etcd and kube-scheduler on this machine (see tests/harness/servers/real_server.py). Nodes are
plain objects, and each occupied node holds one Pod. Pods are only bound and do not run. kube-scheduler may call the API
server as fast as it can. With its default of 50 requests a second (`--scheduler-qps 50`) it binds 1,000 Pods in 18 s,
however they name their nodes, and only direct binding is faster. Each round measures, in turns:

    plain     the gang's Pods name no nodes, from the first creation until the last one is bound
    pinned    from `POST /v1/runs` until the last Pod is bound: checked, planned, then pinned by affinity
    direct    the same, each Pod created with its node's name
    creation  the same client creates the same Pods and does nothing else: no mirror, no controller

Then the same on the embedded API server, which runs in this process with its binder, as in `kaji up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvloop
from tests.harness.servers.real_server import running_real_server

from bench.parts.common import CONSOLE, Limit, median_and_range, print_limits, print_table
from bench.parts.gangs import DIRECTLY, GPUS, PATIENCE_SECONDS, POOL_LABEL, lacks, platform, spec_of, wait_until
from bench.parts.options import option_parser
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.naming import names
from kajitori.core.pods.manifests import MemberPods
from kajitori.core.policy.file import Policy, parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.embedded.scheduler.binder import Binder
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NAMESPACES, NODES, PODS, Resource

NAMESPACE = "burst"
MODES = ("plain", "pinned", "direct", "creation")

Seconds = dict[str, list[float]]
"""Seconds by mode, one figure per round."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    occupied: int
    members: int
    rounds: int


FULL = Size(nodes=7500, occupied=6000, members=1000, rounds=5)
SMALL = Size(nodes=300, occupied=240, members=40, rounds=2)


# ---------------------------------------------------------------------------------------------- the cluster


def node(number: int) -> dict[str, Any]:
    """Return a ready Node, as its kubelet would have reported it."""
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    labels = {
        **POOL_LABEL,
        "kubernetes.io/hostname": f"gpu-{number:05}",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "topology.kubernetes.io/zone": f"zone-{number // 2048}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"gpu-{number:05}", "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def occupant(number: int) -> dict[str, Any]:
    """Return a foreign Pod that takes a whole node."""
    amounts = {"nvidia.com/gpu": str(GPUS), "cpu": "8", "memory": "64Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"occupant-{number:05}", "labels": {"app": "occupant"}},
        "spec": {
            "nodeName": f"gpu-{number:05}",
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}],
        },
    }


def run_spec(size: Size, *, direct: bool) -> dict[str, Any]:
    """Return the gang's spec; members are bound directly if it selects the pool that policy binds directly."""
    return spec_of(size.members, nodeSelector=POOL_LABEL) if direct else spec_of(size.members)


def gang_pods(size: Size, policy: Policy, run: str) -> MemberPods:
    """Return the Pods that the controller would create for the gang."""
    spec = parse_spec(run_spec(size, direct=False))
    decision = decide(spec, policy, Facts(), run=RunIdentity(run, NAMESPACE))
    return MemberPods(
        decision.template,
        run_name=run,
        namespace=NAMESPACE,
        run_uid="00000000-0000-4000-8000-000000000000",
        attempt=1,
        world_size=size.members,
        port=20000,
        launcher=spec.launcher,
        bind_direct=True,
    )


async def create_all(client: KubeClient, resource: Resource, bodies: list[dict[str, Any]]) -> None:
    """Create all of them, as many at a time as the client's limiter allows."""
    namespace = NAMESPACE if resource.namespaced else None
    await asyncio.gather(*(client.create(resource, body, namespace) for body in bodies))


async def fill(client: KubeClient, size: Size) -> None:
    """Create the nodes, and the Pods that occupy most of them, evenly spread."""
    await install(client)
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await create_all(client, NODES, [node(number) for number in range(size.nodes)])
    occupied = [number * size.nodes // size.occupied for number in range(size.occupied)]
    await create_all(client, PODS, [occupant(number) for number in occupied])


# ---------------------------------------------------------------------------------------------- measuring


@dataclass(slots=True)
class Bound:
    """Counts the bound Pods of a gang, as the mirror shows them."""

    mirror: Mirror
    prefix: str
    wanted: int
    seen: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)
    all_created_at: float = 0.0
    all_bound_at: float = 0.0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, resource: Resource, namespace: str, name: str) -> None:
        """A callback of the mirror."""
        if resource != PODS or not name.startswith(self.prefix):
            return
        pod = self.mirror.pods.get((namespace, name))
        if pod is None:
            return
        self.created.add(name)
        if len(self.created) == self.wanted and not self.all_created_at:
            self.all_created_at = time.perf_counter()
        if pod.spec.node_name:
            self.seen.add(name)
            if len(self.seen) == self.wanted and not self.all_bound_at:
                self.all_bound_at = time.perf_counter()
                self.done.set()


class Bench:
    """One cluster with everything in place; each method measures one way once and leaves nothing behind."""

    def __init__(self, client: KubeClient, size: Size) -> None:
        self._client = client
        self._size = size
        self._policy = parse_policy(DIRECTLY)
        self._round = 0

    async def measure(self, mode: str) -> float:
        """Measure one mode in seconds."""
        self._round += 1
        run = f"{mode}-{self._round}"
        if mode == "creation":
            return await self._creation(run)
        async with platform(self._client, self._policy, NAMESPACE) as there:
            await there.submit("warm-up", run_spec(self._size, direct=False), dry_run=True)
            mirror = there.mirror
            counter = Bound(mirror, f"{run}-1-", self._size.members)
            unsubscribe = mirror.on_change(counter.note)
            try:
                spec = run_spec(self._size, direct=mode == "direct")
                work = self._plain(run) if mode == "plain" else there.submit(run, spec)
                began = time.perf_counter()
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await asyncio.gather(work, counter.done.wait())
            finally:
                unsubscribe()
            if mode != "plain":
                await self._end_run(run, mirror)
            await self._clear(run)
            await wait_until(lambda: not any(name.startswith(run) for _, name in mirror.pods))
        return counter.all_bound_at - began

    async def _plain(self, run: str) -> None:
        await create_all(self._client, PODS, list(self._pods(run, bind=False)))

    async def _creation(self, run: str) -> float:
        pods = list(self._pods(run, bind=True))
        began = time.perf_counter()
        await create_all(self._client, PODS, pods)
        seconds = time.perf_counter() - began
        await self._clear(run)
        return seconds

    def _pods(self, run: str, *, bind: bool) -> Iterator[dict[str, Any]]:
        """Return the gang's Pods without an owner; they name free nodes, or none."""
        pods = gang_pods(self._size, self._policy, run)
        occupied = {number * self._size.nodes // self._size.occupied for number in range(self._size.occupied)}
        free = [number for number in range(self._size.nodes) if number not in occupied]
        for rank in range(self._size.members):
            pod = pods.pod(rank, f"gpu-{free[rank]:05}")
            pod["metadata"] = {key: value for key, value in pod["metadata"].items() if key != "ownerReferences"}
            if not bind:
                del pod["spec"]["nodeName"]
            yield pod

    async def _end_run(self, run: str, mirror: Mirror) -> None:
        """Delete a Run; its Pods are removed at once, because no kubelet would confirm their end."""

        def created() -> bool:
            status = mirror.runs[NAMESPACE, run].status
            return bool(status and status.attempt and status.attempt.created)

        await wait_until(created)
        await self._client.delete(RUNS, run, NAMESPACE)
        await wait_until(lambda: bool(mirror.runs[NAMESPACE, run].metadata.deletion_timestamp))
        await self._clear(run)
        await wait_until(lambda: (NAMESPACE, run) not in mirror.runs)

    async def _clear(self, run: str) -> None:
        selector = f"{names.LABEL_RUN}={run}"
        while (await self._client.list(PODS, NAMESPACE, label_selector=selector)).items:
            await self._client.delete_collection(PODS, NAMESPACE, label_selector=selector, grace_seconds=0)


Scheduler = Callable[[], contextlib.AbstractAsyncContextManager[None]]


async def measure(config: KubeConfig, size: Size, scheduler: Scheduler) -> Seconds:
    """Seconds by mode, one per round, in turns."""
    seconds: Seconds = {mode: [] for mode in MODES}
    async with KubeClient(config) as client:
        began = time.perf_counter()
        await fill(client, size)
        CONSOLE.print(f"{size.nodes} nodes, {size.occupied} occupied, made in {time.perf_counter() - began:.1f} s")
        async with scheduler():
            bench = Bench(client, size)
            for mode in MODES:  # not counted: caches fill, and the client finds its concurrency
                await bench.measure(mode)
            for number in range(size.rounds):
                for mode in MODES:
                    seconds[mode].append(await bench.measure(mode))
                said = ", ".join(f"{mode} {seconds[mode][-1]:.2f}" for mode in MODES)
                CONSOLE.print(f"round {number + 1} of {size.rounds}: {said} s; {client.limiter.window.size} at once")
    return seconds


def real(size: Size, scheduler_qps: int) -> Seconds:
    """Measures on a real API server."""
    with running_real_server("--disable-admission-plugins=TaintNodesByCondition") as cluster:

        @contextlib.asynccontextmanager
        async def scheduler() -> AsyncIterator[None]:
            with cluster.scheduler(f"--kube-api-qps={scheduler_qps}", f"--kube-api-burst={2 * scheduler_qps}"):
                yield

        return uvloop.run(measure(cluster.config, size, scheduler))


def embedded(size: Size) -> Seconds:
    """Measures on the embedded API server, durable as it is by default."""

    async def all_in_one(folder: Path) -> Seconds:
        async with EmbeddedCluster(EmbeddedSettings(folder)) as cluster:

            @contextlib.asynccontextmanager
            async def binder() -> AsyncIterator[None]:
                async with KubeClient(cluster.client_config()) as client:
                    stop = asyncio.Event()
                    task = asyncio.create_task(Binder(client).run(stop))
                    try:
                        yield
                    finally:
                        stop.set()
                        await task

            return await measure(cluster.client_config(), size, binder)

    with tempfile.TemporaryDirectory(prefix="kajitori-burst-") as folder:
        return uvloop.run(all_in_one(Path(folder)))


# ---------------------------------------------------------------------------------------------- telling


def show(where: str, size: Size, seconds: Seconds) -> dict[str, float]:
    """Print the figures; return the medians."""
    middle = {mode: statistics.median(values) for mode, values in seconds.items()}
    rows = [
        (mode, median_and_range(values), f"{size.members / middle[mode]:.0f}", f"{middle['plain'] / middle[mode]:.2f}")
        for mode, values in seconds.items()
    ]
    title = f"{where}: {size.members} members on {size.nodes} nodes, {size.occupied} occupied; {size.rounds} rounds"
    print_table(title, ("", "seconds, median (range)", "Pods/s", "times as fast as plain"), rows)
    return middle


def report(middle: dict[str, float]) -> int:
    """Print the limits beside the figures of the real API server; return the exit code."""
    beside = "beside kube-scheduler alone"
    share = 100 * middle["creation"] / middle["direct"]
    return print_limits(
        [
            Limit(f"pinned, {beside}", middle["plain"] / middle["pinned"], least=3, unit=" times"),
            Limit(f"bound directly, {beside}", middle["plain"] / middle["direct"], least=7, unit=" times"),
            Limit("bound directly, share of the bare creation rate", share, least=70, unit=" %"),
        ]
    )


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a quick run; its figures say little")
    parser.add_argument("--scheduler-qps", type=int, default=5000, help="kube-scheduler's limit of requests per second")
    parser.add_argument("--real-only", action="store_true", help="leave the embedded API server out")
    arguments = parser.parse_args()
    size = SMALL if arguments.small else FULL
    if lacks("kube-apiserver", "etcd", "kube-scheduler"):
        return 2
    middle = show("a real API server", size, real(size, arguments.scheduler_qps))
    if not arguments.real_only:
        few = replace(size, rounds=min(size.rounds, 3))
        show("the embedded API server", few, embedded(few))
    if arguments.small:
        CONSOLE.print("the limits are those of the full size; nothing is judged here")
        return 0
    return report(middle)


if __name__ == "__main__":
    sys.exit(main())
