"""The cluster as the planner and policy see it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.queue_scene import QueueScene, ago

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.nodes.node_facts import node_facts
from kajitori.cluster.objects import Node, NodeStatus
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.admission.resolve import promised_restarts
from kajitori.core.naming import names
from kajitori.core.policy.file import default_policy, parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import Finding, RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.errors import InvalidInput
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.metadata import ObjectMeta

STATUS = RunStatus(phase=Phase.RUNNING, attempts=1, attempt=Attempt(number=1, nodes="n[0-1]", created=True))


def outlined(spec: dict[str, Any]) -> tuple[Any, Any]:
    """Outline a running run of this spec under a policy that refuses its image."""
    policy = parse_policy({"images": {"deny": ["bert*"]}, "start": {"deadline": "30s"}})
    view = ClusterView(Mirror(KubeClient(KubeConfig(server="http://unused"))), PolicyFile(None, without_file=policy))
    meta = ObjectMeta(name="bert", uid="u")
    run = RunObject(metadata=meta, spec=msgspec.Raw(msgspec.json.encode(spec)), status=STATUS)
    with pytest.raises(InvalidInput):
        view.decide(run)
    return view.outline(run, STATUS)


def test_a_run_that_policy_refuses_now_can_still_be_stopped() -> None:
    """By a user and by its time limit. Its program is not restarted, and it keeps the size with which it began."""
    written = {"image": "bert:3", "replicas": 5, "stopped": True, "resumes": 2, "timeLimit": "1h", "restarts": 4}
    life, spec = outlined(written)
    assert (life.replicas, life.stopped, life.resumes) == (2, True, 2)
    assert (life.limits.time_limit_seconds, life.limits.restarts) == (3600, 0)
    assert life.limits.start_deadline_seconds == 30
    assert spec.replicas == 5


def test_pods_have_an_annotation_with_the_owner() -> None:
    """It is for readers of a Pod without its Run, such as kubelets."""
    view = ClusterView(Mirror(KubeClient(KubeConfig(server="http://unused"))), PolicyFile(None))
    spec = msgspec.Raw(msgspec.json.encode({"image": "a:1", "resources": {"cpu": 1, "memory": "1Gi"}}))
    owners = []
    for written in ({names.ANNOTATION_OWNER: "ada"}, {}):
        run = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", annotations=written), spec=spec)
        _, decision = view.decide(run)
        owners.append(decision.template["metadata"]["annotations"].get(names.ANNOTATION_OWNER))
    assert owners == ["ada", None]


def test_a_run_that_an_older_version_stored_keeps_its_restarts() -> None:
    """Its status says three, which was the default then. A new run, even from kubectl, has none without a
    checkpoint."""
    view = ClusterView(Mirror(KubeClient(KubeConfig(server="http://unused"))), PolicyFile(None))
    spec = msgspec.Raw(msgspec.json.encode({"image": "a:1", "resources": {"cpu": 1, "memory": "1Gi"}}))
    older = msgspec.structs.replace(STATUS, findings=[Finding("RestartsDefaulted", "3 restarts", "spec.restarts")])
    restarts = []
    for status in (older, STATUS, None):
        run = RunObject(metadata=ObjectMeta(name="bert", namespace="vision"), spec=spec, status=status)
        _, decision = view.decide(run)
        restarts.append(decision.limits.restarts)
        if status is older:  # the controller stores these findings, and the next decision finds the same
            assert promised_restarts(decision.findings) == 3
    assert restarts == [3, 0, 0]


def decided(scene: QueueScene, name: str, **changes: Any) -> Any:
    """Return policy's decision about a run of that name."""
    spec = {"image": "bert:3", "command": ["train"], "resources": {"cpu": 1, "memory": "1Gi"}} | changes
    meta = ObjectMeta(name=name, namespace="team", uid=name, annotations={names.ANNOTATION_OWNER: "ada"})
    return scene.cluster.decide(RunObject(metadata=meta, spec=msgspec.Raw(msgspec.json.encode(spec))))[1]


def test_runs_with_the_same_spec_share_policys_decision() -> None:
    """Except for parts with their name, and until the cluster changes."""
    scene = QueueScene(1, checkpoint={"kind": "claim"})
    first = decided(scene, "first")
    assert decided(scene, "second") is first
    assert decided(scene, "second", command=["other"]).template["spec"]["containers"][0]["command"] == ["other"]
    claims = [
        decided(scene, name, checkpoint={"path": "/out"}).claim["metadata"]["name"] for name in ("first", "other")
    ]
    assert len(set(claims)) == 2
    notebooks = [decided(scene, name, type="notebook", command=[]) for name in ("first", "other")]
    paths = [
        next(one["value"] for one in each.template["spec"]["containers"][0]["env"] if one["name"] == "KAJI_PROXY_PATH")
        for each in notebooks
    ]
    assert [path.split("/")[3] for path in paths] == ["first", "other"], "the second one had the first one's address"
    assert len({each.claim["metadata"]["name"] for each in notebooks}) == 2, "and its files"
    with pytest.raises(InvalidInput) as refused:
        decided(scene, "No-Name")
    assert [fault.field for fault in refused.value.faults] == ["metadata.name"]
    node = scene.mirror.nodes["n0"]
    scene.mirror.nodes["n0"] = msgspec.structs.replace(node, status=NodeStatus(allocatable={"cpu": "0.5"}))
    scene.cluster.note_node("n0")
    with pytest.raises(InvalidInput):
        decided(scene, "second")


def test_the_readable_parts_of_an_invalid_spec_count() -> None:
    """A user broke it by editing, and still wants the run stopped."""
    life, spec = outlined({"image": "bert:3", "replicas": "many", "stopped": True})
    assert (life.stopped, spec) == (True, None)
    life, spec = outlined([])  # type: ignore[arg-type]
    assert (life.stopped, spec) == (False, None)


def test_amounts_of_nodes_are_read_in_the_api_servers_notation() -> None:
    """It writes a thousand as `1k`."""
    room = {"cpu": "20", "memory": "1Ti", "pods": "1k", "nvidia.com/gpu": "1k"}
    facts = node_facts(Node(ObjectMeta("n1"), status=NodeStatus(allocatable=room)), default_policy())
    assert (facts.cpu_millis, facts.memory_bytes, facts.pods, facts.gpus) == (20_000, 2**40, 1000, 1000)


async def test_a_run_without_pods_frees_its_nodes_when_its_status_says_so() -> None:
    """Until then its nodes are promised. The change of the Run causes the next cycle, since no Pod changes any more."""
    scene = QueueScene(3)
    run = scene.runs("bert", "n[0-1]", since=ago(hours=1))
    other = scene.runs("whole", "n2", since=ago(hours=1))
    assert not list(scene.cluster.occupancy.promises())
    assert not scene.cluster.occupancy.may_free(run)
    for rank in range(2):
        scene.lose_pod(f"bert-1-{rank}")
    assert [promise.nodes for promise in scene.cluster.occupancy.promises()] == [("n0", "n1")]
    assert scene.cluster.occupancy.may_free(run) and not scene.cluster.occupancy.may_free(other)
    assert run.status is not None
    ended = scene.show("bert", msgspec.structs.replace(run.status, phase=Phase.STOPPED))
    assert scene.cluster.occupancy.may_free(ended)  # it had promised nodes until now
    assert not list(scene.cluster.occupancy.promises())
    assert not scene.cluster.occupancy.may_free(ended)
