"""Preemptions as the statuses of Runs show them, and the running gangs that the queue's cycle may preempt.

A preempted run's status names the run that preempts it. So a new leader knows for which runs nodes become free, and
preempts no second gang for the same need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec
import numpy as np

from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.occupancy.entries import ENDING, RunOccupancy
from kajitori.cluster.queue.outlook import Outlook
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs, keeps_nodes
from kajitori.cluster.view import ClusterView
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.formats.times import format_time, parse_time
from kajitori.core.gang.status.preemptions import is_preempted_by, preempted_members_text
from kajitori.core.gang.sweep_ledger import indices_of
from kajitori.core.placement.choosing import Rows
from kajitori.core.policy.runs.limits import PriorityWord
from kajitori.core.queue.guarantees import Guaranteed, Holding
from kajitori.core.queue.preemption import PreemptionRequest
from kajitori.core.queue.victims import RunningGang
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.preemption import Preempted, PreemptedBy
from kajitori.kube.resources import Resource

_ALIVE = (Phase.STARTING, Phase.RUNNING, Phase.RESTARTING)
"""Phases of a service that runs; one that was preempted, or that lost all of its members, is queued."""

_DEFAULT_GRACE_SECONDS = 30
"""The default of Kubernetes."""

PREEMPTORS_PER_SWEEP = 16
"""Number of runs for which members of one sweep are preempted at a time; one cycle may exceed it by a few. Each takes
half a kilobyte in the sweep's status, beside the indices of the members."""

PREEMPTS = "preempts "
"""First word of the text about a run for which other runs are being preempted."""


