"""Users change Kajitori's objects with kubectl: Pods, labels, owners, finalizers, namespaces, and runs of one name."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.harness.cluster import NODES_COUNT, Cluster
from tests.harness.platform.parts import GPUS

from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICES, Resource

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
LABELS = (names.LABEL_RUN, names.LABEL_RUN_UID, names.LABEL_ATTEMPT, names.LABEL_RANK)
HELD = "example.com/held"


def pods(cluster: Cluster) -> list[Pod]:
    """Return every Pod of the namespace, whatever its labels are."""
    found = [pod for (namespace, _), pod in cluster.mirror.pods.items() if namespace == cluster.namespace]
    return sorted(found, key=lambda pod: pod.metadata.name)


def labels_are_right(cluster: Cluster, run: str) -> bool:
    """Return whether each Pod has an owner and the labels that match its name."""
    uid = uid_of(cluster, run)
    for pod in pods(cluster):
        member = names.read_pod_name(pod.metadata.name)
        assert member is not None
        owner = pod.metadata.controller
        if owner is None or (owner.uid, pod.owner_run_uid) != (uid, uid):
            return False
        if not names.member_labels(run, uid, *member[1:]).items() <= pod.metadata.labels.items():
            return False
    return True


def are_newer(pods: list[Pod], versions: list[int]) -> bool:
    """Return whether each Pod was written after these versions."""
    return all(int(pod.metadata.resource_version) > version for pod, version in zip(pods, versions, strict=True))


def uid_of(cluster: Cluster, run: str) -> str:
    found = cluster.run(run)
    assert found is not None
    return found.metadata.uid


async def edit(cluster: Cluster, pod: str, **metadata: Any) -> int:
    """Change a Pod's metadata and return the resource version of this edit."""
    edited = await cluster.client.patch(PODS, pod, {"metadata": metadata}, cluster.namespace)
    return int(edited["metadata"]["resourceVersion"])


async def foreign_owner(cluster: Cluster, name: str = "stranger") -> list[dict[str, Any]]:
    """Create another object and return a reference to it as the controlling owner."""
    made = await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": name}}, cluster.namespace)
    owner = {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "name": name, "uid": made["metadata"]["uid"]}
    return [owner | {"controller": True}]


async def edit_everywhere(cluster: Cluster, value: str | None) -> None:
    """Change one label of each member of `bert`, the owners of the last two, and the Run's finalizer, and wait until
    all are restored."""
    versions = [await edit(cluster, f"bert-1-{rank}", labels={label: value}) for rank, label in enumerate(LABELS)]
    last = f"bert-1-{len(LABELS)}"
    versions.append(await edit(cluster, last, ownerReferences=[], labels={names.LABEL_RANK: "0"}))
    others = await foreign_owner(cluster, f"others-{value}".lower())
    versions.append(await edit(cluster, f"bert-1-{len(LABELS) + 1}", ownerReferences=others))
    await cluster.client.patch(RUNS, "bert", {"metadata": {"finalizers": None}}, cluster.namespace)
    await cluster.until(lambda: are_newer(pods(cluster), versions), "each Pod was written after its edit")
    await cluster.until(lambda: labels_are_right(cluster, "bert"), "labels and owners are right")
    await cluster.until(
        lambda: (run := cluster.run("bert")) and names.FINALIZER in run.metadata.finalizers, "the finalizer is back"
    )


