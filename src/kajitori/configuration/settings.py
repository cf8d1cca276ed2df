"""Options of each process: immutable, and checked when they are created, with all faults at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from kajitori.configuration.option_faults import (
    CLUSTER_CIDR,
    account_faults,
    certificate_faults,
    file_faults,
    history_faults,
    mask_faults,
    namespace_faults,
    plain_http_faults,
    plain_url_faults,
    port_faults,
    quantity_faults,
    raise_all,
    range_faults,
    simulation_faults,
    url_faults,
)
from kajitori.configuration.sign_in import SignInOptions
from kajitori.configuration.web_limits import WebLimits
from kajitori.core.words import names
from kajitori.core.words.texts import is_loopback
from kajitori.errors import Fault, InvalidInput

LEASE_NAMESPACE = names.NAMESPACE
"""Default namespace of the Lease by which the controllers of a cluster elect a leader."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options for the connection to a Kubernetes API server, and for logging."""

    kubeconfig: Path | None = None
    """None: $KUBECONFIG, ~/.kube/config, or the Pod's own service account."""
    context: str | None = None
    """None: the current context of the kubeconfig."""
    log_level: str = "info"
    log_format: str = "text"


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
    in_memory: bool = False
    """Keep the objects of the embedded cluster in memory only."""
    repair: bool = False
    """Replace damaged objects by what can still be read of them, before the start."""
    cluster_cidr: str = CLUSTER_CIDR
    """Range of Pod addresses of the embedded cluster. Each node gets a part of it."""
    node_cidr_mask_size: int = 24
    """Prefix length of each node's range."""
    authentication_config: Path | None = None
    """File with the OpenID providers whose ID tokens the embedded API server accepts. If it is given, roles decide what
    these users may do, and people sign in at its first provider."""
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
            *_limit_faults(self.limit),
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


@dataclass(frozen=True, kw_only=True)
class MembersStart:
    """Values for the first step of members, if the policy file does not set them."""

    member_image: str | None = None
    """Image of the first step."""
    member_server: str | None = None
    """URL under which members reach the Web API."""
    member_ca: Path | None = None
    """File with the certificate of its authority; None: the authorities that the image trusts."""

    def start_faults(self) -> list[Fault]:
        """Return what is wrong with these options."""
        faults = file_faults(("--member-ca", self.member_ca))
        faults += url_faults("--member-server", filter(None, [self.member_server]), "https://server.kajitori.svc:8600")
        if (self.member_image is None) != (self.member_server is None):
            message = "--member-image and --member-server must be used together"
            faults.append(Fault("--member-image", message, self.member_image or "", "use both, or neither"))
        return faults


