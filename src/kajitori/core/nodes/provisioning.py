"""Which waiting runs ask an autoscaler for nodes, and which take back what they asked for.

A gang that finds no place asks once for all that it lacks, in the order of the queue, and never for more than its pool
may have, counting what others have asked for. It does not ask while what there is will do: nodes that are about to be
ready, or free soon. What comes is kept for it until it starts. Decided from what the cluster holds, so that whoever
leads next decides the same.
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

from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import GangRequest, MemberRequest, Shortage, largest_gang, occupy_rows, room_of
from kajitori.core.placement.snapshot import Counts, NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.node_pools import NodePool
from kajitori.core.spec.node_request import NodeRequest, RequestState
from kajitori.core.words.quantities import format_duration
from kajitori.core.words.times import format_time, parse_time

MESSAGE_LENGTH = 300
"""Of what an autoscaler says, in a Run's status (rule 8)."""

_MOST_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool, and what the cluster has of it."""

    name: str
    rules: NodePool
    new_node: NodeFacts
    rows: Rows
    """Of the node table: its nodes, whatever their state."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an autoscaler says of a request."""

    state: RequestState
    message: str = ""


@dataclass(frozen=True, slots=True)
class Wanting:
    """A run that waits and found no place in this cycle."""

    gang: GangRequest
    shortage: Shortage
    attempt: int
    """The number of the attempt that waits."""
    request: NodeRequest | None = None
    """What it asked for last."""
    answer: Answer | None = None
    """What became of that; None where there is no such object."""
    starts_at: datetime | None = None
    """When it is expected to start on the nodes that there are."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be asked for now."""

    changed: Mapping[str, NodeRequest]
    """By the gang's key: requests that differ from what its status says."""
    notes: Mapping[str, str]
    """By the gang's key: why nothing is asked for, where somebody should know."""
    look_again_at: datetime | None = None
    """When the answer may be another though nothing else changes."""


def holds(
    requests: Iterable[tuple[str, NodeRequest]],
    pools: Mapping[str, Pool],
    table: NodeTable,
    members_of: Callable[[str], Collection[str]],
) -> dict[str, Rows]:
    """Which nodes are kept for whom: by key those that came since it asked, as many as it asked for.

    They are free for nobody else until their run has started. Who asked first is served first. members_of: the keys of
    runs that have members on a node; what others have is not kept.
    """
    kept: dict[str, Rows] = {}
    taken: set[int] = set()
    live = [(key, request) for key, request in requests if request.is_live and request.pool in pools]
    for key, request in sorted(live, key=lambda each: (each[1].first_asked_at, each[0])):
        came = [
            row
            for row in pools[request.pool].rows.tolist()
            if row not in taken and table.nodes[row].created_at > request.first_asked_at
        ]
        came = [row for row in came if not set(members_of(table.nodes[row].name)) - {key}]
        came.sort(key=lambda row: table.nodes[row].created_at)
        mine = came[: request.granted + request.nodes]
        taken.update(mine)
        kept[key] = np.array(sorted(mine), dtype=np.int64)
    return kept


def is_needed(request: NodeRequest, attempts: int, *, starting: bool, used: bool, over: bool) -> bool:
    """Whether a run still needs what it asked for.

    attempts: the number of its last attempt; starting: that one is not running yet; used: it has nodes that came for
    it; over: it has ended, or is to end.
    """
    if over:
        return False
    if attempts < request.attempt:
        return True
    is_used = used or request.state is RequestState.PROVISIONED
    return attempts == request.attempt and starting and request.is_live and is_used


def demand(
    wanting: Sequence[Wanting],
    others: Iterable[tuple[str, NodeRequest]],
    kept: Mapping[str, Rows],
    snapshot: Snapshot,
    pools: Mapping[str, Pool],
    now: datetime,
    *,
    unavailable: str = "",
) -> Demand:
    """What is to be asked for, and what not any more.

    wanting: all that found no place, in the queue's order. others: live requests of runs that are starting, say. kept:
    nodes that are kept for each of all these. snapshot: what is used once those that did find a place have it.
    unavailable: why nothing can be asked for.
    """
    return _Round(wanting, others, kept, snapshot, pools, now, unavailable).demand()


