"""The life of runs, on the embedded server and on a real kube-apiserver with a real kube-scheduler."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta

import msgspec
import pytest
from tests.harness.cluster import NODES_COUNT, Cluster, this_machine
from tests.harness.platform.parts import GPUS

from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import to_document
from kajitori.kube.resources import EVENTS, PODS, RESOURCE_QUOTAS, SERVICES

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}


@pytest.mark.conformance
async def test_a_gang_runs_and_ends(cluster: Cluster) -> None:
    """Each member runs once, on its planned node. The run succeeds when all members have."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=4, resources=WHOLE)
    status = await cluster.reaches("bert", Phase.RUNNING)
    pods = cluster.pods("bert")
    assert [pod.metadata.name for pod in pods] == [f"bert-1-{rank}" for rank in range(4)]
    assert [pod.spec.node_name for pod in pods] == cluster.nodes_of("bert")
    assert len(set(cluster.nodes_of("bert"))) == 4
    assert status.members.running == 4
    assert status.started_at and status.attempt and status.attempt.created
    service = await cluster.client.get(SERVICES, "bert", cluster.namespace)
    assert service["spec"]["clusterIP"] == "None"

    await cluster.succeed("bert")
    status = await cluster.reaches("bert", Phase.SUCCEEDED)
    assert (status.exit_code, status.members.succeeded, status.restarts) == (0, 4, 0)


async def test_a_failed_member_restarts_the_whole_gang_on_its_nodes(cluster: Cluster) -> None:
    """The failure counts as a restart; all members start again in a new attempt."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3, resources=WHOLE, restarts=3)
    await cluster.reaches("bert", Phase.RUNNING)
    before = cluster.nodes_of("bert")
    await cluster.behave("bert-1-1", exit_code="137")
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert cluster.nodes_of("bert") == before
    assert (status.restarts, status.interruptions) == (1, 0)
    assert [pod.metadata.name for pod in cluster.pods("bert", 2)] == ["bert-2-0", "bert-2-1", "bert-2-2"]
    assert [(note.rank, note.exit_code) for note in status.notable] == [(1, 137)]
    await cluster.until(lambda: not [p for p in cluster.pods("bert", 1) if not p.is_finished], "attempt 1 ended")


async def test_restarts_are_counted_and_limited(cluster: Cluster) -> None:
    """After the last restart, the run fails with the program's exit code, and none of its members continues."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, restarts=1)
    await cluster.reaches("bert", Phase.RUNNING, attempt=1)
    await cluster.behave("bert-1-0", exit_code="3")
    await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    await cluster.behave("bert-2-1", exit_code="7")
    status = await cluster.reaches("bert", Phase.FAILED)
    assert (status.reason, status.exit_code, status.restarts) == (Reason.PROGRAM_FAILED, 7, 1)
    assert "member 1" in status.message
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("bert")), "survivors ended")


