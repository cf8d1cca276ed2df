"""What each process of ours may be told when it starts: frozen, checked once, every fault at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from kajitori.configuration.option_faults import (
    CLUSTER_CIDR,
    account_faults,
    certificate_faults,
    file_faults,
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
from kajitori.core.words import names
from kajitori.core.words.suggestions import did_you_mean
from kajitori.core.words.texts import is_loopback
from kajitori.errors import Fault, InvalidInput

LOG_LEVELS = ("debug", "info", "warning", "error")
LEASE_NAMESPACE = names.NAMESPACE
"""Where the controllers of a cluster agree on who leads, unless they are told otherwise."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """An API server of Kubernetes, and how much is said about what is done."""

    kubeconfig: Path | None = None
    """None: $KUBECONFIG, ~/.kube/config, or the Pod's own service account."""
    context: str | None = None
    """None: the kubeconfig's current one."""
    log_level: str = "info"
    log_format: str = "text"


@dataclass(frozen=True, kw_only=True)
class WebLimits:
    """What the Web API takes from callers. `--limit NAME=VALUE` sets one of these; dashes stand for underscores."""

    connections: int = 16_384
    """Open connections; fewer if the process may not open that many files. One more is closed at once."""
    connections_per_address: int = 4_096
    """Of one address (of IPv6, of one /64). 0: any number, for a server behind a proxy."""
    unauthenticated: int = 1_024
    """Connections whose callers have not shown valid credentials yet. One more closes the oldest of the address that
    holds most."""
    unauthenticated_per_address: int = 256
    """The same for one address. 0: any number."""
    header_seconds: float = 10.0
    """For a TLS handshake, and for a request's header, from its first byte or the connection's beginning."""
    body_seconds: float = 30.0
    """For a request's body. A part of an upload has 300 seconds."""
    body_bytes: int = 64 << 20
    """Request bodies in memory at a time; one caller may have a quarter of it. Uploads are bounded by themselves."""
    wrong_tokens: int = 600
    """Tokens a minute that the API server may refuse, of all addresses that showed some; beyond, it is not asked."""
    wrong_tokens_per_address: int = 60
    """The same for one address. 0: any number."""
    recheck_seconds: float = 60.0
    """How often the API server is asked again about the credentials and rights of callers with open streams."""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> WebLimits:
        """The limits that `NAME=VALUE` texts name, the others as they are by default. Raises InvalidInput."""
        known = {each.name.replace("_", "-"): each for each in fields(cls)}
        found: dict[str, Any] = {}
        faults = []
        for text in texts:
            name, _, value = text.partition("=")
            if name not in known:
                hint = did_you_mean(name, known) or f"limits are {', '.join(known)}"
                faults.append(Fault("--limit", f"there is no limit {name!r:.80}", text, hint))
            elif not value.isascii() or not value.isdigit() or int(value) < _least(name):
                hint = f"a whole number, {_least(name)} or more"
                faults.append(Fault("--limit", f"{name} cannot be {value!r:.80}", text, hint))
            else:
                found[known[name].name] = float(value) if name.endswith("-seconds") else int(value)
        raise_all(faults)
        return cls(**found)


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """The whole platform in one process."""

    data: Path
    """Everything that outlives the process: objects, Pods, logs, kubeconfig, kaji.json."""
    host: str = "127.0.0.1"
    port: int = 0
    """Of the Web API; 0 is the last one of this folder if it is free, else any."""
    kube_port: int = 0
    """Of the embedded API server; 0 as above."""
    nodes: int = 0
    """Simulated nodes beside this machine."""
    gpus: int = 8
    """GPUs of each simulated node."""
    gpu_type: tuple[str, ...] = ()
    """Types of the simulated nodes' GPUs, spread over them evenly, in this order."""
    kubeconfig: Path | None = None
    """An existing cluster to serve, instead of an embedded one."""
    context: str | None = None
    policy: Path | None = None
    """None: the policy of one's own machine (embedded), or the strict default one (an existing cluster)."""
    networks: Path | None = None
    """The address registry; None: `networks.yaml` in the data folder, if there is one."""
    kubelet: bool = True
    """Whether this machine is a node of the embedded cluster."""
    in_memory: bool = False
    """Objects of the embedded cluster are not kept."""
    repair: bool = False
    """Before it starts, what can still be read of damaged objects takes their place."""
    cluster_cidr: str = CLUSTER_CIDR
    """What nodes' own ranges of Pod addresses are cut from, in the embedded cluster."""
    node_cidr_mask_size: int = 24
    """How long each node's range is."""
    namespace: str = "default"
    """Where runs are made that name no namespace."""
    blobs: str | None = None
    """URL of the store for code and kept logs; None: the folder `blobs` under `data`."""
    insecure_http: bool = False
    """Serve plain HTTP where other machines reach it, too; else TLS, with an authority of the data folder's own."""
    limit: tuple[str, ...] = ()
    """`NAME=VALUE`, of WebLimits."""
    log_level: str = "warning"
    log_format: str = "text"

    def __post_init__(self) -> None:
        faults = [
            *port_faults(("--port", self.port), ("--kube-port", self.kube_port)),
            *simulation_faults(self.nodes, self.gpus, least_nodes=0),
            *file_faults(("--kubeconfig", self.kubeconfig), ("--policy", self.policy), ("--networks", self.networks)),
            *namespace_faults(self.namespace),
            *_limit_faults(self.limit),
            *range_faults("--cluster-cidr", self.cluster_cidr),
        ]
        if not any(fault.field == "--cluster-cidr" for fault in faults):
            faults += mask_faults(ip_network(self.cluster_cidr).prefixlen, self.node_cidr_mask_size)
        own = (self.cluster_cidr, self.node_cidr_mask_size) != (CLUSTER_CIDR, 24)
        if self.kubeconfig is not None and (self.nodes or self.kube_port or self.in_memory or self.repair or own):
            hint = "leave --nodes, --kube-port, --memory, --repair, --cluster-cidr and --node-cidr-mask-size out; kaji "
            hint += "sim adds simulated nodes to any cluster"
            faults.append(Fault("--kubeconfig", "an existing cluster is served as it is", str(self.kubeconfig), hint))
        if self.in_memory and self.repair:
            faults.append(Fault("--repair", "nothing is stored with --memory", hint="leave one of them out"))
        if self.kubeconfig is None and not self.kubelet and not self.nodes:
            hint = "leave --no-kubelet out, or add --nodes 4"
            faults.append(Fault("--no-kubelet", "the cluster would have no nodes at all", hint=hint))
        if self.kubeconfig is None and self.context is not None:
            faults.append(Fault("--context", "names a context, but no kubeconfig", self.context, "add --kubeconfig"))
        if faults:
            raise InvalidInput(faults)


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The story that `kaji demo` tells."""

    data: Path | None = None
    """None: a temporary folder that is removed at the end."""
    nodes: int = 16
    gpus: int = 8
    keep: bool = False
    """Leave the cluster running at the end."""
    log_level: str = "error"

    def __post_init__(self) -> None:
        raise_all(simulation_faults(self.nodes, self.gpus, least_nodes=4))


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ClusterOptions):
    """The Web API alone."""

    host: str = "127.0.0.1"
    port: int = 8600
    policy: Path | None = None
    networks: Path | None = None
    """The address registry; None: there is none."""
    namespace: str = "default"
    controller_namespace: str = LEASE_NAMESPACE
    """Where the controller keeps the key of members' tickets."""
    agent_account: str = names.AGENT_ACCOUNT
    """The service account of node agents, `namespace/name`: each tells the traffic of its own node."""
    certificate: Path | None = None
    key: Path | None = None
    """PEM files for TLS; neither: plain HTTP."""
    insecure_http: bool = False
    """Plain HTTP at an address that other machines reach: where something else encrypts, such as a proxy before it."""
    blobs: str | None = None
    """URL of the store for code and kept logs, the same as the controller's; None: neither is there."""
    limit: tuple[str, ...] = ()
    """`NAME=VALUE`, of WebLimits."""

    def __post_init__(self) -> None:
        files = (("--kubeconfig", self.kubeconfig), ("--policy", self.policy))
        faults = [*port_faults(("--port", self.port)), *file_faults(*files), *namespace_faults(self.namespace)]
        faults += file_faults(("--networks", self.networks))
        faults += account_faults(self.agent_account)
        faults += certificate_faults(self.certificate, self.key)
        faults += plain_http_faults(self.host, self.certificate, self.insecure_http)
        faults += _limit_faults(self.limit)
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class RelayOptions(ClusterOptions):
    """The watch cache between node agents and the API server."""

    host: str = "127.0.0.1"
    port: int = 8601
    agent_account: str | None = None
    """Agents' service account, `namespace/name`: each shows a token of its own, and is told its own node alone."""
    token_file: Path | None = None
    """Instead: holds one bearer token for all agents; neither: whoever reaches it may read it."""
    certificate: Path | None = None
    key: Path | None = None
    insecure_http: bool = False
    """As in ServerOptions."""

    def __post_init__(self) -> None:
        faults = [*port_faults(("--port", self.port))]
        faults += file_faults(("--kubeconfig", self.kubeconfig), ("--token-file", self.token_file))
        faults += certificate_faults(self.certificate, self.key)
        faults += account_faults(self.agent_account)
        if self.token_file is not None and self.agent_account is not None:
            hint = "leave --token-file out: tokens of their own tell one agent from another"
            faults.append(Fault("--token-file", "agents show one or the other", str(self.token_file), hint))
        if self.token_file is None and self.agent_account is None and not is_loopback(self.host):
            hint = f"add --agent-account {names.AGENT_ACCOUNT}, or listen at 127.0.0.1"
            faults.append(Fault("--host", "whoever reaches it could read all Pods' names", self.host, hint))
        else:
            faults += plain_http_faults(self.host, self.certificate, self.insecure_http)
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class ControllerOptions(ClusterOptions):
    """The controller alone. Several may run; one leads."""

    policy: Path | None = None
    namespace: str = LEASE_NAMESPACE
    """Where the Lease lies by which one of several is chosen."""
    identity: str = ""
    """Its name in that Lease; empty: host name and process."""
    host: str = "127.0.0.1"
    port: int = 0
    """Of metrics and probes; 0 is any."""
    blobs: str | None = None
    """As in ServerOptions."""

    def __post_init__(self) -> None:
        files = (("--kubeconfig", self.kubeconfig), ("--policy", self.policy))
        raise_all([*file_faults(*files), *namespace_faults(self.namespace), *port_faults(("--port", self.port))])


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ClusterOptions):
    """One look at who asks an API server."""

    audit_log: tuple[Path, ...] = ()
    """`-` is standard input."""
    planned_nodes: int = 7500
    """How many nodes the cluster is to have."""

    def __post_init__(self) -> None:
        faults = [*file_faults(("--kubeconfig", self.kubeconfig))]
        faults += file_faults(*(("--audit-log", path) for path in self.audit_log if str(path) != "-"))
        if self.planned_nodes < 1:
            faults.append(Fault("--nodes", f"{self.planned_nodes} is below 1", str(self.planned_nodes), "1 or more"))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class NodeOptions(ClusterOptions):
    """This machine as a node: a process kubelet."""

    data: Path
    """Pods, logs and the node's identity; the same for a node that comes back."""
    name: str = ""
    """Empty: this machine's host name."""
    labels: tuple[str, ...] = ()
    """`key=value`."""
    taints: tuple[str, ...] = ()
    """`key=value:effect`."""
    cpus: str | None = None
    memory: str | None = None
    gpus: int | None = None
    """Less or more than the machine has; None asks the machine."""
    gpu_type: str = ""
    address: str = ""
    port: int = 10250
    """Of the kubelet's own API (logs, exec); 0 is any."""
    client_ca: Path | None = None
    pod_network: str = "host"
    """`host`, or `namespace` (as root: an address for each Pod)."""
    pod_cidr: str = ""
    """What those addresses are of; empty: the range that the cluster gives the Node."""
    max_pods: int = 110
    max_processes: int | None = None
    """Processes and threads of each container; 0: as many as the machine has; None: a share of these."""

    def __post_init__(self) -> None:
        faults = [*port_faults(("--port", self.port))]
        faults += file_faults(("--kubeconfig", self.kubeconfig), ("--client-ca", self.client_ca))
        for label in self.labels:
            if "=" not in label:
                faults.append(Fault("--label", f"{label!r:.80} names no value", label, "write KEY=VALUE"))
        for taint in self.taints:
            if taint.rpartition(":")[2] not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
                hint = "write KEY[=VALUE]:EFFECT; effects are NoSchedule, PreferNoSchedule, NoExecute"
                faults.append(Fault("--taint", f"{taint!r:.80} is no taint", taint, hint))
        if self.pod_network not in ("host", "namespace"):
            hint = "host or namespace"
            faults.append(Fault("--pod-network", f"there is no {self.pod_network!r:.80}", self.pod_network, hint))
        if self.pod_cidr:
            faults += range_faults("--pod-cidr", self.pod_cidr)
            if self.pod_network != "namespace":
                hint = "add --pod-network namespace"
                faults.append(Fault("--pod-cidr", "Pods have this machine's own address", self.pod_cidr, hint))
        amounts = (("--gpus", self.gpus), ("--max-pods", self.max_pods), ("--max-processes", self.max_processes))
        for option, amount in amounts:
            if amount is not None and amount < 0:
                faults.append(Fault(option, f"{amount} is negative", str(amount), "0 or more"))
        faults += quantity_faults(self.cpus, self.memory)
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """Counts the traffic of this node's Pods."""

    data: Path
    """What was counted; the same for an agent that comes back."""
    pods: Path | None = None
    """The folder with a file for each Pod of this node; None: relays tell."""
    relay: tuple[str, ...] = ()
    """URLs of relays that know this node's Pods; any of them will do."""
    relay_token: Path | None = None
    """Holds what they ask for."""
    relay_ca: Path | None = None
    """Who signed their certificates (PEM); None: the system's authorities."""
    node: str = ""
    """This node's name in the cluster."""
    report: tuple[str, ...] = ()
    """URLs of Web APIs that are told totals; any of them will do. None: nobody is told."""
    report_token: Path | None = None
    """Holds what shows them who this is; read again each time, since kubelets replace it."""
    report_ca: Path | None = None
    """As relay_ca."""
    insecure_http: bool = False
    """Show tokens over plain HTTP, where something else encrypts."""
    policy: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9465
    """Of /metrics; 0 is any."""
    log_level: str = "info"
    log_format: str = "text"

    def __post_init__(self) -> None:
        faults = [*port_faults(("--port", self.port)), *file_faults(("--policy", self.policy))]
        faults += file_faults(("--relay-token", self.relay_token), ("--relay-ca", self.relay_ca))
        faults += file_faults(("--report-token", self.report_token), ("--report-ca", self.report_ca))
        faults += url_faults("--relay", self.relay, "https://relay.kajitori:8601")
        faults += url_faults("--report", self.report, "https://server.kajitori:8600")
        if not self.insecure_http:
            told = self.relay if self.relay_token is not None else ()
            faults += plain_url_faults(("--relay", told), ("--report", self.report))
        if bool(self.relay) == (self.pods is not None):
            hint = "name a folder with --pods, or relays with --relay"
            faults.append(Fault("--relay", "one of both tells of this node's Pods", " ".join(self.relay), hint))
        if (self.relay or self.report) and not self.node:
            said = f"{'relays have' if self.relay else 'the Web API has'} to know which node this is"
            faults.append(Fault("--node", said, hint="name it as in `kaji nodes`"))
        if bool(self.report) != bool(self.report_token):
            hint = "give both --report and --report-token, or neither"
            faults.append(Fault("--report", "the Web API has to be shown who tells", " ".join(self.report), hint))
        raise_all(faults)


