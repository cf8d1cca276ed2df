"""The usage of members as a test observes it, to compare with the history."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.harness.cluster import Cluster
from tests.harness.waiting import PATIENCE_SECONDS

from kajitori.cluster.runs.members import member_of
from kajitori.core.spec.status import RunStatus
from kajitori.core.usage.ledger import seconds_between
from kajitori.core.usage.sums import By, Prices
from kajitori.history.store import History
from kajitori.kube.clock import PRECISION_SECONDS
from kajitori.kube.resources import PODS, Resource

ALWAYS = 2**40


class UsageMeter:
    """Notes how long the program of each Pod ran, as its kubelet said, and compares that with a history."""

    def __init__(self, cluster: Cluster, file: Path) -> None:
        self._cluster = cluster
        self._history = History(f"sqlite://{file}")
        self._ran: dict[str, tuple[str, int]] = {}
        """By the Pod's UID: the run's UID, and seconds."""
        self._runs: set[str] = set()

    @contextlib.contextmanager
    def watching(self) -> Iterator[UsageMeter]:
        """As long as the context lasts."""
        unsubscribe = self._cluster.mirror.on_change(self._note)
        try:
            yield self
        finally:
            unsubscribe()

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        mirror = self._cluster.mirror
        pod = mirror.pods.get((namespace, name)) if resource == PODS else None
        member = member_of(pod, mirror.nodes, frozenset()) if pod is not None else None
        if pod is None or member is None or not (member.started_at and member.ended_at):
            return
        run = mirror.run_uid_of(pod)
        if run:
            self._ran[pod.metadata.uid] = run, seconds_between(member.started_at, member.ended_at)

    async def agrees(self) -> int:
        """Wait until history has the usage of all runs that are there, which have ended; return its member-seconds.

        The sum over history's rows is that of the run's status, which holds nothing any more, to the second; and no
        member ran for longer than its run is charged for. The latter compares the kubelet's clock with the API
        server's, which controllers know to a second.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while wrong := await self._differences():
            assert time.monotonic() < deadline, wrong
            await asyncio.sleep(0.1)
        return sum((await self._by_run()).values())

    async def all_removed(self) -> None:
        """Wait until history knows that no run is there any more."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while present := await self._history.present():
            assert time.monotonic() < deadline, present
            await asyncio.sleep(0.1)
        known = {key.rpartition("/")[2] for key in await self._by_run()}
        assert {run for run, _ in self._ran.values()} <= known | self._runs
        await self._history.close()

    async def _differences(self) -> list[str]:
        recorded, wrong = await self._by_run(), []
        for (namespace, name), run in self._cluster.mirror.runs.items():
            status = run.status
            if namespace != self._cluster.namespace or status is None or status.usage is None:
                continue
            self._runs.add(run.metadata.uid)
            held, booked = _total(status), recorded.get(run.metadata.uid, 0)
            ran = sum(seconds for uid, seconds in self._ran.values() if uid == run.metadata.uid)
            pods = sum(uid == run.metadata.uid for uid, _ in self._ran.values())
            if status.usage.open or held != booked or booked + pods * PRECISION_SECONDS < ran:
                wrong.append(f"{name} held {held} s, has {status.usage.open}, is charged {booked} s, ran {ran} s")
        return wrong

    async def _by_run(self) -> dict[str, int]:
        sums = await self._history.usage(By.RUN, 0, ALWAYS, Prices(gpu={}))
        return {key.rpartition("/")[2]: found.member_seconds for key, found in sums.items()}


def _total(status: RunStatus) -> int:
    return sum(total.member_seconds for total in status.usage.totals) if status.usage is not None else 0
