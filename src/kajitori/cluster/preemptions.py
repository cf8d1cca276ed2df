"""Who gives way to whom, by all that the mirror holds: whom a run was asked to give way to stands in its status.

So whoever comes new to a cluster knows for whom nodes come free, and asks nobody twice for one need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import numpy as np

from kajitori.cluster.occupancy import ENDING, RunOccupancy, request_of_pod
from kajitori.cluster.outlook import Applicant, Look, Outlook
from kajitori.cluster.stored_runs import StoredSpecs, keeps_nodes
from kajitori.cluster.view import ClusterView
from kajitori.core.gang.ledger import indices_of
from kajitori.core.gang.progress import is_preempted_by, preempted_members_text
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest, occupy
from kajitori.core.placement.snapshot import Snapshot
from kajitori.core.queue.guarantees import Guaranteed, Holding
from kajitori.core.queue.preemption import Running
from kajitori.core.queue.preemption_cycle import Request, Requests, Settled, Wanting, ask, settle
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import Preempted, PreemptedBy
from kajitori.core.words.node_lists import compress_ranks
from kajitori.core.words.times import format_time, parse_time
from kajitori.kube.mirror.mirror import Key, Mirror
from kajitori.kube.objects import Pod, RunObject
from kajitori.kube.resources import RUNS, Resource

_ALIVE = (Phase.STARTING, Phase.RUNNING, Phase.RESTARTING)
"""Of services: one that gives way, or lost all of its members, is queued."""

_DEFAULT_GRACE_SECONDS = 30
"""Kubernetes' own."""


ASKED_OF_A_SWEEP = 16
"""For so many runs at a time members of one sweep are asked, and at one look for a few more: each stands in its status,
and takes half a kilobyte there beside the members' indices."""

ASKS = "preempts "
"""What is said of a run for which others are on their way out begins so."""


