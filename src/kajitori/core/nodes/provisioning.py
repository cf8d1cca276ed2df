"""Decide which waiting runs ask an autoscaler for nodes, and which withdraw their request.

A gang that finds no place asks once for all nodes that it lacks, in the order of the queue. It never asks for more than
its pool may have, requests of other runs included. It does not ask while present nodes are enough: nodes that are about
to be ready, or free soon. New nodes are reserved for it until it starts. The decision depends only on the state of the
cluster, so the next leader decides the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec
import numpy as np

from kajitori.core.backoff import backoff_seconds
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import GangRequest, MemberRequest, Shortage, largest_gang, occupy_rows, room_of
from kajitori.core.placement.snapshot import Counts, NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.nodes.pools import NodePool
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState

MESSAGE_LENGTH = 300
"""Characters of an autoscaler's message that a Run's status keeps (rule 8)."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A node pool, with its nodes in the cluster."""

    name: str
    rules: NodePool
    new_node: NodeFacts
    rows: Rows
    """Rows of its nodes in the node table, whatever their state."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An autoscaler's answer to a request."""

    state: RequestState
    message: str = ""


@dataclass(frozen=True, slots=True)
class UnplacedRun:
    """A waiting run that found no place in this cycle."""

    gang: GangRequest
    shortage: Shortage
    attempt: int
    """Number of the attempt that waits."""
    request: NodeRequest | None = None
    """Its last request."""
    answer: Answer | None = None
    """The answer to that request; None if there is no such object."""
    starts_at: datetime | None = None
    """When it is expected to start on the present nodes."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The requests to make, change or withdraw now."""

    changed: Mapping[str, NodeRequest]
    """Requests that differ from those in the runs' statuses, by the gang's key."""
    notes: Mapping[str, str]
    """Why nothing is requested, by the gang's key, if the user should know."""
    look_again_at: datetime | None = None
    """When the decision may change even if nothing else does."""


def reserved_nodes(
    requests: Iterable[tuple[str, NodeRequest]],
    pools: Mapping[str, Pool],
    table: NodeTable,
    runs_on: Callable[[str], Collection[str]],
) -> dict[str, Rows]:
    """Return the reserved nodes of each run, by its key.

    They joined since the run asked, and are at most as many as it asked for. No other run gets them until this one has
    started. The earliest request is served first. `runs_on` returns the keys of the runs with members on a node; a node
    with members of other runs is not reserved.
    """
    kept: dict[str, Rows] = {}
    taken: set[int] = set()
    live = [(key, request) for key, request in requests if request.is_live and request.pool in pools]
    for key, request in sorted(live, key=lambda item: (item[1].first_asked_at, item[0])):
        joined = [
            row
            for row in pools[request.pool].rows.tolist()
            if row not in taken and table.nodes[row].created_at > request.first_asked_at
        ]
        joined = [row for row in joined if not set(runs_on(table.nodes[row].name)) - {key}]
        joined.sort(key=lambda row: table.nodes[row].created_at)
        reserved = joined[: request.granted + request.nodes]
        taken.update(reserved)
        kept[key] = np.array(sorted(reserved), dtype=np.int64)
    return kept


def is_needed(request: NodeRequest, attempts: int, *, starting: bool, used: bool, over: bool) -> bool:
    """Return whether a run still needs its request.

    `attempts` is the number of its last attempt; `starting`: that attempt is not running yet; `used`: the run has
    nodes that were added for it; `over`: it has ended, or is about to end.
    """
    if over:
        return False
    if attempts < request.attempt:
        return True
    is_used = used or request.state is RequestState.PROVISIONED
    return attempts == request.attempt and starting and request.is_live and is_used


def demand(
    unplaced: Sequence[UnplacedRun],
    others: Iterable[tuple[str, NodeRequest]],
    kept: Mapping[str, Rows],
    snapshot: Snapshot,
    pools: Mapping[str, Pool],
    now: datetime,
    *,
    unavailable: str = "",
) -> Demand:
    """Return the requests to make, change or withdraw.

    `unplaced` are all runs that found no place, in the queue's order. `others` are live requests of other runs, for
    example of those that are starting. `kept` has the nodes reserved for each of them. `snapshot` includes the
    placements of this cycle. `unavailable` says why no request is possible, if so.
    """
    return _Planning(unplaced, others, kept, snapshot, pools, now, unavailable).demand()


