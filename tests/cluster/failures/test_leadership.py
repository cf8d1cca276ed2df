"""Leader election by a Lease, on the embedded server and on a real one."""

from __future__ import annotations

import asyncio

import pytest
from tests.harness.servers.kube_server import KubeServer

from kajitori.controllers.leadership import Leadership, NotLeading
from kajitori.core.leadership import LEASE_NAME, LeaseTimings
from kajitori.kube.resources import LEASES

pytestmark = pytest.mark.conformance

TERMS = LeaseTimings(lease_seconds=3.0, lead_seconds=2.0, interval_seconds=0.1, look_seconds=0.1)


async def test_a_candidate_may_lead_again_after_its_work_failed(kube_server: KubeServer, own_namespace: str) -> None:
    """It released the Lease when its work failed."""
    leadership = Leadership(kube_server.config, own_namespace, "c1", terms=TERMS)
    with pytest.raises(NotLeading):
        leadership.permit()

    async def fails(over: asyncio.Event) -> None:
        raise RuntimeError("a bug")

    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="a bug"):
            await leadership.lead(fails, asyncio.Event())
    with pytest.raises(NotLeading):
        leadership.permit()
    async with kube_server.client() as client:
        lease = await client.get(LEASES, LEASE_NAME, own_namespace)
        assert lease["spec"].get("holderIdentity", "") == ""

    stop, led = asyncio.Event(), asyncio.Event()

    async def works(over: asyncio.Event) -> None:
        assert leadership.permit() > 0
        led.set()
        stop.set()
        await over.wait()

    async with asyncio.timeout(60):
        await leadership.lead(works, stop)
    assert led.is_set()
