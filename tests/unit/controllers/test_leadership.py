"""A candidate that can no longer renew the Lease ends its process."""

from __future__ import annotations

import asyncio

import pytest

from kajitori.controllers.leadership import Leadership
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig


class BrokenLeadership(Leadership):
    async def _take_lease(self, client: KubeClient) -> bool:
        raise RuntimeError("a bug")


async def test_a_bug_in_the_lease_thread_ends_the_process() -> None:
    async def work(over: asyncio.Event) -> None:
        await over.wait()

    leadership = BrokenLeadership(KubeConfig(server="http://127.0.0.1:1"), "kajitori", "c1")
    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="a bug"):
            await leadership.lead(work, asyncio.Event())
    assert not leadership.leads
