"""Why a run waits, and when one that is not yet made could start: the planner's own answer to what holds now."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.views import BlockedView, ExplanationView, HolderView, phase_of
from kajitori.core import gang, nodelist
from kajitori.core.decide import Decision
from kajitori.core.explain import Explanation, explain
from kajitori.core.planner import GangRequest, Placement, occupy, place
from kajitori.core.reasons import Phase, Reason
from kajitori.core.run import RunSpec
from kajitori.core.snapshot import Snapshot
from kajitori.core.status import RunStatus
from kajitori.errors import InvalidInput
from kajitori.kube.cluster import life_of
from kajitori.kube.members import member_of
from kajitori.kube.objects import RunObject

router = APIRouter(tags=["runs"])

_WAITS = (Phase.QUEUED, Phase.RESTARTING)


@router.get("/v1/runs/{namespace}/{name}/explain", responses=describes(ExplanationView), summary="Why a run waits")
async def explain_run(api: Shared, user: Caller, namespace: str, name: str) -> Response:
    """What is missing by kind, who holds it, what would start it sooner; for a run that does not wait, its status."""
    return answer(explanation_of(api, await find_run(api, user, namespace, name)))


def explanation_of(api: Api, run: RunObject) -> ExplanationView:
    """The answer for a Run that stands in the cluster."""
    status = run.status or RunStatus(reason=Reason.NOT_PLANNED_YET)
    said = ExplanationView(phase=status.phase.value, reason=status.reason.value, message=status.message)
    if status.phase not in _WAITS:
        return said
    try:
        spec, decision = api.cluster.decide(run)
    except InvalidInput as error:
        said.reason, said.message = Reason.REFUSED.value, error.message
        return said
    needs = _needs(api, run, status, spec, decision)
    if needs is None:
        return said  # it waits for something else than nodes: a pause, or members that are still ending
    request = GangRequest(
        key=_key(run),
        member=decision.request,
        ranks=needs.ranks,
        previous=needs.previous,
        avoid=needs.avoid,
    )
    found, _ = start_of(api, request, phase=status.phase)
    found.reason = found.reason or said.reason
    found.ahead = _ahead(api, run, decision.priority, status)
    return found


def start_of(
    api: Api, request: GangRequest, *, phase: Phase = Phase.QUEUED
) -> tuple[ExplanationView, Placement | None]:
    """What the planner says to a gang now: what it lacks, or where there is room for it."""
    snapshot = _snapshot(api)
    found = place(snapshot, request)
    if not isinstance(found, Placement):
        return _view(phase, explain(snapshot, request, found, api.cluster.uses)), None
    members = len(request.ranks)
    message = f"there is room for it on {nodelist.compress(list(dict.fromkeys(found.nodes)))}"
    view = ExplanationView(phase=phase.value, reason="", message=message, members=members, fit_now=members)
    view.missing, view.held, view.blocked, view.sooner = {}, [], [], []
    return view, found


def _needs(api: Api, run: RunObject, status: RunStatus, spec: RunSpec, decision: Decision) -> gang.NeedsNodes | None:
    """The ranks that need a node now, as the controller sees it."""
    life = life_of(run, spec, decision, status)
    pods = api.mirror.pods_of_run(run.metadata.uid)
    members = [member for pod in pods if (member := member_of(pod, api.mirror.nodes)) is not None]
    step = gang.next_step(life, members, api.now())
    return next((action for action in step.actions if isinstance(action, gang.NeedsNodes)), None)


def _snapshot(api: Api) -> Snapshot:
    """What is free, less what starting runs were promised but no bound Pod shows yet."""
    snapshot = api.cluster.snapshot()
    for promise in api.cluster.promises():
        occupy(snapshot, promise.member, promise.nodes)
    return snapshot


def _ahead(api: Api, run: RunObject, priority: int, status: RunStatus) -> int:
    """Waiting runs that are looked at before this one: higher in priority, or as high and longer in the queue."""
    policy = api.cluster.policy
    values = {word: rules.value for word, rules in policy.priorities.items()}
    mine = (-priority, status.queued_at or run.metadata.creation_timestamp, _key(run))
    count = 0
    for other in api.mirror.runs.values():
        if other.metadata.uid == run.metadata.uid or phase_of(other) not in _WAITS:
            continue
        word = msgspec.json.decode(other.spec, type=_Priority).priority or policy.defaults.priority
        queued_at = (other.status.queued_at if other.status else "") or other.metadata.creation_timestamp
        count += (-values.get(word, 0), queued_at, _key(other)) < mine
    return count


def _key(run: RunObject) -> str:
    return f"{run.metadata.namespace}/{run.metadata.name}"


class _Priority(msgspec.Struct):
    priority: Any = None


def _view(phase: Phase, explanation: Explanation) -> ExplanationView:
    return ExplanationView(
        phase=phase.value,
        reason=explanation.reason.value,
        message=explanation.message,
        members=explanation.members,
        fit_now=explanation.fit_now,
        missing=dict(explanation.missing),
        held=[
            HolderView(
                holder=each.holder,
                owner=each.owner,
                is_run=each.is_run,
                gpus=each.gpus,
                cpu_millis=each.cpu_millis,
                memory_bytes=each.memory_bytes,
                nodes=each.nodes,
                since=each.since,
            )
            for each in explanation.held
        ],
        blocked=[BlockedView(why=each.why, nodes=each.nodes, count=each.count) for each in explanation.blocked],
        sooner=list(explanation.sooner),
    )
