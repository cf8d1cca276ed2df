"""People with kubectl: our Pods, their labels and owners, our finalizer, whole namespaces and runs of one name."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.helpers.world import GPUS, NODES_COUNT, World

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.words import names
from kajitori.kube.objects import Pod
from kajitori.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, RUNS, SERVICES, Resource

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
LABELS = (names.LABEL_RUN, names.LABEL_RUN_UID, names.LABEL_ATTEMPT, names.LABEL_RANK)
HELD = "example.com/held"


def pods(world: World) -> list[Pod]:
    """Every Pod of the namespace, whatever its labels say."""
    found = [pod for (namespace, _), pod in world.mirror.pods.items() if namespace == world.namespace]
    return sorted(found, key=lambda pod: pod.metadata.name)


def labels_are_right(world: World, run: str) -> bool:
    """Whether each Pod has the labels that its name asks for, and an owner."""
    uid = uid_of(world, run)
    for pod in pods(world):
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


def uid_of(world: World, run: str) -> str:
    found = world.run(run)
    assert found is not None
    return found.metadata.uid


async def edit(world: World, pod: str, **metadata: Any) -> int:
    """Changes a Pod's metadata; answers the resource version of the edit."""
    edited = await world.client.patch(PODS, pod, {"metadata": metadata}, world.namespace)
    return int(edited["metadata"]["resourceVersion"])


async def stranger(world: World, name: str = "stranger") -> list[dict[str, Any]]:
    """References to an object of somebody else's, as the controller of whatever has them."""
    made = await world.client.create(CONFIG_MAPS, {"metadata": {"name": name}}, world.namespace)
    owner = {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "name": name, "uid": made["metadata"]["uid"]}
    return [owner | {"controller": True}]


async def edit_everywhere(world: World, value: str | None) -> None:
    """Another label of each member of `bert`, the owner of the last two, the Run's finalizer; until all is put back."""
    versions = [await edit(world, f"bert-1-{rank}", labels={label: value}) for rank, label in enumerate(LABELS)]
    last = f"bert-1-{len(LABELS)}"
    versions.append(await edit(world, last, ownerReferences=[], labels={names.LABEL_RANK: "0"}))
    others = await stranger(world, f"others-{value}".lower())
    versions.append(await edit(world, f"bert-1-{len(LABELS) + 1}", ownerReferences=others))
    await world.client.patch(RUNS, "bert", {"metadata": {"finalizers": None}}, world.namespace)
    await world.until(lambda: are_newer(pods(world), versions), "each Pod was written after its edit")
    await world.until(lambda: labels_are_right(world, "bert"), "labels and owners are right")
    await world.until(
        lambda: (run := world.run("bert")) and names.FINALIZER in run.metadata.finalizers, "the finalizer is back"
    )


async def test_labels_and_owners_are_put_back_and_no_program_notices(world: World) -> None:
    """Whatever is removed or edited, member by member: the same Pods run on, each found again by its labels."""
    world.start_controller()
    await world.submit("bert", replicas=len(LABELS) + 2)
    await world.reaches("bert", Phase.RUNNING)
    before = [(pod.metadata.name, pod.metadata.uid) for pod in pods(world)]
    for value in (None, "7"):
        await edit_everywhere(world, value)
    assert [(pod.metadata.name, pod.metadata.uid) for pod in pods(world)] == before
    status = world.status("bert")
    assert (status.phase, status.attempts, status.interruptions) == (Phase.RUNNING, 1, 0)


