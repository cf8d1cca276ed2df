"""Run controllers of an existing cluster: several may stand ready, one leads."""

from __future__ import annotations

import contextlib
import os
import socket

from kajitori.controllers.leadership import Leadership
from kajitori.entrypoints.process import ensure_namespace
from kajitori.errors import Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.platform.install import install


async def candidate(config: KubeConfig, namespace: str, identity: str) -> Leadership:
    """Who may lead, where everything is in place that a controller needs."""
    async with KubeClient(config) as client:
        await install(client)
        with contextlib.suppress(Forbidden):  # then it has to be there; if not, the Lease says so
            await ensure_namespace(client, namespace)
    return Leadership(config, namespace, identity or _identity())


def _identity() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
