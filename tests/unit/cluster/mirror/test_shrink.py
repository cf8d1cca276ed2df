"""Mirrored objects become smaller and share equal parts; fields that are read are kept."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.helpers.gpus import nvidia_slices as nvidia

from kajitori.cluster.mirror.shrink import shrink_node, shrink_pod, shrink_slice
from kajitori.cluster.objects import Node, Pod
from kajitori.kube.device_objects import ResourceSlice


def pod(name: str, version: str = "1", **changes: Any) -> Pod:
    """Return a Pod as it comes from the server, sharing nothing."""
    document = {
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": {"app": "web"},
            "annotations": {"kajitori.dev/x": "1", "other.example/y": "2"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}],
        },
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
            "initContainers": [{"name": "first", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": "t"}}}],
        }
        | changes,
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def shrunk(name: str, version: str = "1", old: Pod | None = None, **changes: Any) -> Pod:
    """Return the same Pod as the mirror keeps it."""
    made = pod(name, version, **changes)
    shrink_pod(made, old)
    return made


def test_fields_that_are_read_are_kept() -> None:
    """Only foreign annotations and unused conditions are removed."""
    before, after = pod("x"), shrunk("x")
    assert (after.spec, after.metadata.labels) == (before.spec, before.metadata.labels)
    assert after.metadata.owner_references == before.metadata.owner_references
    assert after.status.container_statuses == before.status.container_statuses
    assert after.metadata.annotations == {"kajitori.dev/x": "1"}
    assert [condition.type for condition in after.status.conditions] == ["Ready"]


def test_pods_of_one_template_share_equal_parts() -> None:
    """Containers, owners and conditions of two replicas exist once."""
    one, two = shrunk("x"), shrunk("y")
    assert one.spec.containers[0] is two.spec.containers[0]
    assert one.metadata.owner_references[0] is two.metadata.owner_references[0]
    assert one.status.conditions[0] is two.status.conditions[0]
    assert one.spec.node_name is two.spec.node_name


def test_the_time_of_readiness_is_kept_in_members_with_a_health_check() -> None:
    """Health is told by it. The times of all other Pods would be as many texts."""
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "t1"}]
    kept = []
    for kind, probe in (("Run", {"exec": {"command": ["a"]}}), ("Run", None), ("ReplicaSet", {"tcpSocket": {}})):
        document = msgspec.to_builtins(pod("web-1-0", conditions=conditions))
        document["metadata"]["ownerReferences"][0]["kind"] = kind
        document["spec"]["containers"][0]["readinessProbe"] = probe
        made = msgspec.convert(document, Pod)
        shrink_pod(made, None)
        kept.append(made.status.conditions[0].last_transition_time)
        assert made.has_readiness_probe == (probe is not None)
    assert kept == ["t1", "", ""]


def test_a_changed_pod_shares_its_unchanged_parts() -> None:
    """A comparison by identity then shows what changed."""
    old = shrunk("x")
    new = shrunk("x", "2", old, phase="Succeeded", containerStatuses=[{"name": "main"}])
    assert new.spec is old.spec
    assert new.metadata.labels is old.metadata.labels
    assert new.metadata.owner_references is old.metadata.owner_references
    assert (new.status.phase, new.metadata.resource_version) == ("Succeeded", "2")
    assert not new.status.container_statuses[0].ready
    assert old.status.container_statuses[0].ready


def test_equal_nodes_share_their_amounts() -> None:
    """Thousands of equal machines share one table of amounts."""
    document = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "96"}, "allocatable": {"cpu": "95"}}}
    nodes = [msgspec.convert(document, Node) for _ in range(2)]
    for node in nodes:
        shrink_node(node, None)
    assert nodes[0].status.allocatable is nodes[1].status.allocatable
    assert nodes[0].status.allocatable == {"cpu": "95"}


def test_equal_devices_share_attributes_without_those_of_each_device() -> None:
    """A UUID or a PCI address would make all of them different."""
    (written,) = nvidia.slices("n1", [nvidia.gpu(0), nvidia.gpu(1)])
    published = msgspec.convert(written, ResourceSlice)
    shrink_slice(published, None)
    one, other = published.spec.devices
    assert one.attributes is other.attributes and one.capacity is other.capacity
    assert one.attributes.keys() >= {"type", "productName"}
    assert not any(name == "uuid" or "/" in name for name in one.attributes)
