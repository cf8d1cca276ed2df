"""Records traffic by hour and the use of address pools by day in history.

Every server records what it knows; what two servers record of one hour is one record. A server that does not know all
agents' reports yet records nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping

from kajitori.api.context import Api
from kajitori.api.traffic.networks import node_use
from kajitori.core.network.use.pools import AddressPool, pools_of
from kajitori.core.traffic.cluster_traffic import ClusterTraffic
from kajitori.core.traffic.history import DAY, HOUR, HourRecord, Key, records_of
from kajitori.errors import KajitoriError
from kajitori.history.store import History

log = logging.getLogger(__name__)

RECORD_SECONDS = 300.0
"""Time between two records of the present hour; the last one replaces those before."""
SETTLE_SECONDS = 300.0
"""Time after its start in which a server hears of all agents, if it has not read their reports from a store."""


class NetworkRecorder:
    """The records of one server."""

    def __init__(self, history: History, began: float) -> None:
        self._history = history
        self._began = began
        self._hour = 0
        self._before: Mapping[Key, HourRecord] = {}
        """The last record of each subject before the present hour."""
        self._thinned_until = 0

    async def record_traffic(self, traffic: ClusterTraffic, now: float, *, kept: bool) -> None:
        """Record the present hour. kept: the traffic also has the reports from before this server started."""
        is_settled = now - self._began >= SETTLE_SECONDS
        if not is_settled and not kept:
            return
        hour = int(now // HOUR * HOUR)
        if hour != self._hour:
            self._before = await self._history.latest_traffic(hour)
            self._hour = hour
        if not self._before:
            if is_settled:
                await self._begin(traffic, hour)
            return
        await self._history.record_traffic(records_of(traffic, self._before, hour, is_first=False))

    async def _begin(self, traffic: ClusterTraffic, hour: int) -> None:
        """Record the present totals in the hour before: what is counted from now on is more than these."""
        records = records_of(traffic, {}, hour - HOUR, is_first=True)
        await self._history.record_traffic(records)
        self._before = {(made.group, made.key): made for made in records}

    async def tidy(self, now: float) -> None:
        """Reduce old records to one per day."""
        while (until := await self._history.thin_traffic(int(now), self._thinned_until)) > self._thinned_until:
            self._thinned_until = until


async def follow(api: Api) -> None:
    """Record traffic and the use of addresses until cancelled, if this server has a history."""
    history = api.stores.history
    if history is None:
        return
    recorder = NetworkRecorder(history, api.now().timestamp())
    while True:
        await asyncio.sleep(RECORD_SECONDS * random.uniform(0.9, 1.0))  # not all servers at once
        now = api.now().timestamp()
        try:
            await recorder.record_traffic(api.traffic.keeper.traffic, now, kept=api.traffic.keeper.kept)
            await recorder.tidy(now)
            await history.record_address_use(await address_pools(api), int(now // DAY))
        except KajitoriError as error:
            log.error("cannot record traffic and the use of addresses now; will try again: %s", error)


async def address_pools(api: Api) -> list[AddressPool]:
    """Return the pools of addresses of this cluster with their present use."""
    networks = api.traffic.networks.current().networks
    nodes = [node_use(api, node) for node in api.mirror.nodes.values()]
    node_addresses = [entry.address for node in api.mirror.nodes.values() for entry in node.status.addresses]
    own = set(node_addresses)
    pods = [
        pod.status.pod_ip
        for pod in api.mirror.pods.values()
        if pod.status.pod_ip and not pod.is_finished and pod.status.pod_ip not in own
    ]
    return await asyncio.to_thread(pools_of, networks, nodes, node_addresses, pods)
