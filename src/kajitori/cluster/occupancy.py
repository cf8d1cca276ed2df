"""The index of runs on nodes: the nodes that each run holds or was promised, kept up to date with the mirror.

Usage, promised nodes, running gangs, candidates for preemption, expected ends and what-ifs are filters of this index.
A run that changed is read anew at the next question; all other entries stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kajitori.cluster.devices import Devices
from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.mirror.usage import NodeUsage, PodUsage, is_alone
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs, keeps_nodes, member_of_template
from kajitori.core import gang
from kajitori.core.gang.ledger import members_without_nodes
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.placement.snapshot import CPU, GPU, MEMORY, PODS, NodeFacts, NodeTable, Snapshot
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.words.nodes import node_lists
from kajitori.core.words.times import parse_time
from kajitori.kube.resources import PODS as POD_KIND
from kajitori.kube.resources import Resource

ENDING = (Reason.STOPPING, Reason.TIME_LIMIT, Reason.DELETING)
"""Reasons of runs with members that are being ended, although the phase is still STARTING or RUNNING."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Nodes that are promised to members of an attempt: no Pod is bound to them yet."""

    run: str
    """`namespace/name`."""
    attempt: int
    member: MemberRequest
    nodes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    """Ranks of these members; only of a sweep."""


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """The nodes of a stored attempt."""

    attempt: int
    member: MemberRequest
    """Equal requests are the same object."""
    nodes: dict[int, str]
    """Node by rank."""


@dataclass(frozen=True, slots=True)
class RunOccupancy:
    """All nodes that one run holds or was promised."""

    run: RunObject
    plan: AttemptPlan | None
    """Its last attempt; None if it has none."""
    members: tuple[Pod, ...] = ()
    """Pods that count as its members now, also finished and unbound ones."""
    bound: tuple[Pod, ...] = ()
    """All of its Pods, of any attempt, that are on a node of the table and have not finished."""
    promises: tuple[Promise, ...] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows of the node table, one for each member that has not ended; only of a running gang."""
    ranks: tuple[int, ...] = ()
    """Ranks of the same members."""
    since: float | None = None
    """Start of the attempt of a running gang in seconds since 1970: when all members ran, or, before that and for a
    sweep, when the last of them were given their nodes. None for every other run."""
    starts: tuple[float, ...] = ()
    """Starts of the same members, if it is a sweep: they start one by one."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.run.metadata.namespace}/{self.run.metadata.name}"

    @property
    def is_begun(self) -> bool:
        """Whether the run has an attempt, or nodes for the next one, and is not over."""
        return is_begun(self.run)

    @property
    def is_sweep(self) -> bool:
        return self.run.status is not None and self.run.status.sweep is not None

    @property
    def member(self) -> MemberRequest:
        """The request of each member of the last attempt."""
        assert self.plan is not None, "only a run with an attempt has members"
        return self.plan.member


def is_begun(run: RunObject) -> bool:
    """Whether a run may hold nodes or have some kept for it: it has an attempt or a next size, and is not over."""
    status = run.status
    if status is None or status.phase.is_final:
        return False
    return status.attempt is not None or status.resize is not None


