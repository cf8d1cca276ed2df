"""Objects and nodes that a policy refers to and a cluster lacks."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.policy.cluster_check import (
    CheckedNode,
    lacking_nodes,
    missing_object,
    missing_resolvers,
    named_objects,
)
from kajitori.core.policy.file import parse_policy

GPU_NODE = CheckedNode(
    {"pool": "training", "zone": "west", "nvidia.com/gpu.product": "NVIDIA-H100-80GB"},
    frozenset({"cpu", "memory", "nvidia.com/gpu", "rdma/hca"}),
)
CPU_NODE = CheckedNode({"pool": "cpu", "zone": "east"}, frozenset({"cpu", "memory"}))
POOL = {"nodeSelector": {"pool": "spot"}, "node": {"cpu": 8, "memory": "64Gi", "gpu": 8}, "maxNodes": 4}


def faults(**policy: Any) -> dict[str, tuple[str, str]]:
    found = lacking_nodes(parse_policy(policy), [GPU_NODE, CPU_NODE]).faults
    return {fault.field: (fault.message, fault.hint) for fault in found}


def test_every_object_is_named_with_its_field() -> None:
    policy = parse_policy(
        {
            "checkpoint": {"storageClass": "fast"},
            "priorities": {"high": {"value": 100, "className": "urgent"}},
            "inject": {"runtimeClass": "gvisor"},
            "guarantees": [{"namespace": "vision", "cpu": 4}],
            "start": {"image": "kajitori:1", "server": "http://server.kajitori.svc:8600"},
            "volumes": {"data": {"claim": "imagenet"}, "keys": {"secret": "keys"}, "conf": {"configMap": "conf"}},
            "images": {"pullSecrets": ["registry"]},
            "preflight": {"image": "test:1", "namespace": "tests", "volumes": [{"name": "data", "path": "/d"}]},
            "network": {"dns": {"namespace": "dns"}},
        }
    )
    assert {item.field: item.text for item in named_objects(policy, "team")} == {
        "checkpoint.storageClass": "StorageClass fast",
        "priorities.high.className": "PriorityClass urgent",
        "priorities.normal.className": "PriorityClass kajitori",
        "priorities.low.className": "PriorityClass kajitori",
        "inject.runtimeClass": "RuntimeClass gvisor",
        "guarantees[0].namespace": "Namespace vision",
        "start.server": "Service server in namespace kajitori",
        "network.dns.namespace": "Namespace dns",
        "volumes.data.claim": "PersistentVolumeClaim imagenet in namespace team",
        "volumes.keys.secret": "Secret keys in namespace team",
        "volumes.conf.configMap": "ConfigMap conf in namespace team",
        "images.pullSecrets[0]": "Secret registry in namespace team",
        "preflight.namespace": "Namespace tests",
        "preflight.volumes[0]": "PersistentVolumeClaim imagenet in namespace tests",
    }
    for named in named_objects(policy, "team"):
        fault = missing_object(named)
        assert named.text in fault.message and fault.hint


def test_a_policy_without_storage_class_needs_a_default_one() -> None:
    named = next(item for item in named_objects(parse_policy({}), "team") if item.kind == "StorageClass")
    assert "no default one" in missing_object(named).message
    folder = parse_policy({"checkpoint": {"kind": "folder", "root": "/c"}})
    assert not [item for item in named_objects(folder, "team") if item.kind == "StorageClass"]


@pytest.mark.parametrize(
    ("policy", "field", "message", "hint"),
    [
        ({"inject": {"nodeSelector": {"pool": "big"}}}, "inject.nodeSelector.pool", "pool=big", "cpu, training"),
        ({"inject": {"nodeSelector": {"pol": "cpu"}}}, "inject.nodeSelector.pol", "pol=cpu", "did you mean pool?"),
        (
            {"inject": {"nodeSelector": {"pool": "cpu", "zone": "west"}}},
            "inject.nodeSelector",
            "all of these labels",
            "leave out",
        ),
        ({"binding": {"directlyOn": [{"zone": "north"}]}}, "binding.directlyOn[0].zone", "zone=north", "east, west"),
        ({"preflight": {"image": "i", "nodes": {"zone": "x"}}}, "preflight.nodes.zone", "zone=x", "east, west"),
        ({"inject": {"resources": {"rdma/hcb": "1"}}}, "inject.resources['rdma/hcb']", "rdma/hcb", "device plugin"),
        ({"gpu": {"resource": "amd.com/gpu"}}, "gpu.resource", "amd.com/gpu", "device plugin"),
        ({"gpu": {"typeLabels": ["gpu.product"]}}, "gpu.typeLabels[0]", "the label gpu.product", ""),
        (
            {"guarantees": [{"namespace": "v", "gpuType": "h200", "gpus": 8}]},
            "guarantees[0].gpuType",
            "type h200",
            "the cluster has h100",
        ),
        ({"topology": ["zone", "rack"]}, "topology[1]", "the label rack", ""),
        (
            {"preflight": {"image": "i", "volumes": [{"name": "data", "path": "/d"}]}},
            "preflight.volumes[0].name",
            "no volume data",
            "add it to volumes",
        ),
        (
            {"nodePools": {"w": POOL | {"nodeSelector": {"zone": "west"}, "labels": {"gpu": "h100"}}}},
            "nodePools.w.labels.gpu",
            "gpu=h100 among the pool's nodes",
            "",
        ),
    ],
)
def test_requirements_that_no_node_meets_are_named(policy: dict[str, Any], field: str, message: str, hint: str) -> None:
    found = faults(**policy)
    assert list(found) == [field]
    assert message in found[field][0] and hint in found[field][1]


def test_met_requirements_and_omitted_fields_are_no_faults() -> None:
    assert not faults()
    assert not faults(
        inject={"nodeSelector": {"pool": "training"}},
        gpu={"resource": "nvidia.com/gpu", "resources": {"rdma/hca": "1"}, "typeLabels": ["nvidia.com/gpu.product"]},
        guarantees=[{"namespace": "v", "gpuType": "h100", "gpus": 8}],
        topology=["zone"],
    )


def test_nodes_that_may_still_come_turn_faults_into_notes() -> None:
    assert not faults(inject={"nodeSelector": {"pool": "spot"}}, nodePools={"spot": POOL})
    growing = parse_policy({"nodesOnDemand": True, "inject": {"nodeSelector": {"pool": "spot"}}})
    found = lacking_nodes(growing, [CPU_NODE])
    assert not found.faults
    assert found.notes == ("inject.nodeSelector.pool: no node has label pool=spot now",)
    empty = lacking_nodes(parse_policy({"topology": ["zone"]}), [])
    assert not empty.faults and "no nodes yet" in empty.notes[0]


def test_unused_gpu_types_and_empty_pools_are_notes() -> None:
    found = lacking_nodes(
        parse_policy({"gpu": {"types": {"h100": ["*H100*"], "b200": ["*B200*"]}}, "nodePools": {"spot": POOL}}),
        [GPU_NODE],
    )
    assert found.notes == (
        "gpu.types: no node has GPUs of type b200",
        "nodePools.spot: no node has its labels (nodeSelector) now",
    )


def test_missing_resolvers_are_a_fault_only_if_the_policy_names_them() -> None:
    assert missing_resolvers(parse_policy({})).notes
    named = missing_resolvers(parse_policy({"network": {"dns": {"labels": {"app": "dns"}}}}))
    assert [fault.field for fault in named.faults] == ["network.dns.labels"]
