"""An autoscaler that adds simulated nodes: it serves ProvisioningRequests as Kubernetes' own does, or as a test wants.

Its words and conditions are those of cluster-autoscaler: Accepted, then Provisioned when the nodes have been ordered,
which come a moment later; Failed, CapacityRevoked or BookingExpired with a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from tests.harness.binaries import search_path
from tests.harness.cluster import Cluster
from tests.harness.platform.parts import simulated_nodes
from tests.harness.waiting import until

from kajitori.cluster.objects import ProvisioningRequest
from kajitori.core.formats.times import format_time
from kajitori.errors import AlreadyExists, KajitoriError, NotFound
from kajitori.kube.resources import CUSTOM_RESOURCES, POD_TEMPLATES, PROVISIONING_REQUESTS, Resource
from kajitori.kube.watch import Added, Deleted, watch

REQUESTS = PROVISIONING_REQUESTS[0]
NAME = "provisioningrequests.autoscaling.x-k8s.io"
LABEL = "example.com/pool"
PRODUCT = "NVIDIA-A100-SXM4-80GB"
POOL: dict[str, Any] = {
    "nodeSelector": {LABEL: "spot"},
    "labels": {"nvidia.com/gpu.product": PRODUCT},
    "node": {"cpu": 32, "memory": "256Gi", "gpu": 8},
    "maxNodes": 4,
    "askAfter": "0s",
    "deadline": "2m",
    "pause": "1s",
    "longestPause": "2s",
}
"""A pool for policies. The cluster has no nodes of its type."""


def definition() -> dict[str, Any]:
    """Return the definition of the kind: cluster-autoscaler's own if it lies beside the binaries, else ours."""
    for folder in search_path():
        for crds in (folder / "crds", folder.parent / "crds"):
            for path in sorted(crds.glob("*.yaml")) if crds.is_dir() else ():
                for document in yaml.safe_load_all(path.read_text()):
                    if document and document.get("metadata", {}).get("name") == NAME:
                        return dict(document)
    return dict(yaml.safe_load((Path(__file__).parent / "provisioningrequests.yaml").read_text()))


Behaviour = Callable[["Autoscaler", dict[str, Any]], Coroutine[Any, Any, None]]
"""Reaction to a new request."""


