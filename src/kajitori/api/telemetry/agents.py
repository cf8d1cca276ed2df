"""Routes for agents: they report telemetry, wait for questions, and answer them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from kajitori.api.agents import NodeAgent, require_agent
from kajitori.api.answers.paging import Parameters
from kajitori.api.context import Api, Shared, api_of, describes
from kajitori.api.requests.bodies import require_media_type
from kajitori.core.naming.names import read_pod_name
from kajitori.core.telemetry.bands import RankMinute
from kajitori.core.telemetry.collector import Attempt
from kajitori.core.telemetry.node_figures import Holders
from kajitori.core.telemetry.report import (
    ANSWER_PATH,
    MAX_HOLD_SECONDS,
    MEDIA_TYPE,
    PATH,
    QUESTIONS_PATH,
    MemberMinute,
    NodeMinute,
    Report,
    SavedCheckpoint,
    encode,
    read_answer,
    read_report,
)
from kajitori.kube.resources import PODS, Resource

_HOLD = re.compile(rb"hold=(\d{1,2})")


class QuestionParameters(Parameters):
    hold: int = Field(default=0, ge=0, le=MAX_HOLD_SECONDS)
    """Seconds for which the answer may be held until there is a question."""


class _Direct(APIRoute):
    """A route that does without FastAPI's resolution of dependencies if a request has the parameters that agents send.

    Each node's agent sends three requests a minute, and the resolution took half of the server's processor time for
    them. Every other request is answered in FastAPI's way.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        usual = super().get_route_handler()

        async def handle(request: Request) -> Response:
            arguments = _arguments(self.path, request)
            if arguments is None:
                return await usual(request)
            api, node = api_of(request), request.path_params["node"]
            await require_agent(api, request, node)
            response: Response = await self.endpoint(api=api, node=node, **arguments)
            return response

        return handle


def _arguments(path: str, request: Request) -> dict[str, Any] | None:
    """Return the further arguments of the route of this path; None if FastAPI has to judge the request."""
    query = request.scope["query_string"]
    if path == PATH:
        return {"request": request} if not query else None
    hold = _HOLD.fullmatch(query) if path == QUESTIONS_PATH else None
    if hold is None or int(hold[1]) > MAX_HOLD_SECONDS:
        return None
    return {"query": QuestionParameters(hold=int(hold[1]))}


router = APIRouter(tags=["telemetry"], route_class=_Direct)

_BODY = {"requestBody": {"required": True, "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}


@router.post(
    PATH,
    dependencies=[NodeAgent],
    status_code=204,
    responses=describes(None, status=204),
    openapi_extra=_BODY,
    summary="Report the last minutes of a node and its members",
)
async def take_report(api: Shared, node: str, request: Request) -> Response:
    """For agents, each of which has a token for its own node, and for users who may patch the status of that Node. The
    body is MessagePack (`kajitori.core.telemetry.report`). It also has the minutes of the node itself.

    A report that arrives twice, or at another server, counts once. Members that are not on this node are left out, and
    checkpoints of other ranks than 0, and of sweeps.
    """
    require_media_type(request, (MEDIA_TYPE,))
    report = read_report(await request.body())
    collector, now = api.telemetry.collector, api.now().timestamp()
    for minute in report.minutes:
        if collector.accepts(minute.minute, now) and (place := _place(api, node, minute)) is not None:
            attempt, rank = place
            collector.add(attempt, RankMinute(rank, report.member_names, report.gpu_names, minute))
    for saved in report.saved:
        saved_in = api.telemetry.place_of(saved.uid, node)
        if saved_in is not None and not _is_sweep(api, saved):
            api.telemetry.note_saved(saved_in, saved, now)
    for node_minute in report.node:
        if collector.accepts(node_minute.minute, now):
            api.telemetry.nodes.take(node, node_minute, _holders(api, node, report, node_minute))
    return Response(status_code=204)


def _is_sweep(api: Api, saved: SavedCheckpoint) -> bool:
    """Whether a sweep's member wrote a checkpoint: it says nothing about the other members of its attempt."""
    name = read_pod_name(saved.pod)
    run = api.mirror.runs.get((saved.namespace, name.run)) if name is not None else None
    return run is not None and run.status is not None and run.status.sweep is not None


async def follow_places(api: Api) -> None:
    """Record on which node each gang's rank 0 runs, until cancelled: its last checkpoint may be reported when its Pod
    is deleted already."""

    def note(resource: Resource, namespace: str, name: str) -> None:
        if resource != PODS or not name.endswith("-0"):
            return
        pod = api.mirror.pods.get((namespace, name))
        if pod is None or pod.member is None or not pod.spec.node_name:
            return
        run_uid = api.mirror.run_uid_of(pod)
        if run_uid:
            api.telemetry.note_place(pod.metadata.uid, pod.spec.node_name, Attempt(run_uid, pod.member.attempt))

    unsubscribe = api.mirror.on_change(note)
    try:
        for namespace, name in list(api.mirror.pods):
            note(PODS, namespace, name)
        await asyncio.Event().wait()
    finally:
        unsubscribe()


def _place(api: Api, node: str, minute: MemberMinute) -> tuple[Attempt, int] | None:
    """Return attempt and rank of a member, as this server knows them; None if it is no member on this node."""
    pod = api.mirror.pods.get((minute.namespace, minute.pod))
    if pod is None or pod.metadata.uid != minute.uid or pod.spec.node_name != node or pod.member is None:
        return None
    run_uid = api.mirror.run_uid_of(pod)
    return (Attempt(run_uid, pod.member.attempt), pod.member.rank) if run_uid else None


def _holders(api: Api, node: str, report: Report, minute: NodeMinute) -> Holders:
    """Return the GPUs of each run that held the node in a minute, as this server knows the members."""
    members = {each.uid: each for each in report.minutes}
    found: dict[str, int] = {}
    for uid, gpus in minute.holders.items():
        each = members.get(uid)
        name = read_pod_name(each.pod) if each is not None and _place(api, node, each) is not None else None
        if each is not None and name is not None:
            run = f"{each.namespace}/{name.run}"
            found[run] = found.get(run, 0) | gpus
    return found


@router.get(
    QUESTIONS_PATH,
    dependencies=[NodeAgent],
    responses=describes(None, media_type=MEDIA_TYPE),
    summary="Wait for questions about a node's members",
)
async def questions(api: Shared, node: str, query: Annotated[QuestionParameters, Query()]) -> Response:
    """For agents. The answer is held until a user asks for a member of the node in full resolution."""
    asked = await api.telemetry.lines.wait(node, query.hold)
    return Response(encode(asked), media_type=MEDIA_TYPE)


@router.post(
    ANSWER_PATH,
    dependencies=[NodeAgent],
    status_code=204,
    responses=describes(None, status=204),
    openapi_extra=_BODY,
    summary="Answer a question about a node's members",
)
async def take_answer(api: Shared, node: str, question: str, request: Request) -> Response:
    """For agents. 404 if the question has expired."""
    require_media_type(request, (MEDIA_TYPE,))
    body = await request.body()
    answer = await asyncio.to_thread(read_answer, body)
    api.telemetry.lines.settle(node, question, answer)
    return Response(status_code=204)
