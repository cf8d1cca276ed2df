"""Sweeps, the same on the embedded server and on a real kube-apiserver with a real kube-scheduler."""

from __future__ import annotations

import asyncio
import contextlib

from tests.helpers.world import World

from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.opening import open_blobs
from kajitori.core.gang.results import MemberResult
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.words import names
from kajitori.embedded.simulator.behaviour import PREFIX
from kajitori.errors import NotFound
from kajitori.kube.resources import PODS, RESOURCE_QUOTAS, RUNS, SERVICES, Resource


def use_members(world: World, **behaviour: str) -> None:
    """What simulated members do, of sweeps that are submitted from now on."""
    annotations = {PREFIX + name.replace("_", "-"): value for name, value in behaviour.items()}
    world.use_policy(inject={"annotations": annotations}, checkpoint={"kind": "folder", "root": "/shared"})


async def keep(world: World) -> KeptLogs:
    world.kept_logs = KeptLogs(await open_blobs((world.folder / "blobs").as_uri()))
    return world.kept_logs


async def results(world: World, name: str, *indices: int) -> dict[int, MemberResult]:
    assert world.kept_logs is not None
    run = world.run(name)
    assert run is not None
    return await world.kept_logs.results.read(world.namespace, run.metadata.uid, indices)


async def environment_of_a_member(world: World, name: str) -> tuple[str, dict[str, str]]:
    """The index and the variables of one that is there: they come and go quickly."""
    while True:
        pods = await world.until(lambda: world.pods(name), "members")
        with contextlib.suppress(NotFound):
            pod = await world.client.get(PODS, pods[-1].metadata.name, world.namespace)
            env = pod["spec"]["containers"][0]["env"]
            return pods[-1].metadata.labels[names.LABEL_RANK], {each["name"]: each.get("value", "") for each in env}


async def test_every_member_runs_once_and_never_more_than_asked_for_at_once(world: World) -> None:
    """Their Pods are taken away once what they said is kept; each was told its index, and is alone in its world."""
    await keep(world)
    use_members(world, duration="1s", message='{"loss": 0.5}')
    most = 0

    def watch(resource: Resource, _: str, name: str) -> None:
        nonlocal most
        pods = world.pods("grid") if resource == PODS else []
        most = max(most, sum(1 for pod in pods if not pod.is_finished))

    world.mirror.on_change(watch)
    world.start_controller()
    await world.submit("grid", array="0-8,20%4", checkpoint={"path": "/ckpt"})
    index, environment = await environment_of_a_member(world, "grid")
    status = await world.reaches("grid", Phase.SUCCEEDED)
    assert status.sweep is not None
    assert (status.sweep.succeeded, status.members.succeeded, status.exit_code) == ("0-8,20", 10, 0)
    assert most <= 4
    told = {"KAJI_ARRAY_INDEX": index, "KAJI_ARRAY_COUNT": "10", "KAJI_ARRAY_MIN": "0", "KAJI_ARRAY_MAX": "20"}
    told |= {"KAJI_RANK": "0", "KAJI_WORLD_SIZE": "1", "KAJI_RESULT": "/dev/termination-log"}
    assert environment.items() >= told.items()
    assert environment["KAJI_CHECKPOINT_DIR"].endswith(f"/{index}")
    await world.until(lambda: not world.pods("grid"), "Pods taken away")
    found = await results(world, "grid", *range(21))
    assert sorted(found) == [*range(9), 20]
    assert {(row.state, row.exit_code, str(row.result)) for row in found.values()} == {
        ("Succeeded", 0, "{'loss': 0.5}")
    }
    assert all(row.node.startswith("gpu-") and row.started_at and row.ended_at for row in found.values())
    assert status.sweep.longest_seconds >= 1
    services = await world.client.list(SERVICES, world.namespace)
    assert "grid" not in {each["metadata"]["name"] for each in services.items}


