"""The objects that a run becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kajitori.core import names
from kajitori.core.decide import Facts, RunIdentity, decide
from kajitori.core.manifests import MemberPods, checkpoint_claim, headless_service, priority_class
from kajitori.core.policy import parse_policy
from kajitori.core.run import parse_spec


def members(document: dict[str, Any] | None = None, *, port: int = 20001, **more: Any) -> MemberPods:
    """The Pods of the third attempt of a run named bert with these fields."""
    spec = parse_spec({"image": "bert:3", "replicas": 4} | (document or {}))
    policy = parse_policy({"inject": {"labels": {"cost": "42"}, "annotations": {"note": "x"}}})
    decision = decide(spec, policy, Facts(), run=RunIdentity("bert", "vision"))
    return MemberPods(
        decision.template,
        run_name="bert",
        namespace="vision",
        run_uid="u-1",
        attempt=3,
        world_size=spec.replicas,
        port=port,
        spec=spec,
        **more,
    )


def env(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}


def test_a_member() -> None:
    """Run, attempt and rank stand in name, host name, labels and environment; the Pod belongs to the Run."""
    pod = members().pod(2, "gpu-7")
    assert pod["metadata"] == {
        "name": "bert-3-2",
        "namespace": "vision",
        "labels": {
            "cost": "42",
            "app.kubernetes.io/managed-by": "kajitori",
            "kajitori.dev/run": "bert",
            "kajitori.dev/run-uid": "u-1",
            "kajitori.dev/attempt": "3",
            "kajitori.dev/rank": "2",
        },
        "annotations": {"note": "x"},
        "ownerReferences": [
            {
                "apiVersion": "kajitori.dev/v1alpha1",
                "kind": "Run",
                "name": "bert",
                "uid": "u-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert pod["spec"]["hostname"] == "bert-3-2"
    assert pod["spec"]["subdomain"] == "bert"
    assert env(pod) == {
        "KAJI_RUN": "bert",
        "KAJI_RANK": "2",
        "KAJI_WORLD_SIZE": "4",
        "KAJI_ATTEMPT": "3",
        "MASTER_ADDR": "bert-3-0.bert",
        "MASTER_PORT": "20001",
    }


def test_pinned_or_bound() -> None:
    """A member is pinned by the node's name as a field, which the scheduler resolves at once, or bound directly."""
    pinned = members().pod(0, "gpu-7")["spec"]
    terms = pinned["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}]}]
    assert "nodeName" not in pinned
    bound = members(bind_direct=True).pod(0, "gpu-7")["spec"]
    assert bound["nodeName"] == "gpu-7"
    assert "affinity" not in bound


def test_torchrun() -> None:
    """With torchrun every member learns all that torchrun asks for, also by the variables that it reads by itself."""
    pod = members({"launcher": "torchrun", "resources": {"gpu": 8}}).pod(3, "n")
    found = env(pod)
    assert found["MASTER_ADDR"] == found["PET_MASTER_ADDR"] == "bert-3-0.bert"
    assert found["MASTER_PORT"] == found["PET_MASTER_PORT"] == "20001"
    assert found["NODE_RANK"] == found["PET_NODE_RANK"] == "3"
    assert found["NNODES"] == found["PET_NNODES"] == "4"
    assert found["NPROC_PER_NODE"] == found["PET_NPROC_PER_NODE"] == "8"


@pytest.mark.parametrize("document", [{"replicas": 1}, {"type": "service"}])
def test_nobody_to_meet(document: dict[str, Any]) -> None:
    """One member alone, and members of a service, have no meeting point."""
    assert "MASTER_ADDR" not in env(members(document).pod(0, "n"))


def test_ones_own_meeting_point() -> None:
    """Without a launcher the user's own values stand."""
    found = env(members({"env": {"MASTER_ADDR": "elsewhere"}}).pod(1, "n"))
    assert found["MASTER_ADDR"] == "elsewhere"
    assert found["MASTER_PORT"] == "20001"


def test_each_name_once() -> None:
    """No variable stands twice in a Pod, whatever policy and launcher add."""
    pod = members({"launcher": "torchrun", "env": {"A": "b"}, "checkpoint": {"path": "/c"}}).pod(1, "n")
    listed = [each["name"] for each in pod["spec"]["containers"][0]["env"]]
    assert len(listed) == len(set(listed))


def test_members_differ_only_in_rank_and_node() -> None:
    """A Pod made first is not changed by those made later, and ranks differ in nothing but themselves."""
    pods = members()
    first = json.dumps(pods.pod(0, "a"))
    other = json.dumps(pods.pod(1, "b"))
    assert json.dumps(pods.pod(0, "a")) == first
    assert first.replace("bert-3-0", "bert-3-1") != other
    swapped = first.replace('"name": "bert-3-0"', '"name": "bert-3-1"').replace(
        '"hostname": "bert-3-0"', '"hostname": "bert-3-1"'
    )
    swapped = swapped.replace('"KAJI_RANK", "value": "0"', '"KAJI_RANK", "value": "1"')
    swapped = swapped.replace('"kajitori.dev/rank": "0"', '"kajitori.dev/rank": "1"').replace(
        '"values": ["a"]', '"values": ["b"]'
    )
    assert swapped == other


def test_the_largest_names_fit() -> None:
    """The longest run name still gives a host name of at most 63 characters."""
    assert len(names.pod_name("a" * names.RUN_NAME_MAX_LENGTH, 99_999, 99_998)) <= 63


def test_headless_service() -> None:
    """Members have names of their own before they are ready, and the Service goes with the run."""
    service = headless_service(run_name="bert", namespace="vision", run_uid="u-1", ports=[80])
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"kajitori.dev/run-uid": "u-1"},
        "ports": [{"name": "port-80", "port": 80}],
    }
    assert service["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert "ports" not in headless_service(run_name="b", namespace="v", run_uid="u", ports=[])["spec"]


def test_checkpoint_claim() -> None:
    """The claim outlives the run: nothing owns it."""
    claim = checkpoint_claim(
        run_name="bert", namespace="vision", size_bytes=2**30, access_mode="ReadWriteMany", storage_class="fast"
    )
    assert claim["metadata"]["name"] == "bert-checkpoint"
    assert "ownerReferences" not in claim["metadata"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }


def test_priority_class() -> None:
    """Ours never preempts, and is worth what Pods without a class are worth."""
    assert priority_class()["preemptionPolicy"] == "Never"
    assert priority_class()["value"] == 0
