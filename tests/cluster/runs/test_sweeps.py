"""Sweeps, on the embedded server and on a real kube-apiserver with a real kube-scheduler."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tests.harness.cluster import Cluster

from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.stores.opening import open_blobs
from kajitori.cluster.run_object import RUNS
from kajitori.core.gang.sweeps.results import MemberResult
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.embedded.simulator.behaviour import PREFIX
from kajitori.errors import NotFound
from kajitori.kube.resources import PODS, RESOURCE_QUOTAS, SERVICES, Resource


def use_members(cluster: Cluster, **behaviour: str) -> None:
    """Set the behaviour of the simulated members of sweeps that are submitted from now on."""
    annotations = {PREFIX + name.replace("_", "-"): value for name, value in behaviour.items()}
    cluster.use_policy(inject={"annotations": annotations}, checkpoint={"kind": "folder", "root": "/shared"})


async def keep(cluster: Cluster) -> KeptLogs:
    cluster.kept_logs = KeptLogs(await open_blobs((cluster.folder / "blobs").as_uri()))
    return cluster.kept_logs


async def results(cluster: Cluster, name: str, *indices: int) -> dict[int, MemberResult]:
    assert cluster.kept_logs is not None
    run = cluster.run(name)
    assert run is not None
    return await cluster.kept_logs.results.read(cluster.namespace, run.metadata.uid, indices)


async def environment_of_a_member(cluster: Cluster, name: str) -> tuple[str, dict[str, str]]:
    """Return the index and the variables of some existing member. Members are short-lived."""
    while True:
        pods = await cluster.until(lambda: cluster.pods(name), "members")
        with contextlib.suppress(NotFound):
            pod = await cluster.client.get(PODS, pods[-1].metadata.name, cluster.namespace)
            env = pod["spec"]["containers"][0]["env"]
            return pods[-1].metadata.labels[names.LABEL_RANK], {
                variable["name"]: variable.get("value", "") for variable in env
            }


async def test_every_member_runs_once_and_only_so_many_at_a_time(cluster: Cluster) -> None:
    """Pods are deleted once their results are kept. Each member gets its index, and a world of size one."""
    await keep(cluster)
    use_members(cluster, duration="1s", message='{"loss": 0.5}')
    most = 0

    def watch(resource: Resource, _: str, name: str) -> None:
        nonlocal most
        pods = cluster.pods("grid") if resource == PODS else []
        most = max(most, sum(1 for pod in pods if not pod.is_finished))

    cluster.mirror.on_change(watch)
    cluster.start_controller()
    await cluster.submit("grid", array="0-8,20%4", checkpoint={"path": "/ckpt"})
    index, environment = await environment_of_a_member(cluster, "grid")
    status = await cluster.reaches("grid", Phase.SUCCEEDED)
    assert status.sweep is not None
    assert (status.sweep.succeeded, status.members.succeeded, status.exit_code) == ("0-8,20", 10, 0)
    assert most <= 4
    expected = {"KAJI_ARRAY_INDEX": index, "KAJI_ARRAY_COUNT": "10", "KAJI_ARRAY_MIN": "0", "KAJI_ARRAY_MAX": "20"}
    expected |= {"KAJI_RANK": "0", "KAJI_WORLD_SIZE": "1", "KAJI_RESULT": "/dev/termination-log"}
    assert environment.items() >= expected.items()
    assert environment["KAJI_CHECKPOINT_DIR"].endswith(f"/{index}")
    await cluster.until(lambda: not cluster.pods("grid"), "Pods taken away")
    found = await results(cluster, "grid", *range(21))
    assert sorted(found) == [*range(9), 20]
    assert {(row.state, row.exit_code, str(row.result)) for row in found.values()} == {
        ("Succeeded", 0, "{'loss': 0.5}")
    }
    assert all(row.node.startswith("gpu-") and row.started_at and row.ended_at for row in found.values())
    assert status.sweep.longest_seconds >= 1
    services = await cluster.client.list(SERVICES, cluster.namespace)
    assert "grid" not in {item["metadata"]["name"] for item in services.items}


async def test_a_failed_member_does_not_affect_the_others(cluster: Cluster) -> None:
    """One fails once and is restarted, one fails for good, one runs out of memory and is not moved, one loses its node.
    At the end the run's message names the failed members."""
    await keep(cluster)
    cluster.start_controller()
    await cluster.submit("grid", array="0-4", restarts=1, resources={"cpu": 1, "memory": "1Gi", "gpu": 8})
    await cluster.until(lambda: cluster.status("grid").members.running == 5, "all run")
    where = {pod.metadata.name: pod.spec.node_name for pod in cluster.pods("grid")}

    def newest(rank: int) -> str:
        pods = [pod for pod in cluster.pods("grid") if pod.member and pod.member.rank == rank and not pod.is_finished]
        pods = [pod for pod in pods if not pod.metadata.deletion_timestamp and pod.status.phase == "Running"]
        return max((pod.metadata.name for pod in pods), key=lambda name: int(name.split("-")[1]), default="")

    await cluster.silence(where["grid-1-3"])
    await cluster.behave("grid-1-0", exit_code="1")
    await cluster.behave("grid-1-1", exit_code="7")
    await cluster.behave("grid-1-2", oom="true")
    await cluster.until(
        lambda: all(newest(rank) not in ("", f"grid-1-{rank}") for rank in (0, 1, 3)), "three come again"
    )
    assert newest(4) == "grid-1-4"
    await cluster.behave(newest(1), exit_code="9")
    await cluster.until(lambda: cluster.status("grid").members.failed == 2, "two failed for good")
    assert cluster.status("grid").phase is Phase.RUNNING
    for rank in (0, 3, 4):
        await cluster.behave(newest(rank), exit_code="0")
    status = await cluster.reaches("grid", Phase.FAILED)
    assert status.sweep is not None
    assert (status.sweep.succeeded, status.sweep.failed) == ("0,3-4", "1-2")
    assert status.message.startswith("2 of 5 members failed; the first: member")
    assert {(note.rank, note.exit_code) for note in status.notable} == {(1, 9), (2, 137)}
    assert (status.restarts, status.interruptions) == (2, 1)
    await cluster.revive(where["grid-1-3"])
    await cluster.until(lambda: not cluster.pods("grid"), "Pods taken away")
    found = await results(cluster, "grid", 0, 1, 2, 3)
    assert [(found[i].restarts, found[i].exit_code) for i in range(4)] == [(1, 0), (1, 9), (0, 137), (0, 0)]
    assert found[2].reason == Reason.OUT_OF_MEMORY.value


