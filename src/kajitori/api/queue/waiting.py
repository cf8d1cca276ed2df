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

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.nodes.board import guarantee_view
from kajitori.api.nodes.pools import add_node_request
from kajitori.api.queue.dependents import explanation_of_dependent
from kajitori.api.queue.routes import kept_view, place_view
from kajitori.api.queue.state import QueueState, queue_state, stop_watch
from kajitori.api.rights import User
from kajitori.api.views.nodes import GuaranteeView
from kajitori.api.views.queue import BlockedView, ExplanationView, HolderView, RoomView, StepView
from kajitori.api.views.server import controller_view
from kajitori.cluster.queue.growable import growable, may_grow
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RunObject
from kajitori.core.admission.decide import Decision
from kajitori.core.admission.quota import members_within, quota_shortage
from kajitori.core.formats import node_lists
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import format_time, parse_time, time_at
from kajitori.core.gang.status.preemptions import describe_preemptions
from kajitori.core.placement.planner import GangRequest, Placement
from kajitori.core.placement.snapshot import CPU, GPU, MEMORY, PODS
from kajitori.core.queue.cycle import preempt_for_waiting, with_placements
from kajitori.core.queue.elastic import larger_placement
from kajitori.core.queue.explain import Explanation, Holder, explain
from kajitori.core.queue.freeing import Simulation, Step, StepKind
from kajitori.core.queue.preemption import EXAMINED_PER_CYCLE
from kajitori.core.queue.what_if import Answer, ask
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
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
    view = ExplanationView(phase=status.phase.value, reason=status.reason.value, message=status.message)
    if status.phase in (Phase.QUEUED, Phase.RESTARTING):
        try:
            spec, decision = api.cluster.decide(run)
        except InvalidInput as error:
            view.reason, view.message = Reason.REFUSED.value, error.message
            return view
        dependent = await explanation_of_dependent(api, run, spec, decision, partial(_starts_at, api))
        if dependent is not None:
            return dependent
    pending = api.queue.pending.of(run, api.now())
    if pending is None:
        view.message = view.message or await _growth_of(api, run)
        view.message += _time_to_start(api, run)
        return view  # it waits for something else, such as a backoff or members that are still ending
    waiting_view, _ = await start_of(api, pending, status.phase)
    waiting_view.reason = waiting_view.reason or view.reason
    return waiting_view


def _time_to_start(api: Api, run: RunObject) -> str:
    """Return for how long a run that is starting keeps its nodes; empty for other runs."""
    now = api.now()
    deadline = api.queue.pending.start_deadline(run, now)
    if deadline is None:
        return ""
    left = format_duration(max(0, math.ceil((deadline - now).total_seconds())))
    return f"; if none of its members starts within {left}, its nodes become free and it is tried again later"


async def _starts_at(api: Api, pending: PendingRun) -> float | None:
    """Return when a run would start if it was in the queue now; None if not known."""
    view, plan = await start_of(api, pending)
    if plan.placement is not None:
        return api.now().timestamp()
    expected_at = parse_time(view.expected_at) if isinstance(view.expected_at, str) else None
    return expected_at.timestamp() if expected_at is not None else None


async def _growth_of(api: Api, run: RunObject) -> str:
    """Return a text about the size of a running elastic gang, and what it needs to grow; empty for other runs."""
    spec, status = api.cluster.specs.of(run), run.status
    if status is None or status.attempt is None or status.phase is not Phase.RUNNING or not spec.is_elastic:
        return ""
    has = status.attempt.world_size
    size = f"{has} of {spec.min_replicas}-{spec.replicas} members"
    gang = growable(api.cluster, run, api.now()) if may_grow(run, spec) else None
    if gang is None:
        return size
    rules, now = api.cluster.policy.elastic, await queue_state(api)
    waiting = [run.request for run in now.pending]
    more = len(larger_placement(now.promised.snapshot, gang.gang, gang.nodes, waiting).nodes) - has
    if not more:
        beside = " beside the waiting runs" if now.pending else ""
        return f"{size}; there is no room for more{beside}"
    room = f"{size}; there is room for {more} more"
    if not rules.grow:
        return f"{room}, and policy lets no gang restart to grow"
    after, least = format_duration(rules.grow_after_seconds), format_duration(rules.minimum_run_seconds)
    return f"{room}: it restarts with them once there has been room for {after} and it has run for {least}"


