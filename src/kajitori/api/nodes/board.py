"""The GPU board: total and free GPUs of each type, and which runs, users and teams hold the rest."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from fastapi import APIRouter, Depends
from starlette.requests import HTTPConnection
from starlette.responses import Response

from kajitori.api.auth import Caller, address_of, authenticated
from kajitori.api.context import Api, Shared, describes
from kajitori.api.nodes.pools import pool_views
from kajitori.api.rendering.nodes import gpu_amounts
from kajitori.api.views.nodes import (
    Amount,
    BoardHolding,
    GpuBoard,
    GpuHolding,
    GpuTeam,
    GpuType,
    GpuUser,
    GuaranteeView,
    PublicBoard,
)
from kajitori.cluster.objects import Node
from kajitori.core.formats.node_lists import compress_set
from kajitori.core.formats.times import format_time
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.core.queue.explain import Use
from kajitori.core.queue.guarantees import Holding
from kajitori.errors import Busy

router = APIRouter(tags=["cluster"])

PUBLIC_SECONDS = 10
"""Time for which readers may keep the public board."""


_signed_in = asynccontextmanager(authenticated)


async def reads_board(api: Shared, connection: HTTPConnection) -> AsyncIterator[None]:
    """Dependency of the board: anybody may read it if policy says so, else users who are signed in.

    Raises Busy if an address without credentials reads the public board too often.
    """
    if api.cluster.policy.board == "public" and "authorization" not in connection.headers:
        address, now = address_of(connection), time.monotonic()
        if api.callers.board.is_spent(address, now):
            raise Busy("your address reads the board too often", hint=f"read it every {PUBLIC_SECONDS} s")
        api.callers.board.count(address, now)
        yield
        return
    async with _signed_in(connection):
        yield


@router.get(
    "/v1/board",
    responses=describes(PublicBoard),
    dependencies=[Depends(reads_board)],
    summary="Free and used GPUs, and their owners",
)
async def show_public_board(api: Shared) -> Response:
    """For pages that everybody sees. Needs no sign-in if policy says `board: public`. Has no names of runs, nodes,
    images or commands."""
    return board_answer(api, api.remembered.get("board", lambda: msgspec.json.encode(public_board(api))))


def board_answer(api: Api, body: bytes) -> Response:
    """Return a part of the board as an answer that readers may keep for a moment."""
    caching = "public" if api.cluster.policy.board == "public" else "private"
    headers = {"Cache-Control": f"{caching}, max-age={PUBLIC_SECONDS}"}
    return Response(body, media_type="application/json", headers=headers)


def public_board(api: Api) -> PublicBoard:
    """Return the current board without anything that only users may see."""
    current = board(api)
    held: dict[tuple[str, str, str, str], BoardHolding] = {}
    for user in current.users:
        for run in user.runs:
            row = BoardHolding(
                owner=user.owner,
                namespace=run.namespace if run.is_run else "",
                type=run.type,
                gpus=run.gpus,
                idle=run.idle,
                since=run.since,
            )
            holding = held.setdefault((row.owner, row.namespace, row.type, row.since), row)
            if holding is not row:
                holding.gpus += row.gpus
                holding.idle += row.idle
    holdings = sorted(held.values(), key=lambda row: (-row.gpus, row.owner, row.since))
    return PublicBoard(at=format_time(api.now()), types=current.types, holdings=holdings)


@router.get("/v1/gpus", responses=describes(GpuBoard), summary="GPUs by type and by user")
async def show_board(api: Shared, user: Caller) -> Response:
    """Every authenticated user sees which user holds which GPUs."""
    body = api.remembered.get("gpus", lambda: msgspec.json.encode(board(api)))
    return Response(body, media_type="application/json")


@dataclass(slots=True)
class _Holding:
    """GPUs of one type that one run, or one Pod outside of Kajitori, holds."""

    name: str
    namespace: str
    owner: str
    type: str
    is_run: bool
    gpus: int = 0
    nodes: list[str] = field(default_factory=list)
    since: str = ""
    idle: int = 0

    def add(self, use: Use) -> None:
        """Add the GPUs that the holder uses on one more node."""
        self.gpus += use.gpus
        if use.node not in self.nodes[-1:]:
            self.nodes.append(use.node)
        if use.since and (not self.since or use.since < self.since):
            self.since = use.since

    def view(self) -> GpuHolding:
        """Return the view that answers contain."""
        return GpuHolding(
            name=self.name,
            namespace=self.namespace,
            is_run=self.is_run,
            gpus=self.gpus,
            type=self.type,
            idle=self.idle,
            nodes=compress_set(self.nodes),
            since=self.since,
        )


def board(api: Api) -> GpuBoard:
    """Return the current GPU board."""
    types: dict[str, GpuType] = {}
    holdings: dict[tuple[str, str], _Holding] = {}  # by holder and type
    promised = api.cluster.promised_uses()
    for facts in api.cluster.table().nodes:
        node = api.mirror.nodes.get(facts.name)
        if node is None:
            continue
        uses = [use for use in (*api.cluster.uses(facts.name), *promised.get(facts.name, ())) if use.gpus]
        whole_type = facts.gpu_type or api.cluster.policy.gpu.type_of(node.metadata.labels)
        for gpu_type, installed, offered, used in _by_type(api, facts, node, uses, whole_type):
            free = max(0, offered - used) if facts.takes_work else 0
            total = max(installed, used)
            row = types.setdefault(gpu_type, GpuType(type=gpu_type, total=0, used=0, idle=0, free=0, broken=0))
            row.total += total
            row.used += used
            row.free += free
            row.broken += total - used - free
        for use in uses:
            _holding_of(use, use.gpu_type or whole_type, holdings).add(use)
    _count_idle(api, types, holdings.values())
    in_order = sorted(types.values(), key=lambda row: (-row.total, row.type))
    return GpuBoard(
        types=in_order,
        users=_users(holdings.values()),
        teams=_teams(holdings.values()),
        guarantees=[guarantee_view(holding) for holding in api.queue.preemptions.guarantees(api.now())],
        pools=pool_views(api),
    )


def _count_idle(api: Api, types: Mapping[str, GpuType], holdings: Iterable[_Holding]) -> None:
    """Count the idle GPUs of runs, by run and by type."""
    left = {key: api.runs.idle.gpus_of(key) for key in api.runs.idle.keys}
    for holding in holdings:
        key = holding.namespace, holding.name
        if not holding.is_run or not left.get(key):
            continue
        holding.idle = min(holding.gpus, left[key])
        left[key] -= holding.idle
        if holding.type in types:
            types[holding.type].idle += holding.idle


def _by_type(
    api: Api, facts: NodeFacts, node: Node, uses: Sequence[Use], whole_type: str
) -> Iterator[tuple[str, int, int, int]]:
    """Yield the GPU types of a node, each with the number of installed, offered and used GPUs."""
    amounts = dict(gpu_amounts(api.cluster, facts, uses))
    if not any(offer.is_whole for offer in amounts) and not facts.is_by_devices:  # broken ones are not offered
        installed = _count(node.status.capacity.get(api.cluster.policy.gpu.resource, ""))
        used = sum(use.gpus for use in uses if use.gpu_type in ("", whole_type))
        if installed or used:
            yield whole_type, installed, 0, used
    for offer, amount in amounts.items():
        installed = offer.count
        if offer.is_whole and not facts.is_by_devices:
            installed = max(installed, _count(node.status.capacity.get(api.cluster.policy.gpu.resource, "")))
        yield offer.type, installed, offer.count, amount.used


def guarantee_view(holding: Holding) -> GuaranteeView:
    """Return the view of a guarantee and of its use."""
    pairs = zip(holding.guarantee.amounts, holding.held, strict=True)
    cpu, memory, gpus, nodes = (None if total is None else Amount(total=total, used=used) for total, used in pairs)
    return GuaranteeView(
        namespace=holding.guarantee.namespace,
        gpu_type=holding.guarantee.gpu_type,
        gpus=gpus,
        cpu_millis=cpu,
        memory_bytes=memory,
        nodes=nodes,
    )


def _holding_of(use: Use, gpu_type: str, holdings: dict[tuple[str, str], _Holding]) -> _Holding:
    key = use.holder, gpu_type
    if key not in holdings:
        namespace, _, name = use.holder.partition("/")
        holdings[key] = _Holding(name, namespace, use.owner, gpu_type, use.is_run)
    return holdings[key]


def _users(holdings: Iterable[_Holding]) -> list[GpuUser]:
    users = [GpuUser(owner=owner, **sums) for owner, sums in _grouped(holdings, lambda holding: holding.owner)]
    return sorted(users, key=lambda user: (-user.gpus, user.owner))


def _teams(holdings: Iterable[_Holding]) -> list[GpuTeam]:
    runs = (holding for holding in holdings if holding.is_run)
    teams = [GpuTeam(namespace=name, **sums) for name, sums in _grouped(runs, lambda holding: holding.namespace)]
    return sorted(teams, key=lambda team: (-team.gpus, team.namespace))


def _grouped(holdings: Iterable[_Holding], group_of: Callable[[_Holding], str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each group with the GPUs that it holds, and its holders, the largest first."""
    groups: dict[str, list[_Holding]] = defaultdict(list)
    for holding in holdings:
        groups[group_of(holding)].append(holding)
    for name, group in groups.items():
        types: dict[str, int] = defaultdict(int)
        for holding in group:
            types[holding.type] += holding.gpus
        group.sort(key=lambda holding: (-holding.gpus, holding.namespace, holding.name))
        yield (
            name,
            {
                "gpus": sum(types.values()),
                "idle": sum(holding.idle for holding in group),
                "since": min((holding.since for holding in group if holding.since), default=""),
                "types": dict(types),
                "runs": [holding.view() for holding in group],
            },
        )


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0