def members_per_node(pool: Pool, member: MemberRequest, *, cpu_nodes: bool) -> int:
    """Return how many such members fit on a new node of the pool.

    `cpu_nodes`: the cluster has nodes without GPUs, or may get some.
    """
    if member.cpu_runs_on_gpu_nodes == "whenNoOthers":
        member = replace(member, cpu_runs_on_gpu_nodes="never" if cpu_nodes else "always")
    table = NodeTable([pool.new_node])
    return largest_gang(table, member)


def shape_of(gang: GangRequest, rules: NodePool) -> str:
    """Return a digest of what a request asks for: equal for the same members, number and class."""
    member = gang.member
    parts = (
        [member.cpu_millis, member.memory_bytes, member.gpus, 1],
        [member.gpu_type, member.alone],
        sorted(member.node_selector),
        sorted([t.key, t.operator, t.value, t.effect] for t in member.tolerations),
        len(gang.ranks) if gang.fewest is None else gang.least,
        [rules.provisioning_class, sorted(rules.node_selector.items()), sorted(rules.all_parameters.items())],
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def with_failure(request: NodeRequest, message: str, rules: NodePool, now: datetime, *, pools: int = 1) -> NodeRequest:
    """Return the request as failed. Each time all `pools` pools have failed there is a backoff, which grows."""
    failures = request.failures + 1
    rounds, rest = divmod(failures, max(1, pools))
    not_before = ""
    if not rest:
        seconds = backoff_seconds(rounds, rules.pause_seconds, rules.longest_pause_seconds)
        not_before = format_time(now + timedelta(seconds=seconds))
    request = _with_state(request, RequestState.FAILED, message, now)
    return msgspec.structs.replace(request, failures=failures, not_before=not_before)


def _with_state(request: NodeRequest, state: RequestState, message: str, now: datetime) -> NodeRequest:
    since = request.since if state is request.state else format_time(now)
    return msgspec.structs.replace(request, state=state, since=since, message=message[:MESSAGE_LENGTH])


@dataclass(slots=True)
class _Planning:
    """One pass over all unplaced runs."""

    unplaced: Sequence[UnplacedRun]
    others: Iterable[tuple[str, NodeRequest]]
    kept: Mapping[str, Rows]
    snapshot: Snapshot
    pools: Mapping[str, Pool]
    now: datetime
    unavailable: str
    current: dict[str, NodeRequest] = field(default_factory=dict)
    """Present request of each of `unplaced`, as far as this pass has come."""
    notes: dict[str, str] = field(default_factory=dict)
    look_again_at: datetime | None = None
    _remaining: Snapshot = field(init=False)
    """The snapshot without the room that runs with a request rely on."""
    _coming: dict[str, int] = field(default_factory=dict)
    """Nodes that were requested and have not joined yet, by pool."""
    _relied_on: set[int] = field(default_factory=set)
    """Rows of nodes that are about to be ready and that a run waits for instead of asking."""
    _fit: dict[tuple[int, str], int] = field(default_factory=dict)

    def demand(self) -> Demand:
        self._remaining = self.snapshot.copy()
        before = {run.gang.key: run.request for run in self.unplaced if run.request is not None}
        # 1. Review existing requests: answered, failed, or no longer needed.
        for run in self.unplaced:
            if run.request is not None and run.request.attempt == run.attempt:
                self.current[run.gang.key] = self._review_request(run, run.request)
        # 2. Count the nodes that were requested and have not joined yet.
        for key, request in self.others:
            self._expect_nodes(key, request)
        for run in self.unplaced:
            made = self.current.get(run.gang.key)
            if made is not None:
                self._expect_nodes(run.gang.key, made)
        # 3. In the queue's order: reserve the free room that requests rely on, and make new requests.
        for run in self.unplaced:
            made = self.current.get(run.gang.key)
            if made is not None and made.is_live:
                self._reserve_rest(run, made)
            else:
                self._request_nodes(run, made)
        changed = {key: request for key, request in self.current.items() if request != before.get(key)}
        return Demand(changed, self.notes, self.look_again_at)

    # ------------------------------------------------------------------------------------ existing requests

    def _review_request(self, run: UnplacedRun, request: NodeRequest) -> NodeRequest:
        if not request.is_live:
            return request
        pool, gang = self.pools.get(request.pool), run.gang
        if pool is None:
            return self._with_state(request, RequestState.WITHDRAWN, f"policy has no pool {request.pool} any more")
        if request.shape != shape_of(gang, pool.rules):
            return self._with_state(request, RequestState.WITHDRAWN, "the run needs other nodes now")
        joined = self.kept.get(gang.key, _NO_ROWS)
        missing = max(0, request.granted + request.nodes - joined.size)
        if len(pool.rows) + missing > pool.rules.max_nodes:
            return self._with_state(
                request, RequestState.WITHDRAWN, f"the pool may not have more than {len(pool.rows)}"
            )
        if run.answer is not None and run.answer.state is RequestState.FAILED:
            return self._with_failure(run, pool, request, run.answer.message)
        if run.answer is not None and (run.answer.state, run.answer.message) != (request.state, request.message):
            request = self._with_state(request, run.answer.state, run.answer.message)
        if not missing and run.shortage.fit_now < run.shortage.members:
            request = self._all_joined(run, pool, request, joined)
        return self._within_deadline(run, pool, request) if request.is_live else request

    def _all_joined(self, run: UnplacedRun, pool: Pool, request: NodeRequest, joined: Rows) -> NodeRequest:
        """Return the request after all its nodes joined but the gang still has no place.

        The nodes are not ready, have less room than policy says, or some free room was taken by another run.
        """
        table = self.snapshot.table
        is_ready = run.shortage.eligible[joined] & table.usable[joined]
        if not is_ready.all():
            return request
        room = int(room_of(self.snapshot, run.gang.member, is_ready, joined).sum())
        promised = joined.size * self._per_node(pool, run.gang.member)
        if room < min(promised, run.shortage.members):
            message = f"its new nodes have room for {room} of {run.shortage.members} members, policy says {promised}"
            return self._with_failure(run, pool, request, message)
        granted = request.granted + request.nodes
        return msgspec.structs.replace(self._with_state(request, RequestState.DELIVERED, ""), granted=granted)

    def _within_deadline(self, run: UnplacedRun, pool: Pool, request: NodeRequest) -> NodeRequest:
        patience = timedelta(seconds=pool.rules.deadline_seconds)
        provisioned = request.state is RequestState.PROVISIONED
        began = parse_time(request.since if provisioned else request.asked_at) or self.now
        if self.now < began + patience:
            self._decide_by(began + patience)
            return request
        late = "its nodes were not ready" if provisioned else "its nodes did not join"
        own = f" ({request.message})" if request.message else ""
        return self._with_failure(
            run, pool, request, f"{late} within {format_duration(pool.rules.deadline_seconds)}{own}"
        )

    def _with_failure(self, run: UnplacedRun, pool: Pool, request: NodeRequest, message: str) -> NodeRequest:
        """Return the request as failed; after all suitable pools have failed there is a backoff, which grows."""
        return with_failure(request, message, pool.rules, self.now, pools=len(self._suitable_pools(run.gang)))

    def _with_state(self, request: NodeRequest, state: RequestState, message: str) -> NodeRequest:
        return _with_state(request, state, message, self.now)

    # ------------------------------------------------------------------------------------ expected nodes and room

    def _expect_nodes(self, key: str, request: NodeRequest) -> None:
        if request.is_live:
            joined = self.kept.get(key, _NO_ROWS).size
            missing = max(0, request.granted + request.nodes - joined)
            self._coming[request.pool] = self._coming.get(request.pool, 0) + missing

    def _room_by_node(self, run: UnplacedRun) -> Counts:
        """Return (nodes,) how many members fit on each node now, beside the runs that asked before."""
        return room_of(self._remaining, run.gang.member, run.shortage.eligible & self.snapshot.table.usable)

    def _reserve_rest(self, run: UnplacedRun, request: NodeRequest) -> None:
        """Reserve present free room for the members that the request leaves out, so that later runs do not use it."""
        pool = self.pools.get(request.pool)
        if pool is not None:
            asked_for = (request.granted + request.nodes) * self._per_node(pool, run.gang.member)
            self._reserve_room(run, run.shortage.members - asked_for)

    def _reserve_room(self, run: UnplacedRun, members: int) -> None:
        """Reserve free room for at most this many members of the run."""
        room = np.minimum(self._room_by_node(run), max(0, members))
        rows = np.repeat(np.arange(len(room)), room)[: max(0, members)]
        occupy_rows(self._remaining, run.gang.member, rows)

    # ------------------------------------------------------------------------------------ new requests

    def _request_nodes(self, run: UnplacedRun, last: NodeRequest | None) -> None:
        key, lacks = run.gang.key, run.shortage.fit_now < run.shortage.members
        suiting = self._suitable_pools(run.gang) if lacks else []
        not_before = parse_time(last.not_before) if last is not None else None
        if not suiting:
            return
        if not_before is not None and self.now < not_before:
            self._decide_by(not_before)
            return
        names = [pool.name for pool, _ in suiting]
        if last is not None and last.state is RequestState.FAILED and last.pool in names:
            after = names.index(last.pool) + 1
            suiting = suiting[after:] + suiting[:after]
        for pool, per_node in suiting:
            request = self._request_to(run, last, pool, per_node)
            if request is not None:
                self.current[key] = request
                self.notes.pop(key, None)
                if request.is_live:
                    self._expect_nodes(key, request)
                    self._reserve_rest(run, request)
                return

    def _request_to(self, run: UnplacedRun, last: NodeRequest | None, pool: Pool, per_node: int) -> NodeRequest | None:
        """Return the request to this pool; None if it cannot help, or present nodes will be enough."""
        patience = timedelta(seconds=pool.rules.ask_after_seconds)
        asks_from = (parse_time(run.gang.queued_at) or self.now) + patience
        if self.now < asks_from:
            self._decide_by(asks_from)
            return None
        if run.starts_at is not None and run.starts_at <= self.now + patience:
            return None
        present = len(pool.rows) + self._coming.get(pool.name, 0)
        if present >= pool.rules.max_nodes:
            self._note_full(run, pool)
            return None
        free = int(self._room_by_node(run).sum()) if pool.rules.adds_only_missing else 0
        nodes = math.ceil(max(0, run.shortage.members - free) / per_node)
        soon = self._soon_ready(run, pool)
        if nodes <= len(soon):
            self._reserve_room(run, free)
            self._relied_on.update(soon[:nodes])
            return None
        if present + nodes > pool.rules.max_nodes:
            self._note_full(run, pool, nodes)
            return None
        moment = format_time(self.now)
        goes_on = last is not None and last.state is RequestState.DELIVERED and last.pool == pool.name
        goes_on = goes_on and last is not None and last.since == moment  # its nodes were reserved until now
        request = NodeRequest(
            pool=pool.name,
            nodes=nodes,
            attempt=run.attempt,
            number=last.number if last is not None else 0,
            shape=shape_of(run.gang, pool.rules),
            first_asked_at=last.first_asked_at if last is not None and goes_on else moment,
            granted=last.granted if last is not None and goes_on else 0,
            failures=last.failures if last is not None else 0,
        )
        if self.unavailable:
            since = last.since if last is not None and last.state is RequestState.UNAVAILABLE else moment
            state, message = RequestState.UNAVAILABLE, self.unavailable[:MESSAGE_LENGTH]
            return msgspec.structs.replace(request, state=state, message=message, since=since, first_asked_at="")
        return msgspec.structs.replace(request, number=request.number + 1, asked_at=moment, since=moment)

    def _note_full(self, run: UnplacedRun, pool: Pool, nodes: int = 0) -> None:
        coming = self._coming.get(pool.name, 0)
        also = f" and {coming} more were asked for" if coming else ""
        by = f" by {nodes} for it" if nodes else ""
        has = f"it has {len(pool.rows)} of at most {pool.rules.max_nodes} nodes"
        self.notes.setdefault(run.gang.key, f"pool {pool.name} cannot grow{by}: {has}{also}")

    def _soon_ready(self, run: UnplacedRun, pool: Pool) -> list[int]:
        """Return the rows of new, unreserved nodes of the pool that are not ready yet but will do."""
        table = self.snapshot.table
        kept = {int(row) for rows in self.kept.values() for row in rows}
        since = self.now - timedelta(seconds=pool.rules.deadline_seconds)
        waits = ~(run.shortage.eligible & table.usable)
        soon = []
        for row in pool.rows.tolist():
            is_free = waits[row] and row not in kept and row not in self._relied_on
            joined_at = parse_time(table.nodes[row].created_at) if is_free else None
            if joined_at is not None and joined_at > since:
                soon.append(row)
                self._decide_by(joined_at + timedelta(seconds=pool.rules.deadline_seconds))
        return soon

    def _suitable_pools(self, gang: GangRequest) -> list[tuple[Pool, int]]:
        """Return the pools with nodes that members fit on, each with the number of members per node."""
        found = ((pool, self._per_node(pool, gang.member)) for pool in self.pools.values())
        return [(pool, per_node) for pool, per_node in found if per_node]

    def _per_node(self, pool: Pool, member: MemberRequest) -> int:
        known = self._fit.get((id(member), pool.name))
        if known is None:
            cpu_nodes = any(not other.new_node.gpus for other in self.pools.values())
            cpu_nodes = cpu_nodes or not bool(self.snapshot.table.has_gpu.all())
            known = self._fit[id(member), pool.name] = members_per_node(pool, member, cpu_nodes=cpu_nodes)
        return known

    def _decide_by(self, moment: datetime) -> None:
        self.look_again_at = min(moment, self.look_again_at or moment)


_NO_ROWS: Rows = np.empty(0, dtype=np.int64)
