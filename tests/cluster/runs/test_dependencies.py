"""Runs that wait for other runs, on the embedded server and on a real kube-apiserver; controllers are killed."""

from __future__ import annotations

import asyncio

from tests.harness.cluster import Cluster

from kajitori.cluster.run_object import RUNS
from kajitori.core.spec.reasons import Phase, Reason


async def test_a_chain_of_runs_goes_on_while_controllers_are_killed(cluster: Cluster) -> None:
    """Applied in the wrong order, each run starts once, after the one before it: at its end, or once it is healthy.
    A waiting run holds no place."""
    controller = cluster.start_controller()
    await cluster.submit("evaluate", after=[{"run": "train"}])
    await cluster.submit("train", after=[{"run": "prepare"}], replicas=2)
    await cluster.submit("web", after=[{"run": "db", "condition": "healthy"}])
    await cluster.submit("db", type="service", health={"command": "pg_isready"})
    await cluster.submit("prepare")
    await cluster.reaches("prepare", Phase.RUNNING)
    await cluster.reaches("web", Phase.RUNNING)
    await cluster.until(lambda: "prepare (Running)" in cluster.status("train").message, "train says what it waits for")
    assert not cluster.pods("train") and not cluster.pods("evaluate")
    await cluster.kill_controller(controller)
    await cluster.succeed("prepare")
    controller = cluster.start_controller()
    await cluster.reaches("train", Phase.RUNNING)
    assert cluster.status("evaluate").reason is Reason.WAITING_FOR_RUN
    deletion = asyncio.create_task(cluster.client.delete(RUNS, "prepare", cluster.namespace))  # noted long ago
    await cluster.succeed("train")
    await cluster.kill_controller(controller)
    cluster.start_controller()
    await cluster.reaches("evaluate", Phase.RUNNING)
    await deletion
    assert [cluster.status(name).attempts for name in ("train", "evaluate")] == [1, 1]


async def test_a_run_ends_if_the_one_before_it_fails_and_can_be_resumed_after_it(cluster: Cluster) -> None:
    """The run after that one ends, too; a run that waits for any end starts. Pairs that wait for each other end."""
    cluster.start_controller()
    await cluster.submit("train", after=[{"run": "prepare"}])
    await cluster.submit("evaluate", after=[{"run": "train"}])
    await cluster.submit("clean", after=[{"run": "prepare", "condition": "ended"}])
    await cluster.submit("a", after=[{"run": "b"}])
    await cluster.submit("b", after=[{"run": "a"}])
    await cluster.submit("prepare", restarts=0)
    await cluster.reaches("prepare", Phase.RUNNING)
    await cluster.behave("prepare-1-0", exit_code="1")
    for name, words in (("train", "prepare failed (ProgramFailed)"), ("evaluate", "train failed (Dependency")):
        status = await cluster.reaches(name, Phase.FAILED)
        assert (status.reason, status.attempts) == (Reason.DEPENDENCY_NEVER_SATISFIED, 0)
        assert words in status.message
    await cluster.reaches("clean", Phase.RUNNING)
    for name in ("a", "b"):
        await cluster.reaches(name, Phase.FAILED)
    assert any("wait for itself" in cluster.status(name).message for name in ("a", "b"))
    await cluster.change("prepare", resumes=1)
    await cluster.reaches("prepare", Phase.RUNNING, attempt=2)
    await cluster.change("train", resumes=1)
    await cluster.until(lambda: cluster.status("train").reason is Reason.WAITING_FOR_RUN, "train waits again")
    await cluster.succeed("prepare")
    await cluster.reaches("train", Phase.RUNNING)
