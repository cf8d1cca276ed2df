"""A spec with faults: its other parts are still checked, and nothing is concluded from the faulty ones."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.decide import objections
from kajitori.core.admission.resolve import Facts
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.pods.resolved import RunIdentity
from kajitori.core.policy.file import Policy, parse_policy
from kajitori.core.spec.reading.draft import read_draft

NODE = NodeFacts(
    name="g1", cpu_millis=32_000, memory_bytes=256 << 30, gpus=8, pods=110, gpu_type="h100", labels={}, taints=()
)
CPU_NODE = NodeFacts(
    name="c1", cpu_millis=8_000, memory_bytes=32 << 30, gpus=0, pods=110, gpu_type="", labels={}, taints=()
)
RUN = RunIdentity("bert", "team")


def objected(spec: Any, policy: Policy | None = None, *nodes: NodeFacts) -> list[tuple[str, str]]:
    """Return field and code of the faults that policy and cluster add to the spec's own faults, which must exist."""
    draft = read_draft(spec)
    assert draft.faults
    facts = Facts(table=NodeTable(nodes or (NODE, CPU_NODE)))
    return [(fault.field, fault.code) for fault in objections(draft, policy or parse_policy({}), facts, run=RUN)]


UNRELATED = {
    "another field": {"replicas": "two"},
    "a field that does not exist": {"commnd": ["a"]},
    "the image": {"image": "UPPER CASE"},
    "no image": {"image": None},
    "an amount beside it": {"resources": {"gpu": 1, "gpuType": "b200", "memory": "lots"}},
    "the number of GPUs of that type": {"resources": {"gpu": "x", "gpuType": "b200"}},
    "what does not go together": {"resources": {"gpuType": "b200"}},
    "an item of the same list": {"volumes": [{"path": "no"}, "text", {"name": "ghost", "path": "/d"}]},
}


@pytest.mark.parametrize("wrong", UNRELATED.values(), ids=UNRELATED.keys())
def test_valid_parts_of_a_faulty_spec_are_checked_against_policy(wrong: dict[str, Any]) -> None:
    """An unknown GPU type, an unknown volume and a missing right are reported beside any other fault."""
    spec = {
        "image": "bert:3",
        "privileged": True,
        "resources": {"gpu": 1, "gpuType": "b200"},
        "volumes": [{"name": "first", "path": "/a"}, {"name": "second", "path": "/b"}, {"name": "ghost", "path": "/d"}],
    }
    found = objected(spec | wrong)
    assert ("spec.privileged", "Privileged") in found
    assert ("spec.resources.gpuType", "UnknownGpuType") in found
    assert ("spec.volumes[2].name", "UnknownVolume") in found
    assert len(found) == (3 if "volumes" in wrong else 5)


REFUSE = parse_policy(
    {
        "memoryWithoutLimit": "refuse",
        "images": {"allow": ["registry/*"]},
        "ceilings": {"member": {"memory": "1Gi", "cpu": 2, "shm": "1Gi"}, "run": {"restarts": 1}},
        "defaults": {"memory": "1Gi", "cpu": 1, "restarts": 1},
    }
)
NEVER = parse_policy({"images": {"allow": ["registry/*"]}, "gpu": {"cpuRunsOnGpuNodes": "never"}})
FOLLOWING: dict[str, tuple[dict[str, Any], Policy | None, tuple[NodeFacts, ...]]] = {
    "a limit that was given, but can't be read": ({"resources": {"memory": "lots"}}, REFUSE, ()),
    "an image that was given, but can't be read": ({"image": "UPPER", "resources": {"memory": "1Gi"}}, REFUSE, ()),
    "cores that can't be read": ({"resources": {"cpu": "x", "memory": "1Gi"}}, REFUSE, ()),
    "restarts that can't be read": ({"restarts": "x", "resources": {"memory": "1Gi"}}, REFUSE, ()),
    "shm within a memory that can't be read": ({"resources": {"shm": "8Gi", "memory": "lots"}}, None, ()),
    "GPUs that can't be read, and no other nodes": ({"resources": {"gpu": "x"}}, None, (NODE,)),
    "a type without GPUs, and no other nodes": ({"resources": {"gpuType": "h100"}}, None, (NODE,)),
    "GPUs outside resources, and no other nodes": ({"gpu": 8}, NEVER, (NODE,)),
    "GPUs under a wrong name, and no other nodes": ({"resources": {"gpus": 8}}, NEVER, (NODE,)),
    "both at once": ({"gpus": 8}, NEVER, (NODE,)),
    "a limit outside resources": ({"memory": "64Gi"}, REFUSE, ()),
    "GPUs that can't be read, and cores of GPU nodes": ({"resources": {"gpu": "x", "cpu": 32}}, None, ()),
    "a gang of members whose size can't be read": ({"replicas": 20, "resources": {"cpu": "a little"}}, None, ()),
}


@pytest.mark.parametrize(("wrong", "policy", "nodes"), FOLLOWING.values(), ids=FOLLOWING.keys())
def test_a_fault_causes_no_further_faults(
    wrong: dict[str, Any], policy: Policy | None, nodes: tuple[NodeFacts, ...]
) -> None:
    """Unreadable fields are not reported as missing, and nothing is concluded from their absence."""
    image = "registry/bert:3" if policy is not None else "bert:3"
    assert objected({"image": image} | wrong, policy, *nodes) == []


def test_faults_keep_the_positions_of_list_items() -> None:
    """The list has more than ten items, several of which are faulty."""
    good = {"name": "ghost", "path": "/a"}
    volumes = [good | {"path": f"/{place}"} if place in (3, 11) else "text" for place in range(13)]
    assert [field for field, _ in objected({"image": "x", "volumes": volumes})] == [
        "spec.volumes[3].name",
        "spec.volumes[11].name",
    ]


@pytest.mark.parametrize("document", [None, 5, [], {}, {"image": None}, {"resources": 5}, {"volumes": [[], 3, {}]}])
def test_any_document_is_checked_without_an_exception(document: Any) -> None:
    """Its own faults are reported."""
    draft = read_draft(document)
    assert draft.faults
    assert objections(draft, parse_policy({}), Facts(), run=RUN) == []


def test_an_mpi_run_without_a_program_or_a_first_step_has_both_faults() -> None:
    spec = {"image": "x", "launcher": "mpi"}
    assert [fault.field for fault in read_draft(spec).faults] == ["spec.command"]
    assert objected(spec) == [("spec.launcher", "NoFirstStep")]