async def test_members_fail_each_for_itself(world: World) -> None:
    """One fails once and comes again, one fails for good, one eats its memory and is not carried on, one loses its
    node: the others do not notice, and the run says at its end whom it was about."""
    await keep(world)
    world.start_controller()
    await world.submit("grid", array="0-4", restarts=1, resources={"cpu": 1, "memory": "1Gi", "gpu": 8})
    await world.until(lambda: world.status("grid").members.running == 5, "all run")
    where = {pod.metadata.name: pod.spec.node_name for pod in world.pods("grid")}

    def newest(rank: int) -> str:
        pods = [pod for pod in world.pods("grid") if pod.member and pod.member.rank == rank and not pod.is_finished]
        pods = [pod for pod in pods if not pod.metadata.deletion_timestamp and pod.status.phase == "Running"]
        return max((pod.metadata.name for pod in pods), key=lambda name: int(name.split("-")[1]), default="")

    await world.silence(where["grid-1-3"])
    await world.behave("grid-1-0", exit_code="1")
    await world.behave("grid-1-1", exit_code="7")
    await world.behave("grid-1-2", oom="true")
    await world.until(lambda: all(newest(rank) not in ("", f"grid-1-{rank}") for rank in (0, 1, 3)), "three come again")
    assert newest(4) == "grid-1-4"
    await world.behave(newest(1), exit_code="9")
    await world.until(lambda: world.status("grid").members.failed == 2, "two failed for good")
    assert world.status("grid").phase is Phase.RUNNING
    for rank in (0, 3, 4):
        await world.behave(newest(rank), exit_code="0")
    status = await world.reaches("grid", Phase.FAILED)
    assert status.sweep is not None
    assert (status.sweep.succeeded, status.sweep.failed) == ("0,3-4", "1-2")
    assert status.message.startswith("2 of 5 members failed; the first: member")
    assert {(note.rank, note.exit_code) for note in status.notable} == {(1, 9), (2, 137)}
    assert (status.restarts, status.interruptions) == (2, 1)
    await world.revive(where["grid-1-3"])
    await world.until(lambda: not world.pods("grid"), "Pods taken away")
    found = await results(world, "grid", 0, 1, 2, 3)
    assert [(found[i].restarts, found[i].exit_code) for i in range(4)] == [(1, 0), (1, 9), (0, 137), (0, 0)]
    assert found[2].reason == Reason.OUT_OF_MEMORY.value


async def test_a_controller_that_is_killed_again_and_again_repeats_nobody(world: World) -> None:
    """Whoever leads next goes on from what is written: every member is made once, and no name twice."""
    use_members(world, duration="1s")
    made: dict[str, set[str]] = {}

    def note(resource: Resource, _: str, name: str) -> None:
        pod = world.mirror.pods.get((world.namespace, name)) if resource == PODS else None
        if pod is not None:
            made.setdefault(name, set()).add(pod.metadata.uid)

    world.mirror.on_change(note)
    await world.submit("grid", array="0-11%4")
    for pause in (0.3, 0.1, 0.2, 0.5, 0.15):
        task = world.start_controller()
        await asyncio.sleep(pause)
        await world.kill_controller(task)
    world.start_controller()
    status = await world.reaches("grid", Phase.SUCCEEDED)
    assert (status.members.succeeded, status.restarts) == (12, 0)
    assert all(len(uids) == 1 for uids in made.values())
    assert sorted(int(name.rsplit("-")[-1]) for name in made) == list(range(12))


async def test_the_first_success_ends_it_and_it_goes_on_where_it_was_stopped(world: World) -> None:
    world.start_controller()
    await world.submit("grid", array="0-3", stopAt="first-success")
    await world.until(lambda: world.status("grid").members.running == 4, "all run")
    await world.behave("grid-1-2", exit_code="0")
    status = await world.reaches("grid", Phase.SUCCEEDED)
    assert "member 2 succeeded" in status.message
    await world.until(lambda: not [pod for pod in world.pods("grid") if not pod.is_finished], "the others ended")

    use_members(world, duration="0s")
    await world.submit("rest", array="0-3%1")
    await world.until(lambda: world.status("rest").members.running == 1, "the first runs")
    await world.change("rest", stopped=True)
    await world.reaches("rest", Phase.STOPPED)
    await world.change("rest", stopped=False, resumes=1, array="0-3")
    await world.until(lambda: world.status("rest").members.running == 4, "all run")
    for pod in world.pods("rest"):
        if not pod.is_finished:
            await world.behave(pod.metadata.name, exit_code="0")
    await world.reaches("rest", Phase.SUCCEEDED)


