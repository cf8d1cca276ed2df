"""Events about Pods and the node, with the kubelet as their source."""

from __future__ import annotations

from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.kube import events


class EventRecorder(events.EventRecorder):
    """Records Events: `record` returns at once, `run` writes them."""

    def __init__(self, cluster: Cluster, node_name: str) -> None:
        super().__init__(cluster, "kubelet", host=node_name)
        self._node_name = node_name

    def record_system_oom(self, process: int) -> None:
        """Record that the node ran out of memory, in the words of Kubernetes' kubelet."""
        about = events.About("Node", self._node_name, self._node_name)
        self.emit(about, "Warning", "SystemOOM", f"System OOM encountered, victim process: main, pid: {process}")

    def record(self, pod: Manifest, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an Event about a Pod."""
        metadata = pod["metadata"]
        about = events.About("Pod", metadata["name"], metadata["uid"], metadata.get("namespace", "default"))
        self.emit(about, "Warning" if warning else "Normal", reason, message)
