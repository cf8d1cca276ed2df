"""Why a run waits, and what would happen to a run that is not created yet: the planner's own answer."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from kajitori.api.auth import Caller, User
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.nodes.board import guarantee_view
from kajitori.api.nodes.pools import add_node_request
from kajitori.api.queue.dependents import explanation_of_dependent
from kajitori.api.queue.routes import kept_view, place_view
from kajitori.api.queue.state import QueueState, queue_state, stop_watch
from kajitori.api.views.nodes import GuaranteeView
from kajitori.api.views.queue import BlockedView, ExplanationView, HolderView, RoomView, StepView
from kajitori.api.views.server import controller_view
from kajitori.cluster.queue.growable import growable, may_grow
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RunObject
from kajitori.core.admission.decide import Decision
from kajitori.core.admission.quota import members_within, quota_shortage
from kajitori.core.gang.progress import describe_preemptions
from kajitori.core.placement.planner import Placement
from kajitori.core.placement.snapshot import CPU, GPU, MEMORY, PODS
from kajitori.core.queue.cycle import preempt_for_waiting, with_placements
from kajitori.core.queue.elastic import larger_placement
from kajitori.core.queue.explain import Explanation, explain
from kajitori.core.queue.freeing import Simulation, Step, StepKind
from kajitori.core.queue.preemption import EXAMINED_PER_CYCLE
from kajitori.core.queue.what_if import Answer, ask
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.words.nodes import node_lists
from kajitori.core.words.quantities import format_duration
from kajitori.core.words.times import format_time, parse_time, time_at
from kajitori.errors import Forbidden, InvalidInput
from kajitori.kube.resources import RESOURCE_QUOTAS

router = APIRouter(tags=["runs"])

_NO_RUN = "?"
"""A name that no run can have."""


@router.get("/v1/runs/{namespace}/{name}/explain", responses=describes(ExplanationView), summary="Why a run waits")
async def explain_run(api: Shared, user: Caller, namespace: str, name: str) -> Response:
    """Return the missing resources, the runs that hold them and for how long, the exact steps that free them, and what
    would start the run sooner; for a run that does not wait, its status."""
    return answer(await explanation_of(api, await find_run(api, user, namespace, name)))


async def explanation_of(api: Api, run: RunObject) -> ExplanationView:
    """Return the answer for a Run that is in the cluster."""
    return _with_controller(api, await _explanation_of(api, run))


def _with_controller(api: Api, view: ExplanationView) -> ExplanationView:
    """Return the view; while no controller is at work, it says so and has no expected start."""
    leader = api.leader.state()
    if leader.is_absent:
        view.controller, view.expected_at = controller_view(leader), msgspec.UNSET
    return view


async def _explanation_of(api: Api, run: RunObject) -> ExplanationView:
    status = run.status or RunStatus(reason=Reason.NOT_PLANNED_YET)
    said = ExplanationView(phase=status.phase.value, reason=status.reason.value, message=status.message)
    if status.phase in (Phase.QUEUED, Phase.RESTARTING):
        try:
            spec, decision = api.cluster.decide(run)
        except InvalidInput as error:
            said.reason, said.message = Reason.REFUSED.value, error.message
            return said
        dependent = await explanation_of_dependent(api, run, spec, decision, partial(_starts_at, api))
        if dependent is not None:
            return dependent
    pending = api.queue.pending.of(run, api.now())
    if pending is None:
        said.message = said.message or await _growth_of(api, run)
        return said  # it waits for something else, such as a backoff or members that are still ending
    found, _ = await start_of(api, pending, status.phase)
    found.reason = found.reason or said.reason
    return found


async def _starts_at(api: Api, pending: PendingRun) -> float | None:
    """Return when a run would start if it was in the queue now; None if not known."""
    view, found = await start_of(api, pending)
    if found.placement is not None:
        return api.now().timestamp()
    expected_at = parse_time(view.expected_at) if isinstance(view.expected_at, str) else None
    return expected_at.timestamp() if expected_at is not None else None


async def _growth_of(api: Api, run: RunObject) -> str:
    """Return a text about the size of a running elastic gang, and what it needs to grow; empty for other runs."""
    spec, status = api.cluster.specs.of(run), run.status
    if status is None or status.attempt is None or status.phase is not Phase.RUNNING or not spec.is_elastic:
        return ""
    has = status.attempt.world_size
    said = f"{has} of {spec.min_replicas}-{spec.replicas} members"
    gang = growable(api.cluster, run, api.now()) if may_grow(run, spec) else None
    if gang is None:
        return said
    rules, now = api.cluster.policy.elastic, await queue_state(api)
    waiting = [run.request for run in now.pending]
    more = len(larger_placement(now.promised.snapshot, gang.gang, gang.nodes, waiting).nodes) - has
    if not more:
        beside = " beside the waiting runs" if now.pending else ""
        return f"{said}; there is no room for more{beside}"
    room = f"{said}; there is room for {more} more"
    if not rules.grow:
        return f"{room}, and policy lets no gang restart to grow"
    after, least = format_duration(rules.grow_after_seconds), format_duration(rules.minimum_run_seconds)
    return f"{room}: it restarts with them once there has been room for {after} and it has run for {least}"


async def start_of(api: Api, pending: PendingRun, phase: Phase = Phase.QUEUED) -> tuple[ExplanationView, Answer]:
    """Return the planner's answer about a run now, whether or not it is in the queue."""
    now = await queue_state(api, pending)
    async with api.queue.planner:
        found = await asyncio.to_thread(ask, now.simulation, pending.request.key, stop_watch)
    view = _view(api, now.simulation, pending, found, phase)
    view.place = place_view(now.order, pending.request.key)
    view.behind = list(found.shortage.behind) if found.shortage is not None else []
    view.asks, view.guarantees = [], _guarantees_of(api, pending)
    nodes_are_the_same = api.cluster.table() is now.promised.snapshot.table
    if found.shortage is not None and nodes_are_the_same:
        view.asks = _would_ask(api, now, found, pending.request.key)
        add_node_request(api, view, pending, found.shortage, now.simulation.snapshot)
    return view, found


