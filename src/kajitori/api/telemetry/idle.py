"""Routes for idle GPUs: what was found, and the owners' answers, which are changes of the run by its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.paging import DEFAULT_LIMIT, MAX_LIMIT, Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.rendering.runs import phase_of, run_view
from kajitori.api.requests.bodies import body_of
from kajitori.api.runs.changes.compare_and_swap import (
    Expected,
    Patch,
    change_run,
    is_resuming,
    without_old_grace,
)
from kajitori.api.runs.routes import readable_namespaces
from kajitori.api.telemetry.live import questions_of
from kajitori.api.telemetry.stacks import running_members
from kajitori.api.views.runs import RunView
from kajitori.api.views.telemetry import IdleGpu, IdleList, IdleReport, IdleRun
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Moment
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.messages.idle_question import (
    cost,
    describe_idle,
    describe_keep_limit,
    gpu_hours,
    idle_seconds,
    kept_by_policy,
)
from kajitori.core.policy.idle import use_of
from kajitori.core.spec.status_parts.suspicions import IdleState
from kajitori.core.telemetry.bands import Place
from kajitori.core.telemetry.idle import idle_places
from kajitori.core.telemetry.report import gpu_columns
from kajitori.errors import InvalidInput, KajitoriError, WrongState

router = APIRouter(tags=["telemetry"])

NODES_KEEP_SECONDS = 3600
MOST_ASKED_RANKS = 256
"""Largest number of ranks about which nodes are asked for one answer, the lowest first."""


class IdleParameters(Parameters):
    namespace: str = Field(default="", max_length=253)
    """Only this namespace; else all that the caller may read."""
    owner: str = Field(default="", max_length=1024)
    """Only runs that this user submitted; `@me` is the caller."""
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    """Largest number of runs."""


class KeepRequest(Document):
    """The answer that a run is still needed."""

    until: Moment
    """Time (RFC 3339) before which its owner is not asked about idle GPUs, and it is not parked. Policy limits it."""


class ReportParameters(Parameters):
    look: bool = True
    """Ask the nodes which GPUs were idle since the GPUs of the run are, for an hour at most."""


@router.get("/v1/idle", responses=describes(IdleList), summary="Runs that hold idle GPUs")
async def list_idle(api: Shared, user: Caller, query: Annotated[IdleParameters, Query()]) -> Response:
    """Runs with GPUs that have not been used for long, the most wasted GPU hours first."""
    readable = await readable_namespaces(api, user, query.namespace)
    owner = user.name if query.owner == "@me" else query.owner
    runs = [api.mirror.runs.get(key) for key in api.runs.idle.keys]
    idle_runs = [
        _view(api, run, run.status.idle)
        for run in runs
        if run is not None
        and run.status is not None
        and run.status.idle is not None
        and (readable is None or run.metadata.namespace in readable)
        and (not owner or run.owner == owner)
    ]
    idle_runs.sort(key=lambda view: (-view.gpu_hours, view.namespace, view.run))
    hours = sum(view.gpu_hours for view in idle_runs)
    return answer(
        IdleList(
            items=idle_runs[: query.limit],
            total=len(idle_runs),
            gpu_hours=hours,
            cost=sum(view.cost for view in idle_runs),
            currency=api.cluster.policy.prices.currency,
        )
    )


@router.get("/v1/runs/{namespace}/{name}/idle", responses=describes(IdleReport), summary="Idle GPUs of a run")
async def report_idle(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[ReportParameters, Query()]
) -> Response:
    """The finding about all GPUs of the run, and which GPUs were idle since then, asked from their nodes, which
    remember an hour."""
    run = await find_run(api, user, namespace, name)
    state = run.status.idle if run.status is not None else None
    report = IdleReport(
        run=run.metadata.name,
        namespace=run.metadata.namespace,
        found=_view(api, run, state) if state is not None else None,
    )
    if query.look:
        began = parse_time(state.since) if state is not None else None
        await _ask_nodes(api, run, report, began.timestamp() if began is not None else 0.0)
    return answer(report)


@router.post(
    "/v1/runs/{namespace}/{name}/keep",
    responses=describes(RunView),
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/KeepRequest"}}}}
    },
    summary="Keep a run with idle GPUs",
)
async def keep_run(
    api: Shared, user: Caller, request: Request, namespace: str, name: str, expected: Expected = ""
) -> Response:
    """Answer that the run is still needed. Before `until` its owner is not asked about idle GPUs, and policy does not
    park it."""
    wanted = await body_of(request, KeepRequest)
    until, now = parse_time(wanted.until), api.now()
    longest = api.cluster.policy.idle_gpus.longest_keep_seconds
    if until is None or until <= now:
        raise InvalidInput.one("until", "is in the past", value=wanted.until, hint="write a later time")
    if until > now + timedelta(seconds=longest):
        message = f"is later than policy allows: {format_duration(longest)} from now"
        hint = f"at most {format_time(now + timedelta(seconds=longest))}; answer again then"
        raise InvalidInput.one("until", message, value=wanted.until, hint=hint)

    def kept(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        _require_active(run, spec, "kept")
        return {"keepIdleUntil": wanted.until}

    return answer(run_view(await change_run(api, user, namespace, name, expected, kept)))


@router.post("/v1/runs/{namespace}/{name}/park", responses=describes(RunView), summary="Park a run")
async def park_run(api: Shared, user: Caller, namespace: str, name: str, expected: Expected = "") -> Response:
    """Stop the run to free its GPUs: its members get SIGTERM and their grace to write a checkpoint. Checkpoint and
    folders are kept. Resume it to start it again."""

    def parked(run: RunObject, spec: dict[str, Any]) -> Patch | None:
        if spec.get("stopped") and spec.get("parked"):
            return None
        _require_active(run, spec, "parked")
        # The later answer counts.
        return {"stopped": True, "parked": True, "keepIdleUntil": None, **without_old_grace(run, spec)}

    return answer(run_view(await change_run(api, user, namespace, name, expected, parked)))


def _require_active(run: RunObject, spec: dict[str, Any], what: str) -> None:
    """Raise WrongState if the run has ended, and was not resumed."""
    phase, name = phase_of(run), run.metadata.name
    if phase.is_final and not is_resuming(run, spec):
        message = f"{name} is {phase.value}: it holds no GPUs, so there is nothing to be {what}"
        raise WrongState(message, hint=f"to start it again: kaji resume {name}")


# ---------------------------------------------------------------------------------------------- views


def _view(api: Api, run: RunObject, state: IdleState) -> IdleRun:
    policy, now, spec = api.cluster.policy, api.now(), api.cluster.specs.of(run)
    kept = kept_by_policy(run.current_status, spec.keep_idle_until)
    limit = describe_keep_limit(run.current_status, spec.keep_idle_until)
    kept_until = format_time(kept) if kept is not None and kept > now else ""
    return IdleRun(
        run=run.metadata.name,
        namespace=run.metadata.namespace,
        owner=run.owner,
        use=use_of(spec.type, has_ports=spec.has_ports).value,
        since=state.since,
        seconds=idle_seconds(state, now),
        gpus=state.gpus,
        gpu_type=state.gpu_type,
        fewest=state.fewest,
        most=state.most,
        confirmed=state.confirmed,
        places=state.places,
        peak_percent=state.peak_percent,
        works=state.works,
        gpu_hours=round(gpu_hours(state, now), 3),
        cost=round(cost(state, now, policy.prices.prices.gpu), 2),
        currency=policy.prices.currency,
        answer=_answer_of(state, kept_until),
        asked_at=state.asked_at,
        kept_until=kept_until,
        park_at=state.park_at,
        says=" ".join(filter(None, (describe_idle(state, now), limit))),
    )


def _answer_of(state: IdleState, kept_until: str) -> str:
    if state.parked_at:
        return "parked"
    if kept_until:
        return "kept"
    if not state.is_proven:
        return "unsure"
    return "warned" if state.warned_at else "asked"


async def _ask_nodes(api: Api, run: RunObject, report: IdleReport, idle_since: float) -> None:
    """Ask the nodes, and add the GPUs that were idle since `idle_since`; nodes remember only the last hour."""
    pods = dict(sorted(running_members(api, run).items())[:MOST_ASKED_RANKS])
    samples: dict[Place, Mapping[str, Sequence[float]]] = {}
    answered: set[int] = set()
    now = round(api.now().timestamp())
    since = max(now - NODES_KEEP_SECONDS, round(idle_since))

    async def ask(node: str, ranks: Mapping[str, int]) -> None:
        with suppress(KajitoriError):
            reply = await api.telemetry.ask(node, tuple(ranks), since, fresh=False)
            for member in reply.members:
                if (rank := ranks.get(member.uid)) is not None:
                    answered.add(rank)
                    samples.update(
                        {Place(rank, gpu): columns for gpu, columns in enumerate(gpu_columns(reply, member))}
                    )

    await asyncio.gather(*(ask(node, ranks) for node, ranks in questions_of(pods)))
    places = await asyncio.to_thread(idle_places, samples, api.cluster.policy.idle_gpus.limits)
    report.looked_seconds = now - since
    report.looked_gpus = len(samples)
    report.silent_ranks = len(pods) - len(answered)
    report.idle_gpus = [
        IdleGpu(rank=place.rank, gpu=place.gpu, node=pods[place.rank].spec.node_name) for place in places
    ]