@pytest.mark.conformance
async def test_members_on_a_dead_node_are_replaced_elsewhere(cluster: Cluster) -> None:
    """They are replaced at once, although their Pods cannot be deleted, and no restart is counted."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    before = cluster.nodes_of("bert")
    await cluster.silence(before[1])
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    after = cluster.nodes_of("bert")
    assert before[1] not in after
    assert (after[0], after[2]) == (before[0], before[2])
    assert (status.restarts, status.interruptions) == (0, 1)
    stuck = [pod for pod in cluster.pods("bert", 1) if pod.spec.node_name == before[1]]
    assert stuck and all(pod.metadata.deletion_timestamp for pod in stuck)

    await cluster.revive(before[1])
    await cluster.until(lambda: not [p for p in cluster.pods("bert", 1) if not p.is_finished], "the old member is gone")
    assert cluster.status("bert").attempts == 2


@pytest.mark.conformance
async def test_runs_survive_a_short_silence_of_their_nodes(cluster: Cluster) -> None:
    """After an outage of the API server all nodes look silent for a while. No new member is placed on them until they
    report."""
    cluster.start_controller(node_patience=timedelta(minutes=5))
    await cluster.submit("bert", replicas=3, restarts=0, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    for node in sorted(set(cluster.nodes_of("bert"))):
        await cluster.silence(node)
    await cluster.submit("next", replicas=8, resources=WHOLE)
    await cluster.until(lambda: cluster.status("next").message, "next waits")
    for node in sorted(set(cluster.nodes_of("bert"))):
        await cluster.revive(node)
    await cluster.behave("bert-1-1", exit_code="1")
    status = await cluster.reaches("bert", Phase.FAILED)
    assert (status.reason, status.attempts, status.interruptions) == (Reason.PROGRAM_FAILED, 1, 0)


async def test_a_member_over_its_memory_limit_ends_the_run(cluster: Cluster) -> None:
    """It is not moved to another node."""
    cluster.start_controller()
    await cluster.submit("hog", replicas=2, restarts=5)
    await cluster.reaches("hog", Phase.RUNNING)
    await cluster.behave("hog-1-1", oom="true")
    status = await cluster.reaches("hog", Phase.FAILED)
    assert (status.reason, status.restarts, status.attempts) == (Reason.OUT_OF_MEMORY, 0, 1)
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("hog")), "survivors ended")


async def test_a_foreign_pod_with_a_members_name_is_not_a_member(cluster: Cluster) -> None:
    """A Pod with an expected name is a member only if its owner and attempt agree (rule 1)."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": "100m", "memory": "1Mi"}}}
    labels = {names.LABEL_RUN: "bert", names.LABEL_ATTEMPT: "1", names.LABEL_RANK: "1", names.LABEL_RUN_UID: "other"}
    foreign = {"metadata": {"name": "bert-1-1", "labels": labels}, "spec": {"containers": [container]}}
    await cluster.client.create(PODS, foreign, cluster.namespace)
    cluster.start_controller()
    await cluster.submit("bert", replicas=2)
    status = await cluster.until(lambda: (s := cluster.status("bert")).failed_starts and s, "a first attempt")
    assert status and status.reason is Reason.ADMISSION
    assert "bert-1-1 is there already, and belongs to something else" in status.message
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert status.restarts == 0
    left = await cluster.client.get(PODS, "bert-1-1", cluster.namespace)
    assert labels.items() <= left["metadata"]["labels"].items() and "ownerReferences" not in left["metadata"]
    uid = cluster.pods("bert", 2)[0].owner_run_uid
    assert [pod.owner_run_uid for pod in cluster.pods("bert", 2)] == [uid, uid] != ["other", "other"]
    assert [pod.metadata.name for pod in cluster.pods("bert", 1)] == ["bert-1-1"]


@pytest.mark.conformance
async def test_pods_of_a_deleted_run_are_deleted(cluster: Cluster) -> None:
    """A controller that was killed may have created them after another one had removed the Run's finalizer."""
    task = cluster.start_controller()
    await cluster.submit("bert", replicas=2)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.kill_controller(task)
    await cluster.client.patch(RUNS, "bert", {"metadata": {"finalizers": None}}, cluster.namespace)
    await cluster.client.delete(RUNS, "bert", cluster.namespace)
    await cluster.until(lambda: cluster.run("bert") is None, "the Run is gone")
    cluster.start_controller()
    await cluster.until(lambda: not cluster.pods("bert"), "its Pods are gone")


@pytest.mark.conformance
async def test_a_deleted_run_exists_until_its_last_pod_is_gone(cluster: Cluster) -> None:
    """When the Run is gone, the API server has none of its Pods."""
    cluster.start_controller()
    await cluster.submit("wide", replicas=48, resources={"cpu": "10m", "memory": "16Mi"})
    await cluster.reaches("wide", Phase.RUNNING)
    await cluster.behave("wide-1-3", exit_code="0")
    await cluster.until(lambda: cluster.mirror.pods[cluster.namespace, "wide-1-3"].is_finished, "one member has ended")
    uid = cluster.pods("wide")[0].owner_run_uid
    await cluster.client.delete(RUNS, "wide", cluster.namespace)
    await cluster.until(lambda: cluster.run("wide") is None, "the Run is gone")
    left = await cluster.client.list(PODS, cluster.namespace, label_selector=f"{names.LABEL_RUN_UID}={uid}")
    assert [pod["metadata"]["name"] for pod in left.items] == []