class Preemptions:
    """Runs that are being preempted, and the runs that they are preempted for. It follows the mirror by itself."""

    def __init__(self, mirror: Mirror, cluster: ClusterView, outlook: Outlook) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._outlook = outlook
        self._preempted: dict[Key, tuple[PreemptedBy, ...]] = {}
        """Preempted runs: their status says that, or a write that says it is under way."""
        for key in mirror.runs:
            self._read_run(key)
        self.close = mirror.on_change(self._note)
        """Stop following the mirror."""

    # ------------------------------------------------------------------------------------------ what is known

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._read_run((namespace, name))

    def _read_run(self, key: Key) -> None:
        run = self._mirror.runs.get(key)
        if run is None or run.status is None or run.status.preemption is None:
            self._preempted.pop(key, None)
        else:
            self._preempted[key] = run.status.preemption.each

    def note_preempting(self, key: Key, preemption: Preempted) -> None:
        """Count the run as preempted while its status is written, until the mirror shows another version of it."""
        self._preempted[key] = preemption.each

    def note_failed(self, key: Key) -> None:
        """Note that the status could not be written: count what the mirror shows."""
        self._read_run(key)

    @property
    def are_any(self) -> bool:
        """Whether any run is preempted."""
        return bool(self._preempted)

    def preemptors(self) -> set[str]:
        """Return the waiting runs (`namespace/name`) for which others were preempted."""
        return {preemption.by for _, preemption in self._all_preemptions() if self._preemptor_waits(preemption)}

    def victims_of(self, key: str) -> list[tuple[RunObject, PreemptedBy]]:
        """Return the runs that were preempted for this one (`namespace/name`), as long as it waits for their nodes."""
        return [
            (run, preemption)
            for run, preemption in self._all_preemptions()
            if preemption.by == key and self._preemptor_waits(preemption)
        ]

    def victims(self) -> set[str]:
        """Return the UIDs of all runs that were preempted for runs that still wait."""
        return {run.metadata.uid for run, preemption in self._all_preemptions() if self._preemptor_waits(preemption)}

    def _all_preemptions(self) -> Iterator[tuple[RunObject, PreemptedBy]]:
        for key, preemptions in sorted(self._preempted.items(), key=lambda item: item[0]):
            run = self._mirror.runs.get(key)
            if run is not None and run.status is not None:
                yield from ((run, preemption) for preemption in preemptions)

    def _preemptor_waits(self, preemption: PreemptedBy) -> bool:
        return preemptor_waits(self._mirror, self._cluster.specs, preemption)

    def of(self, key: Key) -> list[PreemptedBy]:
        """Return the preemptions of a run for preemptors that still wait."""
        return [preemption for preemption in self._preempted.get(key, ()) if self._preemptor_waits(preemption)]

    # ------------------------------------------------------------------------------------------ for the queue

    def running_at(self, now: datetime) -> RunningAt:
        """Return the gangs that run now, as the queue's cycle takes them."""
        return RunningAt(self._mirror, self._cluster, self._outlook, self, now)

    def guarantees(self, now: datetime) -> list[Holding]:
        """Return policy's guarantees, each with what its team uses of it now."""
        guarantees = self._cluster.policy.guarantees
        if not guarantees:
            return []
        return Guaranteed(guarantees, self._cluster.table(), self.running_at(now).all()).holdings()

    # ------------------------------------------------------------------------------------------ texts and statuses

    def describe(self, key: str) -> str:
        """Return a text about the runs that were preempted for this one; empty if there are none."""
        victims = self.victims_of(key)
        if not victims:
            return ""
        ends = [end for run, preemption in victims if (end := self._ends_at(run, preemption)) is not None]
        shown = ", ".join(self._describe_victim(run, preemption) for run, preemption in victims[:3])
        more = f" and {len(victims) - 3} more" if len(victims) > 3 else ""
        if not ends:
            return f"preempted {shown}{more}"
        is_one = len(victims) == 1 and len(indices_of(victims[0][1].ranks)) < 2
        its = "its" if is_one else "their"
        return f"{PREEMPTS}{shown}{more}; {its} nodes are free by {max(ends):%H:%M:%S} UTC"

    def _describe_victim(self, run: RunObject, preemption: PreemptedBy) -> str:
        members = preempted_members_text(preemption)
        return f"{members} of {self._describe_run(run)}" if members else self._describe_run(run)

    def _describe_run(self, run: RunObject) -> str:
        """Return a text such as `vision/bert (high, of ana)`."""
        priority, owner = priority_of(run, self._cluster), run.owner
        about = f"{priority}, of {owner}" if owner else priority
        return f"{run.metadata.namespace}/{run.metadata.name} ({about})"

    def statuses_for(self, request: PreemptionRequest, preemptor: RunObject, now: datetime) -> dict[Key, Preempted]:
        """Return what is written into the status of each preempted run. If only some members of a sweep are preempted,
        the sweep's earlier preemptions stay there."""
        ranks: dict[Key, list[int]] = {}
        for victim in request.victims:
            ranks.setdefault(key_of(victim.key), []).extend([] if victim.rank is None else [victim.rank])
        preemption = Preempted(
            by=request.key,
            uid=preemptor.metadata.uid,
            attempts=preemptor.status.attempts if preemptor.status is not None else 0,
            who=self._describe_run(preemptor),
            guaranteed=request.guaranteed,
            since=format_time(now),
        )
        return {key: self._of_members(preemption, key, sorted(members), now) for key, members in ranks.items()}

    def _of_members(self, preemption: Preempted, key: Key, ranks: Sequence[int], now: datetime) -> Preempted:
        run = self._mirror.runs.get(key)
        notice_seconds = self._cluster.policy.notebooks.notice_seconds
        if run is not None and notice_seconds and self._cluster.specs.of(run).is_interactive:
            ends_at = format_time(now + timedelta(seconds=notice_seconds))
            return msgspec.structs.replace(preemption, ends_at=ends_at)
        if not ranks or run is None or run.status is None:
            return preemption
        preemption = msgspec.structs.replace(preemption, ranks=compress_ranks(ranks), attempt=run.status.attempts)
        return Preempted.of([preemption, *(earlier for earlier in self.of(key) if earlier.ranks)])

    def _ends_at(self, run: RunObject, preemption: PreemptedBy) -> datetime | None:
        """Return the latest time at which the last preempted member is gone; None if none is left."""
        alive = (pod for pod in self._mirror.pods_of_run(run) if not pod.is_finished)
        pods = [
            pod for pod in alive if (m := pod.member) is not None and is_preempted_by(preemption, m.rank, m.attempt)
        ]
        deadlines = [pod.metadata.deletion_timestamp for pod in pods]
        moments = [moment for text in deadlines if (moment := parse_time(text)) is not None]
        since = parse_time(preemption.ends_at or preemption.since)
        if len(moments) < len(deadlines) and since is not None:
            moments.append(since + timedelta(seconds=_grace_seconds(run)))
        return max(moments, default=None)


