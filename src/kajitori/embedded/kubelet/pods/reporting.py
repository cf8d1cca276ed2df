"""Reports of a Pod's status to the API server."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.errors import Conflict, NotFound
from kajitori.kube import resources


class Reporter:
    """Writes one Pod's status to the API server if it has changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reported: dict[str, Any] | None = None

    def forget(self) -> None:
        """Write the next status even if it has not changed, because the API server may have lost the last one."""
        self._reported = None

    async def report(self, pod: Manifest, status: dict[str, Any]) -> Manifest | None:
        """Write the status. Return the Pod as the API server has it now; None if it has been deleted."""
        known_phase = (pod.get("status") or {}).get("phase")
        if status == self._reported and known_phase == status["phase"]:
            return pod
        name, namespace = pods.name_and_namespace(pod)
        patch = {"metadata": {"uid": pods.uid(pod)}, "status": status}
        try:
            answer = await self._cluster.patch(resources.PODS, name, patch, namespace, subresource="status")
        except NotFound:
            return None
        except Conflict:
            # Either another Pod has this name, or the server was too busy. Only in the first case this Pod is deleted.
            try:
                found = await self._cluster.get(resources.PODS, name, namespace)
            except NotFound:
                return None
            if pods.uid(found) != pods.uid(pod):
                return None
            raise
        self._reported = status
        return answer
