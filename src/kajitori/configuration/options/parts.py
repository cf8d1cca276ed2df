"""Options of the parts of an installation: Web API, controller and relay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kajitori.configuration.option_faults import (
    account_faults,
    certificate_faults,
    file_faults,
    namespace_faults,
    plain_http_faults,
    port_faults,
    raise_all,
)
from kajitori.configuration.options.shared import (
    LEASE_NAMESPACE,
    ClusterOptions,
    HistoryChoice,
    MembersStart,
    limit_faults,
)
from kajitori.configuration.sign_in import SignInOptions
from kajitori.core.kubernetes.texts import is_loopback
from kajitori.core.naming import names
from kajitori.errors import Fault


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
    """File with the OpenID providers from which the gateway accepts ID tokens, in the form of kube-apiserver."""
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
        faults += limit_faults(self.limit)
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
