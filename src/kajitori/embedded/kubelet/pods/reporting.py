"""How a Pod's status gets to the API server."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.errors import Conflict, NotFound
from kajitori.kube import resources


class Reporter:
    """Tells the API server one Pod's status, where it says anything new."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._told: dict[str, Any] | None = None

    def forget(self) -> None:
        """The API server may not know any more what it was told: it is told again."""
        self._told = None

    async def tell(self, pod: Manifest, status: dict[str, Any]) -> Manifest | None:
        """The Pod as the API server has it now; None where it has no such Pod any more."""
        known_phase = (pod.get("status") or {}).get("phase")
        if status == self._told and known_phase == status["phase"]:
            return pod
        name, namespace = pods.name_and_namespace(pod)
        patch = {"metadata": {"uid": pods.uid(pod)}, "status": status}
        try:
            answer = await self._cluster.patch(resources.PODS, name, patch, namespace, subresource="status")
        except NotFound:
            return None
        except Conflict:
            # Another Pod of this name, or a server that was too busy: only the first means that ours is gone.
            try:
                found = await self._cluster.get(resources.PODS, name, namespace)
            except NotFound:
                return None
            if pods.uid(found) != pods.uid(pod):
                return None
            raise
        self._told = status
        return answer