@pytest.mark.conformance
async def test_labels_and_owners_are_restored_while_programs_run_on(cluster: Cluster) -> None:
    """Each label and owner is removed or changed. The same Pods continue, with their labels."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=len(LABELS) + 2)
    await cluster.reaches("bert", Phase.RUNNING)
    before = [(pod.metadata.name, pod.metadata.uid) for pod in pods(cluster)]
    for value in (None, "7"):
        await edit_everywhere(cluster, value)
    assert [(pod.metadata.name, pod.metadata.uid) for pod in pods(cluster)] == before
    status = cluster.status("bert")
    assert (status.phase, status.attempts, status.interruptions) == (Phase.RUNNING, 1, 0)


async def test_pods_that_were_edited_without_a_controller_are_deleted(cluster: Cluster) -> None:
    """Their labels no longer select them. A restart waits for their end, and none of them is left."""
    first, other_owner = cluster.start_controller(), await foreign_owner(cluster)
    for name in ("broken", "deleted"):
        await cluster.submit(name, replicas=4, restarts=1)
        await cluster.reaches(name, Phase.RUNNING)
    await cluster.kill_controller(first)
    for name in ("broken", "deleted"):
        await edit(cluster, f"{name}-1-0", labels=dict.fromkeys(LABELS))
        await edit(cluster, f"{name}-1-1", ownerReferences=[])
        await edit(cluster, f"{name}-1-3", ownerReferences=other_owner)
    await cluster.behave("broken-1-2", exit_code="1")
    await cluster.client.delete(RUNS, "deleted", cluster.namespace)
    alive: set[frozenset[int]] = set()

    def note(resource: Resource, namespace: str, name: str) -> None:
        alive.add(frozenset(names.read_pod_name(p.metadata.name)[1] for p in pods(cluster) if is_alive(p)))  # type: ignore[index]

    def is_alive(pod: Pod) -> bool:
        return pod.metadata.name.startswith("broken-") and not pod.is_finished

    cluster.mirror.on_change(note)
    cluster.start_controller()
    await cluster.until(lambda: cluster.run("deleted") is None, "the deleted Run is gone")
    status = await cluster.reaches("broken", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions) == (1, 0)
    assert not [pod.metadata.name for pod in pods(cluster) if pod.metadata.name.startswith("deleted-")]
    assert not [attempts for attempts in alive if len(attempts) > 1]


@pytest.mark.parametrize("led_on", [True, False])
async def test_no_attempt_is_used_twice_after_the_status_was_deleted(cluster: Cluster, led_on: bool) -> None:
    """The Pods show how many attempts there were, and all members end before the next attempt. Without Pods, a
    controller that has led since then still knows the number."""
    first = cluster.start_controller()
    await cluster.submit("bert", replicas=2)
    await cluster.reaches("bert", Phase.RUNNING)
    alive: set[frozenset[int]] = set()

    def note(resource: Resource, namespace: str, name: str) -> None:
        there = [names.read_pod_name(pod.metadata.name) for pod in pods(cluster) if not pod.is_finished]
        alive.add(frozenset(member.attempt for member in there if member is not None))

    cluster.mirror.on_change(note)
    if not led_on:
        await cluster.kill_controller(first)
    await cluster.client.patch(RUNS, "bert", {"status": None}, cluster.namespace, subresource="status")
    if not led_on:
        await cluster.until(lambda: (run := cluster.run("bert")) and run.status is None, "its status is gone")
        first = cluster.start_controller()
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.attempts, status.members.running) == (2, 2)
    if led_on:
        await cluster.client.delete_collection(PODS, cluster.namespace, label_selector="", grace_seconds=0)
        await cluster.client.patch(RUNS, "bert", {"status": None}, cluster.namespace, subresource="status")
        await cluster.until(lambda: cluster.status("bert").attempts >= 3, "it begins anew")
    assert {frozenset({1}), frozenset({2})} <= alive, "both attempts were seen"
    assert not [attempts for attempts in alive if len(attempts) > 1]


async def test_a_gang_restarts_when_all_of_its_pods_are_deleted(cluster: Cluster) -> None:
    """`kubectl delete pods --all` is not counted as a restart."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=4, restarts=0, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.client.delete_collection(PODS, cluster.namespace, label_selector="")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions, status.members.running) == (0, 1, 4)
    await cluster.until(lambda: len(pods(cluster)) == 4, "nothing of the first attempt is left")


