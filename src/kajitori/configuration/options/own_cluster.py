"""Options of `kaji up` and `kaji demo`, which run the whole platform in one process."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from kajitori.configuration.option_faults import (
    CLUSTER_CIDR,
    engine_faults,
    file_faults,
    history_faults,
    mask_faults,
    namespace_faults,
    pod_network_faults,
    port_faults,
    raise_all,
    range_faults,
    simulation_faults,
)
from kajitori.configuration.options.shared import limit_faults
from kajitori.configuration.sign_in import SignInOptions
from kajitori.errors import Fault


@dataclass(frozen=True, kw_only=True)
class UpOptions(SignInOptions):
    """Options of `kaji up`: the whole platform in one process."""

    data: Path
    """Folder for everything that outlives the process: objects, Pods, logs, kubeconfig, kaji.json."""
    host: str = "127.0.0.1"
    port: int = 0
    """Port of the Web API. 0: the last one used with this folder if it is free, else any."""
    kube_port: int = 0
    """Port of the embedded API server; 0 as above."""
    nodes: int = 0
    """Number of simulated nodes in addition to this machine."""
    gpus: int = 8
    """GPUs of each simulated node."""
    gpu_type: tuple[str, ...] = ()
    """GPU types, distributed evenly over the simulated nodes, in this order."""
    kubeconfig: Path | None = None
    """Kubeconfig of an existing cluster to use, instead of the embedded one."""
    context: str | None = None
    policy: Path | None = None
    """None: `own_machine_policy` for the embedded cluster, the strict default policy for an existing one."""
    networks: Path | None = None
    """The address registry; None: `networks.yaml` in the data folder, if there is one."""
    kubelet: bool = True
    """Whether this machine is a node of the embedded cluster."""
    engine: str = "auto"
    """The engine that runs containers on this machine: `podman`, `docker`, `process` for its own programs, or the one
    that answers."""
    pod_network: str = "host"
    """`host`, or `namespace`, which gives each Pod on this machine its own address and needs root."""
    in_memory: bool = False
    """Keep the objects of the embedded cluster in memory only."""
    repair: bool = False
    """Replace damaged objects by what can still be read of them, before the start."""
    cluster_cidr: str = CLUSTER_CIDR
    """Range of Pod addresses of the embedded cluster. Each node gets a part of it."""
    node_cidr_mask_size: int = 24
    """Prefix length of each node's range."""
    authentication_config: Path | None = None
    """File with the OpenID providers from which the embedded API server accepts ID tokens. If it is given, roles decide
    what these users may do, and people sign in at its first provider."""
    namespace: str = "default"
    """Namespace of runs that name none."""
    blobs: str | None = None
    """URL of the store for code and kept logs; None: the folder `blobs` in `data`."""
    history: str | None = None
    """URL of the database of history, without a password; None: the file `history.db` in `data`."""
    history_password_file: Path | None = None
    """File with its password; else $KAJI_HISTORY_PASSWORD has it."""
    insecure_http: bool = False
    """Serve plain HTTP even to other machines. Otherwise they are served TLS, with the data folder's own certificate
    authority."""
    limit: tuple[str, ...] = ()
    """`NAME=VALUE` texts for WebLimits."""
    log_level: str = "warning"
    log_format: str = "text"

    def __post_init__(self) -> None:
        faults = [
            *port_faults(("--port", self.port), ("--kube-port", self.kube_port)),
            *simulation_faults(self.nodes, self.gpus, least_nodes=0),
            *file_faults(("--kubeconfig", self.kubeconfig), ("--policy", self.policy), ("--networks", self.networks)),
            *file_faults(("--authentication-config", self.authentication_config)),
            *self.sign_in_faults(),
            *namespace_faults(self.namespace),
            *engine_faults(self.engine),
            *pod_network_faults(self.pod_network),
            *limit_faults(self.limit),
            *history_faults(self.history, self.history_password_file),
            *range_faults("--cluster-cidr", self.cluster_cidr),
        ]
        if not any(fault.field == "--cluster-cidr" for fault in faults):
            faults += mask_faults(ip_network(self.cluster_cidr).prefixlen, self.node_cidr_mask_size)
        own = (self.cluster_cidr, self.node_cidr_mask_size) != (CLUSTER_CIDR, 24)
        if self.kubeconfig is not None and (self.nodes or self.kube_port or self.in_memory or self.repair or own):
            message = "options of the embedded cluster cannot be used with an existing cluster"
            hint = "leave out --nodes, --kube-port, --memory, --repair, --cluster-cidr and --node-cidr-mask-size; "
            hint += "kaji sim adds simulated nodes to any cluster"
            faults.append(Fault("--kubeconfig", message, str(self.kubeconfig), hint))
        if self.kubeconfig is not None and self.authentication_config is not None:
            message = "which tokens an existing cluster accepts is set at its own API server"
            hint = "give that kube-apiserver the same file, and this command --sign-in-issuer"
            faults.append(Fault("--authentication-config", message, str(self.authentication_config), hint))
        if self.in_memory and self.repair:
            message = "with --memory there are no stored objects to repair"
            faults.append(Fault("--repair", message, hint="leave one of them out"))
        if self.kubeconfig is None and not self.kubelet and not self.nodes:
            hint = "leave --no-kubelet out, or add --nodes 4"
            faults.append(Fault("--no-kubelet", "the cluster would have no nodes", hint=hint))
        if self.pod_network == "namespace" and (self.kubeconfig is not None or not self.kubelet):
            hint = "leave it out; kaji node --pod-network namespace makes this machine a node of an existing cluster"
            faults.append(Fault("--pod-network", "this machine is no node here", self.pod_network, hint))
        if self.kubeconfig is None and self.context is not None:
            faults.append(Fault("--context", "--context needs --kubeconfig", self.context, "add --kubeconfig"))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Options of `kaji demo`."""

    data: Path | None = None
    """None: a temporary folder that is deleted at the end."""
    nodes: int = 16
    gpus: int = 8
    keep: bool = False
    """Leave the cluster running at the end."""
    log_level: str = "error"

    def __post_init__(self) -> None:
        raise_all(simulation_faults(self.nodes, self.gpus, least_nodes=4))
