"""People with kubectl: our Pods, their labels and owners, our finalizer, whole namespaces and runs of one name."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.harness.cluster import NODES_COUNT, Cluster
from tests.harness.parts import GPUS

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.words import names
from kajitori.kube.objects import Pod
from kajitori.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICES, Resource
from kajitori.kube.runs import RUNS

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
LABELS = (names.LABEL_RUN, names.LABEL_RUN_UID, names.LABEL_ATTEMPT, names.LABEL_RANK)
HELD = "example.com/held"


def pods(cluster: Cluster) -> list[Pod]:
    """Every Pod of the namespace, whatever its labels say."""
    found = [pod for (namespace, _), pod in cluster.mirror.pods.items() if namespace == cluster.namespace]
    return sorted(found, key=lambda pod: pod.metadata.name)


def labels_are_right(cluster: Cluster, run: str) -> bool:
    """Whether each Pod has the labels that its name asks for, and an owner."""
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
    """Whether each Pod was written since."""
    return all(int(pod.metadata.resource_version) > version for pod, version in zip(pods, versions, strict=True))


def uid_of(cluster: Cluster, run: str) -> str:
    found = cluster.run(run)
    assert found is not None
    return found.metadata.uid


async def edit(cluster: Cluster, pod: str, **metadata: Any) -> int:
    """Changes a Pod's metadata; answers the resource version of the edit."""
    edited = await cluster.client.patch(PODS, pod, {"metadata": metadata}, cluster.namespace)
    return int(edited["metadata"]["resourceVersion"])


async def stranger(cluster: Cluster, name: str = "stranger") -> list[dict[str, Any]]:
    """References to an object of somebody else's, as the controller of whatever has them."""
    made = await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": name}}, cluster.namespace)
    owner = {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "name": name, "uid": made["metadata"]["uid"]}
    return [owner | {"controller": True}]


async def edit_everywhere(cluster: Cluster, value: str | None) -> None:
    """Another label of each member of `bert`, the owner of the last two, the Run's finalizer; until all is put back."""
    versions = [await edit(cluster, f"bert-1-{rank}", labels={label: value}) for rank, label in enumerate(LABELS)]
    last = f"bert-1-{len(LABELS)}"
    versions.append(await edit(cluster, last, ownerReferences=[], labels={names.LABEL_RANK: "0"}))
    others = await stranger(cluster, f"others-{value}".lower())
    versions.append(await edit(cluster, f"bert-1-{len(LABELS) + 1}", ownerReferences=others))
    await cluster.client.patch(RUNS, "bert", {"metadata": {"finalizers": None}}, cluster.namespace)
    await cluster.until(lambda: are_newer(pods(cluster), versions), "each Pod was written after its edit")
    await cluster.until(lambda: labels_are_right(cluster, "bert"), "labels and owners are right")
    await cluster.until(
        lambda: (run := cluster.run("bert")) and names.FINALIZER in run.metadata.finalizers, "the finalizer is back"
    )


async def test_labels_and_owners_are_put_back_and_no_program_notices(cluster: Cluster) -> None:
    """Whatever is removed or edited, member by member: the same Pods run on, each found again by its labels."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=len(LABELS) + 2)
    await cluster.reaches("bert", Phase.RUNNING)
    before = [(pod.metadata.name, pod.metadata.uid) for pod in pods(cluster)]
    for value in (None, "7"):
        await edit_everywhere(cluster, value)
    assert [(pod.metadata.name, pod.metadata.uid) for pod in pods(cluster)] == before
    status = cluster.status("bert")
    assert (status.phase, status.attempts, status.interruptions) == (Phase.RUNNING, 1, 0)


async def test_what_was_edited_while_nobody_looked_goes_with_its_run(cluster: Cluster) -> None:
    """Pods that no collection would find by their labels: a restart waits for them, and nothing of them is left."""
    first, others = cluster.start_controller(), await stranger(cluster)
    for name in ("broken", "deleted"):
        await cluster.submit(name, replicas=4, restarts=1)
        await cluster.reaches(name, Phase.RUNNING)
    await cluster.kill_controller(first)
    for name in ("broken", "deleted"):
        await edit(cluster, f"{name}-1-0", labels=dict.fromkeys(LABELS))
        await edit(cluster, f"{name}-1-1", ownerReferences=[])
        await edit(cluster, f"{name}-1-3", ownerReferences=others)
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
async def test_a_wiped_status_uses_no_attempt_twice(cluster: Cluster, led_on: bool) -> None:
    """Its Pods say how many attempts there were; the members that still run are ended before the next begins. Without
    Pods whoever led all the time knows it."""
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


async def test_somebody_deletes_all_of_our_pods(cluster: Cluster) -> None:
    """`kubectl delete pods --all`: the gang comes back as one, and it costs no restart."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=4, restarts=0, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.client.delete_collection(PODS, cluster.namespace, label_selector="")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions, status.members.running) == (0, 1, 4)
    await cluster.until(lambda: len(pods(cluster)) == 4, "nothing of the first attempt is left")


@pytest.mark.parametrize("how", ["Orphan", "Foreground"])
async def test_however_a_run_is_deleted_its_members_go(cluster: Cluster, how: str) -> None:
    """`kubectl delete --cascade=orphan` takes the owner off our Pods: they are ended all the same."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.client.delete(RUNS, "bert", cluster.namespace, propagation=how)

    def let_go() -> (
        bool
    ):  # the garbage collector's own finalizer may take it half a minute: it has to know the kind first
        run = cluster.run("bert")
        return run is None or names.FINALIZER not in run.metadata.finalizers

    await cluster.until(let_go, "we let the Run go")
    await cluster.until(lambda: not pods(cluster), "its Pods are gone")


async def test_a_run_that_is_edited_runs_on_as_it_was_begun(cluster: Cluster) -> None:
    """The edit is for the next attempt; one that policy or grammar refuses ends the run only then."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, restarts=5)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.change("bert", replicas=3, env={"EDITED": "1"})
    await cluster.submit("after", replicas=1)
    await cluster.reaches("after", Phase.RUNNING)  # by now the edit was seen, too
    assert (cluster.status("bert").phase, len(cluster.pods("bert"))) == (Phase.RUNNING, 2)
    await cluster.behave("bert-1-0", exit_code="1")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert status.members.total == 3
    found = await cluster.client.get(PODS, "bert-2-2", cluster.namespace)
    assert {"name": "EDITED", "value": "1"} in found["spec"]["containers"][0]["env"]

    await cluster.change("bert", carrier="pigeon")  # the resource's schema admits it, the grammar of specs does not
    await cluster.change("after", image="")
    await cluster.client.delete(PODS, "bert-2-0", cluster.namespace, grace_seconds=0)
    status = await cluster.reaches("bert", Phase.FAILED)
    assert status.reason is Reason.REFUSED and "spec.carrier" in status.message
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("bert")), "its members have ended")
    assert cluster.status("after").phase is Phase.RUNNING


async def test_a_run_of_the_same_name_takes_nothing_from_the_last(cluster: Cluster) -> None:
    """Deleted and made again while a Pod of the last one can't go: another UID, Pods and Service of its own."""
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


async def test_a_namespace_goes_with_all_its_runs(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Running, waiting and ended ones: nothing is left, nobody stumbles, and the nodes are free for others."""
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