@pytest.mark.conformance
@pytest.mark.parametrize("how", ["Orphan", "Foreground"])
async def test_members_end_however_their_run_is_deleted(cluster: Cluster, how: str) -> None:
    """Also with `kubectl delete --cascade=orphan`, which removes the owner from our Pods."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.client.delete(RUNS, "bert", cluster.namespace, propagation=how)

    def has_no_finalizer() -> (
        bool
    ):  # the garbage collector's own finalizer may stay for half a minute, because it must first learn of the kind
        run = cluster.run("bert")
        return run is None or names.FINALIZER not in run.metadata.finalizers

    await cluster.until(has_no_finalizer, "we let the Run go")
    await cluster.until(lambda: not pods(cluster), "its Pods are gone")


async def test_an_edit_of_a_running_run_counts_for_its_next_attempt(cluster: Cluster) -> None:
    """If policy or Kajitori refuses the edit, the run ends only then."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, restarts=5)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.change("bert", replicas=3, env={"EDITED": "1"})
    await cluster.submit("after", replicas=1)
    await cluster.reaches("after", Phase.RUNNING)  # the edit has been seen by now
    assert (cluster.status("bert").phase, len(cluster.pods("bert"))) == (Phase.RUNNING, 2)
    await cluster.behave("bert-1-0", exit_code="1")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert status.members.total == 3
    found = await cluster.client.get(PODS, "bert-2-2", cluster.namespace)
    assert {"name": "EDITED", "value": "1"} in found["spec"]["containers"][0]["env"]

    await cluster.change("bert", carrier="pigeon")  # the schema of the resource accepts it, Kajitori does not
    await cluster.change("after", image="")
    await cluster.client.delete(PODS, "bert-2-0", cluster.namespace, grace_seconds=0)
    status = await cluster.reaches("bert", Phase.FAILED)
    assert status.reason is Reason.REFUSED and "spec.carrier" in status.message
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("bert")), "its members have ended")
    assert cluster.status("after").phase is Phase.RUNNING


async def test_a_new_run_of_the_same_name_uses_nothing_of_the_old_one(cluster: Cluster) -> None:
    """A Pod of the deleted run is held by a finalizer. The new run has its own UID, Pods and Service."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=2)
    await cluster.reaches("bert", Phase.RUNNING)
    old = uid_of(cluster, "bert")
    await edit(cluster, "bert-1-1", finalizers=[HELD])
    await cluster.client.delete(RUNS, "bert", cluster.namespace)
    await cluster.until(lambda: cluster.run("bert") is None, "the Run is gone")
    await cluster.submit("bert", replicas=2)
    status = await cluster.reaches("bert", Phase.RUNNING)
    new = uid_of(cluster, "bert")
    assert new != old and status.restarts == 0
    running = [pod for pod in pods(cluster) if not pod.is_finished]
    assert {pod.owner_run_uid for pod in running} == {new} and len(running) == 2
    held = await cluster.client.get(PODS, "bert-1-1", cluster.namespace)
    assert held["metadata"]["labels"][names.LABEL_RUN_UID] == old, "the old one is as it was"
    service = await cluster.client.get(SERVICES, "bert", cluster.namespace)
    assert service["spec"]["selector"] == {names.LABEL_RUN_UID: new}
    await edit(cluster, "bert-1-1", finalizers=None)
    await cluster.until(lambda: {pod.owner_run_uid for pod in pods(cluster)} == {new}, "the old Pod is gone")
    assert cluster.status("bert").phase is Phase.RUNNING


@pytest.mark.conformance
async def test_a_deleted_namespace_leaves_nothing_of_its_runs(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The namespace has running, waiting and ended runs. The log contains no errors, and other runs get the nodes."""
    caplog.set_level(logging.WARNING)
    cluster.start_controller()
    await cluster.submit("big", replicas=NODES_COUNT, resources=WHOLE, restarts=3)
    await cluster.submit("ended")
    await cluster.reaches("big", Phase.RUNNING)
    await cluster.reaches("ended", Phase.RUNNING)
    await cluster.succeed("ended")
    await cluster.reaches("ended", Phase.SUCCEEDED)
    await cluster.submit("waiting", resources=WHOLE)
    await cluster.until(lambda: cluster.status("waiting").reason is Reason.WAITING_FOR_GPU, "it waits")
    gone, cluster.namespace = cluster.namespace, f"{cluster.namespace}-next"
    await cluster.client.create(NAMESPACES, {"metadata": {"name": cluster.namespace}})
    await cluster.submit("neighbour", replicas=NODES_COUNT, resources=WHOLE)
    await cluster.client.delete(NAMESPACES, gone)
    await cluster.reaches("neighbour", Phase.RUNNING)

    def left() -> list[tuple[str, str]]:
        return [key for key in (*cluster.mirror.runs, *cluster.mirror.pods) if key[0] == gone]

    await cluster.until(lambda: not left(), "nothing is left")
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("kajitori.controllers")]
    assert len(ours) < 5, ours