async def test_a_run_that_policy_refuses_ends_as_refused(cluster: Cluster) -> None:
    """This also holds for a Run from kubectl. It has ended, with all reasons at once, and has no Pod."""
    cluster.start_controller()
    await cluster.submit(
        "bad",
        replicas=2,
        privileged=True,
        resources={"gpu": GPUS + 1, "memory": "1Gi"},
        volumes=[{"name": "no", "path": "/x"}],
    )
    status = await cluster.reaches("bad", Phase.FAILED)
    assert status.reason is Reason.REFUSED
    for said in ("privileged", "spec.resources.gpu", "spec.volumes[0]"):
        assert said in status.message
    assert not cluster.pods("bad")


async def test_a_waiting_run_starts_when_there_is_room(cluster: Cluster) -> None:
    """The run's message says what is missing and which run has it."""
    cluster.start_controller()
    await cluster.submit("first", replicas=NODES_COUNT - 1, resources=WHOLE)
    await cluster.reaches("first", Phase.RUNNING)
    await cluster.submit("second", replicas=2, resources=WHOLE)
    status = await cluster.until(
        lambda: (s := cluster.status("second")).reason is Reason.WAITING_FOR_GPU and s, "second waits for GPUs"
    )
    assert status and not cluster.pods("second")
    assert f"{cluster.namespace}/first" in status.message or "first" in status.message
    await cluster.succeed("first")
    await cluster.reaches("second", Phase.RUNNING)
    await cluster.reaches("first", Phase.SUCCEEDED)


@pytest.mark.conformance
async def test_a_gang_larger_than_the_quota_gets_no_pod(cluster: Cluster) -> None:
    """Its message says why, and it is tried again."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "2"}}}
    await cluster.client.create(RESOURCE_QUOTAS, quota, cluster.namespace)
    await _quota_counts(cluster)
    made: set[str] = set()
    cluster.mirror.on_change(lambda resource, _, name: made.add(name) if resource == PODS else None)
    cluster.start_controller()
    await cluster.submit("bert", replicas=4)
    status = await cluster.until(lambda: (s := cluster.status("bert")).reason is Reason.QUOTA and s, "reason Quota")
    assert status and status.phase is Phase.QUEUED
    assert "pods: needs 4, 2 of 2 left" in status.message
    await cluster.until(lambda: cluster.status("bert").failed_starts >= 2, "another try")
    assert status.restarts == 0 and not made
    await cluster.client.delete(RESOURCE_QUOTAS, "small", cluster.namespace)
    status = await cluster.reaches("bert", Phase.RUNNING)
    assert status.failed_starts == 0


@pytest.mark.conformance
async def test_a_gang_that_hits_a_quota_while_it_starts_is_deleted_whole(cluster: Cluster) -> None:
    """After a refusal in the middle of a burst, no member stays."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3"}, "scopes": ["NotTerminating"]}}
    await cluster.client.create(RESOURCE_QUOTAS, quota, cluster.namespace)
    await cluster.client.patch(
        RESOURCE_QUOTAS,
        "small",
        {"status": {"hard": {"pods": "3"}, "used": {"pods": "0"}}},
        cluster.namespace,
        subresource="status",
    )
    cluster.start_controller()
    await cluster.submit("bert", replicas=6)
    await cluster.until(lambda: cluster.status("bert").reason is Reason.QUOTA, "reason Quota")
    await cluster.until(lambda: not cluster.pods("bert"), "no half gang")
    await cluster.client.delete(RESOURCE_QUOTAS, "small", cluster.namespace)
    await cluster.reaches("bert", Phase.RUNNING)


