"""The traffic of the cluster in a store that servers share."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest
from tests.helpers.memory_blobs import MemoryBlobs
from tests.unit.core.traffic.test_cluster_traffic import NOW, sent, told

from kajitori.blobs.traffic import SHARDS, TrafficBlobs
from kajitori.core.traffic.cluster_traffic import ClusterTraffic
from kajitori.errors import Unavailable


async def test_a_restarted_server_knows_earlier_reports() -> None:
    """It writes nothing that is already stored."""
    blobs = MemoryBlobs()
    before = ClusterTraffic(NOW)
    for number in range(40):
        before.add(told(number, node=f"n{number}"), NOW)
    await TrafficBlobs(blobs, before).sync(NOW)
    assert 1 < len(blobs.held) <= SHARDS
    after = ClusterTraffic(NOW + 60)
    store, held = TrafficBlobs(blobs, after), dict(blobs.held)
    await store.sync(NOW + 60)
    await store.sync(NOW + 60)
    assert after.records() == before.records()
    assert sent(after, "run", "r1") == sum(range(40))
    assert blobs.held == held


@pytest.mark.parametrize("seed", range(20))
async def test_servers_that_write_concurrently_lose_nothing(seed: int) -> None:
    """In any order of their calls: after some rounds all of them, and the store, know everything."""
    chance = random.Random(seed)
    blobs = MemoryBlobs(chance, timedelta(seconds=1))
    servers = [ClusterTraffic(NOW) for _ in range(3)]
    stores = [TrafficBlobs(blobs, traffic) for traffic in servers]
    for step in range(1, 4):
        for number in range(6):
            chance.choice(servers).add(told(step * 10 + number, node=f"n{number}", at=NOW + step), NOW)
        await asyncio.gather(*(store.sync(NOW) for store in stores))
    for store in stores * 2:
        await store.sync(NOW)
    wanted = sum(30 + number for number in range(6))
    fresh = ClusterTraffic(NOW)
    await TrafficBlobs(blobs, fresh).sync(NOW)
    for traffic in (*servers, fresh):
        assert sent(traffic, "run", "r1") == wanted
        assert traffic.records() == fresh.records()


async def test_an_unreadable_record_is_logged_and_kept() -> None:
    blobs = MemoryBlobs()
    await blobs.put("traffic/03", b"?")
    with pytest.raises(Unavailable, match="can't be read") as caught:
        await TrafficBlobs(blobs, ClusterTraffic(NOW)).sync(NOW)
    assert "traffic/" in caught.value.hint
    assert blobs.held["traffic/03"][0] == b"?"
