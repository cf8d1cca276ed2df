"""The queue: the waiting runs in order, with the numbers behind it, and when each is expected to start."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping
from operator import itemgetter

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.queue.state import QueueState, queue_state, stop_watch
from kajitori.api.rendering.runs import phase_of
from kajitori.api.views.queue import (
    AwaitedView,
    DependentView,
    ExpectedView,
    KeptView,
    PlaceView,
    QueuedView,
    QueueView,
)
from kajitori.api.views.server import controller_view
from kajitori.cluster.queue.outlook import PendingRun, QueueOrder
from kajitori.cluster.run_object import RunObject
from kajitori.core.formats.node_lists import compress_set
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.queue.backfill.reservations import Reservation
from kajitori.core.queue.expected import Expectation
from kajitori.core.queue.forecast import Forecast, forecast
from kajitori.core.spec.reasons import Reason

router = APIRouter(tags=["cluster"])

LONGEST_SECONDS = 10.0
"""Maximum age of the answer about a queue that is so long that the answer takes time."""


@router.get(
    "/v1/runs/{namespace}/{name}/expected",
    responses=describes(ExpectedView),
    summary="How long a run is expected to take",
)
async def show_expected(api: Shared, user: Caller, namespace: str, name: str) -> Response:
    """From similar runs of its user, else from its time limit, else from runs of its size."""
    return answer(expected_of(api, await find_run(api, user, namespace, name)))


def expected_of(api: Api, run: RunObject) -> ExpectedView:
    """Return how long a run is expected to take from now on, or from its next start."""
    now = api.now()
    api.queue.outlook.past.refresh()
    gang = api.cluster.occupancy.gang((run.metadata.namespace, run.metadata.name))
    if gang is None or gang.since is None:
        return _expected_view(api.queue.outlook.past.expect(run))
    more = api.queue.outlook.past.expect_more(run, gang.since, now.timestamp())
    return _expected_view(more, ends_at=_time(now.timestamp() + more.seconds))


def _expected_view(expected: Expectation, *, ends_at: str | msgspec.UnsetType = msgspec.UNSET) -> ExpectedView:
    return ExpectedView(
        seconds=round(expected.seconds),
        shortest_seconds=round(expected.shortest),
        expected_from=expected.source.value,
        runs=expected.runs,
        sure=expected.sure,
        goes_on=ends_at is not msgspec.UNSET,
        ends_at=ends_at if expected.sure else msgspec.UNSET,
    )


async def queue_of(api: Api) -> QueueView:
    """Return all runs that wait now."""
    now = await queue_state(api)
    async with api.queue.planner:
        cycle, known_starts = await asyncio.to_thread(_starts, now, _assumed(api, now))
    by_key = {run.request.key: run for run in now.pending}
    rules = api.cluster.policy.queue
    reserved = {reservation.key: reservation for reservation in cycle.now.reservations}
    behind = {shortage.key: shortage.behind for shortage in cycle.now.shortages}
    leader = api.leader.state()
    items = []
    for run in now.order.queue:
        key = run.key
        item = _queued(by_key[key], place_view(now.order, key))
        item.behind, item.kept = list(behind.get(key, ())), kept_view(reserved.get(key), known=key in known_starts)
        if key in known_starts and not leader.is_absent:
            item.expected_at = _time(known_starts[key])
        items.append(item)
    return QueueView(
        order=rules.order,
        formula=rules.formula or "",
        items=items,
        controller=controller_view(leader),
        dependents=_dependents(api),
    )


def _dependents(api: Api) -> list[DependentView]:
    """Return the runs that wait for other runs, by name."""
    dependents = []
    for key, after in sorted(api.cluster.dependencies.waiting(), key=itemgetter(0)):
        run = api.mirror.runs.get(key)
        if run is not None:
            others = [AwaitedView(run=awaited.run, condition=awaited.condition) for awaited in after]
            dependents.append(DependentView(name=key[1], namespace=key[0], owner=run.owner, after=others))
    return dependents


def _assumed(api: Api, now: QueueState) -> set[str]:
    """Return the running and waiting runs whose length is only assumed."""
    is_known, expected = api.queue.outlook.known_ends(api.now()), now.order.expected
    running = {key for key in {occupant.run for occupant in now.simulation.occupants} if not is_known(key)}
    return running | {key for key, expectation in expected.items() if not expectation.sure}


def _starts(now: QueueState, assumed: Collection[str]) -> tuple[Forecast, Mapping[str, float]]:
    """Return the forecast, and those of its starts that do not depend on the end of a run whose length is assumed: they
    come before the first such end, or remain the same if these runs never end."""
    cycle = forecast(now.simulation, stop_watch)
    running = (end.ends_at for held in now.simulation.occupants if held.run in assumed for end in held.endings)
    waiting = (at + now.order.expected[key].seconds for key, at in cycle.starts.items() if key in assumed)
    known_until = min((*running, *waiting), default=math.inf)
    if all(at < known_until for at in cycle.starts.values()):
        return cycle, cycle.starts
    without = forecast(now.simulation.without_ends(assumed), stop_watch).starts
    return cycle, {key: at for key, at in cycle.starts.items() if at < known_until or without.get(key) == at}


def place_view(order: QueueOrder, key: str) -> PlaceView:
    """Return the place of a run in the queue, with its numbers."""
    place, expected = order.place(key), order.expected[key]
    return PlaceView(
        position=place.position,
        of=place.of,
        waited_seconds=round(place.waited_seconds),
        expected_seconds=round(expected.seconds),
        shortest_seconds=round(expected.shortest),
        order_seconds=round(expected.order_seconds),
        expected_from=expected.source.value,
        expected_runs=expected.runs,
        expected_sure=expected.sure,
        size=place.size,
        user_share=place.user_share,
        team_share=place.team_share,
        score=place.score if math.isfinite(place.score) else None,
        overdue=place.overdue,
        bound_seconds=round(place.bound_seconds),
    )


def kept_view(reservation: Reservation | None, *, known: bool) -> KeptView | msgspec.UnsetType:
    """Return the reservation of a run. known: the time of its start depends on no assumed length."""
    if reservation is None:
        return msgspec.UNSET
    nodes = compress_set(reservation.placement.nodes)
    return KeptView(nodes=nodes, expected_at=_time(reservation.starts_at) if known else msgspec.UNSET)


def _queued(applicant: PendingRun, place: PlaceView) -> QueuedView:
    run, request = applicant.run, applicant.request
    return QueuedView(
        name=run.metadata.name,
        namespace=run.metadata.namespace,
        owner=run.owner,
        phase=phase_of(run).value,
        reason=(run.status.reason if run.status is not None else Reason.NOT_PLANNED_YET).value,
        priority=request.priority,
        members=request.least,
        most_members=len(request.ranks),
        gpus=request.member.gpus * request.least,
        gpu_type=request.member.gpu_type,
        place=place,
        behind=[],
    )


def _time(seconds: float) -> str:
    return format_time(time_at(seconds))
