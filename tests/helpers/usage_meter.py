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
    """Records how long the program of each Pod ran according to its kubelet, and compares that with a history."""

    def __init__(self, cluster: Cluster, file: Path) -> None:
        self._cluster = cluster
        self._history = History(f"sqlite://{file}")
        self._ran: dict[str, tuple[str, int]] = {}
        """The run's UID and the seconds of its program, by the Pod's UID."""
        self._runs: set[str] = set()

    @contextlib.contextmanager
    def watching(self) -> Iterator[UsageMeter]:
        """Record until the end of the context."""
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
        """Wait until history has the usage of all runs, which must have ended; return its member-seconds.

        Assert that the sum of a run's rows in history equals the sum in its status to the second, that its status shows
        no nodes in use, and that no member ran for longer than its run is charged for. The last check compares the
        kubelet's clock with the API server's, which controllers know to a second.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while wrong := await self._differences():
            assert time.monotonic() < deadline, wrong
            await asyncio.sleep(0.1)
        return sum((await self._by_run()).values())

    async def all_removed(self) -> None:
        """Wait until history marks all runs as removed."""
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