class Occupancy:
    """The index. It follows the mirror by itself."""

    def __init__(
        self,
        mirror: Mirror,
        specs: StoredSpecs,
        table: Callable[[], NodeTable],
        devices: Devices,
        gpu_resource: Callable[[], str],
    ) -> None:
        self._mirror = mirror
        self._specs = specs
        self._current_table = table
        self._devices = devices
        self._gpu_resource = gpu_resource
        self._table: NodeTable | None = None
        self._runs: dict[Key, RunOccupancy] = {}
        self._gangs: dict[Key, RunOccupancy] = {}
        """The entries of running gangs."""
        self._promises: dict[Key, tuple[Promise, ...]] = {}
        """The promises by run, for runs that have any."""
        self._members: dict[MemberRequest, MemberRequest] = {}
        """Equal requests of members as one object."""
        self._used: Snapshot | None = None
        """Usage by bound Pods; only ever copied."""
        self._used_resource = ""
        """The GPU resource that `_used` counts."""
        self._usage_change = 0
        """The last change of the mirror's usage of nodes that is part of `_used`."""
        self._changed: set[Key] = set(mirror.runs)
        self.close = mirror.on_change(self._note)
        """Stop following the mirror."""

    # ------------------------------------------------------------------------------------------ questions

    def runs(self) -> Collection[RunOccupancy]:
        """Return every run that has begun and is not over, or that has Pods on nodes."""
        self._refresh_entries()
        return self._runs.values()

    def begun(self) -> Iterator[RunObject]:
        """Yield the runs that have begun and are not over."""
        return (held.run for held in self.runs() if held.is_begun)

    def of(self, key: Key) -> RunOccupancy | None:
        """Return the entry of one run; None if it neither holds a node nor was promised one."""
        self._refresh_entries()
        return self._runs.get(key)

    def gangs(self) -> Collection[RunOccupancy]:
        """Return the running gangs: batch runs and sweeps with members that hold nodes and were not asked to end."""
        self._refresh_entries()
        return self._gangs.values()

    def gang(self, key: Key) -> RunOccupancy | None:
        """Return the entry of one running gang; None for any other run."""
        self._refresh_entries()
        return self._gangs.get(key)

    def promises(self) -> Iterator[Promise]:
        """Yield the nodes that stored attempts were promised and to which their Pods are not bound yet. No other run
        may have them.

        They depend on the Runs alone, so a new leader knows them from its first cycle.
        """
        self._refresh_entries()
        for promises in self._promises.values():
            yield from promises

    def may_free(self, run: RunObject) -> bool:
        """Whether a change of the Run itself may free nodes: it had promised nodes at the last call. Nodes that its
        Pods hold are freed by changes of Pods."""
        held = self._runs.get((run.metadata.namespace, run.metadata.name))
        if held is None or held.run.metadata.uid != run.metadata.uid:
            return False
        return held.is_begun and (self._waits_for_pods(held) or keeps_nodes(held.run))

    def leaving(self) -> Iterator[tuple[RunOccupancy, Pod]]:
        """Yield the members that were asked to end and are still on a node. Members of running gangs, and of runs that
        keep nodes for a next attempt, are left out."""
        for held in self.runs():
            if held.since is None and held.bound and not keeps_nodes(held.run):
                yield from ((held, pod) for pod in held.bound if pod.metadata.deletion_timestamp)

    def foreign_pods(self) -> list[tuple[Pod, str]]:
        """Return the Pods that belong to no run, each with its node: the bound ones, and those for which the scheduler
        is making room. Takes time in proportion to all Pods."""
        index, members = self._current_table().index, self._mirror.members()
        bound = [
            (pod, pod.spec.node_name)
            for key, pod in self._mirror.pods.items()
            if pod.spec.node_name in index and key not in members and not pod.is_finished
        ]
        return [*bound, *((pod, node) for pod in self._mirror.nominated() if (node := _nominated_node(pod)) in index)]

    def used(self) -> Snapshot:
        """Return the usage of all Pods on every node, including Pods for which the scheduler is making room, without
        promises. The caller may change it."""
        snapshot = self._used_by_bound_pods().copy()
        snapshot.table = table = self._current_table()
        for pod in self._mirror.nominated():
            row = table.index.get(_nominated_node(pod))
            if row is not None:
                snapshot.used[row] += self.request_of(pod).amounts(table)
        return snapshot

    def request_of(self, pod: Pod) -> MemberRequest:
        """Return the resources of one Pod as the request of a member."""
        usage = self._mirror.usage_of_pod(pod)
        gpu_type, gpus = next(iter(self.gpus_of(pod).items()), ("", 0))
        return MemberRequest(usage.cpu_millis, usage.memory_bytes, gpus, gpu_type, whole_node=is_alone(pod))

    def gpus_by_devices(self) -> dict[str, dict[str, int]]:
        """Return the GPUs by type of each Pod on nodes that offer them as devices of dynamic resource allocation, by
        the Pod's UID."""
        nodes = (node for node in self._current_table().nodes if node.is_by_devices)
        return {
            pod.metadata.uid: self._devices.gpus_of(pod)
            for node in nodes
            for pod in self._mirror.pods_on_node(node.name)
            if not pod.is_finished
        }

    def gpus_of(self, pod: Pod) -> dict[str, int]:
        """Return the number of GPUs of each type that a Pod has; if nothing is known of a type, it is empty."""
        table = self._current_table()
        row = table.index.get(pod.spec.node_name or _nominated_node(pod))
        node = table.nodes[row] if row is not None else None
        if node is not None and node.is_by_devices:
            return self._devices.gpus_of(pod)
        usage, resource = self._mirror.usage_of_pod(pod), self._gpu_resource()
        offers = node.offers if node is not None else ()
        found = {o.type: n for o in offers for way in o.ways if (n := usage.other(way or resource))}
        if found:
            return found
        return {"": count} if (count := usage.other(resource)) else {}

    # ------------------------------------------------------------------------------------------ changes

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        if resource == RUNS:
            key = namespace, name
            if key in self._mirror.runs or key in self._runs:
                self._changed.add(key)
            else:  # it was created and deleted between two calls
                self._changed.discard(key)
        elif resource == POD_KIND:
            key = (namespace, name.rsplit("-", 2)[0])
            if key in self._runs or key in self._mirror.runs:
                self._changed.add(key)

    def _refresh_entries(self) -> None:
        table = self._current_table()
        before, self._table = self._table, table
        if before is None or before.index != table.index:
            self._changed.update(self._runs)
        elif before is not table:  # kept nodes depend on which nodes take work
            self._changed.update(key for key, held in self._runs.items() if keeps_nodes(held.run))
        if self._changed:
            changed, self._changed = self._changed, set()
            for key in changed:
                self._refresh_entry(key, table)

    def _refresh_entry(self, key: Key, table: NodeTable) -> None:
        """Make the entry of one run anew."""
        before = self._runs.pop(key, None)
        self._gangs.pop(key, None)
        self._promises.pop(key, None)
        run = self._mirror.runs.get(key)
        if run is None:
            return
        bound = tuple(
            pod
            for pod in self._mirror.owned_pods(*key, run.metadata.uid)
            if pod.spec.node_name in table.index and not pod.is_finished
        )
        if not is_begun(run):
            if bound:
                self._runs[key] = RunOccupancy(run, None, bound=bound)
            return
        held = RunOccupancy(run, self._plan_of(run, before), tuple(self._mirror.pods_of_run(run)), bound)
        held = self._with_gang(replace(held, promises=tuple(self._promises_of(held, table))), table)
        self._runs[key] = held
        if held.since is not None:
            self._gangs[key] = held
        if held.promises:
            self._promises[key] = held.promises

    def _plan_of(self, run: RunObject, before: RunOccupancy | None) -> AttemptPlan | None:
        attempt = run.status.attempt if run.status is not None else None
        if attempt is None:
            return None
        known = before.plan if before is not None and before.run.metadata.uid == run.metadata.uid else None
        if known is not None and known.attempt == attempt.number:
            return known
        member = member_of_template(attempt, self._gpu_resource())
        return AttemptPlan(attempt.number, self._members.setdefault(member, member), gang.node_by_rank(attempt))

    # ------------------------------------------------------------------------------------------ running gangs

    def _with_gang(self, held: RunOccupancy, table: NodeTable) -> RunOccupancy:
        """Return the entry with the nodes of its members, if it is a running gang."""
        run, plan, status = held.run, held.plan, held.run.status
        if plan is None or status is None or status.attempt is None or not self._is_running_gang(run, status):
            return held
        over = {
            member.rank
            for pod in held.members
            if pod.is_finished and (member := pod.member) is not None and member.attempt == plan.attempt
        }
        earlier: list[tuple[int, int, float]] = []
        since = _parse_seconds(status.attempt.started_at or status.attempt.planned_at)
        if status.sweep is not None:  # members of earlier attempts run on beside those of the last one
            over |= members_without_nodes(status.sweep)
            alive = (pod for pod in held.members if not pod.is_finished and pod.spec.node_name in table.index)
            earlier = [
                (m.rank, table.index[pod.spec.node_name], _parse_seconds(pod.metadata.creation_timestamp) or since)
                for pod in alive
                if (m := pod.member) is not None and m.attempt < plan.attempt
            ]
        planned = ((rank, table.index[node], since) for rank, node in plan.nodes.items() if node in table.index)
        places = [*(place for place in planned if place[0] not in over), *earlier]
        if not places or not since:
            return held
        ranks, rows, starts = zip(*places, strict=True)
        starts = starts if status.sweep is not None else ()
        return replace(held, rows=np.array(rows, dtype=np.int64), ranks=ranks, since=since, starts=starts)

    def _is_running_gang(self, run: RunObject, status: RunStatus) -> bool:
        if run.metadata.deletion_timestamp or status.phase not in (Phase.STARTING, Phase.RUNNING):
            return False
        return status.reason not in ENDING and not self._specs.of(run).is_service

    # ------------------------------------------------------------------------------------------ promised nodes

    def _promises_of(self, held: RunOccupancy, table: NodeTable) -> Iterator[Promise]:
        run, plan, status = held.run, held.plan, held.run.status
        if plan is not None and status is not None and self._waits_for_pods(held):
            pods = (pod for pod in held.members if pod.spec.node_name)
            bound = {m.rank for pod in pods if (m := pod.member) is not None and m.attempt == plan.attempt}
            done = members_without_nodes(status.sweep) if status.sweep is not None else frozenset()
            nodes = {r: n for r, n in plan.nodes.items() if r not in bound and r not in done and n in table.index}
            if nodes:
                ranks = tuple(nodes) if status.sweep is not None else ()
                yield Promise(held.key, plan.attempt, plan.member, tuple(nodes.values()), ranks)
        if keeps_nodes(run):
            yield from self._kept_for_next_attempt(held, table)

    def _waits_for_pods(self, held: RunOccupancy) -> bool:
        """Whether members of the run's attempt have yet to be created or bound, or may have been bound although the
        mirror does not show it yet."""
        run, status = held.run, held.run.status
        if status is None or status.attempt is None or status.phase.is_final:
            return False
        if status.phase is Phase.STARTING:
            return True
        if status.sweep is not None:  # members of its attempt start while its other members run
            return True
        if status.phase is Phase.RUNNING:  # Pods are watched apart from Runs: the mirror may show them later
            return len(held.members) < status.members.total
        # A service restarts one member beside the others; a batch run between two attempts holds nothing.
        return status.phase is Phase.RESTARTING and self._specs.of(run).is_service

    def _kept_for_next_attempt(self, held: RunOccupancy, table: NodeTable) -> Iterator[Promise]:
        """Yield the nodes of an elastic gang's next attempt that no member has now (`core.spec.status.Resize`)."""
        status = held.run.status
        if held.plan is None or status is None or status.attempt is None or status.resize is None:
            return
        rows = (table.index.get(name) for name in node_lists.expand(status.resize.nodes))
        kept = [table.nodes[row].name for row in rows if row is not None and bool(table.usable[row])]
        # too few of these nodes take work: the gang waits in the queue like all others
        if len(kept) < status.resize.fewest:
            return
        if status.phase in (Phase.STARTING, Phase.RUNNING):
            has = Counter(held.plan.nodes.values())
        else:
            has = Counter(pod.spec.node_name for pod in held.members if not pod.is_finished)
        nodes = tuple((Counter(kept) - has).elements())
        if nodes:
            yield Promise(held.key, status.attempts + 1, held.plan.member, nodes)

    # ------------------------------------------------------------------------------------------ usage

    def _used_by_bound_pods(self) -> Snapshot:
        table, resource = self._current_table(), self._gpu_resource()
        used = self._used
        moved = self._devices.take_used_changed()
        if used is None or not _is_alike(used.table, table) or resource != self._used_resource:
            used, self._used_resource = Snapshot.empty(table), resource
            self._usage_change, _ = self._mirror.usage_changes(self._usage_change)
            nodes: Sequence[str] = [node.name for node in table.nodes]
        else:
            self._usage_change, changed = self._mirror.usage_changes(self._usage_change)
            nodes = [*changed, *moved.difference(changed)] if moved else changed
        used.table = table
        for node in nodes:
            row = table.index.get(node)
            if row is not None:
                self._read_usage(used, row, node)
        self._used = used
        return used

    def _read_usage(self, used: Snapshot, row: int, node: str) -> None:
        usage = self._mirror.usage_of(node)
        table, facts = self._current_table(), self._current_table().nodes[row]
        used.used[row], used.members[row], used.alone[row] = 0, 0, False
        if facts.is_by_devices:  # devices can be in use while no Pod is bound yet
            counts = self._devices.used(node)
            for offer in facts.gpu_offers:
                used.used[row, GPU if offer.is_whole else table.gpu_column(offer.type)] = counts.get(offer.type, 0)
        if usage is None:
            return
        used.used[row, CPU] = usage.cpu_millis
        used.used[row, MEMORY] = usage.memory_bytes
        used.used[row, PODS] = usage.pods
        if not facts.is_by_devices:
            for column, count in requested_gpus(usage, facts, table, self._used_resource):
                used.used[row, column] = count
        used.members[row] = usage.members
        used.alone[row] = usage.lone_members > 0


def requested_gpus(
    usage: NodeUsage | PodUsage, node: NodeFacts, table: NodeTable, resource: str
) -> Iterator[tuple[int, int]]:
    """Yield the column and the number of the GPUs of each type that Pods request on a node with a device plugin."""
    yield GPU, usage.other(resource)
    for offer in node.gpu_offers:
        if not offer.is_whole:
            yield table.gpu_column(offer.type), sum(usage.other(way) for way in offer.ways)


def _is_alike(one: NodeTable, other: NodeTable) -> bool:
    """Whether usage of one table has the rows and columns of the other."""
    if one is other:
        return True
    return (
        one.index == other.index
        and one.gpu_columns == other.gpu_columns
        and all(a.gpu_offers == b.gpu_offers for a, b in zip(one.nodes, other.nodes, strict=True))
    )


def _nominated_node(pod: Pod) -> str:
    return pod.status.nominated_node_name


def _parse_seconds(time: str) -> float:
    moment = parse_time(time)
    return moment.timestamp() if moment is not None else 0.0
