"""Settings of a pool of simulated nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kajitori.errors import Fault, InvalidInput

MAX_NODES = 65_536
"""Limit of nodes: each has its own /24 for Pods, out of a /8."""


@dataclass(frozen=True, slots=True)
class SimSettings:
    """A pool of equal nodes.

    Node `i` (counted from `first`) is called `{prefix}{i}` with at least `digits` digits. Its zone, block and rack
    follow by integer division: `rack-7` holds the eighth `nodes_per_rack` nodes. A size of 0 omits that label.
    """

    count: int
    prefix: str = "sim-"
    first: int = 1
    digits: int = 5
    cpu: str = "32"
    memory: str = "256Gi"
    max_pods: int = 110
    gpus: int = 0
    gpu_product: str = ""
    """Value of the label `nvidia.com/gpu.product`."""
    ephemeral_storage: str = "100Gi"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    """As in a Node's spec: key, value, effect."""
    nodes_per_rack: int = 16
    racks_per_block: int = 8
    blocks_per_zone: int = 16
    rack_label: str = "kajitori.dev/rack"
    block_label: str = "kajitori.dev/block"
    zone_label: str = "topology.kubernetes.io/zone"
    address: str = "127.0.0.1"
    """Address of the kubelet API of all nodes. A real API server refuses to ask a loopback address for statistics."""
    pod_network: int = 10
    """First byte of Pods' addresses; node `i` uses `{pod_network}.{i // 256}.{i % 256}.0/24`."""
    heartbeat_seconds: float = 10.0
    """Interval at which each node renews its Lease, spread evenly over the nodes; 0 never renews."""
    lease_seconds: int = 40
    """Time without a renewal after which a node counts as silent; its Lease says so."""
    status_seconds: float = 300.0
    """Interval at which each node writes its Ready condition without a change."""
    check_admission: bool = True
    """Refuse Pods that don't fit, as a kubelet does (OutOfcpu, OutOfnvidia.com/gpu, OutOfpods)."""
    remove_not_ready_taint: bool = False
    """Remove the taint `node.kubernetes.io/not-ready` from ready nodes. kube-apiserver adds it to new nodes, and
    without kube-controller-manager nothing else removes it."""
    delete_nodes_at_stop: bool = False

    def __post_init__(self) -> None:
        faults = []
        if not 1 <= self.count <= MAX_NODES:
            faults.append(Fault("count", f"must be between 1 and {MAX_NODES}", str(self.count)))
        if self.first < 0 or self.first + self.count > MAX_NODES:
            faults.append(Fault("first", f"node numbers end at {MAX_NODES - 1}", str(self.first)))
        if self.gpus < 0:
            faults.append(Fault("gpus", "can't be negative", str(self.gpus)))
        if not 1 <= self.max_pods <= 254:
            faults.append(Fault("max_pods", "must be between 1 and 254, a /24 of addresses", str(self.max_pods)))
        if self.heartbeat_seconds < 0 or self.status_seconds <= 0:
            faults.append(Fault("heartbeat_seconds", "times can't be negative", str(self.heartbeat_seconds)))
        if faults:
            raise InvalidInput(faults)

    @property
    def numbers(self) -> range:
        """The nodes' numbers."""
        return range(self.first, self.first + self.count)

    def name(self, number: int) -> str:
        return f"{self.prefix}{number:0{self.digits}d}"

    def topology_labels(self, number: int) -> dict[str, str]:
        """Return zone, block and rack of a node, counted from 0 through the whole pool."""
        labels, group = {}, number - self.first
        for label, word, size in (
            (self.rack_label, "rack", self.nodes_per_rack),
            (self.block_label, "block", self.racks_per_block),
            (self.zone_label, "zone", self.blocks_per_zone),
        ):
            if size <= 0:
                break
            group //= size
            labels[label] = f"{word}-{group}"
        return labels