async def test_no_member_is_repeated_when_controllers_are_killed(cluster: Cluster) -> None:
    """The next controller continues from the written status: every member is made once, under one name."""
    use_members(cluster, duration="1s")
    made: dict[str, set[str]] = {}

    def note(resource: Resource, _: str, name: str) -> None:
        pod = cluster.mirror.pods.get((cluster.namespace, name)) if resource == PODS else None
        if pod is not None:
            made.setdefault(name, set()).add(pod.metadata.uid)

    cluster.mirror.on_change(note)
    await cluster.submit("grid", array="0-11%4")
    for pause in (0.3, 0.1, 0.2, 0.5, 0.15):
        task = cluster.start_controller()
        await asyncio.sleep(pause)
        await cluster.kill_controller(task)
    cluster.start_controller()
    status = await cluster.reaches("grid", Phase.SUCCEEDED)
    assert (status.members.succeeded, status.restarts) == (12, 0)
    assert all(len(uids) == 1 for uids in made.values())
    assert sorted(int(name.rsplit("-")[-1]) for name in made) == list(range(12))


async def test_a_sweep_ends_at_the_first_success_or_resumes_after_a_stop(cluster: Cluster) -> None:
    cluster.start_controller()
    await cluster.submit("grid", array="0-3", stopAt="first-success")
    await cluster.until(lambda: cluster.status("grid").members.running == 4, "all run")
    await cluster.behave("grid-1-2", exit_code="0")
    status = await cluster.reaches("grid", Phase.SUCCEEDED)
    assert "member 2 succeeded" in status.message
    await cluster.until(lambda: not [pod for pod in cluster.pods("grid") if not pod.is_finished], "the others ended")

    use_members(cluster, duration="0s")
    await cluster.submit("rest", array="0-3%1")
    await cluster.until(lambda: cluster.status("rest").members.running == 1, "the first runs")
    await cluster.change("rest", stopped=True)
    await cluster.reaches("rest", Phase.STOPPED)
    await cluster.change("rest", stopped=False, resumes=1, array="0-3")
    await cluster.until(lambda: cluster.status("rest").members.running == 4, "all run")
    for pod in cluster.pods("rest"):
        if not pod.is_finished:
            await cluster.behave(pod.metadata.name, exit_code="0")
    await cluster.reaches("rest", Phase.SUCCEEDED)


