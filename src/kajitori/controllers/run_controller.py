"""The run controller: reads the mirror, asks `core` for the next step of each run, and carries it out.

It is level-triggered: every decision follows from the present contents of the mirror, never from the contents of an
event. It may be killed between any two calls, because the intent is written to the Run's status before it is acted on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from kajitori.cluster.background import Work, cancel_all, start_all
from kajitori.cluster.platform.keeping import Keeper
from kajitori.controllers.changes import Changes
from kajitori.controllers.parts import ClusterParts, NodeParts, QueueParts, RecordParts, RunParts
from kajitori.controllers.reconciler import Reconciler
from kajitori.controllers.records.node_audit import NodeAudit
from kajitori.controllers.records.tidying import expire_forever, tidy_forever
from kajitori.controllers.records.upkeep import keep_up_forever
from kajitori.controllers.workqueue import WorkQueue
from kajitori.errors import KajitoriError

log = logging.getLogger(__name__)


class RunController:
    """Drives every Run of the cluster from Queued to its end."""

    def __init__(
        self,
        cluster: ClusterParts,
        work: WorkQueue,
        changes: Changes,
        reconciler: Reconciler,
        *,
        runs: RunParts,
        queue: QueueParts,
        nodes: NodeParts,
        records: RecordParts,
        keepers: Sequence[Keeper[Any]],
    ) -> None:
        """`changes` fills `work` as the cluster changes, and `reconciler` does that work. `keepers` apply the objects
        that follow from the policy file."""
        self._cluster = cluster
        self._mirror = cluster.mirror
        self._work = work
        self._changes = changes
        self._reconciler = reconciler
        self._runs = runs
        self._queue = queue
        self._nodes = nodes
        self._records = records
        self._keepers = keepers

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, once. Calls that have begun end within the client's time limits."""
        end_changes = self._changes.follow()
        stopping = asyncio.create_task(stop.wait())
        background = start_all(self._background_work())
        self._cluster.metrics.terms.inc()
        try:
            await self._take_over()
            while not stop.is_set():
                # 1. Wait until something changed or is due, then for the burst to settle.
                await self._work.wait(stopping, self._changes.due, self._queue.planning.rest_seconds())
                # 2. Decide the next step of each changed run and carry it out. Runs do not wait for each other.
                self._changes.catch_up()
                for key in self._work.take(self._changes.is_new):
                    self._work.begin(key, partial(self._reconciler.reconcile, key))
                # 3. Plan all waiting runs as one queue.
                self._queue.planning.plan()
        finally:
            self._cluster.metrics.waiting_runs.set(0)
            end_changes()
            self._queue.planning.close()
            await asyncio.gather(cancel_all((stopping, *background)), self._work.close())
            await self._records.close()

    def _background_work(self) -> tuple[Work, ...]:
        """Return the work that goes on beside the loop until it is cancelled."""
        mirror, view, records = self._mirror, self._cluster.view, self._records
        return (
            self._cluster.events.run,
            self._runs.networks.follow,
            self._runs.readers.follow,
            self._queue.provisioning.follow,
            self._queue.planning.grow_forever,
            self._nodes.health.keep_forever,
            *(keeper.keep_forever for keeper in self._keepers),
            partial(records.peaks.ask_forever, lambda: view.policy),
            partial(tidy_forever, mirror, view, records.logs, records.code, outlives=records.history is not None),
            *self._history_work(),
            *((records.messages.follow,) if records.messages is not None else ()),
            partial(expire_forever, mirror, view, self._cluster.now, self._work.add),
        )

    def _history_work(self) -> tuple[Work, ...]:
        keeper, view = self._records.history, self._cluster.view
        feed = self._records.feed
        if keeper is None or feed is None:
            log.warning("running runs are not watched for hangs and idle GPUs: that needs history, see --history")
            return ()
        upkeep = partial(
            keep_up_forever, keeper.history, keeper, self._cluster.now, lambda: view.policy.history.keep_for_seconds
        )
        nodes = NodeAudit(keeper.history, self._mirror, self._cluster.now)
        return keeper.follow, upkeep, nodes.follow, feed.follow

    async def _take_over(self) -> None:
        """Read everything as the last leader left it, and queue it."""
        await self._mirror.wait_synced()
        await self._mirror.wait_fresh()  # another controller may have led until now
        await self._mirror.set_clock()  # all controllers use the API server's time
        await self._learn_key()
        self._queue.planning.takeover.begin(self._mirror.runs)
        self._changes.note_all()

    async def _learn_key(self) -> None:
        """Read the signing key first: it identifies members that lost their owner reference."""
        try:
            await self._runs.key.read()
        except KajitoriError as error:
            log.warning("the signing key can't be read; members are identified by owner references alone: %s", error)