async def _quota_counts(cluster: Cluster) -> None:
    """Write the counted usage of a quota. The API server refuses everything until that is written."""
    await cluster.client.patch(
        RESOURCE_QUOTAS,
        "small",
        {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}},
        cluster.namespace,
        subresource="status",
    )


@pytest.mark.conformance
async def test_stop_resume_restart_and_delete(cluster: Cluster) -> None:
    """Stopping ends all members within their grace, resuming starts a new attempt, and deleting leaves nothing. A
    restart is both of the first, carried out by any controller."""
    first = cluster.start_controller()
    await cluster.submit("bert", replicas=3, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.change("bert", stopped=True)
    await cluster.reaches("bert", Phase.STOPPED)
    assert all(pod.is_finished for pod in cluster.pods("bert"))

    await cluster.change("bert", stopped=False, resumes=1)
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    assert (status.resumes, status.finished_at) == (1, "")

    await cluster.change("bert", resumes=2)
    await cluster.until(lambda: cluster.status("bert").reason is Reason.STOPPING, "its members end")
    await cluster.kill_controller(first)
    cluster.start_controller()
    status = await cluster.reaches("bert", Phase.RUNNING, attempt=3)
    assert (status.resumes, status.restarts, status.interruptions) == (2, 0, 0)

    await cluster.client.delete(RUNS, "bert", cluster.namespace)
    gone = lambda: cluster.run("bert") is None and not cluster.pods("bert")  # noqa: E731
    await cluster.until(gone, "the Run is gone, and so are its members")


async def test_a_waiting_run_can_be_stopped_and_deleted(cluster: Cluster) -> None:
    cluster.start_controller()
    await cluster.submit("big", replicas=NODES_COUNT, resources=WHOLE)
    await cluster.reaches("big", Phase.RUNNING)
    waiting = ("later", "never")
    for name in waiting:
        await cluster.submit(name, resources=WHOLE)
    await cluster.until(
        lambda: {cluster.status(name).reason for name in waiting} == {Reason.WAITING_FOR_GPU}, "both wait for GPUs"
    )
    await cluster.change("later", stopped=True)
    await cluster.reaches("later", Phase.STOPPED)
    await cluster.client.delete(RUNS, "never", cluster.namespace)
    await cluster.until(lambda: cluster.run("never") is None, "the Run is gone")
    assert not cluster.pods("later") and not cluster.pods("never")


async def test_a_new_controller_does_the_work_of_the_meantime(cluster: Cluster) -> None:
    """It starts, stops and deletes runs as requested while no controller worked."""
    await cluster.submit("one", replicas=2)
    await cluster.submit("two", replicas=2, stopped=True)
    task = cluster.start_controller()
    await cluster.reaches("one", Phase.RUNNING)
    await cluster.reaches("two", Phase.STOPPED)
    await cluster.kill_controller(task)
    await cluster.client.delete(RUNS, "two", cluster.namespace)
    await cluster.client.delete(PODS, "one-1-0", cluster.namespace, grace_seconds=0)
    cluster.start_controller()
    await cluster.until(lambda: cluster.run("two") is None, "two is gone")
    status = await cluster.reaches("one", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.interruptions) == (0, 1)


async def test_a_service_replaces_only_lost_members(cluster: Cluster) -> None:
    """The other members continue."""
    cluster.start_controller()
    await cluster.submit("web", type="service", replicas=3, ports=[8080])
    await cluster.reaches("web", Phase.RUNNING)
    kept = {pod.metadata.uid for pod in cluster.pods("web") if pod.metadata.name != "web-1-1"}
    await cluster.client.delete(PODS, "web-1-1", cluster.namespace, grace_seconds=0)
    await cluster.until(lambda: "web-2-1" in {pod.metadata.name for pod in cluster.pods("web")}, "a successor")
    await cluster.reaches("web", Phase.RUNNING, attempt=2)
    assert kept < {pod.metadata.uid for pod in cluster.pods("web")}
    assert len(cluster.pods("web")) == 3


async def test_counts_are_written_at_most_once_a_second(cluster: Cluster) -> None:
    """This holds however fast members change (rule 8)."""
    cluster.use_policy(inject={"annotations": {"sim.kajitori.dev/start-delay": "1h"}})
    cluster.start_controller()
    await cluster.submit("bert", replicas=24, resources={"cpu": 0.1, "memory": "16Mi"})
    await cluster.until(lambda: cluster.status("bert").members.pending == 24, "24 members created")
    versions: set[str] = set()

    def note(*_: object) -> None:
        run = cluster.run("bert")
        if run is not None:
            versions.add(run.metadata.resource_version)

    cluster.mirror.on_change(note)
    began = time.monotonic()
    for rank in range(24):
        await cluster.behave(f"bert-1-{rank}", start_delay="0s")
    await cluster.reaches("bert", Phase.RUNNING)
    assert len(versions) <= (time.monotonic() - began) + 4
    events = (await cluster.client.list(EVENTS, cluster.namespace)).items
    assert len([e for e in events if e["involvedObject"]["kind"] == "Run"]) < 10


async def test_the_status_of_a_large_run_stays_small(cluster: Cluster) -> None:
    """The status stays small after several restarts. tests/unit/core/gang/test_batch.py tests 7,500 members."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=24, restarts=5, resources={"cpu": 0.1, "memory": "16Mi"})
    for attempt in (1, 2):
        await cluster.reaches("bert", Phase.RUNNING, attempt=attempt)
        await asyncio.gather(*(cluster.behave(f"bert-{attempt}-{rank}", exit_code="1") for rank in range(0, 24, 2)))
    await cluster.reaches("bert", Phase.RUNNING, attempt=3)
    run = cluster.run("bert")
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


@pytest.mark.conformance
async def test_real_processes_continue_from_their_checkpoint(cluster: Cluster) -> None:
    """One of two is killed half-way: both start again in attempt 2, each from its own step, and succeed."""
    async with this_machine(cluster) as selector:
        cluster.start_controller()
        work = cluster.folder / "work"
        work.mkdir()
        await cluster.submit(
            "training",
            replicas=2,
            restarts=1,
            command=[sys.executable, "-c", TRAINING],
            env={"FOLDER": str(work)},
            nodeSelector=selector,
            resources={"cpu": 0.1, "memory": "64Mi"},
        )
        status = await cluster.reaches("training", Phase.SUCCEEDED)
    assert (status.restarts, status.attempts) == (1, 2)
    starts = sorted(line.split() for line in (work / "log").read_text().splitlines())
    assert [line[:2] for line in starts] == [["1", "0"], ["1", "1"], ["2", "0"], ["2", "1"]]
    assert starts[3][2] == "10"
    assert {(work / rank).read_text() for rank in "01"} == {"20"}


async def test_a_real_process_over_its_memory_limit_ends_the_run(cluster: Cluster) -> None:
    """The process is not restarted, and other processes on the node continue."""
    async with this_machine(cluster) as selector:
        cluster.start_controller()
        resources = {"cpu": 0.1, "memory": "64Mi"}
        await cluster.submit("quiet", command=["sleep", "600"], nodeSelector=selector, resources=resources)
        hog = "keep = []\nwhile True: keep.append(bytearray(8 * 2**20))"
        await cluster.submit(
            "hog", command=[sys.executable, "-c", hog], nodeSelector=selector, resources=resources, restarts=5
        )
        status = await cluster.reaches("hog", Phase.FAILED)
        assert (status.reason, status.attempts, status.restarts) == (Reason.OUT_OF_MEMORY, 1, 0)
        assert status.memory is not None and status.memory.peak_bytes >= 64 << 20 and status.memory.ran_out
        assert (await cluster.reaches("quiet", Phase.RUNNING)).attempts == 1
