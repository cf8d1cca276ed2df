"""The kubelet's view of the cluster through `kube.client`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kajitori.embedded.kubelet.cluster import Endpoints, Object, PodChange, PodGone, PodSeen, PodsListed
from kajitori.embedded.kubelet.machine.detection import own_address
from kajitori.kube import resources
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import Resource
from kajitori.kube.watch import Added, Deleted, Modified, Synced, watch, watch_if_allowed

LABEL_SERVICE = "kubernetes.io/service-name"
LABEL_HEADLESS = "service.kubernetes.io/headless"


class WatchedPod(msgspec.Struct):
    """A Pod with its whole spec and status: a kubelet needs nearly all of its fields."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    def manifest(self) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": msgspec.to_builtins(self.metadata),
            "spec": self.spec,
            "status": self.status,
        }


class WatchedEndpoint(msgspec.Struct):
    """One address of an EndpointSlice."""

    addresses: list[str] = []
    hostname: str = ""
    conditions: dict[str, bool | None] = {}


class WatchedSlice(msgspec.Struct):
    """An EndpointSlice."""

    metadata: ObjectMeta
    endpoints: list[WatchedEndpoint] | None = None

    def endpoints_by_name(self) -> Endpoints:
        ready = (one for one in self.endpoints or () if one.addresses and one.conditions.get("ready") is not False)
        service = (self.metadata.labels or {}).get(LABEL_SERVICE, "")
        return Endpoints(service, tuple((one.hostname, one.addresses[0]) for one in ready))


class KubeCluster:
    """The `Cluster` of a Kubernetes client."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        return await self._client.get(resource, name, namespace)

    async def list_all(self, resource: Resource) -> Sequence[Object]:
        return (await self._client.list(resource)).items

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> Object:
        return await self._client.create(resource, body, namespace)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        return await self._client.patch(
            resource, name, patch, namespace, kind=PatchKind.STRATEGIC, subresource=subresource
        )

    async def remove(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        await self._client.delete(resource, name, namespace, grace_seconds=0, uid=uid)

    async def post(self, path: str, body: Mapping[str, Any]) -> Object:
        answer: Object = msgspec.json.decode(await self._client.request("POST", path, body=body))
        return answer

    async def watch_pods(self, node_name: str) -> AsyncIterator[PodChange]:
        known: dict[tuple[str, str], WatchedPod] = {}
        selector = f"spec.nodeName={node_name}"
        synced = False
        changes = watch(self._client, resources.PODS, WatchedPod, field_selector=selector, store=known)
        async with aclosing(changes):
            async for change in changes:
                if isinstance(change, Synced):
                    synced = True
                    yield PodsListed(tuple(pod.manifest() for pod in known.values()))
                elif isinstance(change, Deleted):
                    yield PodGone(change.object.manifest())
                elif isinstance(change, Added | Modified) and synced:
                    yield PodSeen(change.object.manifest())

    async def watch_endpoints(self) -> AsyncIterator[tuple[str, Sequence[Endpoints]]]:
        known: dict[tuple[str, str], WatchedSlice] = {}
        synced = False
        changes = watch_if_allowed(
            self._client, resources.ENDPOINT_SLICES, WatchedSlice, known, label_selector=LABEL_HEADLESS
        )
        async with aclosing(changes):
            async for change in changes:
                if isinstance(change, Synced):
                    synced = True
                    changed = {namespace for namespace, _ in known}
                else:
                    changed = {change.object.metadata.namespace}
                for namespace in changed if synced else ():
                    yield namespace, [one.endpoints_by_name() for key, one in known.items() if key[0] == namespace]

    async def own_address(self) -> str:
        where = urlsplit(self._client.config.server)
        return await own_address(where.hostname or "127.0.0.1", where.port or 443)