async def test_what_was_edited_while_nobody_looked_goes_with_its_run(world: World) -> None:
    """Pods that no collection would find by their labels: a restart waits for them, and nothing of them is left."""
    first, others = world.start_controller(), await stranger(world)
    for name in ("broken", "deleted"):
        await world.submit(name, replicas=4, restarts=1)
        await world.reaches(name, Phase.RUNNING)
    await world.kill_controller(first)
    for name in ("broken", "deleted"):
        await edit(world, f"{name}-1-0", labels=dict.fromkeys(LABELS))
        await edit(world, f"{name}-1-1", ownerReferences=[])
        await edit(world, f"{name}-1-3", ownerReferences=others)
    await world.behave("broken-1-2", exit_code="1")
    await world.client.delete(RUNS, "deleted", world.namespace)
    alive: set[frozenset[int]] = set()

    def note(resource: Resource, namespace: str, name: str) -> None:
        alive.add(frozenset(names.read_pod_name(p.metadata.name)[1] for p in pods(world) if is_alive(p)))  # type: ignore[index]

    def is_alive(pod: Pod) -> bool:
        return pod.metadata.name.startswith("broken-") and not pod.is_finished

    world.mirror.on_change(note)
    world.start_controller()
    await world.until(lambda: world.run("deleted") is None, "the deleted Run is gone")
    status = await world.reaches("broken", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions) == (1, 0)
    assert not [pod.metadata.name for pod in pods(world) if pod.metadata.name.startswith("deleted-")]
    assert not [attempts for attempts in alive if len(attempts) > 1]


@pytest.mark.parametrize("led_on", [True, False])
async def test_a_wiped_status_uses_no_attempt_twice(world: World, led_on: bool) -> None:
    """Its Pods say how many attempts there were; the members that still run are ended before the next begins. Without
    Pods whoever led all the time knows it."""
    first = world.start_controller()
    await world.submit("bert", replicas=2)
    await world.reaches("bert", Phase.RUNNING)
    alive: set[frozenset[int]] = set()

    def note(resource: Resource, namespace: str, name: str) -> None:
        there = [names.read_pod_name(pod.metadata.name) for pod in pods(world) if not pod.is_finished]
        alive.add(frozenset(member.attempt for member in there if member is not None))

    world.mirror.on_change(note)
    if not led_on:
        await world.kill_controller(first)
    await world.client.patch(RUNS, "bert", {"status": None}, world.namespace, subresource="status")
    if not led_on:
        await world.until(lambda: (run := world.run("bert")) and run.status is None, "its status is gone")
        first = world.start_controller()
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.attempts, status.members.running) == (2, 2)
    if led_on:
        await world.client.delete_collection(PODS, world.namespace, label_selector="", grace_seconds=0)
        await world.client.patch(RUNS, "bert", {"status": None}, world.namespace, subresource="status")
        await world.until(lambda: world.status("bert").attempts >= 3, "it begins anew")
    assert {frozenset({1}), frozenset({2})} <= alive, "both attempts were seen"
    assert not [attempts for attempts in alive if len(attempts) > 1]


async def test_somebody_deletes_all_of_our_pods(world: World) -> None:
    """`kubectl delete pods --all`: the gang comes back as one, and it costs no restart."""
    world.start_controller()
    await world.submit("bert", replicas=4, restarts=0, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    await world.client.delete_collection(PODS, world.namespace, label_selector="")
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions, status.members.running) == (0, 1, 4)
    await world.until(lambda: len(pods(world)) == 4, "nothing of the first attempt is left")


@pytest.mark.parametrize("how", ["Orphan", "Foreground"])
async def test_however_a_run_is_deleted_its_members_go(world: World, how: str) -> None:
    """`kubectl delete --cascade=orphan` takes the owner off our Pods: they are ended all the same."""
    world.start_controller()
    await world.submit("bert", replicas=3)
    await world.reaches("bert", Phase.RUNNING)
    await world.client.delete(RUNS, "bert", world.namespace, propagation=how)

    def let_go() -> (
        bool
    ):  # the garbage collector's own finalizer may take it half a minute: it has to know the kind first
        run = world.run("bert")
        return run is None or names.FINALIZER not in run.metadata.finalizers

    await world.until(let_go, "we let the Run go")
    await world.until(lambda: not pods(world), "its Pods are gone")


