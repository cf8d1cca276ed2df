"""The kubelet's interface to the cluster: a narrow view of `kube.client` that tests can replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kajitori.kube.resources import Resource

Object = dict[str, Any]


@dataclass(frozen=True)
class PodsListed:
    """All Pods of this node at one moment. A Pod that is not listed does not exist."""

    pods: tuple[Object, ...]


@dataclass(frozen=True)
class PodSeen:
    """A Pod that is new or has changed."""

    pod: Object


@dataclass(frozen=True)
class PodGone:
    """A Pod that was removed, in its last state."""

    pod: Object


PodChange = PodsListed | PodSeen | PodGone


@dataclass(frozen=True)
class Endpoints:
    """One EndpointSlice of a headless Service."""

    service: str
    hosts: tuple[tuple[str, str], ...]
    """Host name, or an empty text, and address of each endpoint."""


class Cluster(Protocol):
    """Calls to the API server. They raise errors of `kajitori.errors` (NotFound, Conflict, AlreadyExists, Forbidden,
    Unavailable)."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object: ...

    async def list_all(self, resource: Resource) -> Sequence[Object]:
        """Return all objects of a kind that has no namespaces."""
        ...

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None) -> Object: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        """Apply a strategic merge patch."""

    async def remove(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        """Delete the object with this UID at once (grace period 0)."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Object:
        """Send a review or request that the API server answers and does not store."""

    def watch_pods(self, node_name: str) -> AsyncIterator[PodChange]:
        """Yield PodsListed, then changes without end; PodsListed again after every gap in the watch."""
        ...

    def watch_endpoints(self) -> AsyncIterator[tuple[str, Sequence[Endpoints]]]:
        """Yield each namespace that has EndpointSlices of headless Services, and all of them, now and after changes.

        Raises Forbidden or NotFound if they can't be read.
        """
        ...

    async def own_address(self) -> str:
        """Return the address from which this machine reaches the API server."""
