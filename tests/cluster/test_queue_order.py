"""The queue on a cluster: who may pass a run for which nodes are kept, and what earlier runs teach."""

from __future__ import annotations

from typing import Any

from tests.helpers.world import NODES_COUNT, World

from kajitori.core.reasons import Phase, Reason

WHOLE: dict[str, Any] = {"resources": {"cpu": 1, "memory": "1Gi", "gpu": 8}}


async def test_a_short_run_passes_the_one_that_nodes_are_kept_for_and_a_long_one_does_not(world: World) -> None:
    """Until runs like the long one have turned out to be short."""
    world.start_controller()
    # 1. Three quarters of the nodes are taken for an hour; a gang of all nodes waits for them.
    await world.submit("now", replicas=NODES_COUNT - 2, timeLimit="1h", **WHOLE)
    await world.reaches("now", Phase.RUNNING)
    await world.submit("large", replicas=NODES_COUNT, timeLimit="1h", **WHOLE)
    await world.until(lambda: world.status("large").reason is Reason.WAITING_FOR_GPU, "large waits")
    # 2. A long run finds room, but would delay it; a short one passes both.
    await world.submit("long", timeLimit="8h", command=["python", "learn.py", "--seed", "1"], **WHOLE)
    await world.until(lambda: world.status("long").reason is Reason.WAITING_ITS_TURN, "long waits its turn")
    assert f"it would delay {world.namespace}/large" in world.status("long").message
    await world.submit("short", timeLimit="10m", **WHOLE)
    await world.reaches("short", Phase.RUNNING)
    assert world.status("long").attempts == 0
    # 3. One of its kind, with a limit of its own, ends in no time: it is known now how long these take.
    await world.submit("first", timeLimit="5m", command=["python", "learn.py", "--seed", "2"], **WHOLE)
    await world.reaches("first", Phase.RUNNING)
    await world.succeed("first")
    done = await world.reaches("first", Phase.SUCCEEDED)
    assert done.ran is not None and done.ran.seconds < 600
    await world.reaches("long", Phase.RUNNING)
    assert world.status("large").attempts == 0
