"""The end of a run's object: its finalizer, and its deletion by a user or because the run ended long ago."""

from __future__ import annotations

import logging
from datetime import timedelta

import msgspec

from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.controllers.parts import ClusterParts, RecordParts, RunParts
from kajitori.controllers.records.history import ASK_AGAIN
from kajitori.controllers.runs.checkpoints import delete_checkpoint
from kajitori.controllers.runs.statuses import STATUS_INTERVAL
from kajitori.controllers.workqueue import Key, WorkQueue
from kajitori.core.formats.times import parse_time
from kajitori.core.naming import names
from kajitori.core.spec.status import RunStatus
from kajitori.errors import Forbidden

log = logging.getLogger(__name__)

EXPIRY_WAITS = timedelta(minutes=1)
"""Time until a removal that waits for history is tried again. It need not be fast: the run is old."""

NOTICES_OF_DELETED = timedelta(minutes=1)
"""Longest time for which the object of a deleted run stays because no outbox can be written."""

END_UNSEEN = timedelta(minutes=1)
"""Longest time for which the object of a deleted run stays because runs that wait for it have not noted how it
ended."""

REMOVAL_REFUSED = timedelta(minutes=10)
"""Time until a removal that the API server refused is tried again. An older role may lack the permission."""


class Removal:
    """Removes the objects of runs, once history and all messages have what they need of them."""

    def __init__(self, cluster: ClusterParts, work: WorkQueue, *, runs: RunParts, records: RecordParts) -> None:
        """`work` is told when a run whose object has to stay is reconciled again."""
        self._client = cluster.client
        self._view = cluster.view
        self._now = cluster.now
        self._work = work
        self._statuses = runs.statuses
        self._budgets = runs.budgets
        self._records = records

    async def add_finalizer(self, run: RunObject) -> None:
        """Keep the object of a run that is deleted until `release` allows its removal."""
        meta = run.metadata
        patch = {
            "metadata": {
                "finalizers": [*meta.finalizers, names.FINALIZER],
                "resourceVersion": meta.resource_version,
            }
        }
        await self._client.patch(RUNS, meta.name, patch, meta.namespace)
        if run.status is None:
            self._statuses.note_attempts(run, 0)

    async def release(self, key: Key, run: RunObject, status: RunStatus, version: str) -> None:
        """Remove the finalizer of a run that is being deleted, and everything that is stored about it and not part of
        history. Does nothing while the object has to stay."""
        if await self._has_to_stay(key, run, status, version):
            return
        meta, history = run.metadata, self._records.history
        if self._records.logs is not None:
            if history is None:
                await self._records.logs.forget(meta.namespace, meta.uid)
            self._records.logs.forget_run(meta.uid)
        if history is None:
            await self._records.results.forget(meta.namespace, meta.uid)
        await self._budgets.keep(run, None)
        await delete_checkpoint(self._client, self._view.policy, meta.namespace, meta.name)
        left = [finalizer for finalizer in meta.finalizers if finalizer != names.FINALIZER]
        patch = {"metadata": {"finalizers": left or None, "uid": meta.uid}}
        await self._client.patch(RUNS, meta.name, patch, meta.namespace)

    async def _has_to_stay(self, key: Key, run: RunObject, status: RunStatus, version: str) -> bool:
        """Whether the object of a deleted run has to stay for now: runs that wait for it have yet to note its end,
        outboxes lack its notices, or history lacks its record. The run is queued again then."""
        history, messages = self._records.history, self._records.messages
        deleted_at = parse_time(run.metadata.deletion_timestamp or "")
        is_recent = deleted_at is not None and self._now() - deleted_at < END_UNSEEN
        if is_recent and self._view.dependencies.has_unseen_end(run, self._now()):
            self._work.wake(key, STATUS_INTERVAL)
            return True
        if messages is not None and not messages.has_all(run, status) and deleted_at is not None:
            if self._now() - deleted_at < NOTICES_OF_DELETED:
                self._work.wake(key, STATUS_INTERVAL)
                return True
            log.warning("run %s/%s is deleted, and its last messages are lost", *key)
        if history is not None and not await history.keep_end(run, status, removed=True, rule="deleted"):
            self._work.wake(key, ASK_AGAIN)
            waits = history.describe_wait()
            if waits != status.removal_waits:
                status_then = msgspec.structs.replace(status, removal_waits=waits)
                await self._statuses.write(run, status_then, version, before=status)
            return True
        return False

    async def delete_expired(self, key: Key, run: RunObject, status: RunStatus, version: str) -> None:
        """Delete a run that ended long ago, unless it has changed since it was read, or history lacks its end."""
        meta, history = run.metadata, self._records.history
        if history is not None and not await history.keep_end(run, status, removed=False, rule="expired"):
            self._work.wake(key, EXPIRY_WAITS)
            return
        try:
            await self._client.delete(
                RUNS, meta.name, meta.namespace, propagation="Background", uid=meta.uid, resource_version=version
            )
        except Forbidden as error:
            log.warning("run %s/%s has ended and is to be removed: %s", *key, error)
            self._work.wake(key, REMOVAL_REFUSED)