@dataclass(frozen=True, kw_only=True)
class HistoryChoice:
    """The database of ended runs, usage and the audit trail. Web API and controller need the same one."""

    history: str | None = None
    """URL of the database, without a password; None: no history."""
    history_password_file: Path | None = None
    """File with its password; else $KAJI_HISTORY_PASSWORD has it."""

    def history_faults(self) -> list[Fault]:
        """Return what is wrong with these options."""
        return history_faults(self.history, self.history_password_file)


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ClusterOptions, MembersStart, SignInOptions, HistoryChoice):
    """Options of `kaji server`: the Web API alone."""

    host: str = "127.0.0.1"
    port: int = 8600
    policy: Path | None = None
    networks: Path | None = None
    """File of the address registry; None: no registry."""
    namespace: str = "default"
    controller_namespace: str = LEASE_NAMESPACE
    """Namespace of the Secret with the key of members' tickets."""
    agent_account: str = names.AGENT_ACCOUNT
    """Service account of node agents, `namespace/name`. Each agent may report the traffic of its own node only."""
    gateway_account: str | None = None
    """Service account that may impersonate, `namespace/name`; None: callers' tokens are the API server's own."""
    gateway_authentication: Path | None = None
    """File with the OpenID providers whose ID tokens the gateway accepts, in the form of kube-apiserver."""
    certificate: Path | None = None
    key: Path | None = None
    """PEM files for TLS; without them the server uses plain HTTP."""
    insecure_http: bool = False
    """Allow plain HTTP for other machines, if something else encrypts, for example a proxy in front of the server."""
    blobs: str | None = None
    """URL of the store for code and kept logs, the same as the controller's; None: no store."""
    limit: tuple[str, ...] = ()
    """`NAME=VALUE` texts for WebLimits."""

    def __post_init__(self) -> None:
        files = (("--kubeconfig", self.kubeconfig), ("--policy", self.policy))
        faults = [*port_faults(("--port", self.port)), *file_faults(*files), *namespace_faults(self.namespace)]
        faults += file_faults(("--networks", self.networks))
        faults += account_faults(self.agent_account)
        faults += certificate_faults(self.certificate, self.key)
        faults += plain_http_faults(self.host, self.certificate, self.insecure_http)
        faults += _limit_faults(self.limit)
        faults += self.start_faults()
        faults += self.sign_in_faults()
        faults += self.history_faults()
        faults += account_faults(self.gateway_account, "--gateway-account")
        faults += file_faults(("--gateway-authentication", self.gateway_authentication))
        if (self.gateway_account is None) != (self.gateway_authentication is None):
            message = "--gateway-account and --gateway-authentication must be used together"
            faults.append(Fault("--gateway-account", message, self.gateway_account or "", "use both, or neither"))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class RelayOptions(ClusterOptions):
    """Options of `kaji relay`: the watch cache between node agents and the API server."""

    host: str = "127.0.0.1"
    port: int = 8601
    agent_account: str | None = None
    """Service account of agents, `namespace/name`. Each agent has its own token and may read its own node only."""
    token_file: Path | None = None
    """Alternatively: file with one bearer token for all agents. With neither, access needs no credentials."""
    certificate: Path | None = None
    key: Path | None = None
    insecure_http: bool = False
    """See ServerOptions."""

    def __post_init__(self) -> None:
        faults = [*port_faults(("--port", self.port))]
        faults += file_faults(("--kubeconfig", self.kubeconfig), ("--token-file", self.token_file))
        faults += certificate_faults(self.certificate, self.key)
        faults += account_faults(self.agent_account)
        if self.token_file is not None and self.agent_account is not None:
            message = "--token-file and --agent-account cannot be combined"
            hint = "leave --token-file out, so that each agent has its own token"
            faults.append(Fault("--token-file", message, str(self.token_file), hint))
        if self.token_file is None and self.agent_account is None and not is_loopback(self.host):
            message = "other machines could read the names of all Pods without credentials"
            hint = f"add --agent-account {names.AGENT_ACCOUNT}, or use --host 127.0.0.1"
            faults.append(Fault("--host", message, self.host, hint))
        else:
            faults += plain_http_faults(self.host, self.certificate, self.insecure_http)
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class ControllerOptions(ClusterOptions, MembersStart, HistoryChoice):
    """Options of `kaji controller`: the controller alone. Several may run; one of them leads."""

    policy: Path | None = None
    namespace: str = LEASE_NAMESPACE
    """Namespace of the Lease by which the leader is elected."""
    identity: str = ""
    """Name of this controller in the Lease; empty: host name and process ID."""
    host: str = "127.0.0.1"
    port: int = 0
    """Port of metrics and probes; 0: any free port."""
    certificate: Path | None = None
    key: Path | None = None
    """PEM files for TLS of metrics and probes; without them they use plain HTTP."""
    blobs: str | None = None
    """See ServerOptions."""

    def __post_init__(self) -> None:
        files = (("--kubeconfig", self.kubeconfig), ("--policy", self.policy))
        faults = [*file_faults(*files), *namespace_faults(self.namespace), *port_faults(("--port", self.port))]
        faults += [*certificate_faults(self.certificate, self.key), *self.start_faults(), *self.history_faults()]
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class InstallOptions(ClusterOptions):
    """Options of `kaji install`, `kaji upgrade` and `kaji uninstall`."""

    settings: Path | None = None
    """Settings of the installation; None: those of the last call, or defaults."""
    policy: Path | None = None
    networks: Path | None = None
    """Policy file and address registry; None: those in the cluster stay."""
    namespace: str = ""
    """Namespace of the parts; empty: that of the settings."""
    image_prefix: str | None = None
    """Registry and path before the names of both images; None: that of the settings."""
    gateway: bool | None = None
    """Whether there is a gateway that impersonates; None: as the settings say."""
    wait_seconds: int = 300
    """How long to wait until all parts are ready; 0: not at all."""

    def __post_init__(self) -> None:
        files = (("--settings", self.settings), ("--policy", self.policy), ("--networks", self.networks))
        faults = [*file_faults(("--kubeconfig", self.kubeconfig), *files)]
        faults += namespace_faults(self.namespace) if self.namespace else []
        if self.wait_seconds < 0:
            faults.append(Fault("--wait", f"{self.wait_seconds} is below 0", str(self.wait_seconds), "use seconds"))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class BackupOptions(ClusterOptions, HistoryChoice):
    """Options of `kaji backup` and `kaji restore`."""

    data: Path | None = None
    """Data folder of a running `kaji up`, whose cluster, history and blobs are meant."""
    blobs: str | None = None
    """URL of the store for code and kept logs; None: none."""
    namespace: str = LEASE_NAMESPACE
    """Namespace of the installation."""

    def __post_init__(self) -> None:
        faults = [*file_faults(("--kubeconfig", self.kubeconfig)), *namespace_faults(self.namespace)]
        faults += self.history_faults()
        if self.data is not None and self.kubeconfig is not None:
            hint = "leave one of them out"
            faults.append(Fault("--data", "names a cluster, and so does --kubeconfig", str(self.data), hint))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ClusterOptions):
    """Options of `kaji audit`: a report about the clients of an API server."""

    audit_log: tuple[Path, ...] = ()
    """Audit logs; `-` is standard input."""
    planned_nodes: int = 7500
    """Number of nodes that the cluster will have."""

    def __post_init__(self) -> None:
        faults = [*file_faults(("--kubeconfig", self.kubeconfig))]
        faults += file_faults(*(("--audit-log", path) for path in self.audit_log if str(path) != "-"))
        if self.planned_nodes < 1:
            hint = "use 1 or more"
            faults.append(Fault("--nodes", f"{self.planned_nodes} is below 1", str(self.planned_nodes), hint))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class NodeOptions(ClusterOptions):
    """Options of `kaji node`: this machine as a node, with a process kubelet."""

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
        if self.pod_network not in ("host", "namespace"):
            message = f"there is no Pod network {self.pod_network!r:.80}"
            faults.append(Fault("--pod-network", message, self.pod_network, "use host or namespace"))
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
    """Where the node's own file system is mounted: its control groups and the logs of Pods are read there."""
    dcgm: str = ""
    """URL of the metrics of this node's dcgm-exporter; empty: none."""
    policy: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9465
    """Port of /metrics; 0: any free port."""
    log_level: str = "info"
    log_format: str = "text"

    def __post_init__(self) -> None:
        faults = [*port_faults(("--port", self.port)), *file_faults(("--policy", self.policy))]
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


def _limit_faults(texts: Iterable[str]) -> list[Fault]:
    try:
        WebLimits.parse(texts)
    except InvalidInput as error:
        return list(error.faults)
    return []
