"""What the kubelet needs of the cluster: a narrow view of `kube.client`, so that tests can stand in for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kajitori.kube.resources import Resource

Object = dict[str, Any]


@dataclass(frozen=True)
class PodsListed:
    """All Pods of this node at one moment: what is not among them does not exist."""

    pods: tuple[Object, ...]


@dataclass(frozen=True)
class PodSeen:
    """A Pod is new or has changed."""

    pod: Object


@dataclass(frozen=True)
class PodGone:
    """A Pod was removed; its last state."""

    pod: Object


PodChange = PodsListed | PodSeen | PodGone


class Cluster(Protocol):
    """Calls to the API server. Failures are `kajitori.errors` (NotFound, Conflict, AlreadyExists, Forbidden,
    Unavailable).
    """

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object: ...

    async def list_all(self, resource: Resource) -> Sequence[Object]:
        """All of a kind that has no namespaces."""
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
        """A strategic merge patch."""

    async def remove(self, resource: Resource, name: str, namespace: str, *, uid: str) -> None:
        """Deletes at once (grace 0), and only the object of that UID."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Object:
        """A review or request that is answered and not stored."""

    def watch_pods(self, node_name: str) -> AsyncIterator[PodChange]:
        """Begins with PodsListed, goes on for ever; PodsListed again after every gap."""
        ...

    async def own_address(self) -> str:
        """The address from which this machine reaches the API server."""