async def start_of(api: Api, pending: PendingRun, phase: Phase = Phase.QUEUED) -> tuple[ExplanationView, Answer]:
    """Return the planner's answer about a run now, whether or not it is in the queue."""
    now = await queue_state(api, pending)
    async with api.queue.planner:
        plan = await asyncio.to_thread(ask, now.simulation, pending.request.key, stop_watch)
    view = _view(api, now.simulation, pending, plan, phase)
    view.place = place_view(now.order, pending.request.key)
    view.behind = list(plan.shortage.behind) if plan.shortage is not None else []
    view.asks, view.guarantees = [], _guarantees_of(api, pending)
    nodes_are_the_same = api.cluster.table() is now.promised.snapshot.table
    if plan.shortage is not None and nodes_are_the_same:
        view.asks = _runs_to_preempt(api, now, plan, pending.request.key)
        add_node_request(api, view, pending, plan.shortage, now.simulation.snapshot)
    return view, plan


def _guarantees_of(api: Api, pending: PendingRun) -> list[GuaranteeView]:
    """Return the team's guarantees that apply to the run, and how much of them the team uses."""
    namespace, member = pending.run.metadata.namespace, pending.request.member
    return [
        guarantee_view(holding)
        for holding in api.queue.preemptions.guarantees(api.now())
        if holding.guarantee.namespace == namespace and holding.guarantee.covers(gpus=member.gpus, alone=member.alone)
    ]


def _runs_to_preempt(api: Api, now: QueueState, plan: Answer, key: str) -> list[str]:
    """Return the runs that this run preempts in the next cycle."""
    if plan.ahead >= EXAMINED_PER_CYCLE:
        return []
    queue, at = now.simulation.queue[: plan.ahead + 1], api.now()
    snapshot = with_placements(now.promised.snapshot, queue, plan.schedule.placements)
    running = api.queue.preemptions.running_at(at)
    preemptions = preempt_for_waiting(snapshot, queue, plan.schedule, running, api.cluster.policy, at.timestamp())
    for request in preemptions.requests:
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
    queued_at = _queued_at(api, run.metadata.namespace, run.metadata.name) or pending.request.queued_at
    pending = replace(pending, request=replace(pending.request, key=key, queued_at=queued_at))
    view, plan = await start_of(api, pending)
    _with_controller(api, view)
    try:
        quotas = (await user.client.list(RESOURCE_QUOTAS, run.metadata.namespace)).items
    except Forbidden:
        return view, plan.placement
    template, placement = decision.template, plan.placement
    if lacks := quota_shortage(quotas, template, pending.request.least):
        return ExplanationView(phase=view.phase, reason=Reason.QUOTA.value, message=lacks), None
    if placement is not None:
        view.fit_now = members_within(quotas, template, len(placement.ranks))
        placement = replace(placement, ranks=placement.ranks[: view.fit_now], nodes=placement.nodes[: view.fit_now])
    return view, placement


def _queued_at(api: Api, namespace: str, name: str) -> str:
    """Return since when a run of this name waits for nodes; empty if none does."""
    run = api.mirror.runs.get((namespace, name))
    waiting = api.queue.pending.of(run, api.now()) if run is not None else None
    return waiting.request.queued_at if waiting is not None else ""


def _preempted_by(run: RunObject) -> str:
    """Return a text about the run that preempted it, if it waits for that reason."""
    asked = run.status.preemption if run.status is not None else None
    return describe_preemptions(asked) if asked is not None else ""


def _view(api: Api, simulation: Simulation, pending: PendingRun, plan: Answer, phase: Phase) -> ExplanationView:
    """Return the planner's answer about a run as answers show it."""
    request, room, freeing = pending.request, plan.room, plan.freeing
    explanation = _explanation(api, simulation, request, plan)
    preempted_by, preempts = _preempted_by(pending.run), api.queue.preemptions.describe(request.key)
    is_known, ends = api.queue.outlook.known_ends(api.now()), _ends_by_run(simulation)
    view = ExplanationView(
        phase=phase.value,
        reason=explanation.reason.value,
        message="; ".join(
            text for text in (preempted_by, preempts, explanation.lacks, _failed_starts(pending.run)) if text
        ),
        members=explanation.members,
        most=len(request.ranks),
        fit_now=explanation.fit_now,
        missing=dict(explanation.missing),
        held=[
            _holder_view(holder, ends.get(holder.holder, math.inf) if is_known(holder.holder) else math.inf)
            for holder in explanation.held
            if holder.holder != request.key
        ],
        blocked=[BlockedView(why=each.why, nodes=each.nodes, count=each.count) for each in explanation.blocked],
        room=RoomView(
            free=room.free, reserved=room.reserved, held=room.held, cordoned=room.cordoned, broken=room.broken
        ),
        sooner=list(plan.sooner),
        ahead=plan.ahead,
    )
    view.exact = freeing is None or freeing.least
    if freeing is not None and (freeing.steps or freeing.least):
        view.to_free = [_step_view(api, simulation, step, is_known) for step in freeing.steps]
    known = freeing is None or all(is_known(_run_of(step)) for step in freeing.steps)
    if plan.expected_at is not None and known:
        view.expected_at = _time(plan.expected_at)
    view.kept = kept_view(plan.reservation, known=known)
    return view


