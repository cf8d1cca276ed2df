"""Options that several processes have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kajitori.configuration.option_faults import file_faults, history_faults, url_faults
from kajitori.configuration.web_limits import WebLimits
from kajitori.core.naming import names
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


def limit_faults(texts: Iterable[str]) -> list[Fault]:
    """Return the faults of the values of --limit."""
    try:
        WebLimits.parse(texts)
    except InvalidInput as error:
        return list(error.faults)
    return []
