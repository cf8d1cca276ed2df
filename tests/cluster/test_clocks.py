"""Machines whose clocks are wrong: deadlines are judged by the API server's clock, whoever leads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.harness.cluster import Cluster

from kajitori.controllers.nodes.silence import NODE_PATIENCE
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.words.times import parse_time
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.resources import RESOURCE_QUOTAS
from kajitori.kube.transport import Environment

SLOW_START = {"annotations": {"sim.kajitori.dev/start-delay": "1h"}}
SOON = timedelta(minutes=2)


@contextlib.asynccontextmanager
async def leading(cluster: Cluster, *, hours_fast: int = 0) -> AsyncIterator[None]:
    """A controller at work, on a machine whose clock is wrong by so much; killed at the end."""
    environment = Environment(wall=lambda: time.time() + 3600 * hours_fast)
    config = cluster.server.controller_config
    async with KubeClient(config, environment=environment) as client, Mirror(client) as mirror:
        task = cluster.start_controller(NODE_PATIENCE, client=client, mirror=mirror)
        try:
            yield
        finally:
            await cluster.kill_controller(task)


@pytest.mark.parametrize("hours_fast", [1, -1])
async def test_a_controller_whose_clock_is_an_hour_wrong_misjudges_no_deadline(
    cluster: Cluster, hours_fast: int
) -> None:
    """It takes over from one that is right, and hands back: nothing ends for its time limit or start deadline, no pause
    lasts an hour, and what it writes down is the API server's time."""
    cluster.use_policy(inject=SLOW_START, start={"pause": "1s", "longestPause": "1s", "deadline": "30m"})
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "2"}}}
    async with leading(cluster):
        await cluster.submit("limited", timeLimit="30m")
        await cluster.submit("slow")
        await cluster.until(lambda: len(cluster.pods("slow")) == len(cluster.pods("limited")) == 1, "both have a Pod")
        await cluster.behave("limited-1-0", start_delay="0s")
        await cluster.reaches("limited", Phase.RUNNING)
        await cluster.client.create(RESOURCE_QUOTAS, quota, cluster.namespace)
        await cluster.submit("paused")
        await cluster.until(lambda: cluster.status("paused").failed_starts > 0, "a start that was refused")

    cluster.use_policy(start={"pause": "1s", "longestPause": "1s", "deadline": "30m"})
    async with leading(cluster, hours_fast=hours_fast):
        await cluster.client.delete(RESOURCE_QUOTAS, "small", cluster.namespace)
        status = await cluster.reaches("paused", Phase.RUNNING)
        started = parse_time(status.started_at)
        assert started is not None and abs(started - datetime.now(UTC)) < SOON

    async with leading(cluster):
        await cluster.submit("later")
        await cluster.reaches("later", Phase.RUNNING)
    for name, phase in (("limited", Phase.RUNNING), ("slow", Phase.STARTING), ("paused", Phase.RUNNING)):
        assert cluster.status(name).phase is phase, cluster.describe()
    assert (cluster.status("limited").attempts, cluster.status("slow").attempts) == (1, 1)
    assert cluster.status("limited").reason is Reason.NONE
