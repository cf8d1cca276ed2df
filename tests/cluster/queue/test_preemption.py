"""Preemption, the same on the embedded server and on a real kube-apiserver with a real kube-scheduler."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.harness.cluster import SIM, Cluster, this_machine
from tests.harness.platform.parts import GPUS
from tests.harness.waiting import until

from kajitori.cluster.run_object import RUNS
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.runs.statuses import write_status
from kajitori.core import gang
from kajitori.core.formats.node_lists import expand_ranks
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.naming import names
from kajitori.core.policy.model import Policy
from kajitori.core.policy.queue.preemption import Preemption
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.errors import NotFound
from kajitori.kube.resources import EVENTS, NAMESPACES

WHOLE: dict[str, Any] = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
SLOW_END = {"annotations": {f"{SIM}ignore-sigterm": "true"}}
"""Members end only after their whole grace period, so that faults have time to appear."""

TRAINING = """
import os, signal, sys, time
path = os.environ["KAJI_CHECKPOINT_DIR"] + "/step"
if os.path.exists(path):
    sys.exit(0 if open(path).read() == os.environ["KAJI_RUN"] else 3)
def save(*_):
    time.sleep(1)
    open(path, "w").write(os.environ["KAJI_RUN"])
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
open(os.environ["KAJI_CHECKPOINT_DIR"] + "/listening", "w").close()
time.sleep(600)
"""
"""On SIGTERM the program writes its checkpoint, which takes a second. If a checkpoint exists, it ends at once."""


async def test_a_preempted_program_writes_a_checkpoint_and_resumes(cluster: Cluster) -> None:
    """No restart is counted, it keeps its place in the queue, and its events name the run that preempted it."""
    async with this_machine(cluster, cpu_millis=1000) as selector:
        cluster.policy = PolicyFile(None, without_file=at_once(cluster.policy.current().policy))
        cluster.start_controller()
        resources = {"cpu": 0.6, "memory": "64Mi"}
        await cluster.submit(
            "training",
            command=[sys.executable, "-c", TRAINING],
            checkpoint={"path": "/ckpt"},
            priority="low",
            grace="20s",
            nodeSelector=selector,
            resources=resources,
        )
        before = await cluster.reaches("training", Phase.RUNNING)
        listening = cluster.folder / "ckpt" / cluster.namespace / "training" / "listening"
        await cluster.until(listening.exists, "the program listens")
        await cluster.submit("urgent", command=["sleep", "0.1"], nodeSelector=selector, resources=resources)
        status = await cluster.reaches("urgent", Phase.SUCCEEDED)
        assert status.attempts == 1
        status = await cluster.reaches("training", Phase.SUCCEEDED)
    assert (status.attempts, status.restarts, status.interruptions) == (2, 0, 1)
    assert status.queued_at == before.queued_at
    words = f"preempted by {cluster.namespace}/urgent (normal)"

    async def told() -> list[tuple[str, int]]:
        said = await cluster.client.list(EVENTS, cluster.namespace)
        return [(item["message"], item["count"]) for item in said.items if item["reason"] == Reason.PREEMPTED]

    assert await until(told, "an event tells of it") == [(words, 1)]  # events are written in the background
    assert status.setback is not None
    assert (status.setback.reason, status.setback.message, status.setback.attempt) == ("Preempted", words, 1)


@pytest.mark.conformance
async def test_just_enough_is_preempted_and_its_nodes_are_reserved(cluster: Cluster) -> None:
    """One large gang is preempted after its minimum run time, and not two small ones. While its members end, no other
    run is preempted, and no other run gets the freed nodes. Then the gang starts again."""
    cluster.use_policy(preemption={"minimumRunTime": "2s"}, inject=SLOW_END)
    cluster.start_controller()
    for name, members in (("large", 4), ("small-a", 2), ("small-b", 2)):
        await cluster.submit(name, replicas=members, resources=WHOLE, priority="low")
    for name in ("large", "small-a", "small-b"):
        await cluster.reaches(name, Phase.RUNNING)
    nodes, told = set(cluster.nodes_of("large")), set[str]()
    cluster.mirror.on_change(lambda *_: told.add(cluster.status("urgent").message))
    await cluster.submit("urgent", replicas=4, resources=WHOLE, priority="high")
    asked = await cluster.until(lambda: cluster.status("large").preemption, "large is asked")
    assert asked and (asked.by, asked.guaranteed) == (f"{cluster.namespace}/urgent", False)
    assert ran_for(cluster.status("large"), asked) >= timedelta(seconds=2)
    await cluster.submit("sneak", replicas=1, resources=WHOLE, priority="low")

    await cluster.reaches("urgent", Phase.RUNNING)
    assert set(cluster.nodes_of("urgent")) == nodes
    said = f"preempts {cluster.namespace}/large (low); its nodes are free by "
    assert any(message.startswith(said) for message in told), told
    assert [cluster.status(name).attempts for name in ("small-a", "small-b", "sneak")] == [1, 1, 0]
    assert all(cluster.status(name).preemption is None for name in ("small-a", "small-b"))
    waiting = await cluster.until(
        lambda: (status := cluster.status("large")).phase is Phase.QUEUED and "needs" in status.message and status,
        "large waits",
    )
    assert waiting and waiting.reason is Reason.PREEMPTED
    assert waiting.message.startswith(f"preempted by {cluster.namespace}/urgent (high); needs 32 h100")

    await cluster.change("sneak", stopped=True)  # its duration is unknown, as all of them are, so it may start first
    await cluster.reaches("sneak", Phase.STOPPED)
    await cluster.succeed("urgent")
    back = await cluster.reaches("large", Phase.RUNNING, attempt=2)
    assert (back.restarts, back.interruptions, back.preemption) == (0, 1, None)


async def test_only_as_many_sweep_members_are_preempted_as_needed(cluster: Cluster) -> None:
    """The youngest members are preempted for two runs that were submitted while no controller worked. The controller is
    killed once more in between. The other members continue, and no restart is counted."""
    cluster.use_policy(preemption={"minimumRunTime": "0s"}, inject=SLOW_END)
    task = cluster.start_controller()
    await cluster.submit("grid", array="0-7", restarts=0, resources=WHOLE, priority="low")
    await cluster.until(lambda: cluster.status("grid").members.running == 8, "all members run")
    before = {pod.metadata.name: pod.metadata.uid for pod in cluster.pods("grid")}
    await cluster.kill_controller(task)
    await cluster.submit("urgent", replicas=3, resources=WHOLE, priority="high")
    await cluster.submit("second", replicas=1, resources=WHOLE)
    task = cluster.start_controller()
    asks = await cluster.until(
        lambda: len(a := gang.preemptions_of(cluster.status("grid"))) == 2 and a, "some of it are asked"
    )
    await cluster.kill_controller(task)
    cluster.start_controller()
    assert asks and {(preemption.by, len(expand_ranks(preemption.ranks))) for preemption in asks} == {
        (f"{cluster.namespace}/urgent", 3),
        (f"{cluster.namespace}/second", 1),
    }
    assert f"preempted by {cluster.namespace}/urgent (high)" in cluster.status("grid").message
    for name in ("urgent", "second"):
        await cluster.reaches(name, Phase.RUNNING)
    await cluster.until(lambda: cluster.status("grid").preemption is None, "it is told that this is over")
    status = cluster.status("grid")
    assert (status.phase, status.restarts, status.members.running) == (Phase.RUNNING, 0, 4)
    left = {pod.metadata.name: pod.metadata.uid for pod in cluster.pods("grid")}
    assert left.items() <= before.items() and len(left) == 4
    for name in ("urgent", "second"):
        await cluster.succeed(name)
    await cluster.until(lambda: cluster.status("grid").members.running == 8, "all members run again")
    anew = {pod.member.rank for pod in cluster.pods("grid") if pod.metadata.name not in before and pod.member}
    assert anew == {rank for preemption in asks for rank in expand_ranks(preemption.ranks)}


async def test_the_next_controller_carries_out_a_written_preemption(
    cluster: Cluster,
) -> None:
    """A gang is preempted if the other run still waits, and is not preempted if that run no longer waits."""
    cluster.use_policy(preemption={"minimumRunTime": "10m"})  # no new preemption is decided
    task = cluster.start_controller()
    for name in ("first", "second"):
        await cluster.submit(name, replicas=4, resources=WHOLE, priority="low")
        await cluster.reaches(name, Phase.RUNNING)
    for name in ("urgent", "gone"):
        await cluster.submit(name, replicas=4, resources=WHOLE, priority="high")
        await cluster.until(lambda name=name: cluster.status(name).message, "it waits")  # type: ignore[misc]
    await cluster.kill_controller(task)
    await intend(cluster, "first", to="urgent")
    await intend(cluster, "second", to="gone")
    await cluster.change("gone", stopped=True)
    cluster.start_controller()
    await cluster.reaches("urgent", Phase.RUNNING)
    assert cluster.status("first").interruptions == 1
    second = await cluster.until(
        lambda: (status := cluster.status("second")).preemption is None and status, "second goes on"
    )
    assert second and (second.phase, second.attempts, second.interruptions) == (Phase.RUNNING, 1, 0)
    assert len(cluster.pods("second", 1)) == 4


async def test_a_sweep_and_a_service_are_preempted_and_restart(cluster: Cluster) -> None:
    """The sweep keeps as many members as fit. The service restarts with all of its members or with none."""
    cluster.use_policy(preemption={"minimumRunTime": "0s"})
    cluster.start_controller()
    await cluster.submit("sweep", array="0-4", resources=WHOLE, priority="low")
    await cluster.submit("web", type="service", replicas=3, resources=WHOLE, priority="low")
    for name, members in (("sweep", 5), ("web", 3)):
        await cluster.until(lambda n=name, m=members: cluster.status(n).members.running == m, f"{name} runs")  # type: ignore[misc]
    await cluster.submit("urgent", replicas=7, resources=WHOLE)
    await cluster.reaches("urgent", Phase.RUNNING)
    sweep = await cluster.until(
        lambda: (s := cluster.status("sweep")).members.running == 1 and s, "one of the sweep runs"
    )
    assert sweep and (sweep.interruptions, sweep.restarts, sweep.members.failed) == (1, 0, 0)
    assert (cluster.status("web").phase, cluster.status("web").interruptions) == (Phase.QUEUED, 1)
    assert not cluster.pods("web")
    await cluster.succeed("urgent")
    await cluster.until(lambda: cluster.status("sweep").members.running == 5, "all of the sweep run again")
    status = await cluster.reaches("web", Phase.RUNNING)
    assert (status.members.running, status.restarts, status.preemption) == (3, 0, None)


async def test_a_team_gets_back_its_guaranteed_resources(cluster: Cluster) -> None:
    """Another team's run of normal priority, which uses them, is preempted; the team's other run stays. Each resource
    is counted by itself: the guarantee has more GPUs than cores for them."""
    ours = {"namespace": cluster.namespace, "gpus": 9 * GPUS, "cpu": 2 * WHOLE["cpu"]}
    cluster.use_policy(preemption={"minimumRunTime": "0s"}, guarantees=[ours])
    cluster.start_controller()
    async with other_team(cluster) as team:
        for name, members in (("six", 6), ("two", 2)):
            await submit_there(cluster, team, name, members)
            await cluster.until(lambda name=name: status_in(cluster, team, name).phase is Phase.RUNNING, f"{name} runs")  # type: ignore[misc]
        await cluster.submit("beyond", replicas=3, resources=WHOLE)
        await cluster.until(lambda: cluster.status("beyond").message, "beyond waits")
        await cluster.submit("ours", replicas=2, resources=WHOLE, priority="low")
        status = await cluster.reaches("ours", Phase.RUNNING)
        borrowed = status_in(cluster, team, "two")
        assert status.attempts == 1 and borrowed.preemption is not None and borrowed.preemption.guaranteed
        assert "whose team is guaranteed what it asks for" in borrowed.message
        assert (status_in(cluster, team, "six").phase, status_in(cluster, team, "six").preemption) == (
            Phase.RUNNING,
            None,
        )
        assert cluster.status("beyond").attempts == 0


# ------------------------------------------------------------------------------------------------ helpers


def at_once(policy: Policy) -> Policy:
    """Return the policy without a minimum run time."""
    rules = Preemption.model_validate({"minimumRunTime": "0s"})
    return policy.model_copy(update={"preemption": rules})


def ran_for(status: RunStatus, asked: Preempted) -> timedelta:
    """Return how long a run had run when it was preempted."""
    assert status.attempt is not None
    started, since = parse_time(status.attempt.started_at), parse_time(asked.since)
    assert started is not None and since is not None
    return since - started


async def intend(cluster: Cluster, name: str, *, to: str) -> None:
    """Write a preemption into the status, as a controller does before it deletes Pods."""
    run, waiting = cluster.run(name), cluster.run(to)
    assert run is not None and run.status is not None and waiting is not None
    asked = Preempted(
        by=f"{cluster.namespace}/{to}", uid=waiting.metadata.uid, who=to, since=format_time(datetime.now(UTC))
    )
    await write_status(cluster.client, run, gang.preempt(run.status, asked))


@contextlib.asynccontextmanager
async def other_team(cluster: Cluster) -> AsyncIterator[str]:
    """A second namespace; its runs are deleted at the end."""
    team = f"{cluster.namespace}-other"
    await cluster.client.create(NAMESPACES, {"metadata": {"name": team}})
    try:
        yield team
    finally:
        for _, name in [key for key in cluster.mirror.runs if key[0] == team]:
            with contextlib.suppress(NotFound):
                await cluster.client.delete(RUNS, name, team)
        await cluster.until(lambda: not any(space == team for space, _ in cluster.mirror.runs), "its runs are gone")


async def submit_there(cluster: Cluster, team: str, name: str, members: int) -> None:
    spec: dict[str, Any] = {"image": "bert:3", "command": ["train"], "grace": "2s"}
    spec |= {"resources": WHOLE, "replicas": members}
    document = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
    await cluster.client.create(RUNS, document, team)


def status_in(cluster: Cluster, team: str, name: str) -> RunStatus:
    run = cluster.mirror.runs.get((team, name))
    return (run.status if run else None) or RunStatus()