class Preemptions:
    """Gangs that are asked to give way, and what comes free for whom. It follows the mirror by itself."""

    def __init__(self, mirror: Mirror, cluster: ClusterView, outlook: Outlook) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._occupancy = cluster.occupancy
        self._outlook = outlook
        self._asked: dict[Key, tuple[PreemptedBy, ...]] = {}
        """Runs that give way, and to whom: their status says so, or will as soon as the mirror shows what is being
        written."""
        for key in mirror.runs:
            self._look_at(key)
        mirror.on_change(self._note)

    # ------------------------------------------------------------------------------------------ what is known

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            self._look_at((namespace, name))

    def _look_at(self, key: Key) -> None:
        run = self._mirror.runs.get(key)
        if run is None or run.status is None or run.status.preemption is None:
            self._asked.pop(key, None)
        else:
            self._asked[key] = run.status.preemption.each

    def note_preempting(self, key: Key, asked: Preempted) -> None:
        """It is being written that this run gives way; until the mirror shows another version of it that counts as
        done."""
        self._asked[key] = asked.each

    def note_failed(self, key: Key) -> None:
        """It could not be written."""
        self._look_at(key)

    @property
    def is_asked(self) -> bool:
        """Whether anybody gives way, or is asked to."""
        return bool(self._asked)

    def givers(self, key: str) -> list[tuple[RunObject, PreemptedBy]]:
        """Runs that give way, or gave way, to this one (`namespace/name`), as long as it waits for what they had."""
        return [(run, asked) for run, asked in self._all_asked() if asked.by == key and self._waits(asked)]

    def _all_asked(self) -> Iterator[tuple[RunObject, PreemptedBy]]:
        for key, asks in sorted(self._asked.items(), key=lambda item: item[0]):
            run = self._mirror.runs.get(key)
            if run is not None and run.status is not None:
                yield from ((run, asked) for asked in asks)

    def _waits(self, asked: PreemptedBy) -> bool:
        return preemptor_waits(self._mirror, self._cluster.specs, asked)

    def _still_asked(self, key: Key) -> list[PreemptedBy]:
        """To whom a run gives way that still waits for it."""
        return [asked for asked in self._asked.get(key, ()) if self._waits(asked)]

    # ------------------------------------------------------------------------------------------ for the queue

    def settle(self, waiting: Iterable[Applicant], snapshot: Snapshot, now: datetime) -> Settled:
        """Those who have what was freed for them, or are to have it, before anybody else is looked at."""
        requests = [each.request for each in self.freed_for(waiting)]
        if not requests:
            return Settled((), (), (), snapshot)
        return settle(snapshot, requests, [gang for gang in self.running(now) if gang.leaving])

    def freed_for(self, waiting: Iterable[Applicant]) -> list[Applicant]:
        """Those of them that others give way to, in the order in which they have what comes free."""
        keys = {asked.by for _, asked in self._all_asked() if self._waits(asked)}
        found = [each for each in waiting if each.request.key in keys]
        found.sort(key=lambda each: (-each.request.priority, each.request.queued_at, each.request.key))
        return found

    def ask(self, look: Look, waiting: Iterable[Applicant], settled: Settled, now: datetime) -> Requests:
        """Who is to give way to those of the queue that found no room."""
        policy = self._cluster.policy
        if not policy.preemption.enabled or not look.schedule.shortages:
            return Requests()
        lowest = policy.priorities["low"].value
        runs = {each.request.key: each for each in waiting}
        lacking = (runs[shortage.key] for shortage in look.schedule.shortages)
        short = [each for each in lacking if not self._cluster.tested_node(each.run)]  # a test can wait
        if not policy.guarantees and not any(each.request.priority > lowest for each in short):
            return Requests()
        if not policy.guarantees and not self._is_any_low():
            return Requests()
        gangs = self.running(now)
        reserved = {each.key: each.starts_at - look.now for each in look.schedule.reservations}
        queue = [
            Wanting(each.request, each.run.metadata.namespace, reserved.get(each.request.key, math.inf))
            for each in short
        ]
        state = settled.state.copy()
        for placement in look.schedule.placements:
            occupy(state, runs[placement.key].request.member, placement.nodes)
        return ask(state, queue, gangs, policy.preemption, policy.guarantees)

    def guarantees(self, now: datetime) -> list[Holding]:
        """Return policy's guarantees, each with what its team uses of it now."""
        promised = self._cluster.policy.guarantees
        return Guaranteed(promised, self._cluster.table(), self.running(now)).holdings() if promised else []

    def words_for(self, key: str) -> str:
        """What is said of those who give way to a run; nothing where nobody does."""
        givers = self.givers(key)
        if not givers:
            return ""
        ends = [end for run, asked in givers if (end := self._ends_at(run, asked)) is not None]
        shown = ", ".join(self._describe_giver(run, asked) for run, asked in givers[:3])
        more = f" and {len(givers) - 3} more" if len(givers) > 3 else ""
        if not ends:
            return f"preempted {shown}{more}"
        is_one = len(givers) == 1 and len(indices_of(givers[0][1].ranks)) < 2
        its = "its" if is_one else "their"
        return f"{ASKS}{shown}{more}; {its} nodes are free by {max(ends):%H:%M:%S} UTC"

    def _describe_giver(self, run: RunObject, asked: PreemptedBy) -> str:
        members = preempted_members_text(asked)
        return f"{members} of {self.describe(run)}" if members else self.describe(run)

    def describe(self, run: RunObject) -> str:
        """`vision/bert (high, of ana)`."""
        owner = run.owner
        said = f"{self._word(run)}, of {owner}" if owner else self._word(run)
        return f"{run.metadata.namespace}/{run.metadata.name} ({said})"

    def intents(self, request: Request, waiting: RunObject, now: datetime) -> dict[Key, Preempted]:
        """What is written into the status of each run that gives way, or of which some members do; of these with what
        stands there of others."""
        ranks: dict[Key, list[int]] = {}
        for victim in request.victims:
            ranks.setdefault(key_of(victim.key), []).extend([] if victim.rank is None else [victim.rank])
        asked = Preempted(
            by=request.key,
            uid=waiting.metadata.uid,
            attempts=waiting.status.attempts if waiting.status is not None else 0,
            who=self.describe(waiting),
            guaranteed=request.guaranteed,
            since=format_time(now),
        )
        return {key: self._of_members(asked, key, sorted(those)) for key, those in ranks.items()}

    def _of_members(self, asked: Preempted, key: Key, ranks: Sequence[int]) -> Preempted:
        run = self._mirror.runs.get(key)
        if not ranks or run is None or run.status is None:
            return asked
        asked = msgspec.structs.replace(asked, ranks=compress_ranks(ranks), attempt=run.status.attempts)
        return Preempted.of([asked, *(each for each in self._still_asked(key) if each.ranks)])

    # ------------------------------------------------------------------------------------------ what runs

    def _is_any_low(self) -> bool:
        """Whether anything of low priority runs."""
        runs = (
            held.run for held in self._occupancy.runs() if held.since is not None or self._is_live_service(held.run)
        )
        return any(self._word(run) == "low" for run in runs)

    def _is_live_service(self, run: RunObject) -> bool:
        """Whether a run is a service that nobody has asked to end."""
        status = run.status
        if status is None or status.attempt is None or status.phase not in _ALIVE or run.metadata.deletion_timestamp:
            return False
        return status.reason not in ENDING and self._cluster.specs.of(run).is_service

    def running(self, now: datetime) -> list[Running]:
        """All gangs that hold nodes, and all members that are on their way out."""
        leaves = {run.metadata.uid for run, asked in self._all_asked() if self._waits(asked)}
        found: list[Running] = []
        for held in self._occupancy.gangs():
            ends_in = self._outlook.ends_at(held, now) - now.timestamp()
            running = self._running(held.run, held.member, held.rows, now, ends_in, leaves)
            if held.is_sweep:
                found += self._members_of_sweep(held, running, now)
            else:
                found.append(running)
        for held in self._occupancy.runs():
            if held.since is not None or keeps_nodes(held.run):
                continue
            going = self._is_live_service(held.run)
            if going:
                stay = [pod for pod in held.members if not _is_told(pod)]
                found.append(self._running(held.run, held.member, self._rows_of(stay), now, math.inf, leaves))
            found += self._leaving_members(pod for pod in held.bound if not going or _is_told(pod))
        return found

    def _running(
        self, run: RunObject, member: MemberRequest, rows: Rows, now: datetime, ends_in: float, leaves: set[str]
    ) -> Running:
        status, spec = run.status, self._cluster.specs.of(run)
        assert status is not None and status.attempt is not None
        word = spec.priority or self._cluster.policy.defaults.priority
        every = spec.checkpoint_every_seconds
        one_by_one = spec.is_service or status.sweep is not None  # members of theirs start at any time
        since = status.started_at if one_by_one else status.attempt.started_at
        started = parse_time(since) if status.phase is Phase.RUNNING else None
        ran = max(0.0, (now - started).total_seconds()) if started is not None else -1.0
        return Running(
            key=f"{run.metadata.namespace}/{run.metadata.name}",
            namespace=run.metadata.namespace,
            priority=self._cluster.policy.priorities[word].value,
            low=word == "low",
            member=member,
            rows=rows,
            ran_seconds=ran,
            unsaved_seconds=ran % every if every else max(0.0, ran),
            grace_seconds=_grace_seconds(run),
            ends_in_seconds=ends_in,
            leaving=run.metadata.uid in leaves,
        )

    def _members_of_sweep(self, sweep: RunOccupancy, whole: Running, now: datetime) -> Iterator[Running]:
        """Each by itself, and those whose Pods are still to go. While some give way others may be asked, for so many
        runs."""
        run, every = sweep.run, self._cluster.specs.of(sweep.run).checkpoint_every_seconds
        there = [(member, pod) for pod in sweep.members if (member := pod.member) is not None and not pod.is_finished]
        newest = {member.rank: (member, pod) for member, pod in sorted(there, key=lambda each: each[0].attempt)}
        number = run.status.attempt.number if run.status is not None and run.status.attempt is not None else 0
        asks = self._still_asked((run.metadata.namespace, run.metadata.name))
        for rank, row in zip(sweep.ranks, sweep.rows.tolist(), strict=True):
            age, attempt, told = 0.0, number, False
            if rank in newest:
                member, pod = newest[rank]
                since = parse_time(pod.metadata.creation_timestamp) or now
                age = max(0.0, (now - since).total_seconds())
                attempt, told = member.attempt, _is_told(pod)
            yield replace(
                whole,
                rank=rank,
                rows=np.array([row], dtype=np.int64),
                ran_seconds=whole.ran_seconds if len(asks) < ASKED_OF_A_SWEEP else -1.0,
                unsaved_seconds=age % every if every else age,
                leaving=told or any(is_preempted_by(asked, rank, attempt) for asked in asks),
            )
        held = set(sweep.ranks)
        yield from self._leaving_members(pod for member, pod in there if member.rank not in held)

    def _leaving_members(self, pods: Iterable[Pod]) -> Iterator[Running]:
        """Members of runs that are over, or between two attempts, and those that were asked to end one by one."""
        index, resource = self._cluster.table().index, self._cluster.policy.gpu.resource
        for pod in pods:
            row = index.get(pod.spec.node_name)
            if row is None or pod.is_finished:
                continue
            member = request_of_pod(pod, self._mirror, resource)
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            yield Running(key, pod.metadata.namespace, 0, False, member, np.array([row]), leaving=True)

    def _rows_of(self, pods: Iterable[Pod]) -> Rows:
        """Where those are that have not ended."""
        index = self._cluster.table().index
        nodes = [pod.spec.node_name for pod in pods if not pod.is_finished]
        return np.array([index[node] for node in nodes if node in index], dtype=np.int64)

    def _word(self, run: RunObject) -> str:
        return self._cluster.specs.of(run).priority or self._cluster.policy.defaults.priority

    def _ends_at(self, run: RunObject, asked: PreemptedBy) -> datetime | None:
        """When the last of those that give way is gone at the latest; None where none is left."""
        alive = (pod for pod in self._mirror.pods_of_run(run) if not pod.is_finished)
        pods = [pod for pod in alive if (m := pod.member) is not None and is_preempted_by(asked, m.rank, m.attempt)]
        told = [pod.metadata.deletion_timestamp for pod in pods]
        moments = [moment for text in told if (moment := parse_time(text)) is not None]
        since = parse_time(asked.since)
        if len(moments) < len(told) and since is not None:
            moments.append(since + timedelta(seconds=_grace_seconds(run)))
        return max(moments, default=None)


def _is_told(pod: Pod) -> bool:
    return bool(pod.metadata.deletion_timestamp)


def key_of(name: str) -> Key:
    """The mirror's key of `namespace/name`."""
    namespace, _, short = name.partition("/")
    return namespace, short


def preemptor_waits(mirror: Mirror, specs: StoredSpecs, asked: PreemptedBy) -> bool:
    """Whether the run that was to have these nodes is still there and waits for them."""
    run = mirror.runs.get(key_of(asked.by))
    if run is None or run.metadata.uid != asked.uid or run.metadata.deletion_timestamp:
        return False
    status = run.status
    if status is not None and (status.phase.is_final or status.attempts != asked.attempts):
        return False
    return not specs.of(run).stopped


def _grace_seconds(run: RunObject) -> float:
    """Of its attempt: what is edited since then is for the next."""
    assert run.status is not None
    template = run.status.attempt.pod_template if run.status.attempt is not None else {}
    return float(template.get("spec", {}).get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
