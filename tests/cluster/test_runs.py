"""The life of runs, the same on the embedded server and on a real kube-apiserver with a real kube-scheduler."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta

import msgspec
from tests.helpers.world import GPUS, NODES_COUNT, World, this_machine

from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import to_document
from kajitori.core.words import names
from kajitori.kube.resources import EVENTS, PODS, RESOURCE_QUOTAS, RUNS, SERVICES

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}


async def test_a_gang_runs_and_ends(world: World) -> None:
    """Members stand where they were planned, each once; when all ended well, so has the run."""
    world.start_controller()
    await world.submit("bert", replicas=4, resources=WHOLE)
    status = await world.reaches("bert", Phase.RUNNING)
    pods = world.pods("bert")
    assert [pod.metadata.name for pod in pods] == [f"bert-1-{rank}" for rank in range(4)]
    assert [pod.spec.node_name for pod in pods] == world.nodes_of("bert")
    assert len(set(world.nodes_of("bert"))) == 4
    assert status.members.running == 4
    assert status.started_at and status.attempt and status.attempt.created
    service = await world.client.get(SERVICES, "bert", world.namespace)
    assert service["spec"]["clusterIP"] == "None"

    await world.succeed("bert")
    status = await world.reaches("bert", Phase.SUCCEEDED)
    assert (status.exit_code, status.members.succeeded, status.restarts) == (0, 4, 0)


async def test_a_lost_member_restarts_the_whole_gang_where_it_was(world: World) -> None:
    """A program that fails counts as a restart; all members come back under a new attempt, on the same nodes."""
    world.start_controller()
    await world.submit("bert", replicas=3, resources=WHOLE, restarts=3)
    await world.reaches("bert", Phase.RUNNING)
    before = world.nodes_of("bert")
    await world.behave("bert-1-1", exit_code="137")
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert world.nodes_of("bert") == before
    assert (status.restarts, status.interruptions) == (1, 0)
    assert [pod.metadata.name for pod in world.pods("bert", 2)] == ["bert-2-0", "bert-2-1", "bert-2-2"]
    assert [(note.rank, note.exit_code) for note in status.notable] == [(1, 137)]
    await world.until(lambda: not [p for p in world.pods("bert", 1) if not p.is_finished], "attempt 1 ended")


async def test_restarts_are_counted_and_end(world: World) -> None:
    """After the last restart allowed, the run has failed with the program's exit code; nothing of it runs on."""
    world.start_controller()
    await world.submit("bert", replicas=2, restarts=1)
    await world.reaches("bert", Phase.RUNNING, attempt=1)
    await world.behave("bert-1-0", exit_code="3")
    await world.reaches("bert", Phase.RUNNING, attempt=2)
    await world.behave("bert-2-1", exit_code="7")
    status = await world.reaches("bert", Phase.FAILED)
    assert (status.reason, status.exit_code, status.restarts) == (Reason.PROGRAM_FAILED, 7, 1)
    assert "member 1" in status.message
    await world.until(lambda: all(pod.is_finished for pod in world.pods("bert")), "survivors ended")