@dataclass(frozen=True, slots=True)
class RunningAt:
    """The gangs that run at one moment: a filter of the occupancy (`core.queue.cycle.RunningGangs`)."""

    _mirror: Mirror
    _cluster: ClusterView
    _outlook: Outlook
    _preemptions: Preemptions
    _now: datetime

    def has_low(self) -> bool:
        """Whether any run of low priority runs."""
        return any(
            priority_of(held.run, self._cluster) == "low"
            and (held.since is not None or self._is_live_service(held.run))
            for held in self._cluster.occupancy.runs()
        )

    def all(self) -> list[RunningGang]:
        """Return all gangs that hold nodes, and all members that are terminating."""
        leaving = self._preemptions.victims()
        found: list[RunningGang] = []
        for held in self._cluster.occupancy.runs():
            if held.since is not None:
                ends_in = self._outlook.ends_at(held, self._now) - self._now.timestamp()
                gang = self._running_gang(held, held.rows, ends_in, leaving)
                found += self._members_of_sweep(held, gang) if held.is_sweep else [gang]
            elif not keeps_nodes(held.run):
                stays = self._is_live_service(held.run)
                if stays:
                    rows = self._rows_of(pod for pod in held.members if not _is_leaving(pod))
                    found.append(self._running_gang(held, rows, math.inf, leaving))
                found += self._leaving_members(pod for pod in held.bound if not stays or _is_leaving(pod))
        return found

    def _is_live_service(self, run: RunObject) -> bool:
        """Whether a run is a service that was not asked to end."""
        status = run.status
        if status is None or status.attempt is None or status.phase not in _ALIVE or run.metadata.deletion_timestamp:
            return False
        return status.reason not in ENDING and self._cluster.specs.of(run).is_service

    def _running_gang(self, held: RunOccupancy, rows: Rows, ends_in: float, leaving: set[str]) -> RunningGang:
        run, status, spec = held.run, held.run.status, self._cluster.specs.of(held.run)
        assert status is not None and status.attempt is not None
        priority, every = priority_of(run, self._cluster), spec.checkpoint_every_seconds
        one_by_one = spec.is_service or status.sweep is not None  # their members start one by one
        since = status.started_at if one_by_one else status.attempt.started_at
        started = parse_time(since) if status.phase is Phase.RUNNING else None
        ran = max(0.0, (self._now - started).total_seconds()) if started is not None else -1.0
        return RunningGang(
            key=held.key,
            namespace=run.metadata.namespace,
            priority=self._cluster.policy.priorities[priority].value,
            low=priority == "low",
            member=held.member,
            rows=rows,
            ran_seconds=ran,
            unsaved_seconds=ran % every if every else max(0.0, ran),
            grace_seconds=_grace_seconds(run),
            ends_in_seconds=ends_in,
            leaving=run.metadata.uid in leaving,
        )

    def _members_of_sweep(self, held: RunOccupancy, whole: RunningGang) -> Iterator[RunningGang]:
        """Yield each member of a sweep by itself. While members are preempted for some runs, others may be preempted
        for further runs, up to a limit."""
        run, every = held.run, self._cluster.specs.of(held.run).checkpoint_every_seconds
        alive = [(member, pod) for pod in held.members if (member := pod.member) is not None and not pod.is_finished]
        newest = {member.rank: (member, pod) for member, pod in sorted(alive, key=lambda pair: pair[0].attempt)}
        number = run.status.attempt.number if run.status is not None and run.status.attempt is not None else 0
        preemptions = self._preemptions.of((run.metadata.namespace, run.metadata.name))
        for rank, row in zip(held.ranks, held.rows.tolist(), strict=True):
            age, attempt, is_leaving = 0.0, number, False
            if rank in newest:
                member, pod = newest[rank]
                since = parse_time(pod.metadata.creation_timestamp) or self._now
                age = max(0.0, (self._now - since).total_seconds())
                attempt, is_leaving = member.attempt, _is_leaving(pod)
            yield replace(
                whole,
                rank=rank,
                rows=np.array([row], dtype=np.int64),
                ran_seconds=whole.ran_seconds if len(preemptions) < PREEMPTORS_PER_SWEEP else -1.0,
                unsaved_seconds=age % every if every else age,
                leaving=is_leaving or any(is_preempted_by(preemption, rank, attempt) for preemption in preemptions),
            )
        counted = set(held.ranks)
        yield from self._leaving_members(pod for member, pod in alive if member.rank not in counted)

    def _leaving_members(self, pods: Iterable[Pod]) -> Iterator[RunningGang]:
        """Yield members of runs that are over or between two attempts, and members that were asked to end alone."""
        index = self._cluster.table().index
        for pod in pods:
            row = index.get(pod.spec.node_name)
            if row is not None and not pod.is_finished:
                member = self._cluster.occupancy.request_of(pod)
                key = f"{pod.metadata.namespace}/{pod.metadata.name}"
                yield RunningGang(
                    key,
                    pod.metadata.namespace,
                    priority=0,
                    low=False,
                    member=member,
                    rows=np.array([row]),
                    leaving=True,
                )

    def _rows_of(self, pods: Iterable[Pod]) -> Rows:
        """Return the rows of the unfinished Pods."""
        index = self._cluster.table().index
        nodes = [pod.spec.node_name for pod in pods if not pod.is_finished]
        return np.array([index[node] for node in nodes if node in index], dtype=np.int64)


def preemptor_waits(mirror: Mirror, specs: StoredSpecs, preemption: PreemptedBy) -> bool:
    """Whether the run that preempts is still there and waits for the nodes."""
    run = mirror.runs.get(key_of(preemption.by))
    if run is None or run.metadata.uid != preemption.uid or run.metadata.deletion_timestamp:
        return False
    status = run.status
    if status is not None and (status.phase.is_final or status.attempts != preemption.attempts):
        return False
    return not specs.of(run).stopped


def priority_of(run: RunObject, cluster: ClusterView) -> PriorityWord:
    """Return the name of a run's priority; policy's default if it asks for none."""
    return cluster.specs.of(run).priority or cluster.policy.defaults.priority


def key_of(name: str) -> Key:
    """Return the mirror's key of `namespace/name`."""
    namespace, _, short = name.partition("/")
    return namespace, short


def _is_leaving(pod: Pod) -> bool:
    return bool(pod.metadata.deletion_timestamp)


def _grace_seconds(run: RunObject) -> float:
    """Return the grace period of the run's attempt; later edits count for the next attempt."""
    assert run.status is not None
    template = run.status.attempt.pod_template if run.status.attempt is not None else {}
    return float(template.get("spec", {}).get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