@dataclass(frozen=True, kw_only=True)
class SimOptions(ClusterOptions):
    """Simulated nodes in one process."""

    nodes: int
    prefix: str = "sim-"
    first: int = 1
    """Number of the first node, so that several processes can share the work."""
    gpus: int = 0
    gpu_type: tuple[str, ...] = ()
    """As in UpOptions."""
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
                faults.append(Fault(option, f"{amount} is below {least}", str(amount), f"{least} or more"))
        if self.heartbeat_seconds < 0:
            faults.append(Fault("--heartbeat", "cannot be negative", str(self.heartbeat_seconds), "0 sends none"))
        if self.gpu_type and not self.gpus:
            faults.append(
                Fault(
                    "--gpu-type", "a GPU type is given, but no number of GPUs", ",".join(self.gpu_type), "add --gpus 8"
                )
            )
        faults += quantity_faults(self.cpus, self.memory)
        raise_all(faults)


def _least(limit: str) -> int:
    """What a limit may be at least: the longest body of one caller has to fit into its quarter."""
    return {"body-bytes": 4 << 20}.get(limit, 0 if limit.endswith("-per-address") else 1)


def _limit_faults(texts: Iterable[str]) -> list[Fault]:
    try:
        WebLimits.parse(texts)
    except InvalidInput as error:
        return list(error.faults)
    return []
