"""The scheduler and the controllers of an embedded cluster, which share one cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path

from kajitori.embedded.controllers.cache import Cache
from kajitori.embedded.controllers.controller import Controller
from kajitori.embedded.controllers.device_claims import DeviceClaims
from kajitori.embedded.controllers.disruption import Disruption, Workload
from kajitori.embedded.controllers.endpoints import Endpoints
from kajitori.embedded.controllers.lifecycle import QUARANTINE_SECONDS, NodeLifecycle
from kajitori.embedded.controllers.node_health import GRACE_SECONDS
from kajitori.embedded.controllers.node_ipam import NodeIpam
from kajitori.embedded.controllers.volumes import Provisioner
from kajitori.embedded.scheduler.binder import Binder
from kajitori.embedded.tasks import run_until
from kajitori.kube.client import KubeClient


class ControllerManager:
    """Runs the binder and the controllers of nodes, claims of storage and of devices, EndpointSlices, disruption
    budgets and Pod address ranges.

    They share one watch per kind.

    volumes: the folder below which each claim gets a folder; only the cluster's owner should be able to enter it.
    late_seconds: returns how late the heartbeats of nodes in this process may be because it is busy.
    cluster_cidr: the network from which each node gets a range of Pod addresses, `node_prefix` long; None gives none.
    workload: a custom kind of objects that own Pods and have disruption budgets.
    """

    def __init__(
        self,
        client: KubeClient,
        volumes: Path,
        *,
        grace_seconds: float = GRACE_SECONDS,
        quarantine_seconds: float = QUARANTINE_SECONDS,
        late_seconds: Callable[[], float] = lambda: 0.0,
        cluster_cidr: IPv4Network | None = None,
        node_prefix: int = 24,
        workload: Workload | None = None,
    ) -> None:
        self.cache = Cache(client)
        self.loops: list[Binder | Controller] = [
            Binder(client, self.cache),
            NodeLifecycle(
                client,
                self.cache,
                grace_seconds=grace_seconds,
                quarantine_seconds=quarantine_seconds,
                late_seconds=late_seconds,
            ),
            Provisioner(client, volumes, self.cache),
            DeviceClaims(client, self.cache),
            Endpoints(client, self.cache),
            Disruption(client, self.cache, workload=workload),
        ]
        if cluster_cidr is not None:
            self.loops.append(NodeIpam(client, cluster_cidr, node_prefix, self.cache))

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Raises ApiError if the API server refuses for good."""
        await run_until(stop, self.cache.run(), *(loop.run(stop) for loop in self.loops))
