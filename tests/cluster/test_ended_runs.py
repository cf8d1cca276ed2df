"""How runs are killed and removed, on the embedded and on a real API server."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.helpers.world import World

from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import RUNS


async def test_a_run_is_removed_after_its_end_whoever_leads(world: World) -> None:
    """`kaji run -d --rm`: what the Run says is enough, however often the controller is killed; a resumed run stays."""
    first = world.start_controller()
    await world.submit("bert", removeAfter="2s")
    await world.reaches("bert", Phase.RUNNING)
    await world.succeed("bert")
    await world.reaches("bert", Phase.SUCCEEDED)
    await world.kill_controller(first)
    await world.change("bert", resumes=1)
    world.start_controller()
    await world.reaches("bert", Phase.RUNNING, attempt=2)
    await asyncio.sleep(3)
    assert world.run("bert") is not None
    await world.succeed("bert")
    await world.until(lambda: world.run("bert") is None, "it is gone")
    assert world.pods("bert") == []


async def test_runs_that_ended_long_ago_go_as_policy_says(world: World) -> None:
    """Those that run stay, and so do those that ended lately."""
    world.use_policy(endedRuns={"keepFor": "3s"})
    world.start_controller()
    for name in ("old", "going"):
        await world.submit(name)
        await world.reaches(name, Phase.RUNNING)
    await world.succeed("old")
    await world.reaches("old", Phase.SUCCEEDED)
    assert world.run("old") is not None
    await world.until(lambda: world.run("old") is None, "it is gone")
    assert world.status("going").phase is Phase.RUNNING


@pytest.mark.parametrize("deleted", [False, True])
async def test_killing_cuts_a_long_grace_short(world: World, deleted: bool) -> None:
    """`kaji kill` and `kaji rm -f`: also members that were asked before, and have an hour left, end in a second."""
    world.start_controller()
    await world.submit("bert", replicas=3, grace="1h")
    await world.reaches("bert", Phase.RUNNING)
    for pod in world.pods("bert"):
        await world.behave(pod.metadata.name, ignore_sigterm="true")
    await world.change("bert", stopped=True)
    await world.until(lambda: all(pod.metadata.deletion_timestamp for pod in world.pods("bert")), "they are told")
    began = time.monotonic()
    await world.change("bert", stopGrace="0s")
    if deleted:
        await world.client.delete(RUNS, "bert", world.namespace)
        await world.until(lambda: world.run("bert") is None, "it is gone")
    else:
        await world.reaches("bert", Phase.STOPPED)
    assert time.monotonic() - began < 20
    await world.until(lambda: not world.pods("bert"), "its Pods are gone")