class Autoscaler:
    """Serves the requests of one cluster; `behaves` is its reaction to each new one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.behaves: Behaviour = provide
        self.seen: list[dict[str, Any]] = []
        """All requests since the start, in order."""
        self.there: dict[str, dict[str, Any]] = {}
        """The requests that exist now, by name."""
        self.taints: list[dict[str, str]] = []
        """Taints of the nodes that it adds."""
        self._nodes = 0
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def install(self, served: Resource = REQUESTS) -> None:
        """Install the kind in one version of its API."""
        client, wanted = self.cluster.client, definition()
        newest = wanted["spec"]["versions"][0]
        wanted["spec"]["versions"] = [newest | {"name": served.version, "served": True, "storage": True}]
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCES, wanted)

        async def is_served() -> bool:
            with contextlib.suppress(NotFound):
                await client.list(served, self.cluster.namespace)
                return True
            return False

        await until(is_served, "the kind is served")

    async def uninstall(self) -> None:
        """Delete the kind. It is gone afterwards, so that the next test can install it."""
        await self.cluster.client.delete(CUSTOM_RESOURCES, NAME)

        async def is_gone() -> bool:
            try:
                await self.cluster.client.get(CUSTOM_RESOURCES, NAME)
            except NotFound:
                return True
            return False

        await until(is_gone, "the kind is gone")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Autoscaler]:
        """Serve requests until the end of the context, which deletes the kind and the added nodes."""
        await self.install()
        self._start(self._serve())
        try:
            yield self
        finally:
            self._stop.set()
            serving = [task for task in self._tasks if task.get_name() == "sim"]
            await asyncio.gather(*serving, return_exceptions=True)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.uninstall()

    def _start(self, work: Coroutine[Any, Any, None], name: str = "") -> None:
        self._tasks.add(asyncio.create_task(work, name=name))

    async def _serve(self) -> None:
        async for change in watch(self.cluster.client, REQUESTS, ProvisioningRequest, namespace=self.cluster.namespace):
            if isinstance(change, Deleted):
                self.there.pop(change.object.metadata.name, None)
            elif isinstance(change, Added):
                name = change.object.metadata.name
                request = await self.cluster.client.get(REQUESTS, name, self.cluster.namespace)
                self.seen.append(request)
                self.there[name] = request
                self._start(self.behaves(self, request))
            self.cluster.touch()

    # ------------------------------------------------------------------------------------------ reactions

    async def say(self, request: dict[str, Any], kind: str, message: str, status: str = "True") -> None:
        """Add a condition to a request."""
        name, namespace = request["metadata"]["name"], request["metadata"]["namespace"]
        with contextlib.suppress(NotFound):
            found = await self.cluster.client.get(REQUESTS, name, namespace)
            condition = {
                "type": kind,
                "status": status,
                "reason": kind,
                "message": message,
                "lastTransitionTime": format_time(datetime.now(UTC)),
            }
            others = [each for each in (found.get("status") or {}).get("conditions", ()) if each["type"] != kind]
            status_patch = {"status": {"conditions": [*others, condition]}}
            await self.cluster.client.patch(REQUESTS, name, status_patch, namespace, subresource="status")

    async def template_of(self, request: dict[str, Any]) -> dict[str, Any]:
        """The PodTemplate that a request refers to, which has to be there when it comes."""
        (pod_set,) = request["spec"]["podSets"]
        name = pod_set["podTemplateRef"]["name"]
        return await self.cluster.client.get(POD_TEMPLATES, name, request["metadata"]["namespace"])

    def missing(self, request: dict[str, Any]) -> int:
        """Return the number of nodes that are missing for members that take whole nodes."""
        (pod_set,) = request["spec"]["podSets"]
        mirror = self.cluster.mirror
        free = [
            node
            for name, node in mirror.nodes.items()
            if node.metadata.labels.get(LABEL) == "spot"
            and not any(not p.is_finished for p in mirror.pods_on_node(name))
        ]
        return int(pod_set["count"]) - len(free)

    def add_nodes(self, count: int) -> None:
        """Run `count` more nodes of the pool."""
        nodes = simulated_nodes(
            self.cluster.server,
            self.cluster.client,
            count,
            prefix="spot-",
            first=self._nodes + 1,
            digits=3,
            gpu_product=PRODUCT,
            labels={LABEL: "spot"},
            taints=self.taints,
            pod_network=11,
            delete_nodes_at_stop=True,
        )
        self._nodes += count
        self._start(self._run_nodes(nodes), "sim")

    async def _run_nodes(self, nodes: contextlib.AbstractAsyncContextManager[object]) -> None:
        async with nodes:
            await self._stop.wait()


async def provide(scaler: Autoscaler, request: dict[str, Any]) -> None:
    """Accept a request and add the missing nodes."""
    await scaler.template_of(request)
    await scaler.say(request, "Accepted", "ProvisioningRequest was accepted")
    await scaler.say(request, "Provisioned", "will be there in a moment", "False")
    missing = scaler.missing(request)
    await scaler.say(request, "Provisioned", "Provisioning Request was successfully provisioned")
    await asyncio.sleep(1.1)  # nodes come in a later second than they were asked for
    if missing > 0:
        scaler.add_nodes(missing)


async def ignore(scaler: Autoscaler, request: dict[str, Any]) -> None:
    """Ignore a request."""


def fail(kind: str = "Failed", message: str = "out of stock: a2-highgpu-8g in europe-west4-a") -> Behaviour:
    """Return a reaction that refuses requests with this condition."""

    async def behave(scaler: Autoscaler, request: dict[str, Any]) -> None:
        await scaler.say(request, "Accepted", "ProvisioningRequest was accepted")
        with contextlib.suppress(KajitoriError):
            await scaler.say(request, kind, message)

    return behave
