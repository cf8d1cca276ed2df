"""Stores the results of ended sweep members and the ends of their logs, and then deletes their Pods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta

from kajitori.blobs.results import KeptResults
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.sweep_results import result_of
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.runs.attempts import delete_member, reference_to
from kajitori.controllers.workqueue import Key
from kajitori.core.gang import DeleteMember, Member, MemberState
from kajitori.core.gang.sweep_ledger import Ledger
from kajitori.core.policy.runs.sweeps import Sweeps
from kajitori.errors import KajitoriError
from kajitori.kube.client import KubeClient

log = logging.getLogger(__name__)

AT_ONCE = 32
TRY_AGAIN = timedelta(seconds=15)
"""Time until a record that could not be stored is tried again. Its Pod is kept until then."""


class ResultKeeper:
    """Works beside the run controller, so that a slow node or store delays no start."""

    def __init__(
        self,
        client: KubeClient,
        logs: LogKeeper | None,
        results: KeptResults | None,
        wake: Callable[[Key, timedelta], None],
    ) -> None:
        """`wake` queues a run again after some time. Without `results`, details that are not in the Run are lost."""
        self._client = client
        self._logs = logs
        self._results = results
        self._wake = wake
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """Tasks by the UID of their Pod."""

    def start_removals(
        self,
        run: RunObject,
        actions: Sequence[DeleteMember],
        seen: Sequence[tuple[Pod, Member]],
        rules: Sweeps,
        keep_within_seconds: int,
    ) -> None:
        """Start deleting the Pods of `actions` that are in `seen`, unless that has started already.

        Each deletion waits at most `keep_within_seconds` for its log to be kept.
        """
        by_uid = {pod.metadata.uid: (pod, member) for pod, member in seen}
        ledger = Ledger.of(run.status.sweep if run.status is not None else None)
        for action in actions:
            if action.uid in self._under_way or action.uid not in by_uid:
                continue
            pod, member = by_uid[action.uid]
            is_its_end = member.is_over and ledger.has_ended(member.rank)
            restarts = ledger.restarts.get(member.rank, 0) if is_its_end else None
            self._under_way[action.uid] = asyncio.create_task(
                self._store_and_delete(run, action, pod, member, restarts, rules, keep_within_seconds)
            )

    async def succeeded(self, namespace: str, run_uid: str) -> set[int]:
        """Return the ranks of a run's members that have succeeded according to the store; none without a store."""
        return await self._results.succeeded(namespace, run_uid) if self._results is not None else set()

    async def forget(self, namespace: str, run_uid: str) -> None:
        """Remove the results of a run."""
        if self._results is None:
            return
        try:
            await self._results.forget(namespace, run_uid)
        except KajitoriError as error:  # tidying removes it later
            log.info("results of run %s in %s could not be removed: %s", run_uid, namespace, error)

    async def close(self) -> None:
        """Cancel all tasks; the next leader repeats them."""
        for task in list(self._under_way.values()):
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def _store_and_delete(
        self,
        run: RunObject,
        action: DeleteMember,
        pod: Pod,
        member: Member,
        restarts: int | None,
        rules: Sweeps,
        within_seconds: int,
    ) -> None:
        meta, size = run.metadata, rules.per_member_bytes
        try:
            if self._logs is not None and _is_wanted(member, rules):
                await self._logs.keep_ended(reference_to(run), member, size_bytes=size, within_seconds=within_seconds)
            async with self._slots:
                if self._results is not None and restarts is not None:
                    await self._results.keep(meta.namespace, meta.uid, result_of(pod, member, restarts))
                await delete_member(self._client, run, action)
        except KajitoriError as error:
            log.warning("Pod %s/%s stays for now: %s", meta.namespace, action.pod, error)
            self._wake((meta.namespace, meta.name), TRY_AGAIN)
        finally:
            self._under_way.pop(action.uid, None)


def _is_wanted(member: Member, rules: Sweeps) -> bool:
    """Whether the end of the member's log is kept. A member that never started has no log."""
    if rules.keep_logs == "none" or not member.is_over or not member.started_at:
        return False
    return member.state is MemberState.FAILED or (rules.keep_logs == "all" and member.node_ready)
