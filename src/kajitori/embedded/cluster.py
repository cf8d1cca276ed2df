"""The embedded cluster as a whole: store, API server, scheduler and controllers, in one event loop."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Any

from kajitori.configuration.private_files import write_private
from kajitori.embedded.apiserver.access.people_tokens import PeopleTokens
from kajitori.embedded.apiserver.addresses import CLUSTER_RANGE
from kajitori.embedded.apiserver.auth import Authenticator
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates, ensure_token, write_kubeconfig
from kajitori.embedded.apiserver.server import ApiServer
from kajitori.embedded.controller_manager import ControllerManager
from kajitori.embedded.controllers.disruption import Workload
from kajitori.embedded.controllers.node_health import GRACE_SECONDS
from kajitori.embedded.store import Store
from kajitori.errors import InvalidInput
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.openid.authentication_config import AuthenticationConfiguration

PORTS_FILE = "ports.json"
OBJECTS = "objects"
"""Name of the store's folder in the cluster's folder."""
LOCAL_SOCKET = "kubernetes.sock"
"""Name of the API server's Unix socket in the cluster's folder, which only its owner may enter."""


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """Settings of an embedded cluster."""

    folder: Path
    """Folder of everything that is kept: objects, certificates, token, volumes, kubeconfig."""
    host: str = "127.0.0.1"
    port: int = 0
    """Port to listen on; 0 takes the last port of this folder if it is free, else any."""
    in_memory: bool = False
    namespace: str = "default"
    """Namespace that the kubeconfig selects."""
    cluster_cidr: str = "10.244.0.0/16"
    """IPv4 network from which each node gets a range of Pod addresses, `node_prefix` long."""
    node_prefix: int = 24
    node_grace_seconds: float = GRACE_SECONDS
    """Time without news after which a node counts as silent."""
    authentication: AuthenticationConfiguration | None = None
    """OpenID providers from which ID tokens are accepted. If it is given, roles decide what their users may do."""


class EmbeddedCluster:
    """A small Kubernetes cluster; an async context manager.

    Raises DataFolderInUse if another process uses the folder, and InvalidInput if the port is taken or the Pod
    addresses would overlap those of Services.
    """

    def __init__(self, settings: EmbeddedSettings) -> None:
        self.settings = settings
        self.kubeconfig = settings.folder / "kubeconfig"
        self.volumes = settings.folder / "volumes"
        self.certificates: Certificates
        self.token = ""
        self.url = ""
        self._local_socket = ""
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> EmbeddedCluster:
        folder, settings = self.settings.folder, self.settings
        if IPv4Network(settings.cluster_cidr).overlaps(CLUSTER_RANGE):
            hint = "choose a network outside of it, such as 10.244.0.0/16"
            message = f"overlaps the addresses of Services, {CLUSTER_RANGE}"
            raise InvalidInput.one("--cluster-cidr", message, value=settings.cluster_cidr, hint=hint)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with AsyncExitStack() as closing:
            store = await Store.open(None if settings.in_memory else folder / OBJECTS)
            closing.push_async_callback(store.close)
            self.certificates = await asyncio.to_thread(
                ensure_certificates, folder / "pki", names=_certificate_names(settings)
            )
            self.token = ensure_token(folder / "token")
            accepted = settings.authentication
            signed = [PeopleTokens(accepted)] if accepted is not None else []
            authenticator = Authenticator(signed=signed)
            authenticator.add_token(self.token)
            server = await self._start_server(store, authenticator)
            closing.push_async_callback(server.stop)
            self.url, self._local_socket = server.url, server.local_socket
            write_kubeconfig(
                self.kubeconfig,
                server=self.url,
                certificates=self.certificates,
                token=self.token,
                namespace=settings.namespace,
            )
            self._closing = closing.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    def client_config(self) -> KubeConfig:
        """Return the configuration of a client on this machine with administrator's rights."""
        return replace(KubeConfig.from_file(self.kubeconfig), local_socket=self._local_socket)

    async def run_controllers(
        self,
        client: KubeClient,
        stop: asyncio.Event,
        *,
        workload: Workload | None = None,
        late_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Run the scheduler and the controllers until `stop` is set.

        workload: a custom kind of objects that own Pods and have disruption budgets.
        late_seconds: returns how late the heartbeats of nodes in this process may be because it is busy.
        """
        manager = ControllerManager(
            client,
            self.volumes,
            grace_seconds=self.settings.node_grace_seconds,
            late_seconds=late_seconds,
            cluster_cidr=IPv4Network(self.settings.cluster_cidr),
            node_prefix=self.settings.node_prefix,
            workload=workload,
        )
        await manager.run(stop)

    async def _start_server(self, store: Store, authenticator: Authenticator) -> ApiServer:
        settings = self.settings
        for port in _ports_to_try(settings):
            server = ApiServer(
                store,
                certificates=self.certificates,
                authenticator=authenticator,
                host=settings.host,
                port=port,
                roles=settings.authentication is not None,
                local_socket=settings.folder / LOCAL_SOCKET,
            )
            try:
                await server.start()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
                    hint = "name an address of this machine, such as 127.0.0.1 or 0.0.0.0"
                    raise InvalidInput.one(
                        "--host", f"{settings.host}: {why}", value=settings.host, hint=hint
                    ) from error
                if settings.port:
                    hint = "choose another, or leave --kube-port out for a free one"
                    message = f"port {port} of {settings.host} is in use"
                    raise InvalidInput.one("--kube-port", message, value=str(port), hint=hint) from error
                if not port:
                    raise
                continue
            remember_port(settings.folder, "kubernetes", server.port)
            return server
        raise AssertionError("the last port to try is 0")


def _ports_to_try(settings: EmbeddedSettings) -> list[int]:
    if settings.port:
        return [settings.port]
    last = last_port(settings.folder, "kubernetes")
    return [last, 0] if last else [0]


def _certificate_names(settings: EmbeddedSettings) -> tuple[str, ...]:
    return () if settings.host in ("127.0.0.1", "::1", "localhost") else (settings.host,)


def last_port(folder: Path, server: str) -> int:
    """Return the last port of a server of this folder, so that addresses given to users stay valid; 0 if there is none.
    A copy of the folder has none, since the ports belong to the original."""
    port = _known_ports(folder).get(server, 0)
    return port if isinstance(port, int) and 0 < port < 65536 else 0


def remember_port(folder: Path, server: str, port: int) -> None:
    """Remember a server's port for the next start in this folder."""
    known = _known_ports(folder)
    owner = {"path": str(folder.resolve()), "inode": folder.stat().st_ino}
    write_private(folder / PORTS_FILE, json.dumps({**known, **owner, server: port}).encode())


def _known_ports(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / PORTS_FILE).read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    is_copy = "path" in known and known["path"] != str(folder.resolve()) and known.get("inode") != folder.stat().st_ino
    return {} if is_copy else known
