"""The process kubelet: makes this machine a node of a Kubernetes cluster and runs its Pods as plain processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Collection, Sequence

from kajitori.embedded.kubelet import eviction
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.adapter import PodAdapter
from kajitori.embedded.kubelet.alone import alone
from kajitori.embedded.kubelet.cluster import Cluster, PodGone, PodSeen, PodsListed
from kajitori.embedded.kubelet.events import EventRecorder
from kajitori.embedded.kubelet.eviction import Candidate, Pressure
from kajitori.embedded.kubelet.http import resource_metrics
from kajitori.embedded.kubelet.http.server import KubeletServer
from kajitori.embedded.kubelet.http.stats import Statistics
from kajitori.embedded.kubelet.kube_cluster import KubeCluster
from kajitori.embedded.kubelet.machine import detection
from kajitori.embedded.kubelet.machine.cgroup_layout import group_name
from kajitori.embedded.kubelet.machine.gpus import GpuLedger
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.network.packet_paths import NetworkPods
from kajitori.embedded.kubelet.network.pod_networks import HostNetwork, NamespaceNetwork, PodNetwork
from kajitori.embedded.kubelet.node import NodeStatus
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.embedded.kubelet.pods.records import PodRecord, saved_records
from kajitori.embedded.kubelet.pods.strays import end_strays
from kajitori.embedded.kubelet.pods.worker import PodWorker
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.embedded.kubelet.volumes.pod_volumes import Volumes
from kajitori.errors import KajitoriError, Unavailable
from kajitori.kube.client import KubeClient

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Kubelet:
    """Runs until told to stop. Its containers outlive it; the next kubelet of the same root folder adopts them."""

    def __init__(
        self,
        client: KubeClient | Cluster,
        settings: KubeletSettings,
        *,
        available_memory: Callable[[], int] = eviction.available_memory_bytes,
        adapter: PodAdapter | None = None,
        detect: Callable[..., detection.Machine] = detection.detect,
    ) -> None:
        self.cluster: Cluster = KubeCluster(client) if isinstance(client, KubeClient) else client
        self.settings = settings
        self.workers: dict[str, PodWorker] = {}
        self.registered = asyncio.Event()
        self._available_memory = available_memory
        self._detect = detect
        self._adapter = adapter or PodAdapter()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._statistics = Statistics()
        self._pressure = Pressure(settings.eviction)
        self._listed = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serves as a node until `stop` is set. Pods run on afterwards.

        Raises Unavailable where another kubelet uses the same root folder.
        """
        self.settings.root_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
        with alone(self.settings.root_dir):
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        async with contextlib.AsyncExitStack() as closing:
            await self._prepare(closing)
            if not await self._register(stop):
                return
            node, events = self.node, self.context.events
            jobs = (node.run(), node.run_lease(), events.run(), self._evict(), self._watch(), self._follow_range())
            background = [asyncio.create_task(job) for job in jobs]
            closing.push_async_callback(_ended, background)
            stopped = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait({stopped, *background}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            for task in done - {stopped}:
                task.result()  # none of them ends by itself: what went wrong goes up

    async def _prepare(self, closing: contextlib.AsyncExitStack) -> None:
        """All that is to be there before this machine is a node; taken away by `closing`, as far as it got."""
        settings = self.settings
        detecting = asyncio.create_task(
            asyncio.to_thread(
                self._detect,
                settings.root_dir,
                group_name(settings.root_dir),
                namespaces=settings.namespaces,
                cgroups=settings.cgroups,
                gpus=settings.gpus,
            )
        )
        closing.push_async_callback(_remove_groups, detecting)
        detected = await asyncio.shield(detecting)
        address = settings.address or await self.cluster.own_address()
        network: PodNetwork = HostNetwork(address)
        if settings.pod_network == "namespace":
            network = NamespaceNetwork(settings.root_dir)
        self.context = Context(
            settings,
            self.cluster,
            detected,
            EventRecorder(self.cluster, settings.node_name),
            Volumes(self.cluster),
            GpuLedger(detected.gpus),
            address,
            network,
            self._adapter,
        )
        self.node = NodeStatus(self.context)
        strays = await asyncio.to_thread(end_strays, settings.root_dir)
        if strays:
            log.warning("%d containers ran that %s knows nothing of; they were ended", len(strays), settings.root_dir)
        records = list(saved_records(settings.root_dir))
        living = {pods.uid(record.pod) for record in records}
        closing.push_async_callback(network.stop)
        await network.start(living)
        NetworkPods(settings.root_dir, self._adapter).keep(living)
        self._server = KubeletServer(self)
        closing.push_async_callback(self._server.stop)
        closing.push_async_callback(lambda: _ended(self._tasks.values()))
        self._restore(records)
        self.node.port = await self._server.start()
        self.node.fingerprint = self._server.fingerprint

    async def _register(self, stop: asyncio.Event) -> bool:
        while not stop.is_set():
            try:
                await self._server.trust_api_server()
                await self.node.create()
                await self._use_range()
                await self.node.report()
                self.registered.set()
                return True
            except Unavailable:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS):
                        await stop.wait()
        return False

    async def _follow_range(self) -> None:
        """Takes the range of addresses that the Node has, however late it comes; another one, too, where the Node was
        deleted and made anew."""
        node, network, said = self.node, self.context.network, ""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if network.waiting else None):
                    await node.ranges_changed.wait()
            if not node.ranges_changed.is_set():
                with contextlib.suppress(KajitoriError):
                    await node.look()
            await self._use_range()
            if network.waiting and network.waiting != said:
                log.warning("Pods get no addresses yet: %s", network.waiting)
            said = network.waiting

    async def _use_range(self) -> None:
        before = self.context.network.waiting
        self.node.ranges_changed.clear()
        await self.context.network.use(self.node.pod_cidrs)
        if self.context.network.waiting != before:
            self.node.changed()

    # Pods

    def _restore(self, records: Sequence[PodRecord]) -> None:
        """Before anything else is heard: the Pods that an earlier kubelet ran, and what they hold."""
        for record in records:
            uid = pods.uid(record.pod)
            if not record.final_phase:
                self.context.admitted[uid] = pods.pod_request(record.pod)
                self.context.gpus.restore(uid, record.gpus)
            self._add(record.pod, record)

    async def _watch(self) -> None:
        async for change in self.cluster.watch_pods(self.settings.node_name):
            if isinstance(change, PodsListed):
                self._take_list(change.pods)
            elif isinstance(change, PodSeen):
                self._take(change.pod)
            elif isinstance(change, PodGone) and (worker := self.workers.get(pods.uid(change.pod))) is not None:
                worker.removed()

    def _take_list(self, listed: tuple[Manifest, ...]) -> None:
        for uid, worker in list(self.workers.items()):
            if uid not in {pods.uid(pod) for pod in listed}:
                worker.removed()
        for pod in listed:
            if (known := self.workers.get(pods.uid(pod))) is not None:
                known.listed(pod)
            else:
                self._add(pod)
        if not self._listed:
            self._listed = True
            self._remove_strangers()

    def _take(self, pod: Manifest) -> None:
        worker = self.workers.get(pods.uid(pod))
        if worker is None:
            self._add(pod)
        else:
            worker.update(pod)

    def _add(self, pod: Manifest, record: PodRecord | None = None) -> None:
        uid = pods.uid(pod)
        worker = PodWorker(self.context, pod, record)
        self.workers[uid] = worker
        task = asyncio.create_task(worker.run(), name=f"pod {pods.key(pod)}")
        self._tasks[uid] = task

        def ended(task: asyncio.Task[None]) -> None:
            self.workers.pop(uid, None)
            self._tasks.pop(uid, None)
            self._statistics.forget(uid)
            self.context.release(uid)

        task.add_done_callback(ended)

    def _remove_strangers(self) -> None:
        """Folders whose record a crash never wrote: nothing was started from them."""
        with contextlib.suppress(FileNotFoundError):
            for folder in (self.settings.root_dir / "pods").iterdir():
                if folder.name not in self.workers:
                    shutil.rmtree(folder, ignore_errors=True)

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The Pod of that name; the one that still lives, where an older one is on its way out."""
        found = [
            worker
            for worker in self.workers.values()
            if (worker.pod["metadata"].get("namespace", "default"), worker.pod["metadata"]["name"]) == (namespace, name)
        ]
        return max(found, key=lambda worker: (worker.active, worker.record.started_at), default=None)

    async def until_gone(self, uid: str) -> None:
        """Returns when nothing of a Pod is left on this machine and the API server has let it go."""
        if (task := self._tasks.get(uid)) is not None:
            await asyncio.wait({task})

    async def end_all(self, grace_seconds: float) -> None:
        """Ends every container of this node, for whoever takes a whole local cluster down; Pods see it as SIGTERM.

        The kubelet must still be running; nothing is started by it any more.
        """
        self.context.draining = True
        slots = [slot for worker in self.workers.values() for slot in worker.slots.values() if slot.running]
        containers = [slot.container for slot in slots if slot.container is not None]
        await asyncio.gather(*(container.stop(grace_seconds) for container in containers))
        await asyncio.gather(*(container.ended.wait() for container in containers))

    # Memory pressure

    async def _evict(self) -> None:
        while True:
            await asyncio.sleep(self.settings.eviction.interval_seconds)
            with contextlib.suppress(OSError, ValueError):
                await self.relieve()

    async def relieve(self) -> str | None:
        """Looks at the machine's memory once; evicts at most one Pod and answers its UID."""
        now = self.context.clock()
        available = self._available_memory()
        low = self._pressure.observe(available, now)
        if self._pressure.holds(now) != self.node.pressure:
            self.node.pressure = self._pressure.holds(now)
            self.node.changed()
        if not low:
            return None
        running = [worker for worker in self.workers.values() if worker.active and not worker.record.failed_reason]
        usages = await asyncio.to_thread(lambda: [self._statistics.container_uses(worker) for worker in running])
        candidates = [
            Candidate(worker.uid, uses, pods.pod_request(worker.pod).memory_bytes, pods.priority(worker.pod))
            for worker, uses in zip(running, usages, strict=True)
        ]
        if not candidates:
            return None
        victim = eviction.rank(candidates)[0]
        threshold = self.settings.eviction.memory_available_bytes
        self.workers[victim.uid].fail("Evicted", eviction.message(victim, available, threshold))
        return victim.uid

    def summary(self) -> dict[str, object]:
        """The `/stats/summary` document. Blocks while the kernel counts pages."""
        return self._statistics.summary(
            self.settings.node_name, list(self.workers.values()), self.context.machine.memory_bytes, self._available()
        )

    def resources(self) -> bytes:
        """The `/metrics/resource` document. Blocks while the kernel counts pages."""
        held = max(0, self.context.machine.memory_bytes - self._available())
        return resource_metrics.exposition(list(self.workers.values()), held)

    def _available(self) -> int:
        try:
            return self._available_memory()
        except (OSError, ValueError):
            return 0


async def _ended(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _remove_groups(detecting: asyncio.Task[detection.Machine]) -> None:
    """Also where nobody waits any more for what is found out."""
    with contextlib.suppress(Exception):
        (await detecting).cgroups.remove()
