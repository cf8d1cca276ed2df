"""Pools that grow on request, waiting gangs, and their requests for nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from kajitori.core.formats.times import format_time
from kajitori.core.nodes.provisioning import Answer, Demand, Pool, UnplacedRun, reserved_nodes
from kajitori.core.nodes.provisioning import demand as demand_of
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import GangRequest, MemberRequest, Shortage, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.nodes.pools import NodePool
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState

NOW = datetime(2026, 11, 22, 4, 0, tzinfo=UTC)
LONG_AGO = format_time(NOW - timedelta(days=1))
GIB = 2**30
WHOLE = MemberRequest(cpu_millis=8000, memory_bytes=64 * GIB, gpus=8, gpu_type="h100", whole_node=True)
ASKED, ACCEPTED, PROVISIONED = RequestState.ASKED, RequestState.ACCEPTED, RequestState.PROVISIONED
FAILED, WITHDRAWN, DELIVERED = RequestState.FAILED, RequestState.WITHDRAWN, RequestState.DELIVERED


def rules(name: str = "spot", **fields: Any) -> NodePool:
    """Return a pool of the policy: at most eight nodes of eight GPUs."""
    pool = {
        "nodeSelector": {"pool": name},
        "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "node": {"cpu": 32, "memory": "256Gi", "gpu": 8},
        "maxNodes": 8,
        **fields,
    }
    return parse_policy({"nodePools": {name: pool}}).node_pools[name]


def node(name: str, pool: str = "spot", created: datetime = NOW - timedelta(days=1), **fields: Any) -> NodeFacts:
    """Return a node that a pool added a day ago."""
    facts = rules(pool).new_node(name, "h100", ())
    return replace(facts, created_at=format_time(created), **fields)


def pools(table: NodeTable, *named: tuple[str, NodePool]) -> dict[str, Pool]:
    """Return pools by name with their nodes' rows in the table; by default the pool of `rules`."""
    found = {}
    for name, each in named or (("spot", rules()),):
        rows = np.array([row for row, facts in enumerate(table.nodes) if each.has(facts.labels)], dtype=np.int64)
        found[name] = Pool(name, each, each.new_node(f"{name}/new", "h100", ()), rows)
    return found


def demand(
    wanting: Sequence[UnplacedRun],
    others: Sequence[tuple[str, NodeRequest]],
    snapshot: Snapshot,
    known: Mapping[str, Pool],
    now: datetime,
    *,
    owners: Mapping[str, str] | None = None,
    unavailable: str = "",
) -> Demand:
    """Return the demand as the planning step computes it."""
    requests = [*others, *((each.gang.key, each.request) for each in wanting if each.request is not None)]
    kept = kept_in(snapshot, requests, known, owners)
    return demand_of(wanting, others, kept, snapshot, known, now, unavailable=unavailable)


def kept_in(
    snapshot: Snapshot,
    requests: Iterable[tuple[str, NodeRequest]],
    known: Mapping[str, Pool],
    owners: Mapping[str, str] | None = None,
) -> dict[str, Rows]:
    """Return the nodes that are kept. `owners` are the runs on each used node; unnamed nodes belong to others."""

    def members_of(name: str) -> list[str]:
        used = snapshot.members[snapshot.table.index[name]]
        return [(owners or {}).get(name, "ns/somebody")] if used else []

    return reserved_nodes(requests, known, snapshot.table, members_of)


def gang(members: int, key: str = "ns/bert", *, member: MemberRequest = WHOLE, queued: str = LONG_AGO) -> GangRequest:
    """Return a gang that has waited a day for this number of whole nodes."""
    return GangRequest(key, member, tuple(range(members)), queued_at=queued)


def waits(
    snapshot: Snapshot,
    request: GangRequest,
    record: NodeRequest | None = None,
    answer: Answer | None = None,
    **rest: Any,
) -> UnplacedRun:
    """Assert that the gang does not fit into the snapshot."""
    found = place(snapshot, request)
    assert isinstance(found, Shortage)
    return UnplacedRun(request, found, attempt=1, request=record, answer=answer, **rest)


def empty(*nodes: NodeFacts) -> Snapshot:
    """Return a snapshot of unused nodes."""
    return Snapshot.empty(NodeTable(nodes))


def asked_by(answer: Demand, key: str = "ns/bert") -> NodeRequest:
    """Return a gang's request in the answer."""
    return answer.changed[key]


def after(before: NodeRequest, **changes: Any) -> NodeRequest:
    """Return a request after changes."""
    return msgspec.structs.replace(before, **changes)


def first_request(snapshot: Snapshot, members: int = 4, *, now: datetime = NOW) -> NodeRequest:
    """Return the first request of such a gang."""
    return asked_by(demand([waits(snapshot, gang(members))], (), snapshot, pools(snapshot.table), now))
