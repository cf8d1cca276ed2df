"""The files that tell whoever counts traffic of this machine's Pods."""

from __future__ import annotations

from pathlib import Path

from kajitori.agent.pods import PodFolder
from kajitori.core import names
from kajitori.local.kubelet.network_pods import NetworkPods


def test_whose_pod_it_is_is_told(tmp_path: Path) -> None:
    """Its run and who submitted it, as its owner and the controller say; a Pod of no run has no user."""
    told = NetworkPods(tmp_path)
    owner = {"kind": names.KIND, "name": "bert", "uid": "r1", "controller": True}
    for uid, owners in (("u1", [owner]), ("u2", [])):
        annotations = {names.ANNOTATION_OWNER: "ada"}
        metadata = {"name": uid, "namespace": "vision", "uid": uid, "annotations": annotations}
        told.tell({"metadata": {**metadata, "ownerReferences": owners}}, "veth1", "10.0.0.1")
    found = PodFolder(tmp_path / "network").pods()
    assert [(pod.run, pod.run_uid, pod.user) for _, pod in sorted(found.items())] == [
        ("bert", "r1", "ada"),
        ("", "", ""),
    ]
