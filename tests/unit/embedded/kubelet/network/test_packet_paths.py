"""Files for a traffic counter about this machine's Pods."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kajitori.agent.pods import PodFolder
from kajitori.core.naming import names
from kajitori.core.traffic.totals import Pod
from kajitori.embedded.kubelet.adapter import PodAdapter
from kajitori.embedded.kubelet.network.packet_paths import NetworkPods
from kajitori.entrypoints.parts.run_adapter import RunPods


def test_a_pod_on_the_hosts_network_is_listed_with_its_cgroups(tmp_path: Path) -> None:
    """The file lists the groups of all containers before they start, without groups that are gone."""
    network_pods = NetworkPods(tmp_path, RunPods())
    pod = {"metadata": {"name": "host", "namespace": "vision", "uid": "u1"}}
    first, second = tmp_path / "groups" / "one", tmp_path / "groups" / "two"

    def groups() -> tuple[str, ...]:
        return msgspec.json.decode((tmp_path / "network" / "u1.json").read_bytes(), type=Pod).cgroups

    network_pods.write_groups(pod, [])
    assert not (tmp_path / "network").exists()
    network_pods.write_groups(pod, [str(first)])
    assert first.is_dir()
    network_pods.write_groups(pod, [str(second)])
    assert groups() == (str(first), str(second))
    first.rmdir()
    network_pods.write_groups(pod, [str(second)])
    assert groups() == (str(second),)
    network_pods.forget("u1")
    assert list((tmp_path / "network").iterdir()) == []


def test_the_folder_exists_before_any_pod(tmp_path: Path) -> None:
    """A reader can tell that there are no Pods, and that it reads the right folder."""
    NetworkPods(tmp_path, PodAdapter()).keep([])
    assert PodFolder(tmp_path / "network").pods() == {}


def test_the_file_names_the_run_and_its_user(tmp_path: Path) -> None:
    """By the owner reference and the controller's annotation; a Pod of no run has no user."""
    network_pods = NetworkPods(tmp_path, RunPods())
    owner = {"kind": names.KIND, "name": "bert", "uid": "r1", "controller": True}
    for uid, owners in (("u1", [owner]), ("u2", [])):
        annotations = {names.ANNOTATION_OWNER: "ada"}
        metadata = {"name": uid, "namespace": "vision", "uid": uid, "annotations": annotations}
        network_pods.write_interface({"metadata": {**metadata, "ownerReferences": owners}}, "veth1", "10.0.0.1")
    found = PodFolder(tmp_path / "network").pods()
    assert [(pod.run, pod.run_uid, pod.user) for _, pod in sorted(found.items())] == [
        ("bert", "r1", "ada"),
        ("", "", ""),
    ]