@pytest.mark.conformance
async def test_a_sweep_starts_as_many_members_as_fit_the_quota(cluster: Cluster) -> None:
    """A gang would wait until all of them fit."""
    await cluster.client.create(
        RESOURCE_QUOTAS, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3"}}}, cluster.namespace
    )
    quota = await cluster.client.get(RESOURCE_QUOTAS, "small", cluster.namespace)
    while not (quota.get("status") or {}).get("hard"):
        await asyncio.sleep(0.05)
        quota = await cluster.client.get(RESOURCE_QUOTAS, "small", cluster.namespace)
    cluster.start_controller()
    await cluster.submit("grid", array="0-5")
    await cluster.until(lambda: cluster.status("grid").members.running == 3, "three run")
    status = await cluster.until(
        lambda: (s := cluster.status("grid")).reason is Reason.QUOTA and s, "why the others wait"
    )
    assert status and status.phase is Phase.RUNNING
    assert status.interruptions == 0
    for pod in cluster.pods("grid"):
        await cluster.behave(pod.metadata.name, exit_code="0")
    await cluster.until(lambda: cluster.status("grid").members.succeeded >= 3, "three ended")
    await cluster.client.delete(RESOURCE_QUOTAS, "small", cluster.namespace)
    await cluster.until(lambda: cluster.status("grid").members.running == 3, "the others run")


async def test_members_that_do_not_fit_wait_beside_running_ones(cluster: Cluster) -> None:
    cluster.start_controller()
    await cluster.submit("grid", array="0-99", resources={"cpu": 1, "memory": "1Gi", "gpu": 8})
    await cluster.until(lambda: cluster.status("grid").members.running == 8, "one on each node")
    status = await cluster.until(
        lambda: (s := cluster.status("grid")).reason is Reason.WAITING_FOR_GPU and s, "why the others wait"
    )
    assert status and status.phase is Phase.RUNNING
    await cluster.submit("bert", replicas=8, resources={"cpu": 1, "memory": "1Gi", "gpu": 8}, priority="high")
    await cluster.reaches("bert", Phase.QUEUED)
    for rank in (3, 7):  # their nodes are reserved for the gang
        await cluster.behave(f"grid-1-{rank}", exit_code="0")
    await cluster.until(lambda: cluster.status("grid").members.succeeded == 2, "two ended")
    told: set[str] = set()
    async with asyncio.timeout(60):
        while cluster.status("bert").phase is not Phase.RUNNING:
            # While members from before the gang are expected to run on, others may pass it, which take about as long.
            rest = {pod.metadata.name for pod in cluster.pods("grid") if not pod.is_finished}
            for name in sorted(rest - told):
                with contextlib.suppress(NotFound):
                    await cluster.behave(name, exit_code="0")
            told |= rest
            await asyncio.sleep(0.05)
    assert cluster.status("grid").members.succeeded < 50


async def test_after_a_damaged_status_only_members_without_success_run(
    cluster: Cluster,
) -> None:
    """The kept results tell which members have succeeded."""
    await keep(cluster)
    cluster.start_controller()
    await cluster.submit("grid", array="0-2")
    await cluster.until(lambda: cluster.status("grid").members.running == 3, "all run")
    await cluster.behave("grid-1-0", exit_code="0")
    await cluster.until(
        lambda: not [pod for pod in cluster.pods("grid") if pod.metadata.name == "grid-1-0"], "0 is kept"
    )
    run = await cluster.client.get(RUNS, "grid", cluster.namespace)
    await cluster.client.replace(RUNS, {**run, "status": {**run["status"], "attempts": -1}}, subresource="status")
    await cluster.until(lambda: cluster.status("grid").reason is Reason.STATUS_DAMAGED, "its end is written")
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("grid")), "its members have ended")
    await cluster.change("grid", resumes=1)
    await cluster.until(lambda: cluster.status("grid").members.running == 2, "the others run")
    ranks = {pod.member.rank for pod in cluster.pods("grid") if pod.member and not pod.is_finished}
    assert (ranks, cluster.status("grid").members.succeeded) == ({1, 2}, 1)
