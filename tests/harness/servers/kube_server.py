"""A running API server, embedded or real, as tests use it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kajitori.embedded.apiserver.certificates import Certificates, issue_serving
from kajitori.embedded.kubelet.settings import ServerSettings
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig

USERS = ("ada", "grace")
"""Users without permissions, until a test grants some; `KubeServer.client` knows their tokens."""

CONTROLLER = "controller"
"""User of run controllers on a real server. Has no permissions until a test grants those of deploy/controller.yaml."""


@dataclass(frozen=True, kw_only=True)
class KubeServer:
    """A running API server."""

    config: KubeConfig
    """Configuration of the administrator."""
    kubeconfig: Path
    """The administrator's kubeconfig."""
    is_real: bool
    tokens: Mapping[str, str] = field(repr=False)
    """Tokens of users other than the administrator, by user."""
    certificates: Certificates
    """The server's certificates and the authority that signed them. The embedded server also verifies kubelets'
    certificates."""

    def config_of(self, user: str) -> KubeConfig:
        """Return the configuration of one of USERS, or of CONTROLLER."""
        return self.config.with_token(self.tokens[user])

    def client(self, user: str | None = None) -> KubeClient:
        """Return a client of the administrator, or of one of USERS."""
        return KubeClient(self.config_of(user) if user else self.config)

    @property
    def controller_config(self) -> KubeConfig:
        """The configuration for run controllers: on the embedded server, the administrator's."""
        return self.config_of(CONTROLLER) if CONTROLLER in self.tokens else self.config

    @property
    def node_address(self) -> str:
        """An address of this machine at which the server reaches kubelets."""
        return unicast_address() if self.is_real else "127.0.0.1"

    def kubelet_certificate(self, node: str) -> tuple[Path, Path] | None:
        """Return certificate and key for kubelets on loopback; None if the server accepts any certificate."""
        folder = self.certificates.ca.with_name(node)
        return None if self.is_real else issue_serving(self.certificates, folder, node, ("127.0.0.1",))

    def kubelet_api(self, node: str) -> ServerSettings:
        """Return settings with which a kubelet and this server trust each other."""
        certificate, key = self.kubelet_certificate(node) or (None, None)
        return ServerSettings(certificate=certificate, key=key, client_ca=self.certificates.ca)


def unicast_address() -> str:
    """Return this machine's address on its network: a real API server does not connect to nodes on loopback addresses.

    If there is none, return the loopback address. Nothing is sent.
    """
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.1"
