"""Messages about runs, from a failure to a real HTTP server, while controllers are killed at random moments."""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any

import pytest
from tests.harness.cluster import Cluster
from tests.harness.platform.parts import GPUS
from tests.harness.platform.receiver import RECEIVED, add_channel, receiving

from kajitori.cluster.run_object import RUNS
from kajitori.core.messages import notices, outbox
from kajitori.core.messages.channels import team
from kajitori.core.naming import names
from kajitori.core.spec.notify import KINDS
from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import NODES

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


async def test_an_owner_hears_what_happens_to_a_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A team is told of starts, a preemption, a time limit that is near, a drain and ends, from the event to the
    request. Each may come in a message of its own or as a line of a digest."""
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(notices, "_ahead_seconds", lambda rules, limit: limit)  # the limit is near from the beginning
    monkeypatch.setattr(outbox, "SPACING_SECONDS", 0.1)
    cluster.use_policy(notifications=RECEIVED | {"longWait": "0s"}, preemption={"minimumRunTime": "0s"})
    whole = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
    async with receiving() as receiver:
        await add_channel(cluster, team(cluster.namespace), receiver.url, KINDS)
        cluster.start_controller()
        await cluster.submit("low", replicas=8, resources=whole, priority="low")
        await cluster.reaches("low", Phase.RUNNING)
        await cluster.submit("high", replicas=1, resources=whole, priority="high", timeLimit="1h")
        await cluster.until(lambda: "high" in receiver.about("time-limit"), "the time limit is told")
        await cluster.succeed("high")
        await cluster.reaches("low", Phase.RUNNING, attempt=2)
        await cluster.succeed("low")
        await cluster.submit("one", resources=whole)
        await cluster.reaches("one", Phase.RUNNING)
        (node,) = cluster.nodes_of("one")
        try:
            await cluster.client.patch(NODES, node, drained("ada"))
            await cluster.reaches("one", Phase.RUNNING, attempt=2)
        finally:
            await cluster.client.patch(NODES, node, drained(None))
        wanted = {
            ("low", "started"),
            ("low", "preempted"),
            ("low", "ended"),
            ("high", "time-limit"),
            ("high", "ended"),
            ("one", "drained"),
        }
        await cluster.until(lambda: receiver.texts().keys() >= wanted, f"all of {wanted} are told")
    assert f"for {cluster.namespace}/high" in receiver.texts()["low", "preempted"]


def drained(who: str | None) -> dict[str, Any]:
    """Return the patch of a Node that drains it, or with `who` None puts it back."""
    return {"metadata": {"annotations": {names.ANNOTATION_DRAIN: who}}, "spec": {"unschedulable": bool(who)}}
