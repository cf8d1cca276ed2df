"""Options of operators' commands: installations, backups and audits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kajitori.configuration.option_faults import file_faults, namespace_faults, raise_all
from kajitori.configuration.options.shared import LEASE_NAMESPACE, ClusterOptions, HistoryChoice
from kajitori.errors import Fault


@dataclass(frozen=True, kw_only=True)
class InstallOptions(ClusterOptions):
    """Options of `kaji install`, `kaji upgrade` and `kaji uninstall`."""

    settings: Path | None = None
    """Settings of the installation; None: the settings of the last call, or defaults."""
    policy: Path | None = None
    networks: Path | None = None
    """Policy file and address registry; None: those in the cluster stay."""
    namespace: str = ""
    """Namespace of the parts; empty: the settings' namespace."""
    image_prefix: str | None = None
    """Registry and path before the names of both images; None: as in the settings."""
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
    """Data folder of a running `kaji up`: selects its cluster, history and blobs."""
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