def _guarantees_of(api: Api, pending: PendingRun) -> list[GuaranteeView]:
    """Return the team's guarantees that apply to the run, and how much of them the team uses."""
    namespace, member = pending.run.metadata.namespace, pending.request.member
    return [
        guarantee_view(holding)
        for holding in api.queue.preemptions.guarantees(api.now())
        if holding.guarantee.namespace == namespace and holding.guarantee.covers(gpus=member.gpus, alone=member.alone)
    ]


def _would_ask(api: Api, now: QueueState, found: Answer, key: str) -> list[str]:
    """Return the runs that this run preempts in the next cycle."""
    if found.ahead >= EXAMINED_PER_CYCLE:
        return []
    queue, at = now.simulation.queue[: found.ahead + 1], api.now()
    snapshot = with_placements(now.promised.snapshot, queue, found.schedule.placements)
    running = api.queue.preemptions.running_at(at)
    plan = preempt_for_waiting(snapshot, queue, found.schedule, running, api.cluster.policy, at.timestamp())
    for request in plan.requests:
        if request.key == key:
            return list(dict.fromkeys(victim.key for victim in request.victims))  # often several members of one sweep
    return []


async def start_of_new(
    api: Api, user: User, run: RunObject, spec: RunSpec, decision: Decision
) -> tuple[ExplanationView, Placement | None]:
    """Return the explanation for a run that is not created yet, and the nodes on which it would start. The namespace's
    quotas count if the user may see them. With the name of a waiting run, the answer is for that run's place in the
    queue."""
    meta = run.metadata
    key = f"{meta.namespace}/{meta.name}"
    # A name of no run: nothing that is cached by name may count for this run.
    meta = msgspec.structs.replace(meta, name=_NO_RUN, uid=secrets.token_hex(8))
    unnamed = msgspec.structs.replace(run, metadata=meta, status=None)
    dependent = await explanation_of_dependent(api, unnamed, spec, decision, partial(_starts_at, api))
    if dependent is not None:
        return _with_controller(api, dependent), None
    pending = api.queue.pending.would_be(msgspec.structs.replace(run, metadata=meta), spec, decision, api.now())
    if pending is None:
        return ExplanationView(phase=Phase.STOPPED.value, reason="", message="it is stopped: it asks for nothing"), None
    pending = replace(pending, request=replace(pending.request, key=key))
    view, found = await start_of(api, pending)
    _with_controller(api, view)
    try:
        quotas = (await user.client.list(RESOURCE_QUOTAS, run.metadata.namespace)).items
    except Forbidden:
        return view, found.placement
    template, placement = decision.template, found.placement
    if lacks := quota_shortage(quotas, template, pending.request.least):
        return ExplanationView(phase=view.phase, reason=Reason.QUOTA.value, message=lacks), None
    if placement is not None:
        view.fit_now = members_within(quotas, template, len(placement.ranks))
        placement = replace(placement, ranks=placement.ranks[: view.fit_now], nodes=placement.nodes[: view.fit_now])
    return view, placement


