"""Views of node pools that an autoscaler can grow: their nodes, their limit, and the nodes requested of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from kajitori.api.context import Api
from kajitori.api.views.nodes import PoolView
from kajitori.api.views.queue import ExplanationView
from kajitori.cluster.queue.outlook import PendingRun
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import format_time
from kajitori.core.nodes.provisioning import UnplacedRun, demand
from kajitori.core.placement.planner import Shortage
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.spec.reasons import Reason
from kajitori.core.spec.status_parts.node_request import describe_request

_LONG_AGO = format_time(datetime(2000, 1, 1, tzinfo=UTC))


def pool_views(api: Api) -> list[PoolView] | msgspec.UnsetType:
    """Return the policy's pools in its order; UNSET if the policy has no pools."""
    pools = api.cluster.pools
    if not pools:
        return msgspec.UNSET
    kept = api.cluster.kept()
    coming = dict.fromkeys(pools, 0)
    for key, request in api.cluster.node_requests():
        if request.pool in coming:
            arrived = len(kept.get(key, ()))
            coming[request.pool] += max(0, request.granted + request.nodes - arrived)
    return [
        PoolView(
            name=name,
            gpu_type=pool.new_node.gpu_type,
            gpus=pool.new_node.gpus,
            nodes=len(pool.rows),
            max_nodes=pool.rules.max_nodes,
            asked_for=coming[name],
        )
        for name, pool in pools.items()
    ]


def add_node_request(
    api: Api, view: ExplanationView, pending: PendingRun, shortage: Shortage, snapshot: Snapshot
) -> None:
    """Add to an explanation the nodes that the run requests from an autoscaler, now or later, or why it requests
    none."""
    status = pending.run.current_status
    request, key, now = status.node_request, pending.request.key, api.now()
    if request is not None:
        view.node_request = request
        _put_first(view, describe_request(request, now))
    if request is not None and request.is_live:
        view.reason, view.grows = Reason.PROVISIONING_NODES.value, True
        return
    pools = api.cluster.pools
    if not pools:
        return
    if request is not None and request.not_before:
        view.grows = True
        return
    waiting = UnplacedRun(replace(pending.request, queued_at=_LONG_AGO), shortage, status.attempts + 1, request)
    others = [(other, its_request) for other, its_request in api.cluster.node_requests() if other != key]
    outlook = demand([waiting], others, api.cluster.kept(), snapshot, pools, now)
    planned = outlook.changed.get(key)
    if planned is not None and planned.is_live and request is None:
        after = format_duration(pools[planned.pool].rules.ask_after_seconds)
        nodes = f"{planned.nodes} {'node' if planned.nodes == 1 else 'nodes'} of pool {planned.pool}"
        _put_first(view, f"asks for {nodes} when it has waited for {after}")
        view.grows = True
    _put_first(view, outlook.notes.get(key, ""))


def _put_first(view: ExplanationView, words: str) -> None:
    if words:
        view.message = f"{words}; {view.message}"
