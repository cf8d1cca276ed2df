"""Settings of a process kubelet. Every default suits an ordinary user on a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

INHERITED_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    "LD_LIBRARY_PATH",
)
"""Variables of the kubelet's own environment that containers inherit: enough to find and run this machine's software,
and no secrets."""


MAX_PROCESSES_SHARE = 0.15


@dataclass(frozen=True)
class EvictionThresholds:
    """When the machine counts as short of memory, by the signal `memory.available` (bytes of MemAvailable)."""

    memory_available_bytes: int = 100 * 1024**2
    """The kubelet evicts Pods below this amount (Kubernetes' default)."""
    pressure_seconds: float = 300.0
    """Seconds for which MemoryPressure stays after memory was last short, so that the condition does not flicker."""
    interval_seconds: float = 10.0


@dataclass(frozen=True)
class ServerSettings:
    """Settings of the kubelet's own HTTPS API, which serves logs, exec and statistics."""

    address: str = ""
    """Address to listen on; empty means the node's address."""
    port: int = 0
    """Port to listen on; 0 takes a free one, which the Node object shows."""
    certificate: Path | None = None
    key: Path | None = None
    """PEM files; without them the kubelet creates a self-signed certificate under the root folder."""
    client_ca: Path | None = None
    """PEM file of the authority that signs client certificates (kube-apiserver's --kubelet-client-certificate). None:
    the authority in the API server's ConfigMap, if this node may read it."""
    bearer_tokens: frozenset[str] = field(default_factory=frozenset, repr=False)
    """Tokens that need no review: those of the embedded API server."""
    token_review: bool = True
    """Whether the API server reviews other tokens (TokenReview, then SubjectAccessReview on the node)."""


@dataclass(frozen=True)
class KubeletSettings:
    node_name: str
    root_dir: Path
    """Folder of Pods, logs and the node's identity. A kubelet that returns with the same folder adopts its Pods."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    """`{"key": …, "value": …, "effect": …}`, set on the Node at its registration."""
    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    """These three replace what the machine has. GPUs that do not exist are numbered and handed out like real ones."""
    max_pods: int = 250
    max_processes: int | None = None
    """Limit of processes and threads per container, if there are control groups; 0 means no limit of its own. None
    takes MAX_PROCESSES_SHARE of the machine's limit, as systemd does for each of its units."""
    address: str = ""
    """The node's IP address; empty means the address from which this machine reaches its API server."""
    server: ServerSettings = field(default_factory=ServerSettings)
    eviction: EvictionThresholds = field(default_factory=EvictionThresholds)
    cgroups: bool = True
    """Whether to use control groups if the kubelet may write them."""
    namespaces: bool = True
    """Whether to use mount namespaces if the kernel allows them."""
    pod_network: str = "host"
    """`host`, or `namespace`: every Pod has a network namespace, and an address from the Node's range (`spec.podCIDR`).

    `namespace` needs root. It creates a bridge on this machine, enables forwarding, and adds a masquerading rule if
    there is `nft`.
    """
    pod_cidr: str = ""
    """The Pod address range to give a Node that has none; empty means to wait for a range from the cluster."""
    open_below: Path | None = None
    """Folder below which new host paths of Pods can be written by every user of a container, as long as only this
    kubelet's user may enter it. None: nowhere, as with Kubernetes' kubelet."""
    inherited_variables: tuple[str, ...] = INHERITED_VARIABLES
    extra_env: Mapping[str, str] = field(default_factory=dict)
    open_files: int = 1_048_576
    """Soft limit of open files for each process, as far as the hard limit allows it."""
    log_max_bytes: int = 10 * 1024**2
    log_max_files: int = 5
    backoff_initial_seconds: float = 10.0
    backoff_max_seconds: float = 300.0
    backoff_reset_seconds: float = 600.0
    """A container that ran this long restarts with the shortest back-off again (Kubernetes: twice the longest)."""
    lease_seconds: float = 40.0
    lease_interval_seconds: float = 10.0
    status_interval_seconds: float = 300.0
    """Interval at which the Node's status is written even if nothing changed."""
    resync_seconds: float = 60.0
    """Interval at which a Pod is checked without a cause, and its ConfigMaps and Secrets in volumes are refreshed."""
    peer_wait_seconds: float = 300.0
    """Time for which a Pod waits for the address of a fellow Pod that its environment names."""
    manage_own_taints: bool = True
    """Whether the kubelet itself adds and removes the `not-ready` and `memory-pressure` taints. A cluster without a
    node lifecycle controller needs it; in other clusters both agree."""