def _preempted_by(run: RunObject) -> str:
    """Return a text about the run that preempted it, if it waits for that reason."""
    asked = run.status.preemption if run.status is not None else None
    return describe_preemptions(asked) if asked is not None else ""


def _view(api: Api, asked: Simulation, pending: PendingRun, found: Answer, phase: Phase) -> ExplanationView:
    request = pending.request
    if found.placement is not None:
        nodes = node_lists.brief(node_lists.compress(list(dict.fromkeys(found.placement.nodes))))
        message = f"there is room for it on {nodes}"
        told = Explanation(Reason.NONE, message, message, request.least, len(found.placement.ranks))
    else:
        assert found.shortage is not None
        told = explain(asked.snapshot, request, found.shortage, api.cluster.uses)
    asks = api.queue.preemptions.describe(request.key)
    # A sweep in the queue waits to start more members, so the end of its present members is not its own.
    waits = {run.gang.key for run in asked.queue}
    there = (occupant for occupant in asked.occupants if not occupant.sweep or occupant.run not in waits)
    ends: dict[str, float] = {}
    for occupant in there:
        ends[occupant.run] = max(ends.get(occupant.run, 0.0), occupant.ends_at)
    is_known = api.queue.outlook.known_ends(api.now())
    view = ExplanationView(
        phase=phase.value,
        reason=told.reason.value,
        message="; ".join(text for text in (_preempted_by(pending.run), asks, told.lacks) if text),
        members=told.members,
        most=len(request.ranks),
        fit_now=told.fit_now,
        missing=dict(told.missing),
        held=[
            HolderView(
                holder=holder.holder,
                owner=holder.owner,
                is_run=holder.is_run,
                gpus=holder.gpus,
                cpu_millis=holder.cpu_millis,
                memory_bytes=holder.memory_bytes,
                nodes=holder.nodes,
                since=holder.since,
                until="" if not is_known(holder.holder) else _time(ends.get(holder.holder, math.inf)),
            )
            for holder in told.held
            if holder.holder != request.key
        ],
        blocked=[BlockedView(why=blocked.why, nodes=blocked.nodes, count=blocked.count) for blocked in told.blocked],
        room=RoomView(
            free=found.room.free,
            reserved=found.room.reserved,
            held=found.room.held,
            cordoned=found.room.cordoned,
            broken=found.room.broken,
        ),
        sooner=list(found.sooner),
        ahead=found.ahead,
    )
    freeing = found.freeing
    view.exact = freeing is None or freeing.least
    if freeing is not None and (freeing.steps or freeing.least):
        view.to_free = [_step_view(api, asked, step, is_known) for step in freeing.steps]
    known = freeing is None or all(is_known(_run_of(step)) for step in freeing.steps)
    if found.expected_at is not None and known:
        view.expected_at = _time(found.expected_at)
    view.kept = kept_view(found.reservation, known=known)
    return view


def _run_of(step: Step) -> str:
    """Return the run (`namespace/name`) that ends, or of which a member ends; for other steps their name."""
    return step.occupant.run if step.occupant is not None else step.name


def _step_view(api: Api, asked: Simulation, step: Step, is_known: Callable[[str], bool]) -> StepView:
    occupant, table = step.occupant, asked.snapshot.table
    rows = sorted(set(occupant.rows.tolist())) if occupant is not None else []
    amounts = occupant.amounts.sum(axis=0).tolist() if occupant is not None else [0] * asked.snapshot.table.width
    is_run = step.kind in (StepKind.RUN, StepKind.MEMBER, StepKind.AHEAD)
    namespace, _, name = _run_of(step).partition("/")
    run = api.mirror.runs.get((namespace, name)) if is_run else None
    return StepView(
        kind=step.kind.value,
        name=step.name,
        run=_run_of(step) if is_run else "",
        owner=run.owner if run is not None else "",
        why=step.why,
        nodes=node_lists.compress([table.nodes[row].name for row in rows]),
        gpus=amounts[GPU] + sum(amounts[PODS + 1 :]),
        cpu_millis=amounts[CPU],
        memory_bytes=amounts[MEMORY],
        until="" if not is_known(_run_of(step)) else _time(step.ends_at),
    )


def _time(seconds: float) -> str:
    """Return the time as text; empty if it is infinite."""
    return format_time(time_at(seconds)) if math.isfinite(seconds) else ""
