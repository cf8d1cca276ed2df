"""How runs are killed and removed, on the embedded and on a real API server."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.harness.cluster import Cluster

from kajitori.cluster.run_object import RUNS
from kajitori.core.spec.reasons import Phase


async def test_a_run_is_removed_after_its_end_by_any_controller(cluster: Cluster) -> None:
    """`kaji run -d --rm` is stored in the Run, so it takes effect although the controller is killed. A resumed run is
    not removed."""
    first = cluster.start_controller()
    await cluster.submit("bert", removeAfter="2s")
    await cluster.reaches("bert", Phase.RUNNING)
    await cluster.succeed("bert")
    await cluster.reaches("bert", Phase.SUCCEEDED)
    await cluster.kill_controller(first)
    await cluster.change("bert", resumes=1)
    cluster.start_controller()
    await cluster.reaches("bert", Phase.RUNNING, attempt=2)
    await asyncio.sleep(3)
    assert cluster.run("bert") is not None
    await cluster.succeed("bert")
    await cluster.until(lambda: cluster.run("bert") is None, "it is gone")
    assert cluster.pods("bert") == []


async def test_old_ended_runs_are_deleted_as_policy_says(cluster: Cluster) -> None:
    """Running and recently ended runs stay."""
    cluster.use_policy(endedRuns={"keepFor": "3s"})
    cluster.start_controller()
    for name in ("old", "going"):
        await cluster.submit(name)
        await cluster.reaches(name, Phase.RUNNING)
    await cluster.succeed("old")
    await cluster.reaches("old", Phase.SUCCEEDED)
    assert cluster.run("old") is not None
    await cluster.until(lambda: cluster.run("old") is None, "it is gone")
    assert cluster.status("going").phase is Phase.RUNNING


@pytest.mark.conformance
async def test_the_exit_code_of_a_stopped_run_survives_a_killed_controller(cluster: Cluster) -> None:
    """The program ends while no controller looks. The Pods stay until the next controller has read the code of rank 0,
    and has kept the logs."""
    first = cluster.start_controller()
    await cluster.submit("bert", replicas=2, grace="1h")
    await cluster.reaches("bert", Phase.RUNNING)
    for pod in cluster.pods("bert"):
        await cluster.behave(pod.metadata.name, ignore_sigterm="true")
    await cluster.change("bert", stopped=True)
    await cluster.until(lambda: all(pod.metadata.deletion_timestamp for pod in cluster.pods("bert")), "they are told")
    await cluster.kill_controller(first)
    for pod in cluster.pods("bert"):
        await cluster.behave(pod.metadata.name, ignore_sigterm="false")
    await cluster.until(lambda: [pod.is_finished for pod in cluster.pods("bert")] == [True, True], "the Pods are kept")
    cluster.start_controller()
    status = await cluster.reaches("bert", Phase.STOPPED)
    assert status.exit_code == 143
    await cluster.until(lambda: cluster.pods("bert") == [], "its Pods are gone")


@pytest.mark.conformance
@pytest.mark.parametrize("deleted", [False, True])
async def test_killing_shortens_a_long_grace(cluster: Cluster, deleted: bool) -> None:
    """After `kaji kill` or `kaji rm -f`, members that are already ending with a grace of an hour end within a
    second."""
    cluster.start_controller()
    await cluster.submit("bert", replicas=3, grace="1h")
    await cluster.reaches("bert", Phase.RUNNING)
    for pod in cluster.pods("bert"):
        await cluster.behave(pod.metadata.name, ignore_sigterm="true")
    await cluster.change("bert", stopped=True)
    await cluster.until(lambda: all(pod.metadata.deletion_timestamp for pod in cluster.pods("bert")), "they are told")
    began = time.monotonic()
    await cluster.change("bert", stopGrace="0s")
    if deleted:
        await cluster.client.delete(RUNS, "bert", cluster.namespace)
        await cluster.until(lambda: cluster.run("bert") is None, "it is gone")
    else:
        await cluster.reaches("bert", Phase.STOPPED)
    assert time.monotonic() - began < 20
    await cluster.until(lambda: not cluster.pods("bert"), "its Pods are gone")
