"""The runs that wait for nodes, from the mirror alone: the same as in the controller's queue."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.nodes.pools import Barred
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.cluster.runs.stored_runs import life_of
from kajitori.cluster.view import ClusterView
from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.placement.planner import GangRequest
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.errors import InvalidInput

_BREATH_SECONDS = 0.02
"""Time for which a long queue is read without a pause; in the pauses other requests are answered."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """Policy's decision about a run; None if policy refuses it now."""

    asked: tuple[str, int, int]
    """The Run's UID and generation, and the version of policy and nodes."""
    found: tuple[RunSpec, Decision] | None


class PendingRuns:
    """The waiting runs, for the Web API. Policy decides once for each version of a run, of policy and of the nodes."""

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._decided: dict[str, _Decided] = {}
        """Decisions by the UID of the Run."""

    async def all(self, now: datetime) -> list[PendingRun]:
        """Return all runs that wait for nodes now, in no particular order."""
        found: list[PendingRun] = []
        barred = self._cluster.barred()
        uids = set()
        since = time.monotonic()
        for run in list(self._mirror.runs.values()):
            if _may_wait(run):
                uids.add(run.metadata.uid)
                pending_run = self.of(run, now, barred)
                if pending_run is not None:
                    found.append(pending_run)
                if time.monotonic() - since > _BREATH_SECONDS:
                    await asyncio.sleep(0)
                    since = time.monotonic()
        for uid in self._decided.keys() - uids:
            del self._decided[uid]
        return found

    def of(self, run: RunObject, now: datetime, barred: Barred | None = None) -> PendingRun | None:
        """Return the run's request to the planner; None if the run waits for something else, or if policy refuses
        it."""
        decided = self._decide_on(run)
        return self.would_be(run, *decided, now, barred) if decided is not None else None

    def would_be(
        self,
        run: RunObject,
        spec: RunSpec,
        decision: Decision,
        now: datetime,
        barred: Barred | None = None,
        *,
        after_others: bool = False,
    ) -> PendingRun | None:
        """Return the same for a run with a known decision; the run need not be in the cluster. `after_others`: as if
        the runs that it waits for had ended."""
        after = self._cluster.dependencies.awaited(run) if not after_others else ()
        step = self._next_step(run, spec, decision, after, now)
        needs = next((action for action in step.actions if isinstance(action, gang.NeedsNodes)), None)
        if needs is None:
            return None
        return PendingRun(run, (barred or self._cluster.barred())(request_of(run, decision, needs, step.status)))

    def start_deadline(self, run: RunObject, now: datetime) -> datetime | None:
        """Return when a run that is starting gives its nodes up unless another of its members starts before; None for a
        run that is not starting, or that policy refuses."""
        decided = self._decide_on(run) if run.current_status.phase is Phase.STARTING else None
        return self._next_step(run, *decided, (), now).wake_at if decided is not None else None

    def _next_step(
        self, run: RunObject, spec: RunSpec, decision: Decision, after: tuple[gang.Awaited, ...], now: datetime
    ) -> gang.Step:
        pods = self._mirror.owned_pods(run.metadata.namespace, run.metadata.name, run.metadata.uid)
        members = [member for pod in pods if (member := member_of(pod, self._mirror.nodes)) is not None]
        return gang.next_step(life_of(run, spec, decision, run.current_status, after), members, now)

    def _decide_on(self, run: RunObject) -> tuple[RunSpec, Decision] | None:
        meta = run.metadata
        asked = meta.uid, meta.generation, self._cluster.version
        known = self._decided.get(meta.uid)
        if known is None or known.asked != asked:
            try:
                known = _Decided(asked, self._cluster.decide(run))
            except InvalidInput:
                known = _Decided(asked, None)
            self._decided[meta.uid] = known
        return known.found


def request_of(run: RunObject, decision: Decision, needs: gang.NeedsNodes, status: RunStatus) -> GangRequest:
    """Return the request to the planner of a run that needs nodes."""
    return GangRequest(
        key=f"{run.metadata.namespace}/{run.metadata.name}",
        member=decision.request,
        ranks=needs.ranks,
        previous=needs.previous,
        avoid=needs.avoid,
        priority=decision.priority,
        queued_at=needs.since or status.queued_at,
        fewest=needs.fewest,
        grows=needs.grows,
    )


def _may_wait(run: RunObject) -> bool:
    status = run.status
    if run.metadata.deletion_timestamp or status is None:
        return status is None
    waits = status.phase in (Phase.QUEUED, Phase.RESTARTING)
    return waits or (status.sweep is not None and not status.phase.is_final)
