"""State that all Pods of one kubelet share: the machine, the cluster, and the resources that each Pod holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.adapter import PodAdapter
from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.containers.environment import PodFacts
from kajitori.embedded.kubelet.events import EventRecorder
from kajitori.embedded.kubelet.machine.detection import Machine
from kajitori.embedded.kubelet.machine.gpus import GpuLedger
from kajitori.embedded.kubelet.manifest import Manifest, Request
from kajitori.embedded.kubelet.network.names import NameBook
from kajitori.embedded.kubelet.network.pod_networks import PodNetwork
from kajitori.embedded.kubelet.pods import admission
from kajitori.embedded.kubelet.pods.admission import Refusal
from kajitori.embedded.kubelet.pods.runtimes.process import ProcessRuntime
from kajitori.embedded.kubelet.pods.runtimes.runtime import Runtime
from kajitori.embedded.kubelet.settings import MAX_PROCESSES_SHARE, KubeletSettings
from kajitori.embedded.kubelet.volumes.pod_volumes import Volumes
from kajitori.kube.clock import steady_seconds


@dataclass
class Context:
    """Shared state of one kubelet's Pods."""

    settings: KubeletSettings
    cluster: Cluster
    machine: Machine
    events: EventRecorder
    volumes: Volumes
    gpus: GpuLedger
    address: str
    network: PodNetwork
    adapter: PodAdapter = field(default_factory=PodAdapter)
    names: NameBook = field(default_factory=NameBook)
    """Names by which Pods find each other."""
    clock: Callable[[], float] = time.time
    """Clock in seconds since 1970."""
    ticks: Callable[[], float] = steady_seconds
    """Seconds of a clock that is never set."""
    admitted: dict[str, Request] = field(default_factory=dict)
    """Requests of the admitted Pods that have not ended, by UID."""
    node_labels: dict[str, str] = field(default_factory=dict)
    """All labels of the Node, including those that other programs set."""
    engine: Runtime | None = None
    """The engine that runs images; None if this node runs processes only."""
    draining: bool = False
    """True if the kubelet starts no more containers, because it is about to end them all."""

    def __post_init__(self) -> None:
        self.processes = ProcessRuntime(
            self.settings,
            self.machine,
            self.adapter.variable_prefix,
            memory_bytes=self.capacity.memory_bytes,
            max_processes=self.max_processes,
        )

    @property
    def runtime(self) -> Runtime:
        """The runtime of containers that do not run a local program of the platform."""
        return self.engine or self.processes

    @property
    def capacity(self) -> Request:
        """The resources that this node offers to Pods."""
        settings, machine = self.settings, self.machine
        return Request(
            machine.cpu_millis if settings.cpu_millis is None else settings.cpu_millis,
            machine.memory_bytes if settings.memory_bytes is None else settings.memory_bytes,
            len(machine.gpus),
            machine.ephemeral_bytes,
        )

    @property
    def max_processes(self) -> int:
        """Limit of processes and threads per container; 0 means none."""
        wanted = self.settings.max_processes
        return int(self.machine.max_processes * MAX_PROCESSES_SHARE) if wanted is None else wanted

    @property
    def used(self) -> Request:
        """The resources that admitted Pods hold."""
        return sum(self.admitted.values(), Request())

    def admit(self, pod: Manifest) -> tuple[Refusal | None, list[str]]:
        """Admit a Pod: reserve its resources, and return None and the identifiers of its GPUs. If it is refused,
        reserve nothing, and return the reason."""
        uid = pods.uid(pod)
        used = sum((held for owner, held in self.admitted.items() if owner != uid), Request())
        count = sum(owner != uid for owner in self.admitted)
        labels = {"kubernetes.io/hostname": self.settings.node_name, **self.node_labels}
        refused = admission.refusal(
            pod,
            self.capacity,
            used,
            count,
            self.settings.max_pods,
            self.settings.node_name,
            labels,
            runs_images=self.engine is not None,
        )
        refused = refused or admission.isolation_refusal(
            self.adapter.isolation(pod), self.network.can_isolate or self.runtime.can_isolate
        )
        if refused is not None:
            return refused, []
        asked = pods.pod_request(pod)
        identifiers = self.gpus.take(uid, asked.gpus) if asked.gpus else []
        if identifiers is None:
            return Refusal("OutOfnvidia.com/gpu", "the node's GPUs are all in use"), []
        self.admitted[uid] = asked
        return None, identifiers

    def release(self, uid: str) -> None:
        """Free the Pod's resources."""
        self.admitted.pop(uid, None)
        self.gpus.release(uid)

    def facts(self, pod_ip: str) -> PodFacts:
        """Return the facts that a Pod's programs may read about the Pod and its node."""
        return PodFacts(
            pod_ip=pod_ip,
            host_ip=self.address,
            node_name=self.settings.node_name,
            allocatable_cpu_millis=self.capacity.cpu_millis,
            allocatable_memory_bytes=self.capacity.memory_bytes,
        )
