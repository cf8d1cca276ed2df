"""The index of runs on nodes: the nodes that each run holds or was promised, kept up to date with the mirror.

Usage, promised nodes, running gangs, candidates for preemption, expected ends and what-ifs are filters of this index.
A run that changed is read anew at the next question; all other entries stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import numpy as np

from kajitori.cluster.devices import Devices
from kajitori.cluster.mirror.mirror import Key, Mirror
from kajitori.cluster.mirror.usage import is_alone
from kajitori.cluster.objects import Pod
from kajitori.cluster.occupancy.entries import ENDING, AttemptPlan, Promise, RunOccupancy, is_begun
from kajitori.cluster.occupancy.usage import BoundUsage
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.runs.stored_runs import StoredSpecs, keeps_nodes, member_of_template
from kajitori.core import gang
from kajitori.core.formats import node_lists
from kajitori.core.formats.times import parse_time
from kajitori.core.gang.sweep_ledger import members_without_nodes
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.placement.snapshot import NodeTable, Snapshot
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.kube.resources import PODS as POD_KIND
from kajitori.kube.resources import Resource

_PlacedMember = tuple[int, int, float]
"""A member of a running gang: its rank, its row in the table of nodes, and its start in seconds since 1970. A plain
tuple, since there are thousands."""


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
        self._bound_usage = BoundUsage(mirror, table, devices, gpu_resource)
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
        snapshot = self._bound_usage.snapshot().copy()
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
        counts = {o.type: n for o in offers for way in o.ways if (n := usage.other(way or resource))}
        if counts:
            return counts
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
        """Make the entries of all runs anew that changed since the last call."""
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
        """Return the nodes of the run's last attempt; None if it has none. `before` is its entry until now."""
        attempt = run.status.attempt if run.status is not None else None
        if attempt is None:
            return None
        plan = before.plan if before is not None and before.run.metadata.uid == run.metadata.uid else None
        if plan is not None and plan.attempt == attempt.number:
            return plan
        member = member_of_template(attempt, self._gpu_resource())
        return AttemptPlan(attempt.number, self._members.setdefault(member, member), gang.node_by_rank(attempt))

    # ------------------------------------------------------------------------------------------ running gangs

    def _with_gang(self, held: RunOccupancy, table: NodeTable) -> RunOccupancy:
        """Return the entry with the nodes of its members, if it is a running gang."""
        run, plan, status = held.run, held.plan, held.run.status
        if plan is None or status is None or status.attempt is None or not self._is_running_gang(run, status):
            return held
        is_sweep = status.sweep is not None
        since = _parse_seconds(status.attempt.started_at or status.attempt.planned_at)
        over = _ranks_that_are_over(held, plan, status)
        members: list[_PlacedMember] = [
            (rank, table.index[node], since)
            for rank, node in plan.nodes.items()
            if node in table.index and rank not in over
        ]
        if is_sweep:  # members of earlier attempts run on beside those of the last one
            members += _members_of_earlier_attempts(held, plan, table, since)
        if not members or not since:
            return held
        ranks, rows, starts = zip(*members, strict=True)
        starts = starts if is_sweep else ()
        return replace(held, rows=np.array(rows, dtype=np.int64), ranks=ranks, since=since, starts=starts)

    def _is_running_gang(self, run: RunObject, status: RunStatus) -> bool:
        """Whether a run is a gang or sweep with members that were not asked to end."""
        if run.metadata.deletion_timestamp or status.phase not in (Phase.STARTING, Phase.RUNNING):
            return False
        return status.reason not in ENDING and not self._specs.of(run).is_service

    # ------------------------------------------------------------------------------------------ promised nodes

    def _promises_of(self, held: RunOccupancy, table: NodeTable) -> Iterator[Promise]:
        """Yield the nodes that the run was promised and to which no Pod of it is bound."""
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


def _ranks_that_are_over(held: RunOccupancy, plan: AttemptPlan, status: RunStatus) -> set[int]:
    """Return the ranks of the attempt whose members hold no node any more."""
    over = {
        member.rank
        for pod in held.members
        if pod.is_finished and (member := pod.member) is not None and member.attempt == plan.attempt
    }
    return over if status.sweep is None else over | members_without_nodes(status.sweep)


def _members_of_earlier_attempts(
    held: RunOccupancy, plan: AttemptPlan, table: NodeTable, since: float
) -> list[_PlacedMember]:
    """Return the members of a sweep that were started in an earlier attempt and have not ended."""
    alive = [pod for pod in held.members if not pod.is_finished and pod.spec.node_name in table.index]
    return [
        (member.rank, table.index[pod.spec.node_name], _parse_seconds(pod.metadata.creation_timestamp) or since)
        for pod in alive
        if (member := pod.member) is not None and member.attempt < plan.attempt
    ]


def _nominated_node(pod: Pod) -> str:
    """Return the node on which the scheduler is making room for a Pod; empty if it does not."""
    return pod.status.nominated_node_name


def _parse_seconds(time: str) -> float:
    """Return a time in seconds since 1970; 0 if it is missing."""
    moment = parse_time(time)
    return moment.timestamp() if moment is not None else 0.0
