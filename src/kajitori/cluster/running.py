"""The gangs that hold nodes: what each takes, where, and since when. Worked out once, and kept until they change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kajitori.cluster.stored_runs import member_of_template, type_of
from kajitori.cluster.view import ClusterView
from kajitori.core import gang
from kajitori.core.gang.ledger import members_without_nodes
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.placement.snapshot import NodeTable
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.words.times import parse_time
from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.objects import RunObject
from kajitori.kube.resources import PODS, RUNS, Resource

ENDING = (Reason.STOPPING, Reason.TIME_LIMIT, Reason.DELETING)
"""Of runs whose members are being ended, though their phase does not say so."""


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A batch run, or a sweep, whose members hold nodes, or are about to."""

    run: RunObject
    member: MemberRequest
    """The same object for gangs that ask for the same."""
    rows: Rows
    """Of the node table, one for each member that is not over."""
    ranks: tuple[int, ...]
    """Of the same members."""
    since: float
    """When all of its members ran; before that, and of a sweep, when the last of them were given their nodes. Seconds
    since 1970."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.run.metadata.namespace}/{self.run.metadata.name}"


@dataclass(frozen=True, slots=True)
class _Planned:
    attempt: int
    member: MemberRequest
    nodes: dict[int, str]


class RunningGangs:
    """The gangs that run, of all Runs that the mirror holds. It follows the mirror by itself."""

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._table: NodeTable | None = None
        self._gangs: dict[Key, RunningGang] = {}
        self._planned: dict[str, _Planned] = {}
        """By the Run's UID."""
        self._members: dict[MemberRequest, MemberRequest] = {}
        self._changed: set[Key] = set(mirror.runs)
        mirror.on_change(self._note)

    def all(self) -> list[RunningGang]:
        """Those that run now, by rows of the table as it is now."""
        table = self._cluster.table()
        if self._table is None or self._table.index != table.index:
            self._changed.update(self._gangs)
        self._table = table
        changed, self._changed = self._changed, set()
        for key in changed:
            self._look_at(key, table)
        return list(self._gangs.values())

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            key = namespace, name
            if key in self._mirror.runs or key in self._gangs:
                self._changed.add(key)
            else:  # it came and went while nobody asked
                self._changed.discard(key)
        elif resource == PODS:
            key = (namespace, name.rsplit("-", 2)[0])
            if key in self._gangs:
                self._changed.add(key)

    def _look_at(self, key: Key, table: NodeTable) -> None:
        before = self._gangs.pop(key, None)
        run = self._mirror.runs.get(key)
        if before is not None and (run is None or run.metadata.uid != before.run.metadata.uid):
            self._planned.pop(before.run.metadata.uid, None)
        if run is None or not _is_running(run):
            if run is not None:
                self._planned.pop(run.metadata.uid, None)
            return
        status = run.status
        assert status is not None and status.attempt is not None
        planned, pods = self._plan_of(run), self._mirror.pods_of_run(run)
        over = {
            member.rank
            for pod in pods
            if pod.is_finished and (member := pod.member) is not None and member.attempt == planned.attempt
        }
        earlier: list[tuple[int, int]] = []
        if status.sweep is not None:  # members of earlier attempts go on beside the last one's
            over |= members_without_nodes(status.sweep)
            alive = (pod for pod in pods if not pod.is_finished and pod.spec.node_name in table.index)
            on = ((pod.member, table.index[pod.spec.node_name]) for pod in alive)
            earlier = [(m.rank, row) for m, row in on if m is not None and m.attempt < planned.attempt]
        there = ((rank, table.index[node]) for rank, node in planned.nodes.items() if node in table.index)
        held = [*((rank, row) for rank, row in there if rank not in over), *earlier]
        since = parse_time(status.attempt.started_at or status.attempt.planned_at)
        if held and since is not None:
            rows = np.array([row for _, row in held], dtype=np.int64)
            ranks = tuple(rank for rank, _ in held)
            self._gangs[key] = RunningGang(run, planned.member, rows, ranks, since.timestamp())

    def _plan_of(self, run: RunObject) -> _Planned:
        assert run.status is not None and run.status.attempt is not None
        attempt = run.status.attempt
        known = self._planned.get(run.metadata.uid)
        if known is None or known.attempt != attempt.number:
            member = member_of_template(attempt, self._cluster.policy.gpu.resource)
            member = self._members.setdefault(member, member)
            known = _Planned(attempt.number, member, gang.node_by_rank(attempt))
            self._planned[run.metadata.uid] = known
        return known


def _is_running(run: RunObject) -> bool:
    """Its members hold nodes, and nobody has asked them to end."""
    status = run.status
    if status is None or status.attempt is None or run.metadata.deletion_timestamp:
        return False
    alive = status.phase in (Phase.STARTING, Phase.RUNNING) and status.reason not in ENDING
    return alive and type_of(run) == "batch"