def members_per_node(pool: Pool, member: MemberRequest, *, cpu_nodes: bool) -> int:
    """How many such members a new node of the pool takes. cpu_nodes: the cluster has nodes without GPUs, or may get
    some."""
    if member.cpu_runs_on_gpu_nodes == "whenNoOthers":
        member = replace(member, cpu_runs_on_gpu_nodes="never" if cpu_nodes else "always")
    table = NodeTable([pool.new_node])
    return largest_gang(table, member)


def shape_of(gang: GangRequest, rules: NodePool) -> str:
    """Stands for what a request asks for: the same for the same members, number and class."""
    member = gang.member
    parts = (
        member.amounts.tolist(),
        [member.gpu_type, member.alone],
        sorted(member.node_selector),
        sorted([each.key, each.operator, each.value, each.effect] for each in member.tolerations),
        len(gang.ranks) if gang.fewest is None else gang.least,
        [rules.provisioning_class, sorted(rules.node_selector.items()), sorted(rules.all_parameters.items())],
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def failed(request: NodeRequest, message: str, rules: NodePool, now: datetime, *, pools: int = 1) -> NodeRequest:
    """A request that came to nothing. After each of `pools` pools has failed there is a pause, which grows."""
    failures = request.failures + 1
    rounds, rest = divmod(failures, max(1, pools))
    not_before = ""
    if not rest:
        seconds = min(rules.pause_seconds * 2 ** min(rounds - 1, _MOST_DOUBLINGS), rules.longest_pause_seconds)
        not_before = format_time(now + timedelta(seconds=seconds))
    request = _turned(request, RequestState.FAILED, message, now)
    return msgspec.structs.replace(request, failures=failures, not_before=not_before)


def _turned(request: NodeRequest, state: RequestState, message: str, now: datetime) -> NodeRequest:
    since = request.since if state is request.state else format_time(now)
    return msgspec.structs.replace(request, state=state, since=since, message=message[:MESSAGE_LENGTH])


@dataclass(slots=True)
class _Round:
    """One look at all that wait."""

    wanting: Sequence[Wanting]
    others: Iterable[tuple[str, NodeRequest]]
    kept: Mapping[str, Rows]
    snapshot: Snapshot
    pools: Mapping[str, Pool]
    now: datetime
    unavailable: str
    current: dict[str, NodeRequest] = field(default_factory=dict)
    """What each of `wanting` has asked for, as far as this look has come."""
    notes: dict[str, str] = field(default_factory=dict)
    look_again_at: datetime | None = None
    _left: Snapshot = field(init=False)
    """As `snapshot`, less what those who have asked count on."""
    _coming: dict[str, int] = field(default_factory=dict)
    """By pool: nodes that were asked for and are not there yet."""
    _relied_on: set[int] = field(default_factory=set)
    """Rows of nodes that are about to be ready, and that somebody waits for instead of asking."""
    _fit: dict[tuple[int, str], int] = field(default_factory=dict)

    def demand(self) -> Demand:
        self._left = self.snapshot.copy()
        before = {each.gang.key: each.request for each in self.wanting if each.request is not None}
        # 1. What becomes of requests that were made: answered, given up, not wanted any more.
        for each in self.wanting:
            if each.request is not None and each.request.attempt == each.attempt:
                self.current[each.gang.key] = self._reviewed(each, each.request)
        # 2. What is on its way.
        for key, request in self.others:
            self._expect(key, request)
        for each in self.wanting:
            made = self.current.get(each.gang.key)
            if made is not None:
                self._expect(each.gang.key, made)
        # 3. In the queue's order: what those who have asked count on besides, and who else asks.
        for each in self.wanting:
            made = self.current.get(each.gang.key)
            if made is not None and made.is_live:
                self._count_on(each, made)
            else:
                self._ask(each, made)
        changed = {key: request for key, request in self.current.items() if request != before.get(key)}
        return Demand(changed, self.notes, self.look_again_at)

    # ------------------------------------------------------------------------------------ requests that were made

    def _reviewed(self, each: Wanting, request: NodeRequest) -> NodeRequest:
        if not request.is_live:
            return request
        pool, gang = self.pools.get(request.pool), each.gang
        if pool is None:
            return self._turned(request, RequestState.WITHDRAWN, f"policy has no pool {request.pool} any more")
        if request.shape != shape_of(gang, pool.rules):
            return self._turned(request, RequestState.WITHDRAWN, "something else is needed now")
        came = self.kept.get(gang.key, _NOBODY)
        missing = max(0, request.granted + request.nodes - came.size)
        if len(pool.rows) + missing > pool.rules.max_nodes:
            return self._turned(request, RequestState.WITHDRAWN, f"the pool may not have more than {len(pool.rows)}")
        if each.answer is not None and each.answer.state is RequestState.FAILED:
            return self._failed(each, pool, request, each.answer.message)
        if each.answer is not None and (each.answer.state, each.answer.message) != (request.state, request.message):
            request = self._turned(request, each.answer.state, each.answer.message)
        if not missing and each.shortage.fit_now < each.shortage.members:
            request = self._all_came(each, pool, request, came)
        return self._within_deadline(each, pool, request) if request.is_live else request

    def _all_came(self, each: Wanting, pool: Pool, request: NodeRequest, came: Rows) -> NodeRequest:
        """All nodes are there, and yet the gang has no place: they are not ready, or something was taken from it."""
        table = self.snapshot.table
        in_order = each.shortage.eligible[came] & table.usable[came]
        if not in_order.all():
            return request
        room = int(room_of(self.snapshot, each.gang.member, in_order, came).sum())
        promised = came.size * self._per_node(pool, each.gang.member)
        if room < min(promised, each.shortage.members):
            message = f"its new nodes have room for {room} of {each.shortage.members} members, policy says {promised}"
            return self._failed(each, pool, request, message)
        granted = request.granted + request.nodes
        return msgspec.structs.replace(self._turned(request, RequestState.DELIVERED, ""), granted=granted)

    def _within_deadline(self, each: Wanting, pool: Pool, request: NodeRequest) -> NodeRequest:
        patience = timedelta(seconds=pool.rules.deadline_seconds)
        provisioned = request.state is RequestState.PROVISIONED
        began = parse_time(request.since if provisioned else request.asked_at) or self.now
        if self.now < began + patience:
            self._look_at(began + patience)
            return request
        late = "its nodes were not ready" if provisioned else "they did not come"
        own = f" ({request.message})" if request.message else ""
        return self._failed(each, pool, request, f"{late} within {format_duration(pool.rules.deadline_seconds)}{own}")

    def _failed(self, each: Wanting, pool: Pool, request: NodeRequest, message: str) -> NodeRequest:
        """After all pools that suit have failed there is a pause, which grows."""
        return failed(request, message, pool.rules, self.now, pools=len(self._suiting(each.gang)))

    def _turned(self, request: NodeRequest, state: RequestState, message: str) -> NodeRequest:
        return _turned(request, state, message, self.now)

    # ------------------------------------------------------------------------------------ what is counted on

    def _expect(self, key: str, request: NodeRequest) -> None:
        if request.is_live:
            came = self.kept.get(key, _NOBODY).size
            missing = max(0, request.granted + request.nodes - came)
            self._coming[request.pool] = self._coming.get(request.pool, 0) + missing

    def _room(self, each: Wanting) -> Counts:
        """(nodes,) members that find room now beside all who asked before."""
        return room_of(self._left, each.gang.member, each.shortage.eligible & self.snapshot.table.usable)

    def _count_on(self, each: Wanting, request: NodeRequest) -> None:
        """What it did not ask for is to find room in what is free now; whoever comes later does not count on that."""
        pool = self.pools.get(request.pool)
        if pool is not None:
            asked_for = (request.granted + request.nodes) * self._per_node(pool, each.gang.member)
            self._take(each, each.shortage.members - asked_for)

    def _take(self, each: Wanting, members: int) -> None:
        """So many of its members, at most, find room now, and nobody else has it."""
        room = np.minimum(self._room(each), max(0, members))
        rows = np.repeat(np.arange(len(room)), room)[: max(0, members)]
        occupy_rows(self._left, each.gang.member, rows)

    # ------------------------------------------------------------------------------------ new requests

    def _ask(self, each: Wanting, last: NodeRequest | None) -> None:
        key, lacks = each.gang.key, each.shortage.fit_now < each.shortage.members
        suiting = self._suiting(each.gang) if lacks else []
        not_before = parse_time(last.not_before) if last is not None else None
        if not suiting:
            return
        if not_before is not None and self.now < not_before:
            self._look_at(not_before)
            return
        names = [pool.name for pool, _ in suiting]
        if last is not None and last.state is RequestState.FAILED and last.pool in names:
            after = names.index(last.pool) + 1
            suiting = suiting[after:] + suiting[:after]
        for pool, per_node in suiting:
            request = self._request_to(each, last, pool, per_node)
            if request is not None:
                self.current[key] = request
                self.notes.pop(key, None)
                if request.is_live:
                    self._expect(key, request)
                    self._count_on(each, request)
                return

    def _request_to(self, each: Wanting, last: NodeRequest | None, pool: Pool, per_node: int) -> NodeRequest | None:
        """What to ask this pool for; None where it cannot help, or what there is will do."""
        patience = timedelta(seconds=pool.rules.ask_after_seconds)
        asks_from = (parse_time(each.gang.queued_at) or self.now) + patience
        if self.now < asks_from:
            self._look_at(asks_from)
            return None
        if each.starts_at is not None and each.starts_at <= self.now + patience:
            return None
        there = len(pool.rows) + self._coming.get(pool.name, 0)
        if there >= pool.rules.max_nodes:
            self._note_full(each, pool)
            return None
        free = int(self._room(each).sum()) if pool.rules.counts_what_is_free else 0
        nodes = math.ceil(max(0, each.shortage.members - free) / per_node)
        soon = self._soon_ready(each, pool)
        if nodes <= len(soon):
            self._take(each, free)
            self._relied_on.update(soon[:nodes])
            return None
        if there + nodes > pool.rules.max_nodes:
            self._note_full(each, pool, nodes)
            return None
        moment = format_time(self.now)
        goes_on = last is not None and last.state is RequestState.DELIVERED and last.pool == pool.name
        goes_on = goes_on and last is not None and last.since == moment  # what had come was kept until now
        request = NodeRequest(
            pool=pool.name,
            nodes=nodes,
            attempt=each.attempt,
            number=last.number if last is not None else 0,
            shape=shape_of(each.gang, pool.rules),
            first_asked_at=last.first_asked_at if last is not None and goes_on else moment,
            granted=last.granted if last is not None and goes_on else 0,
            failures=last.failures if last is not None else 0,
        )
        if self.unavailable:
            since = last.since if last is not None and last.state is RequestState.UNAVAILABLE else moment
            state, said = RequestState.UNAVAILABLE, self.unavailable[:MESSAGE_LENGTH]
            return msgspec.structs.replace(request, state=state, message=said, since=since, first_asked_at="")
        return msgspec.structs.replace(request, number=request.number + 1, asked_at=moment, since=moment)

    def _note_full(self, each: Wanting, pool: Pool, nodes: int = 0) -> None:
        coming = self._coming.get(pool.name, 0)
        also = f" and {coming} more were asked for" if coming else ""
        by = f" by {nodes} for it" if nodes else ""
        has = f"it has {len(pool.rows)} of at most {pool.rules.max_nodes} nodes"
        self.notes.setdefault(each.gang.key, f"pool {pool.name} cannot grow{by}: {has}{also}")

    def _soon_ready(self, each: Wanting, pool: Pool) -> list[int]:
        """Rows of the pool's nodes that came lately, are nobody's and are not ready yet: they will do, if they suit."""
        table = self.snapshot.table
        kept = {int(row) for rows in self.kept.values() for row in rows}
        since = self.now - timedelta(seconds=pool.rules.deadline_seconds)
        waits = ~(each.shortage.eligible & table.usable)
        soon = []
        for row in pool.rows.tolist():
            is_free = waits[row] and row not in kept and row not in self._relied_on
            came = parse_time(table.nodes[row].created_at) if is_free else None
            if came is not None and came > since:
                soon.append(row)
                self._look_at(came + timedelta(seconds=pool.rules.deadline_seconds))
        return soon

    def _suiting(self, gang: GangRequest) -> list[tuple[Pool, int]]:
        """Pools whose nodes suit, and how many members each takes."""
        found = ((pool, self._per_node(pool, gang.member)) for pool in self.pools.values())
        return [(pool, per_node) for pool, per_node in found if per_node]

    def _per_node(self, pool: Pool, member: MemberRequest) -> int:
        known = self._fit.get((id(member), pool.name))
        if known is None:
            cpu_nodes = any(not each.new_node.gpus for each in self.pools.values())
            cpu_nodes = cpu_nodes or not bool(self.snapshot.table.has_gpu.all())
            known = self._fit[id(member), pool.name] = members_per_node(pool, member, cpu_nodes=cpu_nodes)
        return known

    def _look_at(self, moment: datetime) -> None:
        self.look_again_at = min(moment, self.look_again_at or moment)


_NOBODY: Rows = np.empty(0, dtype=np.int64)
