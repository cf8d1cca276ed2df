"""What a process kubelet may be told. Everything has a default that fits an ordinary user on a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

INHERITED_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    "LD_LIBRARY_PATH",
)
"""What of the kubelet's own environment its processes see: enough to find and run this machine's software, no
secrets.
"""


MOST_PROCESSES_SHARE = 0.15


@dataclass(frozen=True)
class EvictionThresholds:
    """When a machine is short of memory, as a kubelet's `memory.available` signal (bytes of MemAvailable)."""

    memory_available_bytes: int = 100 * 1024**2
    """Below this Pods are evicted, worst offender first (Kubernetes' own default)."""
    pressure_seconds: float = 300.0
    """How long MemoryPressure stays after the last sight of it, so that the condition does not flicker."""
    interval_seconds: float = 10.0


@dataclass(frozen=True)
class ServerSettings:
    """The kubelet's own HTTPS API: logs, exec, statistics."""

    address: str = ""
    """Where it listens; empty is the node's address."""
    port: int = 0
    """0 takes a free one; the Node object says which."""
    certificate: Path | None = None
    key: Path | None = None
    """PEM files; without them a self-signed certificate is made under the root folder."""
    client_ca: Path | None = None
    """PEM of the authority whose client certificates are trusted (kube-apiserver's --kubelet-client-certificate); else
    the one that the API server names, where this node may know."""
    bearer_tokens: frozenset[str] = field(default_factory=frozenset, repr=False)
    """Tokens that are let in without asking anybody: the embedded API server's."""
    token_review: bool = True
    """Whether other tokens are shown to the API server (TokenReview, then SubjectAccessReview on the node)."""


@dataclass(frozen=True)
class KubeletSettings:
    node_name: str
    root_dir: Path
    """Pods, logs and the node's identity. It must stay the same for a kubelet that comes back to adopt its Pods."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    """`{"key": …, "value": …, "effect": …}`, put on the Node when it is registered."""
    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    """Overrides of what the machine has. GPUs that do not exist are handed out by number like real ones."""
    max_pods: int = 250
    most_processes: int | None = None
    """Processes and threads of each container at most, where there are control groups; 0: as many as the machine has.
    None takes MOST_PROCESSES_SHARE of these, as systemd does for each of its units."""
    address: str = ""
    """The node's IP address; empty: the one from which this machine reaches its API server."""
    server: ServerSettings = field(default_factory=ServerSettings)
    eviction: EvictionThresholds = field(default_factory=EvictionThresholds)
    cgroups: bool = True
    """Whether control groups are used where they may be written."""
    namespaces: bool = True
    """Whether mount namespaces are used where the kernel allows them."""
    pod_network: str = "host"
    """`host`, or `namespace`: as root every Pod has a network namespace and an address of its own, out of the Node's
    range (`spec.podCIDR`). That makes a bridge on this machine, lets it forward packets, and adds a masquerading rule
    where there is `nft`.
    """
    pod_cidr: str = ""
    """The range that a Node says to have which has none yet; empty: the cluster gives it one, which is waited for."""
    inherited_variables: tuple[str, ...] = INHERITED_VARIABLES
    extra_env: Mapping[str, str] = field(default_factory=dict)
    open_files: int = 1_048_576
    """The soft limit of open files that processes get, if the hard one allows it."""
    log_max_bytes: int = 10 * 1024**2
    log_max_files: int = 5
    backoff_initial_seconds: float = 10.0
    backoff_max_seconds: float = 300.0
    backoff_reset_seconds: float = 600.0
    """A container that ran this long starts over with the shortest back-off (Kubernetes: twice the longest)."""
    lease_seconds: float = 40.0
    lease_interval_seconds: float = 10.0
    status_interval_seconds: float = 300.0
    """How often the Node's status is written even when nothing changed."""
    resync_seconds: float = 60.0
    """How often a Pod is looked at without a cause; ConfigMaps and Secrets in volumes are refreshed then."""
    peer_wait_seconds: float = 300.0
    """How long a Pod waits for the address of a fellow member that its environment names."""
    manage_own_taints: bool = True
    """Whether the kubelet itself adds and removes `not-ready` and `memory-pressure`; clusters without a node lifecycle
    controller need it, and where there is one both want the same."""