async def test_a_run_that_is_edited_runs_on_as_it_was_begun(world: World) -> None:
    """The edit is for the next attempt; one that policy or grammar refuses ends the run only then."""
    world.start_controller()
    await world.submit("bert", replicas=2, restarts=5)
    await world.reaches("bert", Phase.RUNNING)
    await world.change("bert", replicas=3, env={"EDITED": "1"})
    await world.submit("after", replicas=1)
    await world.reaches("after", Phase.RUNNING)  # by now the edit was seen, too
    assert (world.status("bert").phase, len(world.pods("bert"))) == (Phase.RUNNING, 2)
    await world.behave("bert-1-0", exit_code="1")
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert status.members.total == 3
    found = await world.client.get(PODS, "bert-2-2", world.namespace)
    assert {"name": "EDITED", "value": "1"} in found["spec"]["containers"][0]["env"]

    await world.change("bert", carrier="pigeon")  # the resource's schema admits it, the grammar of specs does not
    await world.change("after", image="")
    await world.client.delete(PODS, "bert-2-0", world.namespace, grace_seconds=0)
    status = await world.reaches("bert", Phase.FAILED)
    assert status.reason is Reason.REFUSED and "spec.carrier" in status.message
    await world.until(lambda: all(pod.is_finished for pod in world.pods("bert")), "its members have ended")
    assert world.status("after").phase is Phase.RUNNING


async def test_a_run_of_the_same_name_takes_nothing_from_the_last(world: World) -> None:
    """Deleted and made again while a Pod of the last one can't go: another UID, Pods and Service of its own."""
    world.start_controller()
    await world.submit("bert", replicas=2)
    await world.reaches("bert", Phase.RUNNING)
    old = uid_of(world, "bert")
    await edit(world, "bert-1-1", finalizers=[HELD])
    await world.client.delete(RUNS, "bert", world.namespace)
    await world.until(lambda: world.run("bert") is None, "the Run is gone")
    await world.submit("bert", replicas=2)
    status = await world.reaches("bert", Phase.RUNNING)
    new = uid_of(world, "bert")
    assert new != old and status.restarts == 0
    running = [pod for pod in pods(world) if not pod.is_finished]
    assert {pod.owner_run_uid for pod in running} == {new} and len(running) == 2
    held = await world.client.get(PODS, "bert-1-1", world.namespace)
    assert held["metadata"]["labels"][names.LABEL_RUN_UID] == old, "the old one is as it was"
    service = await world.client.get(SERVICES, "bert", world.namespace)
    assert service["spec"]["selector"] == {names.LABEL_RUN_UID: new}
    await edit(world, "bert-1-1", finalizers=None)
    await world.until(lambda: {pod.owner_run_uid for pod in pods(world)} == {new}, "the old Pod is gone")
    assert world.status("bert").phase is Phase.RUNNING


async def test_a_namespace_goes_with_all_its_runs(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Running, waiting and ended ones: nothing is left, nobody stumbles, and the nodes are free for others."""
    caplog.set_level(logging.WARNING)
    world.start_controller()
    await world.submit("big", replicas=NODES_COUNT, resources=WHOLE, restarts=3)
    await world.submit("ended")
    await world.reaches("big", Phase.RUNNING)
    await world.reaches("ended", Phase.RUNNING)
    await world.succeed("ended")
    await world.reaches("ended", Phase.SUCCEEDED)
    await world.submit("waiting", resources=WHOLE)
    await world.until(lambda: world.status("waiting").reason is Reason.WAITING_FOR_GPU, "it waits")
    gone, world.namespace = world.namespace, f"{world.namespace}-next"
    await world.client.create(NAMESPACES, {"metadata": {"name": world.namespace}})
    await world.submit("neighbour", replicas=NODES_COUNT, resources=WHOLE)
    await world.client.delete(NAMESPACES, gone)
    await world.reaches("neighbour", Phase.RUNNING)

    def left() -> list[tuple[str, str]]:
        return [key for key in (*world.mirror.runs, *world.mirror.pods) if key[0] == gone]

    await world.until(lambda: not left(), "nothing is left")
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("kajitori.controllers")]
    assert len(ours) < 5, ours
