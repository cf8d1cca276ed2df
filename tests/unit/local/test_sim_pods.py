"""The loop that looks at simulated Pods."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from kajitori.kube.client import KubeClient
from kajitori.local.sim.pods import SimulatedPods
from kajitori.local.sim.settings import SimSettings

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("steps_later", range(6))
async def test_a_cancellation_is_not_lost_to_news_of_the_same_moment(steps_later: int) -> None:
    """However closely the two follow on each other; a loop that went on would never be ended again."""
    pods = SimulatedPods(cast(KubeClient, None), SimSettings(count=1), {}, lambda: NOW)
    pods._timers.set(("space", "pod"), NOW + timedelta(hours=1))
    task = asyncio.create_task(pods.work())
    await asyncio.sleep(0)
    pods._wake.set()
    for _ in range(steps_later):
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert task.cancelled()
