"""The process kubelet, which makes this machine a node of a Kubernetes cluster and runs its Pods as plain processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Collection, Sequence

from kajitori.embedded.kubelet import eviction
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.adapter import PodAdapter
from kajitori.embedded.kubelet.cluster import Cluster, PodGone, PodSeen, PodsListed
from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.embedded.kubelet.engine.detection import Engine
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
from kajitori.embedded.kubelet.network.names import NameBook
from kajitori.embedded.kubelet.network.packet_paths import NetworkPods
from kajitori.embedded.kubelet.network.pod_networks import (
    HostNetwork,
    NamespaceNetwork,
    PodNetwork,
    require_namespaces,
)
from kajitori.embedded.kubelet.node import NodeStatus
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.embedded.kubelet.pods.inspection import RunningContainer, running_containers
from kajitori.embedded.kubelet.pods.records import PodRecord, saved_records
from kajitori.embedded.kubelet.pods.runtimes.runtime import Runtime
from kajitori.embedded.kubelet.pods.strays import end_strays, running
from kajitori.embedded.kubelet.pods.worker import PodWorker
from kajitori.embedded.kubelet.root_lock import locked_root
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.embedded.kubelet.volumes.pod_volumes import Volumes
from kajitori.errors import KajitoriError, Unavailable, Unsupported
from kajitori.kube.client import KubeClient

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
NAMES_AGAIN_SECONDS = 30.0
"""Time until names are read again after the API server refused it."""


class Kubelet:
    """The kubelet of one node. Its containers outlive it, and the next kubelet of the same root folder adopts them."""

    def __init__(
        self,
        client: KubeClient | Cluster,
        settings: KubeletSettings,
        *,
        available_memory: Callable[[], int] = eviction.available_memory_bytes,
        adapter: PodAdapter | None = None,
        detect: Callable[..., detection.Machine] = detection.detect,
        engine: Engine | None = None,
    ) -> None:
        self.cluster: Cluster = KubeCluster(client) if isinstance(client, KubeClient) else client
        self.settings = settings
        self.workers: dict[str, PodWorker] = {}
        self.registered = asyncio.Event()
        self.engine = engine
        self._available_memory = available_memory
        self._detect = detect
        self._adapter = adapter or PodAdapter()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._statistics = Statistics()
        self._pressure = Pressure(settings.eviction)
        self._listed = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve as a node until `stop` is set. Pods keep running afterwards.

        Raises Unavailable if another kubelet uses the same root folder, and AlreadyExists if another kubelet serves the
        Node.
        """
        self.settings.root_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
        with locked_root(self.settings.root_dir):
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        async with contextlib.AsyncExitStack() as closing:
            await self._prepare(closing)
            if not await self._register(stop):
                return
            node, events = self.node, self.context.events
            jobs = (
                node.run(),
                node.run_lease(),
                events.run(),
                self._evict(),
                self._watch(),
                self._follow_range(),
                self._follow_names(),
            )
            background = [asyncio.create_task(job) for job in jobs]
            closing.push_async_callback(_cancel_all, background)
            stopped = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait({stopped, *background}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            for task in done - {stopped}:
                task.result()  # no job ends by itself: this raises its error

    async def _prepare(self, closing: contextlib.AsyncExitStack) -> None:
        """Set up everything that the node needs before it registers; `closing` undoes what was set up, also after an
        error."""
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
        self.context = self._new_context(detected, address)
        if self.engine is not None:
            self.context.engine = await self._engine_runtime(self.engine)
            closing.push_async_callback(self.context.engine.stop)
        self.node = NodeStatus(self.context)
        strays = await asyncio.to_thread(end_strays, settings.root_dir)
        if strays:
            log.warning("%d running containers were unknown in %s and were killed", len(strays), settings.root_dir)
        if removed := await self.context.runtime.clean(await asyncio.to_thread(running, settings.root_dir)):
            log.warning("%d containers of an engine were unknown in %s and were removed", removed, settings.root_dir)
        records = list(saved_records(settings.root_dir))
        living = {pods.uid(record.pod) for record in records}
        closing.push_async_callback(self.context.network.stop)
        await self.context.network.start(living)
        NetworkPods(settings.root_dir, self._adapter).keep(living)
        self._server = KubeletServer(self)
        closing.push_async_callback(self._server.stop)
        closing.push_async_callback(lambda: _cancel_all(self._tasks.values()))
        self._restore(records)
        self.node.port = await self._server.start()
        self.node.fingerprint = self._server.fingerprint

    def _new_context(self, detected: detection.Machine, address: str) -> Context:
        """Return the state that the Pods of this kubelet will share. `address` is the machine's own."""
        settings = self.settings
        network: PodNetwork = HostNetwork(address)
        if settings.pod_network == "namespace":
            network = NamespaceNetwork(settings.root_dir)
        return Context(
            settings,
            self.cluster,
            detected,
            EventRecorder(self.cluster, settings.node_name),
            Volumes(self.cluster, open_below=settings.open_below),
            GpuLedger(detected.gpus),
            address,
            network,
            self._adapter,
            NameBook(self._adapter.network_prefix),
        )

    async def _engine_runtime(self, engine: Engine) -> Runtime:
        """Return the runtime of this engine. Raises Unavailable, or Unsupported for a network that it can't join."""
        settings, context = self.settings, self.context
        require_pod_network(settings.pod_network, engine)
        from kajitori.embedded.kubelet.pods.runtimes import engine as engine_runtime
        from kajitori.embedded.kubelet.pods.runtimes import engine_gpus

        info = await EngineClient(engine.socket, engine.api).info()
        return engine_runtime.EngineRuntime(
            engine,
            settings,
            self.cluster,
            engine_gpus.access((gpu.identifier for gpu in context.gpus.gpus), engine.name, engine.version, info),
            memory_bytes=context.capacity.memory_bytes,
            max_processes=context.max_processes,
        )

    async def _register(self, stop: asyncio.Event) -> bool:
        while not stop.is_set():
            try:
                await self._server.trust_api_server()
                await self.node.require_alone()
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
        """Use the Pod address range of the Node as soon as it has one. If the Node is deleted and created again, use
        its new range."""
        node, network, logged = self.node, self.context.network, ""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if network.waiting else None):
                    await node.ranges_changed.wait()
            if not node.ranges_changed.is_set():
                with contextlib.suppress(KajitoriError):
                    await node.look()
            await self._use_range()
            if network.waiting and network.waiting != logged:
                log.warning("Pods get no addresses yet: %s", network.waiting)
            logged = network.waiting

    async def _use_range(self) -> None:
        before = self.context.network.waiting
        self.node.ranges_changed.clear()
        await self.context.network.use(self.node.pod_cidrs)
        if self.context.network.waiting != before:
            self.node.changed()

    async def _follow_names(self) -> None:
        """Keep the names in the hosts files of Pods up to date."""
        trouble = ""
        while True:
            try:
                async for namespace, endpoints in self.cluster.watch_endpoints():
                    self.context.names.update(namespace, endpoints)
                    for worker in self.workers.values():
                        if worker.pod["metadata"].get("namespace", "default") == namespace:
                            worker.write_names()
            except (KajitoriError, OSError) as error:
                if str(error) != trouble:
                    log.warning("Pods do not find each other by name: %s", error)
                trouble = str(error)
            await asyncio.sleep(NAMES_AGAIN_SECONDS)

    # Pods

    def _restore(self, records: Sequence[PodRecord]) -> None:
        """Continue with the Pods, and their resources, of an earlier kubelet, before the first answer of the API
        server."""
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
            elif isinstance(change, PodGone):
                self._remove(pods.uid(change.pod))

    def _remove(self, uid: str) -> None:
        if (worker := self.workers.get(uid)) is not None:
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
            self._remove_unknown_folders()

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

    def _remove_unknown_folders(self) -> None:
        """Remove folders of Pods without a record: a crash prevented the record, so no container was started."""
        with contextlib.suppress(FileNotFoundError):
            for folder in (self.settings.root_dir / "pods").iterdir():
                if folder.name not in self.workers:
                    shutil.rmtree(folder, ignore_errors=True)

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """Return the Pod with this name. If several have it, one that is still active is preferred."""
        found = [
            worker
            for worker in self.workers.values()
            if (worker.pod["metadata"].get("namespace", "default"), worker.pod["metadata"]["name"]) == (namespace, name)
        ]
        return max(found, key=lambda worker: (worker.active, worker.record.started_at), default=None)

    async def until_gone(self, uid: str) -> None:
        """Return when nothing of the Pod is left on this machine and the API server has deleted it."""
        if (task := self._tasks.get(uid)) is not None:
            await asyncio.wait({task})

    async def end_all(self, grace_seconds: float) -> None:
        """Stop every container of this node, to shut down a whole local cluster; programs receive SIGTERM.

        The kubelet must still be running. It starts no container afterwards.
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
        """Check the machine's memory once. Evict at most one Pod and return its UID."""
        now = self.context.ticks()
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
        """Return the `/stats/summary` document. Blocks while the kernel counts pages."""
        return self._statistics.summary(
            self.settings.node_name,
            list(self.workers.values()),
            self.context.machine.memory_bytes,
            self._available_bytes(),
        )

    def running_containers(self) -> list[RunningContainer]:
        """Return the containers with running programs. May be called from any thread."""
        return list(running_containers(tuple(self.workers.values())))

    def resources(self) -> bytes:
        """Return the `/metrics/resource` document. Blocks while the kernel counts pages."""
        held = max(0, self.context.machine.memory_bytes - self._available_bytes())
        return resource_metrics.exposition(list(self.workers.values()), held)

    def _available_bytes(self) -> int:
        try:
            return self._available_memory()
        except (OSError, ValueError):
            return 0


def require_pod_network(pod_network: str, engine: Engine | None) -> None:
    """Raise Unsupported if this process can't give Pods that network (`KubeletSettings.pod_network`)."""
    if pod_network != "namespace":
        return
    require_namespaces()
    if engine is not None and engine.name == "docker":
        raise Unsupported(
            "Docker can't put containers into the network namespaces of Pods",
            hint="use --engine podman as root or --engine process, or leave out --pod-network namespace",
        )


async def _cancel_all(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _remove_groups(detecting: asyncio.Task[detection.Machine]) -> None:
    """Remove the control groups that detection created, even if the detection was cancelled meanwhile."""
    with contextlib.suppress(Exception):
        (await detecting).cgroups.remove()