def _explanation(api: Api, simulation: Simulation, request: GangRequest, plan: Answer) -> Explanation:
    """Return what a run lacks, or on which nodes there is room for it."""
    if plan.placement is None:
        assert plan.shortage is not None
        return explain(simulation.snapshot, request, plan.shortage, api.cluster.uses)
    nodes = node_lists.brief(node_lists.compress_set(plan.placement.nodes))
    message = f"there is room for it on {nodes}"
    return Explanation(Reason.NONE, message, message, request.least, len(plan.placement.ranks))


def _ends_by_run(simulation: Simulation) -> dict[str, float]:
    """Return the expected end of each run that has nodes, in seconds since 1970.

    Leaves out sweeps in the queue: they wait to start more members, so the end of the present members is not theirs.
    """
    waiting = {run.gang.key for run in simulation.queue}
    ends: dict[str, float] = {}
    for occupant in simulation.occupants:
        if not occupant.sweep or occupant.run not in waiting:
            ends[occupant.run] = max(ends.get(occupant.run, 0.0), occupant.ends_at)
    return ends


def _holder_view(holder: Holder, ends_at: float) -> HolderView:
    """Return the view of a run or Pod that holds nodes. `ends_at` is its expected end; infinite if it is not known."""
    return HolderView(
        holder=holder.holder,
        owner=holder.owner,
        is_run=holder.is_run,
        gpus=holder.gpus,
        cpu_millis=holder.cpu_millis,
        memory_bytes=holder.memory_bytes,
        nodes=holder.nodes,
        since=holder.since,
        until=_time(ends_at),
    )


def _run_of(step: Step) -> str:
    """Return the run (`namespace/name`) that ends, or of which a member ends; for other steps their name."""
    return step.occupant.run if step.occupant is not None else step.name


def _step_view(api: Api, simulation: Simulation, step: Step, is_known: Callable[[str], bool]) -> StepView:
    """Return the view of a step that has to happen before a run starts.

    `is_known` tells whether the end of a run is known.
    """
    occupant, table = step.occupant, simulation.snapshot.table
    rows = sorted(set(occupant.rows.tolist())) if occupant is not None else []
    amounts = occupant.amounts.sum(axis=0).tolist() if occupant is not None else [0] * table.width
    is_run = step.kind in (StepKind.RUN, StepKind.MEMBER, StepKind.AHEAD)
    namespace, _, name = _run_of(step).partition("/")
    run = api.mirror.runs.get((namespace, name)) if is_run else None
    return StepView(
        kind=step.kind.value,
        name=step.name,
        run=_run_of(step) if is_run else "",
        owner=run.owner if run is not None else "",
        why=step.why or _start_trouble(run),
        nodes=node_lists.compress_set(table.nodes[row].name for row in rows),
        gpus=amounts[GPU] + sum(amounts[PODS + 1 :]),
        cpu_millis=amounts[CPU],
        memory_bytes=amounts[MEMORY],
        until="" if not is_known(_run_of(step)) else _time(step.ends_at),
    )


def _failed_starts(run: RunObject) -> str:
    """Return how often a run did not start although it had nodes, and why not the last time; empty if it did start."""
    status = run.current_status
    if not status.failed_starts:
        return ""
    times = "once" if status.failed_starts == 1 else f"{status.failed_starts} times"
    why = f": {status.notable[0].reason}, {status.notable[0].message}" if status.notable else ""
    return f"it had nodes {times} and did not start{why}"


def _start_trouble(run: RunObject | None) -> str:
    """Return what keeps a run that holds nodes from starting; empty if nothing does."""
    status = run.current_status if run is not None else None
    if status is None or status.phase is not Phase.STARTING or status.reason in (Reason.NONE, Reason.CREATING):
        return ""
    return f"cannot start: {status.reason.value}"


def _time(seconds: float) -> str:
    """Return the time as text; empty if it is infinite."""
    return format_time(time_at(seconds)) if math.isfinite(seconds) else ""
