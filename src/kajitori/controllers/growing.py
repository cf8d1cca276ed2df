"""Elastic gangs that run with fewer members than they may have: which of them are to grow now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from kajitori.core import gang
from kajitori.core.elastic import Growable, Patience
from kajitori.core.planner import GangRequest, MemberRequest
from kajitori.core.reasons import Phase
from kajitori.core.snapshot import Snapshot
from kajitori.core.times import parse_time
from kajitori.errors import InvalidInput
from kajitori.kube.cluster import ClusterView
from kajitori.kube.mirror import Key, Mirror
from kajitori.kube.objects import RunObject

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0


class _Size(msgspec.Struct, rename="camel"):
    """What of a stored spec says how many members it may have."""

    replicas: int = 1
    min_replicas: int | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Grows:
    """A gang that is to be started again with more members."""

    key: Key
    run: RunObject
    """As it was looked at."""
    fewest: int
    nodes: tuple[str, ...]
    """Of its next attempt, in rank order: those of its members first."""
    more: tuple[str, ...]
    """Those that it does not have yet."""
    member: MemberRequest


class Growing:
    """Looks for room for running elastic gangs. It remembers since when there is some, and nothing else."""

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._patience = Patience()
        self._sizes: dict[str, tuple[int, _Size]] = {}
        """By the Run's UID, with its generation."""

    @property
    def pause_seconds(self) -> float:
        """How long to wait between two looks."""
        patience = self._cluster.policy.elastic.grow_after_seconds
        return min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, patience / 4))

    def is_needed(self) -> bool:
        """Whether any gang could grow if there was room."""
        return any(self._may_grow(run) for run in self._mirror.runs.values())

    def look(self, state: Snapshot, waiting: Sequence[GangRequest], now: datetime) -> list[Grows]:
        """Those that grow now. state: what is used, and what is promised to somebody. waiting: all that want nodes."""
        rules, barred = self._cluster.policy.elastic, self._cluster.barred()
        runs: dict[str, tuple[Key, RunObject]] = {}
        gangs: list[Growable] = []
        for key, run in self._mirror.runs.items():
            if rules.grow and self._may_grow(run):
                found = self._growable(run, now)
                if found is not None:
                    runs[found.gang.key] = key, run
                    gangs.append(Growable(barred(found.gang), found.nodes, found.ran_seconds))
        uids = {run.metadata.uid for run in self._mirror.runs.values()}
        self._sizes = {uid: known for uid, known in self._sizes.items() if uid in uids}
        gangs.sort(key=lambda each: (-each.gang.priority, each.gang.queued_at, each.gang.key))
        by_key = {each.gang.key: each for each in gangs}
        grows = []
        for placement in self._patience.due(state, gangs, waiting, rules, now):
            before, (key, run) = by_key[placement.key], runs[placement.key]
            more = placement.nodes[len(before.nodes) :]
            grows.append(Grows(key, run, before.gang.least, placement.nodes, more, before.gang.member))
        return grows

    def put_off(self, key: Key) -> None:
        """This gang can't grow now after all: the time for which there has been room begins anew."""
        self._patience.forget("/".join(key))

    def _may_grow(self, run: RunObject) -> bool:
        """All of its members run, fewer than it asks for, and nobody wants anything else of it."""
        status, meta = run.status, run.metadata
        if status is None or status.phase is not Phase.RUNNING or status.reason or meta.deletion_timestamp:
            return False
        if status.attempt is None or status.resize is not None or status.gives_way is not None:
            return False
        size = self._size_of(run)
        if size.stopped or not 0 < (size.min_replicas or 0) < size.replicas:
            return False
        return status.members.running == status.attempt.world_size < size.replicas

    def _size_of(self, run: RunObject) -> _Size:
        uid, generation = run.metadata.uid, run.metadata.generation
        known = self._sizes.get(uid)
        if known is None or known[0] != generation:
            try:
                size = msgspec.json.decode(run.spec, type=_Size)
            except msgspec.DecodeError:
                size = _Size()
            known = self._sizes[uid] = generation, size
        return known[1]

    def _growable(self, run: RunObject, now: datetime) -> Growable | None:
        """None where policy refuses it now: then it goes on as it is."""
        status = run.status
        assert status is not None and status.attempt is not None
        started = parse_time(status.attempt.started_at)
        try:
            spec, decision = self._cluster.decide(run)
        except InvalidInput:
            return None
        if spec.fewest is None or started is None:
            return None
        nodes = gang.node_by_rank(status.attempt)
        request = GangRequest(
            key=f"{run.metadata.namespace}/{run.metadata.name}",
            member=decision.request,
            ranks=tuple(range(spec.replicas)),
            priority=decision.priority,
            queued_at=status.queued_at,
            fewest=spec.fewest,
        )
        return Growable(request, tuple(nodes[rank] for rank in sorted(nodes)), (now - started).total_seconds())
