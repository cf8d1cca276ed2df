"""Routes for lists of nodes: all of them, pages that the server filters and sorts, and a stream of their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.answers.packed import packed_answer
from kajitori.api.answers.paging import (
    SUMMARY,
    Parameters,
    Place,
    ShortName,
    SinceParameters,
    TableParameters,
    labels_of,
    narrowed,
    page_of,
    place_after,
    words_of,
)
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes, describes_table
from kajitori.api.nodes.pools import pool_views
from kajitori.api.nodes.routes import node_views
from kajitori.api.streams.answers import SERVER_SENT_EVENTS
from kajitori.api.streams.live_rows import stream_of
from kajitori.api.streams.node_rows import NodeFilter, NodeRow
from kajitori.api.views.nodes import NodeChanges, NodeList, NodeState, NodeTable, NodeTableRow

router = APIRouter(tags=["cluster"])

ALL_NODES = 100_000
"""Default of `limit`: more nodes than a cluster can have."""

# fmt: off
NodeField = Literal[
    "name", "ready", "schedulable", "draining", "why", "labels", "taints", "gpuType", "gpus", "partialGpus",
    "cpuMillis", "memoryBytes", "pods", "domains", "testable", "test", "createdAt",
]
NodeSort = Literal[
    "name", "state", "gpuType", "freeGpus", "usedGpus", "freeCpu", "freeMemory", "pool", "owner",
    "-name", "-state", "-gpuType", "-freeGpus", "-usedGpus", "-freeCpu", "-freeMemory", "-pool", "-owner",
]
# fmt: on

_STATES = {state: f"{place}" for place, state in enumerate(NodeState)}

_SORT_KEYS: dict[str, Callable[[NodeTableRow], str]] = {
    "name": lambda node: node.name,
    "state": lambda node: _STATES[node.state],
    "gpuType": lambda node: node.gpu_type,
    "freeGpus": lambda node: f"{max(0, node.gpus.total - node.gpus.used):012d}",
    "usedGpus": lambda node: f"{node.gpus.used:012d}",
    "freeCpu": lambda node: f"{max(0, node.cpu_millis.total - node.cpu_millis.used):015d}",
    "freeMemory": lambda node: f"{max(0, node.memory_bytes.total - node.memory_bytes.used):018d}",
    "pool": lambda node: node.pool,
    "owner": lambda node: node.owner,
}


class NodeFilterParameters(Parameters):
    state: list[NodeState] = Field(default_factory=list, max_length=16)
    """Only nodes in one of these states."""
    gpu_type: list[ShortName] = Field(default_factory=list, max_length=64)
    """Only nodes with whole GPUs of one of these types; an empty text stands for nodes without GPUs."""
    pool: list[ShortName] = Field(default_factory=list, max_length=64)
    """Only nodes of these pools of the policy."""
    room: bool = False
    """Only nodes that take work and have a free GPU; of nodes without GPUs, those with free CPU."""
    label_selector: str = Field(default="", max_length=4096)
    """Label selector such as `topology.kubernetes.io/zone=a,!debug`."""
    search: str = Field(default="", max_length=1024)
    """Only nodes with each of these words in their name, GPU type, pool, topology, holders, owner or reason, in upper
    or lower case."""

    @property
    def filter(self) -> NodeFilter:
        """The filter that these parameters ask for. Raises InvalidInput."""
        return NodeFilter(
            states=frozenset(self.state),
            gpu_types=frozenset(self.gpu_type),
            pools=frozenset(self.pool),
            room=self.room,
            words=frozenset(words_of(self.search)),
            selector_text=self.label_selector,
            selector=labels_of(self.label_selector),
        )


class NodeListParameters(TableParameters, NodeFilterParameters):
    limit: int = Field(default=ALL_NODES, ge=1, le=ALL_NODES)
    """Largest number of nodes in one answer."""
    sort: NodeSort | None = None
    """Order of the list; a dash turns it around, and the name decides among equals. Left out: topology order."""
    fields: list[NodeField | Literal["summary"]] = Field(default_factory=list, max_length=32)
    """Only these fields of each node. `summary` alone answers a NodeTable: what a table or a map of nodes shows."""


class NodeChangesParameters(SinceParameters, NodeFilterParameters):
    pass


@router.get(
    "/v1/nodes", responses=describes_table(NodeList, NodeTable, tagged=True), summary="List nodes, in topology order"
)
async def list_nodes(
    api: Shared, user: Caller, request: Request, query: Annotated[NodeListParameters, Query()]
) -> Response:
    """Each with its resources and how much of them is in use; all nodes unless `limit` is given. A table
    (`fields=summary`) is compressed and has an ETag."""
    if not query.model_fields_set:
        body = api.remembered.get("nodes", lambda: msgspec.json.encode(_all_nodes(api)))
        return Response(body, media_type="application/json")
    after = place_after(query, get_args(NodeSort))
    rows, row_filter = api.tables.nodes, query.filter
    covered = [row for row in rows.rows() if row_filter.covers(row)]
    if SUMMARY in query.fields:
        version = rows.token(row_filter)
        return await packed_answer(
            request, version, rows.answers, lambda: _table(api, query, row_filter, covered, after, version)
        )
    page, following = _page(api, query, row_filter, covered, after)
    document: dict[str, Any] = {"counts": row_filter.counts(_states(covered))}
    views = {view.name: view for view in node_views(api)}
    document["items"] = [
        narrowed(msgspec.Raw(msgspec.json.encode(views[row.summary.name])), query.fields)
        for row in page
        if row.summary.name in views
    ]
    pools = pool_views(api)
    document |= ({"continue": following} if following else {}) | ({"pools": pools} if pools else {})
    return answer(document)


def _all_nodes(api: Api) -> NodeList:
    return NodeList(items=list(node_views(api)), pools=pool_views(api))


def _states(rows: Sequence[NodeRow]) -> Counter[NodeState]:
    return Counter(row.state for row in rows)


def _page(
    api: Api, query: NodeListParameters, row_filter: NodeFilter, covered: Sequence[NodeRow], after: Place | None
) -> tuple[list[NodeRow], str]:
    sort, index = query.sort or "", api.cluster.table().index
    key = _SORT_KEYS[sort.removeprefix("-")] if sort else lambda node: f"{index.get(node.name, 0):09d}"
    matching = [row for row in covered if row_filter.matches(row)]
    return page_of(
        matching,
        lambda row: (sort, key(row.summary), "", row.summary.name),
        query,
        after,
        descending=sort.startswith("-"),
    )


def _table(
    api: Api,
    query: NodeListParameters,
    row_filter: NodeFilter,
    covered: Sequence[NodeRow],
    after: Place | None,
    version: str,
) -> bytes:
    page, following = _page(api, query, row_filter, covered, after)
    document = {
        "items": [msgspec.Raw(row.json) for row in page],
        "counts": row_filter.counts(_states(covered)),
        "topology": list(api.cluster.policy.topology),
        "version": version,
    }
    return msgspec.json.encode(document | ({"continue": following} if following else {}))


@router.get(
    "/v1/nodes/changes",
    responses=describes(NodeChanges, media_type=SERVER_SENT_EVENTS),
    summary="Stream changes to a list of nodes",
)
async def watch_nodes(
    api: Shared,
    user: Caller,
    query: Annotated[NodeChangesParameters, Query()],
    last_event_id: Annotated[str, Header(max_length=256)] = "",
) -> Response:
    """Server-sent events: `snapshot` (a NodeSnapshot), `changes` (NodeChanges), at most one a second, and
    `heartbeat`; as of `GET /v1/runs/changes`."""
    chunks = stream_of(api.tables.nodes, query.filter, last_event_id or query.since, items=query.items)
    return api.streams.stream(chunks, kind="nodes", media_type=SERVER_SENT_EVENTS)