async def test_it_takes_what_fits_into_nodes_and_quota(world: World) -> None:
    """A gang would wait for all of it."""
    await world.client.create(
        RESOURCE_QUOTAS, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3"}}}, world.namespace
    )
    quota = await world.client.get(RESOURCE_QUOTAS, "small", world.namespace)
    while not (quota.get("status") or {}).get("hard"):
        await asyncio.sleep(0.05)
        quota = await world.client.get(RESOURCE_QUOTAS, "small", world.namespace)
    world.start_controller()
    await world.submit("grid", array="0-5")
    await world.until(lambda: world.status("grid").members.running == 3, "three run")
    status = await world.until(lambda: (s := world.status("grid")).reason is Reason.QUOTA and s, "why the others wait")
    assert status and status.phase is Phase.RUNNING
    assert status.interruptions == 0
    for pod in world.pods("grid"):
        await world.behave(pod.metadata.name, exit_code="0")
    await world.until(lambda: world.status("grid").members.succeeded >= 3, "three ended")
    await world.client.delete(RESOURCE_QUOTAS, "small", world.namespace)
    await world.until(lambda: world.status("grid").members.running == 3, "the others run")


async def test_more_members_than_the_cluster_holds_wait_beside_those_that_run(world: World) -> None:
    world.start_controller()
    await world.submit("grid", array="0-99", resources={"cpu": 1, "memory": "1Gi", "gpu": 8})
    await world.until(lambda: world.status("grid").members.running == 8, "one on each node")
    status = await world.until(
        lambda: (s := world.status("grid")).reason is Reason.WAITING_FOR_GPU and s, "why the others wait"
    )
    assert status and status.phase is Phase.RUNNING
    await world.submit("bert", replicas=8, resources={"cpu": 1, "memory": "1Gi", "gpu": 8}, priority="high")
    await world.reaches("bert", Phase.QUEUED)
    for rank in (3, 7):  # their nodes are kept for the gang
        await world.behave(f"grid-1-{rank}", exit_code="0")
    await world.until(lambda: world.status("grid").members.succeeded == 2, "two ended")
    await asyncio.gather(*(world.behave(f"grid-1-{rank}", exit_code="0") for rank in (0, 1, 2, 4, 5, 6)))
    await world.reaches("bert", Phase.RUNNING)
    assert world.status("grid").members.succeeded == 8


async def test_resumed_after_somebody_damaged_its_status_it_runs_those_alone_that_are_not_known_to_have_succeeded(
    world: World,
) -> None:
    """What was kept of its members' results tells of the others, and it ends well."""
    await keep(world)
    world.start_controller()
    await world.submit("grid", array="0-2")
    await world.until(lambda: world.status("grid").members.running == 3, "all run")
    await world.behave("grid-1-0", exit_code="0")
    await world.until(lambda: not [pod for pod in world.pods("grid") if pod.metadata.name == "grid-1-0"], "0 is kept")
    run = await world.client.get(RUNS, "grid", world.namespace)
    await world.client.replace(RUNS, {**run, "status": {**run["status"], "attempts": -1}}, subresource="status")
    await world.until(lambda: world.status("grid").reason is Reason.STATUS_DAMAGED, "its end is written")
    await world.until(lambda: all(pod.is_finished for pod in world.pods("grid")), "its members have ended")
    await world.change("grid", resumes=1)
    await world.until(lambda: world.status("grid").members.running == 2, "the others run")
    ranks = {pod.member.rank for pod in world.pods("grid") if pod.member and not pod.is_finished}
    assert (ranks, world.status("grid").members.succeeded) == ({1, 2}, 1)
