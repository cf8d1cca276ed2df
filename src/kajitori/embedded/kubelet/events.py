"""Events about Pods, in the kubelet's name."""

from __future__ import annotations

from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.kube import events


class EventRecorder(events.EventRecorder):
    """`record` returns at once; `run` writes."""

    def __init__(self, cluster: Cluster, node_name: str) -> None:
        super().__init__(cluster, "kubelet", host=node_name)
        self._node_name = node_name

    def record_system_oom(self, process: int) -> None:
        """Says of the node that it ran out of memory, in the words of Kubernetes' kubelet."""
        about = events.About("Node", self._node_name, self._node_name)
        self.say(about, "Warning", "SystemOOM", f"System OOM encountered, victim process: main, pid: {process}")

    def record(self, pod: Manifest, reason: str, message: str, *, warning: bool = False) -> None:
        """Says something about a Pod."""
        metadata = pod["metadata"]
        about = events.About("Pod", metadata["name"], metadata["uid"], metadata.get("namespace", "default"))
        self.say(about, "Warning" if warning else "Normal", reason, message)
