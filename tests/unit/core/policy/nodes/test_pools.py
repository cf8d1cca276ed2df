"""Pools of nodes that can grow, in the policy file."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.kubernetes.taints import Taint
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.nodes.pools import ATOMIC_CLASS, NodePool
from kajitori.errors import InvalidInput

NODE = {"cpu": 32, "memory": "256Gi", "gpu": 8}


def pool(**fields: Any) -> dict[str, Any]:
    return {"nodeSelector": {"pool": "spot"}, "node": NODE, "maxNodes": 8, **fields}


def read(**fields: Any) -> NodePool:
    return parse_policy({"nodePools": {"spot": pool(**fields)}}).node_pools["spot"]


@pytest.mark.parametrize(
    ("pools", "field", "message", "hint"),
    [
        ({"spot": pool(nodeSelector={})}, "nodePools.spot.nodeSelector", "must not be empty", ""),
        ({"spot": pool(maxNodes=0)}, "nodePools.spot.maxNodes", "must be at least 1", ""),
        ({"spot": pool(node={"cpu": 1})}, "nodePools.spot.node.memory", "is required", ""),
        ({"spot": pool(labels={"pool": "x"})}, "nodePools.spot", "pool is in both labels and nodeSelector", "labels"),
        ({"spot": pool(taints=[{"key": "spot", "effect": "Never"}])}, "nodePools.spot.taints[0].effect", "Never", ""),
        (
            {"spot": pool(provisioningClass="check-capacity.autoscaling.x-k8s.io")},
            "nodePools.spot",
            "it adds no nodes",
            ATOMIC_CLASS,
        ),
        ({"spot": pool(pause="10m", longestPause="1m")}, "nodePools.spot", "longestPause is shorter", "lower pause"),
        ({"spot": pool(parameters={"ValidUntilSeconds": "soon"})}, "nodePools.spot", "'soon' is not", '"900"'),
        ({"spot": pool(parameters={"n": 5})}, "nodePools.spot.parameters.n", "must be text", "quotes"),
        (
            {"spot": pool(), "west": pool(nodeSelector={"pool": "spot", "zone": "west"})},
            "nodePools",
            "could belong to both spot and west",
            "different value",
        ),
        ({"spot": pool(maxNode=3)}, "nodePools.spot.maxNode", "no field 'maxNode'", "maxNodes"),
    ],
)
def test_faults_of_a_pool_are_named(pools: dict[str, Any], field: str, message: str, hint: str) -> None:
    """Each has field, message and remedy."""
    with pytest.raises(InvalidInput) as raised:
        parse_policy({"nodePools": pools})
    faults = [fault for fault in raised.value.faults if fault.field == field and message in fault.message]
    assert faults and hint in faults[0].hint, raised.value.faults


def test_pools_that_differ_in_one_label_are_allowed() -> None:
    """They are asked in the file's order."""
    pools = {"spot": pool(), "fixed": pool(nodeSelector={"pool": "fixed"})}
    assert list(parse_policy({"nodePools": pools}).node_pools) == ["spot", "fixed"]


def test_the_default_class_gets_a_time_limit() -> None:
    """Otherwise it would keep trying after the controller is gone. Other classes get only the parameters in the
    file."""
    assert read(deadline="10m").all_parameters == {"ValidUntilSeconds": "600"}
    assert read(parameters={"ValidUntilSeconds": "60"}).all_parameters == {"ValidUntilSeconds": "60"}
    own = read(provisioningClass="queued-provisioning.gke.io", parameters={"maxRunDurationSeconds": "3600"})
    assert own.all_parameters == {"maxRunDurationSeconds": "3600"} and not own.adds_only_missing


def test_the_facts_of_a_future_node_come_from_its_pool() -> None:
    """It has the pool's labels, resources and permanent taints."""
    rules = read(labels={"topology.kubernetes.io/zone": "b"}, taints=[{"key": "spot", "value": "yes"}])
    node = rules.new_node("spot/1", "h100", ["topology.kubernetes.io/zone", "kajitori.dev/rack"])
    assert (node.cpu_millis, node.memory_bytes, node.gpus, node.pods) == (32_000, 256 * 2**30, 8, 110)
    assert node.gpu_type == "h100" and node.domains == ("b", "") and node.taints == (Taint("spot", "yes"),)
    assert rules.has(node.labels) and not rules.has({"pool": "other"})
