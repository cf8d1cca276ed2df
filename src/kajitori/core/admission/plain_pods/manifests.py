"""Pods in manifests: those that a document is, or that its template would become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kajitori.core.admission.plain_pods.pod_view import PodView

_PATHS: Mapping[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "ReplicationController": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""For each kind with Pods: the path of the Pod's spec."""


@dataclass(frozen=True, slots=True)
class ManifestPod:
    """A Pod of a manifest."""

    kind: str
    name: str
    namespace: str
    """Empty if the manifest names none."""
    pod: PodView


def pods_of(document: object) -> Iterator[ManifestPod]:
    """Yield the Pods of a document; of all its items if it is a list. Documents of other kinds have none.

    Raises ValueError with a message if a document of such a kind has no containers.
    """
    if not isinstance(document, Mapping):
        return
    kind = str(document.get("kind") or "")
    if kind.endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from pods_of(item)
        return
    path = _PATHS.get(kind)
    if path is None:
        return
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    spec: Any = document
    for part in path:
        spec = spec.get(part) if isinstance(spec, Mapping) else None
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, list) or not all(isinstance(c, Mapping) and c.get("name") for c in containers):
        raise ValueError(f"{kind} {name}: {'.'.join(path)}.containers is no list of containers with names")
    yield ManifestPod(kind, name, namespace, PodView(spec, from_daemon_set=kind == "DaemonSet"))
