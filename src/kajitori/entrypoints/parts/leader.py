"""Leader election of run controllers in an existing cluster: several may run, one leads."""

from __future__ import annotations

import contextlib
import os
import socket

from kajitori.cluster.platform.install import install
from kajitori.controllers.leadership import Leadership
from kajitori.core.naming import names
from kajitori.entrypoints.process import ensure_namespace
from kajitori.errors import Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig


async def candidate(config: KubeConfig, namespace: str, identity: str) -> Leadership:
    """Install what a controller needs in the cluster, and return a candidate for leader."""
    async with KubeClient(config) as client:
        await install(client)
        with contextlib.suppress(Forbidden):  # the namespace may exist; if not, writing the Lease fails
            await ensure_namespace(client, namespace)
            await ensure_namespace(client, names.messages_namespace(namespace))
    return Leadership(config, namespace, identity or _own_identity())


def _own_identity() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
