"""Machines with wrong clocks: deadlines are measured by the API server's clock, whichever controller leads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.harness.cluster import Cluster

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.controllers.nodes.silent_nodes import NODE_PATIENCE
from kajitori.core.formats.times import parse_time
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.transport import Environment
from kajitori.kube.resources import RESOURCE_QUOTAS

SLOW_START = {"annotations": {"sim.kajitori.dev/start-delay": "1h"}}
SOON = timedelta(minutes=2)


@contextlib.asynccontextmanager
async def leading(cluster: Cluster, *, hours_fast: int = 0) -> AsyncIterator[None]:
    """A working controller on a machine with a wrong clock; killed at the end."""
    environment = Environment(wall=lambda: time.time() + 3600 * hours_fast)
    config = cluster.server.controller_config
    async with KubeClient(config, environment=environment) as client, Mirror(client) as mirror:
        task = cluster.start_controller(NODE_PATIENCE, client=client, mirror=mirror)
        try:
            yield
        finally:
            await cluster.kill_controller(task)


@pytest.mark.parametrize("hours_fast", [1, -1])
async def test_a_clock_that_is_an_hour_wrong_changes_no_deadline(cluster: Cluster, hours_fast: int) -> None:
    """A controller with a wrong clock takes over from one with a right clock, and another takes over from it. No
    time limit or start deadline ends a run early, no pause lasts an hour, and the written times are those of the API
    server."""
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
