"""A small cluster and small specs to decide about."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.decide import Decision, Facts, RunIdentity, decide
from kajitori.core.kubernetes.taints import Taint
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.policy.file import Policy, default_policy, own_machine_policy, parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import Fault, Refused

GI = 2**30
BERT = RunIdentity("bert", "vision")


def node(name: str, *, gpus: int = 0, gpu_type: str = "", cpu: int = 64, memory: int = 512, **more: Any) -> NodeFacts:
    """Return a node with `cpu` cores and `memory` GiB."""
    return NodeFacts(name, cpu * 1000, memory * GI, gpus, 110, gpu_type, **more)


CLUSTER = NodeTable(
    [
        *(node(f"h-{i}", gpus=8, gpu_type="h100", labels={"pool": "h"}) for i in range(4)),
        *(node(f"a-{i}", gpus=4, gpu_type="a100", cpu=32, memory=256) for i in range(2)),
        *(node(f"c-{i}", cpu=16, memory=64, labels={"disk": "ssd"}) for i in range(3)),
        node("down", gpus=8, gpu_type="h100", ready=False, taints=(Taint("node.kubernetes.io/unreachable"),)),
    ]
)
FACTS = Facts(table=CLUSTER)
HOME = own_machine_policy("/home/a", mounts=False, checkpoint_root="/home/a/ckpt")


def decided(
    document: dict[str, Any] | None = None, policy: Policy | dict[str, Any] | None = None, facts: Facts = FACTS
) -> Decision:
    """The decision about a small spec with these fields."""
    rules = parse_policy(policy) if isinstance(policy, dict) else policy or default_policy()
    return decide(parse_spec({"image": "bert:3"} | (document or {})), rules, facts, run=BERT)


def refused(
    document: dict[str, Any], policy: Policy | dict[str, Any] | None = None, facts: Facts = FACTS
) -> dict[str, Fault]:
    """The faults for a small spec with these fields, by field."""
    with pytest.raises(Refused) as caught:
        decided(document, policy, facts)
    return {fault.field: fault for fault in caught.value.faults}


def codes(decision: Decision) -> set[str]:
    return {finding.code for finding in decision.findings}


def container(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = decision.template["spec"]["containers"][0]
    return found


def env(decision: Decision) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(decision)["env"]}
