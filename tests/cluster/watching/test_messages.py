"""Messages about runs, from a failure to a real HTTP server, while controllers are killed at random moments."""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any

import pytest
from tests.harness.cluster import Cluster
from tests.harness.platform.receiver import RECEIVED, add_channel, receiving

from kajitori.cluster.run_object import RUNS
from kajitori.core.messages import outbox
from kajitori.core.messages.channels import team
from kajitori.core.spec.reasons import Phase

SEED = int(os.environ.get("KAJI_TEST_MESSAGES_SEED", "0")) or random.randrange(1, 1_000_000)
KILLS = 5
COUNT = 8


async def test_no_message_is_lost_however_often_controllers_are_killed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every failed run is reported, also one that is deleted at once. A repeated message has the same identifier and
    content. No Run contains any part of the URL."""
    chance = random.Random(SEED)
    async with receiving(chance) as receiver:
        monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 0.2)
        monkeypatch.setattr(outbox, "SPACING_SECONDS", 0.2)
        cluster.use_policy(notifications=RECEIVED)
        await add_channel(cluster, team(cluster.namespace), receiver.url, ("failed",))
        controller = cluster.start_controller()
        names_of_runs = [f"run-{number}" for number in range(COUNT)]

        async def fail(name: str) -> None:
            await cluster.submit(name, restarts=0)
            await cluster.reaches(name, Phase.RUNNING)
            await cluster.behave(f"{name}-1-0", exit_code="1")

        failing = asyncio.gather(*map(fail, names_of_runs))
        for _ in range(KILLS):
            await asyncio.sleep(chance.random() * 1.2)
            await cluster.kill_controller(controller)
            controller = cluster.start_controller()
        await failing
        for name in names_of_runs:
            await cluster.reaches(name, Phase.FAILED)
        await cluster.submit("brief", restarts=0)
        await cluster.reaches("brief", Phase.RUNNING)
        await cluster.behave("brief-1-0", exit_code="1")
        await cluster.reaches("brief", Phase.FAILED)
        await cluster.client.delete(RUNS, "brief", cluster.namespace)
        wanted = {*names_of_runs, "brief"}
        await cluster.until(
            lambda: receiver.about("failed").keys() >= wanted,
            f"all are told (KAJI_TEST_MESSAGES_SEED={SEED}; {sorted(receiver.about('failed'))})",
        )
        contents: dict[str, dict[str, Any]] = {}
        for one, body in receiver.got:
            assert contents.setdefault(one, body) == body, "one id stands for one content"
        told = [one for one, body in contents.items() if body["type"] != "run.digest"]
        assert len(receiver.got) - len(contents) <= KILLS, "at most what was under way at a kill is repeated"
        assert len({contents[one]["run"] for one in told}) == len(told), "no run has two messages"
        assert "s3cr3t" not in json.dumps(
            [await cluster.client.get(RUNS, name, cluster.namespace) for name in names_of_runs]
        )
