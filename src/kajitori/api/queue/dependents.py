"""Why a run waits for other runs, and when it is expected to start: after their expected ends, and its own wait.

When a run will be healthy is not known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import msgspec

from kajitori.api.context import Api
from kajitori.api.views.queue import AfterView, DependentView, ExplanationView
from kajitori.cluster.mirror.mirror import Key
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.stored_runs import life_of
from kajitori.core import gang
from kajitori.core.admission.decide import Decision
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.run import RunSpec
from kajitori.errors import InvalidInput

MOST_ASKED = 6
"""Largest number of runs of a chain for which one answer computes the start. If more are needed, the answer has no
time."""

AskStart = Callable[[PendingRun], Awaitable[float | None]]
"""Returns when a run would start if it was in the queue now, in seconds since the epoch; None if not known."""


def earliest_starts(api: Api, dependents: Iterable[DependentView], ends: Mapping[Key, float]) -> dict[Key, float]:
    """Return when all runs that each dependent waits for are expected to have ended: it cannot start before. Dependents
    for which that is not known are left out.

    ends: expected ends of waiting and running runs, in seconds since the epoch; without those that are not known.
    """
    awaited = {(run.namespace, run.name): [(run.namespace, other.run) for other in run.after] for run in dependents}
    unknown = {(run.namespace, run.name) for run in dependents if any(one.condition == "healthy" for one in run.after)}
    starts, known_ends = dict[Key, float](), dict(ends)
    order = TopologicalSorter(awaited)
    with contextlib.suppress(CycleError):  # runs that wait for each other never become ready
        order.prepare()
    while ready := order.get_ready():
        for key in ready:
            others = awaited.get(key, ())
            if others and key not in unknown and all(other in known_ends for other in others):
                starts[key] = max(known_ends[other] for other in others)
                run = api.mirror.runs.get(key)
                length = api.queue.outlook.past.expect(run) if run is not None else None
                if length is not None and length.sure:
                    known_ends[key] = starts[key] + length.seconds
            order.done(key)
    return starts


async def explanation_of_dependent(
    api: Api, run: RunObject, spec: RunSpec, decision: Decision, ask: AskStart
) -> ExplanationView | None:
    """Return why a run waits for others; None if it does not. The run need not be in the cluster."""
    awaited = api.cluster.dependencies.awaited(run)
    life = life_of(run, spec, decision, run.current_status, awaited)
    status, step = gang.wait_for_runs(life, run.current_status, api.now())
    if step is None or spec.stopped:
        return None
    waiting_status = step.status
    view = ExplanationView(
        phase=waiting_status.phase.value, reason=waiting_status.reason.value, message=waiting_status.message
    )
    estimates = _Estimates(api, ask)
    view.after = []
    for other, state in zip(awaited, status.after, strict=True):
        condition = AfterView(
            run=other.run,
            condition=other.condition,
            phase=other.seen.phase.value if other.seen is not None else "",
            met=bool(state.met_at),
        )
        has_end = not condition.met and other.condition != "healthy"
        ends_at = await estimates.end((run.metadata.namespace, other.run)) if has_end else None
        condition.ends_at = format_time(time_at(ends_at)) if ends_at is not None else msgspec.UNSET
        view.after.append(condition)
    if not waiting_status.phase.is_final:
        starts_at = await estimates.start(run, spec, decision)
        view.expected_at = format_time(time_at(starts_at)) if starts_at is not None else msgspec.UNSET
    return view


class _Estimates:
    """Expected starts and ends of the runs of a chain, each worked out once. None: not known."""

    def __init__(self, api: Api, ask: AskStart) -> None:
        self._api = api
        self._ask = ask
        self._asked = 0
        self._ends: dict[Key, float | None] = {}

    async def start(self, run: RunObject, spec: RunSpec, decision: Decision) -> float | None:
        """Return when a run without an attempt is expected to start: not before the others have ended, and not before
        it would start if it joined the queue now."""
        met = {(state.run, state.condition) for state in run.current_status.after if state.met_at}
        latest = 0.0
        for other in self._api.cluster.dependencies.awaited(run):
            if (other.run, other.condition) in met:
                continue
            is_end = other.condition != "healthy"
            ends_at = await self.end((run.metadata.namespace, other.run)) if is_end else None
            if ends_at is None:
                return None
            latest = max(latest, ends_at)
        pending = self._api.queue.pending.would_be(run, spec, decision, self._api.now(), after_others=True)
        self._asked += 1
        if pending is None or self._asked > MOST_ASKED:
            return None
        own = await self._ask(pending)
        return max(latest, own) if own is not None else None

    async def end(self, key: Key) -> float | None:
        """Return when a run is expected to have ended; None if too little is known about it."""
        if key not in self._ends:
            self._ends[key] = None  # the answer for runs that wait for each other
            self._ends[key] = await self._work_out_end(key)
        return self._ends[key]

    async def _work_out_end(self, key: Key) -> float | None:
        api, run = self._api, self._api.mirror.runs.get(key)
        if run is None or run.metadata.deletion_timestamp or run.current_status.phase.is_final:
            return None
        spec, now, past = api.cluster.specs.of(run), api.now().timestamp(), api.queue.outlook.past
        if spec.is_service or spec.is_notebook:
            return None
        held = api.cluster.occupancy.gang(key)
        if held is not None and held.since is not None:
            more = past.expect_more(run, held.since, now)
            return now + more.seconds if more.sure else None
        length = past.expect(run)
        if not length.sure:
            return None
        if run.current_status.phase is not Phase.QUEUED:
            return now + length.seconds
        try:
            starts_at = await self.start(run, *api.cluster.decide(run))
        except InvalidInput:
            return None
        return starts_at + length.seconds if starts_at is not None else None