async def test_a_dead_node_is_not_waited_for(world: World) -> None:
    """Members on a node that does not answer are replaced elsewhere, though their Pods cannot go; it is not counted."""
    world.start_controller()
    await world.submit("bert", replicas=3, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    before = world.nodes_of("bert")
    await world.silence(before[1])
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    after = world.nodes_of("bert")
    assert before[1] not in after
    assert (after[0], after[2]) == (before[0], before[2])
    assert (status.restarts, status.interruptions) == (0, 1)
    stuck = [pod for pod in world.pods("bert", 1) if pod.spec.node_name == before[1]]
    assert stuck and all(pod.metadata.deletion_timestamp for pod in stuck)

    await world.revive(before[1])
    await world.until(lambda: not [p for p in world.pods("bert", 1) if not p.is_finished], "the old member is gone")
    assert world.status("bert").attempts == 2


async def test_nodes_that_look_dead_for_a_moment_lose_nothing(world: World) -> None:
    """After an outage of the API server all do, until their kubelets have reported; nothing new is placed there."""
    world.start_controller(node_patience=timedelta(minutes=5))
    await world.submit("bert", replicas=3, restarts=0, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    for node in sorted(set(world.nodes_of("bert"))):
        await world.silence(node)
    await world.submit("next", replicas=8, resources=WHOLE)
    await world.until(lambda: world.status("next").message, "next waits")
    for node in sorted(set(world.nodes_of("bert"))):
        await world.revive(node)
    await world.behave("bert-1-1", exit_code="1")
    status = await world.reaches("bert", Phase.FAILED)
    assert (status.reason, status.attempts, status.interruptions) == (Reason.PROGRAM_FAILED, 1, 0)


async def test_a_member_over_its_memory_limit_ends_the_run(world: World) -> None:
    """The culprit is not carried to another node."""
    world.start_controller()
    await world.submit("hog", replicas=2, restarts=5)
    await world.reaches("hog", Phase.RUNNING)
    await world.behave("hog-1-1", oom="true")
    status = await world.reaches("hog", Phase.FAILED)
    assert (status.reason, status.restarts, status.attempts) == (Reason.OUT_OF_MEMORY, 0, 1)
    await world.until(lambda: all(pod.is_finished for pod in world.pods("hog")), "survivors ended")


async def test_a_foreign_pod_is_not_taken_for_ours(world: World) -> None:
    """What is found under an expected name belongs to the run only if owner and attempt agree (rule 1)."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": "100m", "memory": "1Mi"}}}
    labels = {names.LABEL_RUN: "bert", names.LABEL_ATTEMPT: "1", names.LABEL_RANK: "1", names.LABEL_RUN_UID: "other"}
    foreign = {"metadata": {"name": "bert-1-1", "labels": labels}, "spec": {"containers": [container]}}
    await world.client.create(PODS, foreign, world.namespace)
    world.start_controller()
    await world.submit("bert", replicas=2)
    status = await world.until(lambda: (s := world.status("bert")).failed_starts and s, "a first attempt")
    assert status and status.reason is Reason.ADMISSION
    assert "bert-1-1 is there already, and belongs to something else" in status.message
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert status.restarts == 0
    left = await world.client.get(PODS, "bert-1-1", world.namespace)
    assert labels.items() <= left["metadata"]["labels"].items() and "ownerReferences" not in left["metadata"]
    uid = world.pods("bert", 2)[0].owner_run_uid
    assert [pod.owner_run_uid for pod in world.pods("bert", 2)] == [uid, uid] != ["other", "other"]
    assert [pod.metadata.name for pod in world.pods("bert", 1)] == ["bert-1-1"]


async def test_pods_whose_run_is_gone_are_taken_away(world: World) -> None:
    """A controller that was killed may have made them after another one let the Run go."""
    task = world.start_controller()
    await world.submit("bert", replicas=2)
    await world.reaches("bert", Phase.RUNNING)
    await world.kill_controller(task)
    await world.client.patch(RUNS, "bert", {"metadata": {"finalizers": None}}, world.namespace)
    await world.client.delete(RUNS, "bert", world.namespace)
    await world.until(lambda: world.run("bert") is None, "the Run is gone")
    world.start_controller()
    await world.until(lambda: not world.pods("bert"), "its Pods are gone")


async def test_a_deleted_run_is_there_until_its_last_pod_is_gone(world: World) -> None:
    """Whoever hears that the Run is gone finds none of its Pods on the API server."""
    world.start_controller()
    await world.submit("wide", replicas=48, resources={"cpu": "10m", "memory": "16Mi"})
    await world.reaches("wide", Phase.RUNNING)
    await world.behave("wide-1-3", exit_code="0")
    await world.until(lambda: world.mirror.pods[world.namespace, "wide-1-3"].is_finished, "one member has ended")
    uid = world.pods("wide")[0].owner_run_uid
    await world.client.delete(RUNS, "wide", world.namespace)
    await world.until(lambda: world.run("wide") is None, "the Run is gone")
    left = await world.client.list(PODS, world.namespace, label_selector=f"{names.LABEL_RUN_UID}={uid}")
    assert [pod["metadata"]["name"] for pod in left.items] == []


async def test_what_policy_refuses_ends_refused(world: World) -> None:
    """A Run that came by kubectl gains nothing by it: final, with every reason at once, and no Pod."""
    world.start_controller()
    await world.submit(
        "bad",
        replicas=2,
        privileged=True,
        resources={"gpu": GPUS + 1, "memory": "1Gi"},
        volumes=[{"name": "no", "path": "/x"}],
    )
    status = await world.reaches("bad", Phase.FAILED)
    assert status.reason is Reason.REFUSED
    for said in ("privileged", "spec.resources.gpu", "spec.volumes[0]"):
        assert said in status.message
    assert not world.pods("bad")


async def test_what_waits_starts_when_there_is_room(world: World) -> None:
    """A waiting run says what is missing and who holds it; freed nodes go to it."""
    world.start_controller()
    await world.submit("first", replicas=NODES_COUNT - 1, resources=WHOLE)
    await world.reaches("first", Phase.RUNNING)
    await world.submit("second", replicas=2, resources=WHOLE)
    status = await world.until(
        lambda: (s := world.status("second")).reason is Reason.WAITING_FOR_GPU and s, "second waits for GPUs"
    )
    assert status and not world.pods("second")
    assert f"{world.namespace}/first" in status.message or "first" in status.message
    await world.succeed("first")
    await world.reaches("second", Phase.RUNNING)
    await world.reaches("first", Phase.SUCCEEDED)


async def test_quota_leaves_no_half_gang(world: World) -> None:
    """Where the namespace's quota is too small for the gang, no Pod of it is made; it is told why, and comes back."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "2"}}}
    await world.client.create(RESOURCE_QUOTAS, quota, world.namespace)
    await _quota_counts(world)
    made: set[str] = set()
    world.mirror.on_change(lambda resource, _, name: made.add(name) if resource == PODS else None)
    world.start_controller()
    await world.submit("bert", replicas=4)
    status = await world.until(lambda: (s := world.status("bert")).reason is Reason.QUOTA and s, "reason Quota")
    assert status and status.phase is Phase.QUEUED
    assert "pods: needs 4, 2 of 2 left" in status.message
    await world.until(lambda: world.status("bert").failed_starts >= 2, "another try")
    assert status.restarts == 0 and not made
    await world.client.delete(RESOURCE_QUOTAS, "small", world.namespace)
    status = await world.reaches("bert", Phase.RUNNING)
    assert status.failed_starts == 0


async def test_a_quota_that_others_use_up_meanwhile_takes_the_gang_down(world: World) -> None:
    """What was refused in the middle of the burst leaves no half gang."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3"}, "scopes": ["NotTerminating"]}}
    await world.client.create(RESOURCE_QUOTAS, quota, world.namespace)
    await world.client.patch(
        RESOURCE_QUOTAS,
        "small",
        {"status": {"hard": {"pods": "3"}, "used": {"pods": "0"}}},
        world.namespace,
        subresource="status",
    )
    world.start_controller()
    await world.submit("bert", replicas=6)
    await world.until(lambda: world.status("bert").reason is Reason.QUOTA, "reason Quota")
    await world.until(lambda: not world.pods("bert"), "no half gang")
    await world.client.delete(RESOURCE_QUOTAS, "small", world.namespace)
    await world.reaches("bert", Phase.RUNNING)


async def _quota_counts(world: World) -> None:
    """A quota that was never counted refuses everything; wait for whoever counts, or count in his place."""
    await world.client.patch(
        RESOURCE_QUOTAS,
        "small",
        {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}},
        world.namespace,
        subresource="status",
    )


async def test_stop_resume_delete(world: World) -> None:
    """Stopping ends all members within their grace; resuming starts a new attempt; deleting leaves nothing."""
    world.start_controller()
    await world.submit("bert", replicas=3, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    await world.change("bert", stopped=True)
    await world.reaches("bert", Phase.STOPPED)
    assert all(pod.is_finished for pod in world.pods("bert"))

    await world.change("bert", stopped=False, resumes=1)
    status = await world.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.resumes, status.finished_at) == (1, "")

    await world.client.delete(RUNS, "bert", world.namespace)
    gone = lambda: world.run("bert") is None and not world.pods("bert")  # noqa: E731
    await world.until(gone, "the Run is gone, and so are its members")


async def test_a_run_that_waits_can_be_stopped_and_deleted(world: World) -> None:
    """Nothing has to run for that."""
    world.start_controller()
    await world.submit("big", replicas=NODES_COUNT, resources=WHOLE)
    await world.reaches("big", Phase.RUNNING)
    waiting = ("later", "never")
    for name in waiting:
        await world.submit(name, resources=WHOLE)
    await world.until(
        lambda: {world.status(name).reason for name in waiting} == {Reason.WAITING_FOR_GPU}, "both wait for GPUs"
    )
    await world.change("later", stopped=True)
    await world.reaches("later", Phase.STOPPED)
    await world.client.delete(RUNS, "never", world.namespace)
    await world.until(lambda: world.run("never") is None, "the Run is gone")
    assert not world.pods("later") and not world.pods("never")


async def test_a_run_without_a_controller_waits_for_one(world: World) -> None:
    """What was submitted, stopped or deleted meanwhile is done when a controller comes."""
    await world.submit("one", replicas=2)
    await world.submit("two", replicas=2, stopped=True)
    task = world.start_controller()
    await world.reaches("one", Phase.RUNNING)
    await world.reaches("two", Phase.STOPPED)
    await world.kill_controller(task)
    await world.client.delete(RUNS, "two", world.namespace)
    await world.client.delete(PODS, "one-1-0", world.namespace, grace_seconds=0)
    world.start_controller()
    await world.until(lambda: world.run("two") is None, "two is gone")
    status = await world.reaches("one", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions) == (0, 1)


async def test_a_service_replaces_only_what_is_lost(world: World) -> None:
    """Members of a service live on their own."""
    world.start_controller()
    await world.submit("web", type="service", replicas=3, ports=[8080])
    await world.reaches("web", Phase.RUNNING)
    kept = {pod.metadata.uid for pod in world.pods("web") if pod.metadata.name != "web-1-1"}
    await world.client.delete(PODS, "web-1-1", world.namespace, grace_seconds=0)
    await world.until(lambda: "web-2-1" in {pod.metadata.name for pod in world.pods("web")}, "a successor")
    await world.reaches("web", Phase.RUNNING, attempt=2)
    assert kept < {pod.metadata.uid for pod in world.pods("web")}
    assert len(world.pods("web")) == 3


async def test_counts_are_written_at_most_once_a_second(world: World) -> None:
    """However fast members change, the Run's object is written rarely (rule 8)."""
    world.use_policy(inject={"annotations": {"sim.kajitori.dev/start-delay": "1h"}})
    world.start_controller()
    await world.submit("bert", replicas=24, resources={"cpu": 0.1, "memory": "16Mi"})
    await world.until(lambda: world.status("bert").members.pending == 24, "24 members created")
    versions: set[str] = set()

    def note(*_: object) -> None:
        run = world.run("bert")
        if run is not None:
            versions.add(run.metadata.resource_version)

    world.mirror.on_change(note)
    began = time.monotonic()
    for rank in range(24):
        await world.behave(f"bert-1-{rank}", start_delay="0s")
    await world.reaches("bert", Phase.RUNNING)
    assert len(versions) <= (time.monotonic() - began) + 4
    events = (await world.client.list(EVENTS, world.namespace)).items
    assert len([e for e in events if e["involvedObject"]["kind"] == "Run"]) < 10


async def test_a_large_run_stays_small(world: World) -> None:
    """The status stays small after several restarts; tests/unit/core/gang/test_batch.py tests 7,500 members."""
    world.start_controller()
    await world.submit("bert", replicas=24, restarts=5, resources={"cpu": 0.1, "memory": "16Mi"})
    for attempt in (1, 2):
        await world.reaches("bert", Phase.RUNNING, attempt=attempt)
        await asyncio.gather(*(world.behave(f"bert-{attempt}-{rank}", exit_code="1") for rank in range(0, 24, 2)))
    await world.reaches("bert", Phase.RUNNING, attempt=3)
    run = world.run("bert")
    assert run is not None and run.status is not None
    assert len(msgspec.json.encode(to_document(run.status))) + len(run.spec) < 12_000


# ---------------------------------------------------------------------------------------------- real processes

TRAINING = """
import os, signal, pathlib, time
rank, attempt = os.environ["KAJI_RANK"], os.environ["KAJI_ATTEMPT"]
checkpoint = pathlib.Path(os.environ["FOLDER"], rank)
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
with open(os.environ["FOLDER"] + "/log", "a") as log:
    print(f"{attempt} {rank} {step}", file=log)
while step < 20:
    step += 1
    time.sleep(0.01)
    checkpoint.write_text(str(step))
    if (attempt, rank, step) == ("1", "1", 10):
        os.kill(os.getpid(), signal.SIGKILL)
while attempt == "1":
    time.sleep(0.1)
"""


async def test_real_processes_come_back_from_their_checkpoint(world: World) -> None:
    """One of two is killed half-way: both start again, under attempt 2, from where each had got to; and end well."""
    async with this_machine(world) as selector:
        world.start_controller()
        work = world.folder / "work"
        work.mkdir()
        await world.submit(
            "training",
            replicas=2,
            restarts=1,
            command=[sys.executable, "-c", TRAINING],
            env={"FOLDER": str(work)},
            nodeSelector=selector,
            resources={"cpu": 0.1, "memory": "64Mi"},
        )
        status = await world.reaches("training", Phase.SUCCEEDED)
    assert (status.restarts, status.attempts) == (1, 2)
    starts = sorted(line.split() for line in (work / "log").read_text().splitlines())
    assert [line[:2] for line in starts] == [["1", "0"], ["1", "1"], ["2", "0"], ["2", "1"]]
    assert starts[3][2] == "10"
    assert {(work / rank).read_text() for rank in "01"} == {"20"}


async def test_a_real_process_over_its_memory_limit_ends_the_run(world: World) -> None:
    """It is not started again, and neighbours are left alone."""
    async with this_machine(world) as selector:
        world.start_controller()
        resources = {"cpu": 0.1, "memory": "64Mi"}
        await world.submit("quiet", command=["sleep", "600"], nodeSelector=selector, resources=resources)
        hog = "keep = []\nwhile True: keep.append(bytearray(8 * 2**20))"
        await world.submit(
            "hog", command=[sys.executable, "-c", hog], nodeSelector=selector, resources=resources, restarts=5
        )
        status = await world.reaches("hog", Phase.FAILED)
        assert (status.reason, status.attempts, status.restarts) == (Reason.OUT_OF_MEMORY, 1, 0)
        assert status.memory is not None and status.memory.peak_bytes >= 64 << 20 and status.memory.ran_out
        assert (await world.reaches("quiet", Phase.RUNNING)).attempts == 1
