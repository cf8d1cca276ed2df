"""Options of the processes of nodes: a kubelet, an agent, or simulated nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kajitori.configuration.option_faults import (
    certificate_faults,
    engine_faults,
    file_faults,
    plain_http_faults,
    plain_url_faults,
    pod_network_faults,
    port_faults,
    quantity_faults,
    raise_all,
    range_faults,
    simulation_faults,
    url_faults,
)
from kajitori.configuration.options.shared import ClusterOptions
from kajitori.core.naming import names
from kajitori.errors import Fault


@dataclass(frozen=True, kw_only=True)
class NodeOptions(ClusterOptions):
    """Options of `kaji node`: this machine as a node."""

    data: Path
    """Folder for Pods, logs and the node's identity. A node that comes back must use the same folder."""
    name: str = ""
    """Name of the node; empty: the machine's host name."""
    labels: tuple[str, ...] = ()
    """Labels, `key=value`."""
    taints: tuple[str, ...] = ()
    """Taints, `key=value:effect`."""
    cpus: str | None = None
    """Cores to offer; None: all cores of the machine."""
    memory: str | None = None
    """Memory to offer; None: all memory of the machine."""
    gpus: int | None = None
    """GPUs to offer; None: all GPUs of the machine."""
    gpu_type: str = ""
    address: str = ""
    port: int = 10250
    """Port of the kubelet's API (logs, exec); 0: any free port."""
    client_ca: Path | None = None
    pod_network: str = "host"
    """`host`, or `namespace`, which gives each Pod its own address and needs root."""
    engine: str = "auto"
    """The engine that runs containers: `podman`, `docker`, `process` for this machine's own programs, or the one that
    answers."""
    pod_cidr: str = ""
    """Range of these addresses; empty: the range that the cluster assigns to the Node."""
    max_pods: int = 110
    max_processes: int | None = None
    """Maximum processes and threads of each container. 0: the machine's limit; None: a share of it."""
    report: tuple[str, ...] = ()
    """URLs of Web APIs to which telemetry of runs is reported. The node uses any one of them. Empty: no reports."""
    report_token: Path | None = None
    """File with the token for the Web API, of a user who may patch the status of this Node. It is read each time."""
    report_ca: Path | None = None
    """Certificate authority of the Web APIs (PEM); None: the system's authorities."""
    insecure_http: bool = False
    """Allow the token over plain HTTP, if something else encrypts."""

    def __post_init__(self) -> None:
        faults = [*port_faults(("--port", self.port))]
        faults += file_faults(("--kubeconfig", self.kubeconfig), ("--client-ca", self.client_ca))
        faults += file_faults(("--report-token", self.report_token), ("--report-ca", self.report_ca))
        faults += url_faults("--report", self.report, "https://server.kajitori:8600")
        if not self.insecure_http:
            faults += plain_url_faults(("--report", self.report))
        for label in self.labels:
            if "=" not in label:
                faults.append(Fault("--label", f"{label!r:.80} has no value", label, "write KEY=VALUE"))
        for taint in self.taints:
            if taint.rpartition(":")[2] not in names.TAINT_EFFECTS:
                hint = f"write KEY[=VALUE]:EFFECT; effects are {', '.join(names.TAINT_EFFECTS)}"
                faults.append(Fault("--taint", f"{taint!r:.80} is not a taint", taint, hint))
        faults += engine_faults(self.engine)
        faults += pod_network_faults(self.pod_network)
        if self.pod_cidr:
            faults += range_faults("--pod-cidr", self.pod_cidr)
            if self.pod_network != "namespace":
                message = "Pods have no addresses of their own on this machine"
                faults.append(Fault("--pod-cidr", message, self.pod_cidr, "add --pod-network namespace"))
        amounts = (("--gpus", self.gpus), ("--max-pods", self.max_pods), ("--max-processes", self.max_processes))
        for option, amount in amounts:
            if amount is not None and amount < 0:
                faults.append(Fault(option, f"{amount} is negative", str(amount), "use 0 or more"))
        faults += quantity_faults(self.cpus, self.memory)
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """Options of `kaji agent`, which counts the traffic of a node's Pods and samples the members of runs."""

    data: Path
    """Folder for the counts. An agent that comes back must use the same folder."""
    pods: Path | None = None
    """Folder with a file for each Pod of this node; None: relays are asked."""
    relay: tuple[str, ...] = ()
    """URLs of relays that know this node's Pods. The agent uses any one of them."""
    relay_token: Path | None = None
    """File with the token for relays."""
    relay_ca: Path | None = None
    """Certificate authority of the relays (PEM); None: the system's authorities."""
    node: str = ""
    """Name of this node in the cluster."""
    report: tuple[str, ...] = ()
    """URLs of Web APIs to which totals are reported. The agent uses any one of them. Empty: no reports."""
    report_token: Path | None = None
    """File with the token for the Web API. It is read each time, since kubelets replace it."""
    report_ca: Path | None = None
    """Certificate authority of the Web APIs (PEM); None: the system's authorities."""
    insecure_http: bool = False
    """Allow tokens over plain HTTP, if something else encrypts."""
    telemetry: bool = True
    """Sample the members of runs on this node, and report them with the totals."""
    host_root: Path = Path("/")
    """Mount point of the node's own file system, with its control groups and the logs of Pods."""
    dcgm: str = ""
    """URL of the metrics of this node's dcgm-exporter; empty: none."""
    policy: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9465
    """Port of /metrics; 0: any free port."""
    certificate: Path | None = None
    """Certificate of /metrics (PEM); None: plain HTTP."""
    key: Path | None = None
    metrics_token: Path | None = None
    """File with the bearer token that /metrics requires; None: anyone who reaches the port may read it."""
    log_level: str = "info"
    log_format: str = "text"

    def __post_init__(self) -> None:
        faults = [*port_faults(("--port", self.port)), *file_faults(("--policy", self.policy))]
        faults += [
            *certificate_faults(self.certificate, self.key),
            *file_faults(("--metrics-token", self.metrics_token)),
        ]
        if self.metrics_token is not None:
            faults += plain_http_faults(self.host, self.certificate, self.insecure_http)
        faults += file_faults(("--relay-token", self.relay_token), ("--relay-ca", self.relay_ca))
        faults += file_faults(("--report-token", self.report_token), ("--report-ca", self.report_ca))
        faults += url_faults("--relay", self.relay, "https://relay.kajitori:8601")
        faults += url_faults("--report", self.report, "https://server.kajitori:8600")
        faults += url_faults("--dcgm", (self.dcgm,) if self.dcgm else (), "http://127.0.0.1:9400/metrics")
        if not self.insecure_http:
            with_token = self.relay if self.relay_token is not None else ()
            faults += plain_url_faults(("--relay", with_token), ("--report", self.report))
        if bool(self.relay) == (self.pods is not None):
            message = "the agent needs exactly one source of this node's Pods"
            hint = "set a folder with --pods, or relays with --relay"
            faults.append(Fault("--relay", message, " ".join(self.relay), hint))
        if (self.relay or self.report) and not self.node:
            message = f"{'--relay' if self.relay else '--report'} needs the name of this node"
            faults.append(Fault("--node", message, hint="set it to the name that `kaji nodes` shows"))
        if bool(self.report) != bool(self.report_token):
            hint = "set both --report and --report-token, or neither"
            message = "the Web API accepts reports with a token only"
            faults.append(Fault("--report", message, " ".join(self.report), hint))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class SimOptions(ClusterOptions):
    """Options of `kaji sim`: simulated nodes in one process."""

    nodes: int
    prefix: str = "sim-"
    first: int = 1
    """Number of the first node, so that several processes can simulate parts of a cluster."""
    gpus: int = 0
    gpu_type: tuple[str, ...] = ()
    """See UpOptions."""
    cpus: str = "32"
    memory: str = "256Gi"
    max_pods: int = 110
    heartbeat_seconds: float = 10.0
    remove_not_ready_taint: bool = False
    delete_nodes_at_stop: bool = False

    def __post_init__(self) -> None:
        faults = [*simulation_faults(self.nodes, self.gpus, least_nodes=1)]
        faults += file_faults(("--kubeconfig", self.kubeconfig))
        for option, amount, least in (("--first", self.first, 0), ("--max-pods", self.max_pods, 1)):
            if amount < least:
                faults.append(Fault(option, f"{amount} is below {least}", str(amount), f"use {least} or more"))
        if self.heartbeat_seconds < 0:
            hint = "use 0 to send no heartbeats"
            faults.append(Fault("--heartbeat", "cannot be negative", str(self.heartbeat_seconds), hint))
        if self.gpu_type and not self.gpus:
            faults.append(
                Fault(
                    "--gpu-type", "a GPU type is given, but no number of GPUs", ",".join(self.gpu_type), "add --gpus 8"
                )
            )
        faults += quantity_faults(self.cpus, self.memory)
        raise_all(faults)
