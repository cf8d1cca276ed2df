"""Requests of Pods are added up as in kube-scheduler."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.cluster.mirror.usage import LARGEST, NodeUsage, PodUsage, pod_usage
from kajitori.cluster.objects import PodSpec

GI = 2**30


def container(cpu: str = "", memory: str = "", gpu: str = "", sidecar: bool = False) -> dict[str, Any]:
    """A container with these requests."""
    requests = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu}
    made: dict[str, Any] = {"name": "c", "resources": {"requests": {n: q for n, q in requests.items() if q}}}
    return made | ({"restartPolicy": "Always"} if sidecar else {})


CASES: dict[str, tuple[dict[str, Any], PodUsage]] = {
    "containers run side by side": (
        {"containers": [container("500m", "1Gi", "2"), container("1", "1Gi", "6")]},
        PodUsage(1500, 2 * GI, (("nvidia.com/gpu", 8),)),
    ),
    "init containers run one after the other": (
        {"initContainers": [container("2"), container("3")], "containers": [container("1", "1Gi")]},
        PodUsage(3000, GI),
    ),
    "a sidecar counts with the containers": (
        {"initContainers": [container("1", sidecar=True)], "containers": [container("1")]},
        PodUsage(2000),
    ),
    "an init container runs beside the sidecars before it": (
        {
            "initContainers": [container("1", sidecar=True), container("4"), container("2", sidecar=True)],
            "containers": [container("1")],
        },
        PodUsage(5000),
    ),
    "sidecars after an init container count at the end": (
        {
            "initContainers": [container("4"), container("2", sidecar=True), container("2", sidecar=True)],
            "containers": [container("1")],
        },
        PodUsage(5000),
    ),
    "requests of the whole Pod replace the sum; overhead comes on top": (
        {
            "resources": {"requests": {"cpu": "4"}},
            "containers": [container("1", "1Gi"), container("1")],
            "overhead": {"cpu": "250m", "memory": "128Mi"},
        },
        PodUsage(4250, GI + GI // 8),
    ),
    "nothing asked for is nothing taken": ({"containers": [container()]}, PodUsage()),
}


@pytest.mark.parametrize(("spec", "usage"), CASES.values(), ids=CASES.keys())
def test_requests_of_a_pod_are_those_of_kube_scheduler(spec: dict[str, Any], usage: PodUsage) -> None:
    """The rules of component-helpers' PodRequests, one by one."""
    assert pod_usage(msgspec.convert(spec, PodSpec)) == usage


def test_a_request_larger_than_any_node_counts_as_a_whole_node() -> None:
    """Any user may write one into a Pod."""
    spec = msgspec.convert({"containers": [container("1e30", "15Ei")]}, PodSpec)
    assert pod_usage(spec) == PodUsage(LARGEST, LARGEST)


USAGES = st.builds(
    PodUsage,
    st.integers(0, 10**6),
    st.integers(0, 2**50),
    st.sampled_from([(), (("nvidia.com/gpu", 1),), (("a/b", 3), ("nvidia.com/gpu", 8))]),
)


@given(st.lists(st.tuples(USAGES, st.booleans(), st.booleans())), st.randoms())
def test_adding_and_removing_pods_leaves_no_usage(pods: list[tuple[PodUsage, bool, bool]], random: Any) -> None:
    """In any order, down to the last byte."""
    node = NodeUsage()
    for usage, is_member, is_whole in pods:
        node.add(usage, is_member=is_member, is_alone=is_whole)
    assert node.other("nvidia.com/gpu") == sum(usage.other("nvidia.com/gpu") for usage, _, _ in pods)
    random.shuffle(pods)
    for usage, is_member, is_whole in pods:
        node.add(usage, is_member=is_member, is_alone=is_whole, times=-1)
    assert node == NodeUsage()
