"""The GPU board: how many there are of each type, how many are free, and who has the others."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, describes
from kajitori.api.node_views import GpuBoard, GpuHolding, GpuType, GpuUser
from kajitori.api.pools import pool_views
from kajitori.core.nodelist import compress

router = APIRouter(tags=["cluster"])


@router.get("/v1/gpus", responses=describes(GpuBoard), summary="GPUs by type and by user")
async def show_board(api: Shared, user: Caller) -> Response:
    """Everybody sees who holds what: that is what a shared cluster's users ask first."""
    body = api.remembered.get("gpus", lambda: msgspec.json.encode(board(api)))
    return Response(body, media_type="application/json")


@dataclass(slots=True)
class _Holding:
    is_run: bool
    gpus: int = 0
    nodes: list[str] = field(default_factory=list)
    since: str = ""


def board(api: Api) -> GpuBoard:
    """The board as it is now."""
    types: dict[str, GpuType] = {}
    holdings: dict[tuple[str, str, str], _Holding] = {}  # by owner, holder, type
    resource = api.cluster.policy.gpu.resource
    for facts in api.cluster.table().nodes:
        node = api.mirror.nodes.get(facts.name)
        if node is None:
            continue
        usage = api.mirror.usage_of(facts.name)
        used = usage.other(resource) if usage is not None else 0
        installed = max(facts.gpus, _count(node.status.capacity.get(resource, "")))
        gpu_type = facts.gpu_type or api.cluster.policy.gpu.type_of(node.metadata.labels)
        if not installed and not used:
            continue
        free = max(0, facts.gpus - used) if facts.in_order else 0
        total = max(installed, used)
        row = types.setdefault(gpu_type, GpuType(type=gpu_type, total=0, used=0, free=0, broken=0))
        row.total += total
        row.used += used
        row.free += free
        row.broken += total - used - free
        if used:
            _hold(api, facts.name, gpu_type, holdings)
    in_order = sorted(types.values(), key=lambda row: (-row.total, row.type))
    return GpuBoard(types=in_order, users=_users(holdings), pools=pool_views(api))


def _hold(api: Api, node: str, gpu_type: str, holdings: dict[tuple[str, str, str], _Holding]) -> None:
    for use in api.cluster.uses(node):
        if not use.gpus:
            continue
        holding = holdings.setdefault((use.owner, use.holder, gpu_type), _Holding(use.is_run))
        holding.gpus += use.gpus
        if node not in holding.nodes[-1:]:
            holding.nodes.append(node)
        if use.since and (not holding.since or use.since < holding.since):
            holding.since = use.since


def _users(holdings: dict[tuple[str, str, str], _Holding]) -> list[GpuUser]:
    by_owner: dict[str, list[GpuHolding]] = defaultdict(list)
    for (owner, holder, gpu_type), holding in holdings.items():
        namespace, _, name = holder.partition("/")
        by_owner[owner].append(
            GpuHolding(
                name=name,
                namespace=namespace,
                is_run=holding.is_run,
                gpus=holding.gpus,
                type=gpu_type,
                nodes=compress(holding.nodes),
                since=holding.since,
            )
        )
    users = []
    for owner, runs in by_owner.items():
        types: dict[str, int] = defaultdict(int)
        for run in runs:
            types[run.type] += run.gpus
        runs.sort(key=lambda run: (-run.gpus, run.namespace, run.name))
        users.append(GpuUser(owner=owner, gpus=sum(types.values()), types=dict(types), runs=runs))
    return sorted(users, key=lambda user: (-user.gpus, user.owner))


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0
