"""List the members of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from kajitori.api.answers.paging import PageParameters, decode_token, encode_token
from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.lookup import find_run_or_record
from kajitori.api.rendering.runs import member_view
from kajitori.api.views.runs import MemberList
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.cluster.runs.stored_runs import health_pace_of
from kajitori.core.gang import HealthPace
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import InvalidInput

router = APIRouter(tags=["runs"])


@router.get(
    "/v1/runs/{namespace}/{name}/members", responses=describes(MemberList), summary="The members of a run, by rank"
)
async def list_members(
    api: Shared, user: Caller, namespace: str, name: str, query: Annotated[PageParameters, Query()]
) -> Response:
    """Does not list ranks without a Pod, because the run waits or its Pods were deleted."""
    after = decode_token(query.continue_, int) if query.continue_ else -1
    run = await find_run_or_record(api, user, namespace, name)
    newest = newest_pods(api.mirror.pods_of_run(run))
    ranks = sorted(rank for rank in newest if rank > after)
    pace, now, items = _health_pace(run), api.mirror.now(), []
    for rank in ranks[: query.limit]:
        pod = newest[rank]
        member = member_of(pod, api.mirror.nodes)
        if member is not None:
            items.append(member_view(pod, member, pace, now))
    following = encode_token(ranks[query.limit - 1]) if len(ranks) > query.limit else None
    return answer(MemberList(items=items, continue_=following))


def _health_pace(run: RunObject) -> HealthPace | None:
    """Return the pace of the run's health check; None if it has none, or if its spec is not valid any more."""
    try:
        return health_pace_of(parse_spec(msgspec.json.decode(run.spec)))
    except InvalidInput:
        return None


def newest_pods(pods: Iterable[Pod]) -> dict[int, Pod]:
    """Return, by rank, the Pod of the newest attempt that has one."""
    newest: dict[int, tuple[int, Pod]] = {}
    for pod in pods:
        member = pod.member
        if member is not None and (member.rank not in newest or newest[member.rank][0] < member.attempt):
            newest[member.rank] = (member.attempt, pod)
    return {rank: pod for rank, (_, pod) in newest.items()}
