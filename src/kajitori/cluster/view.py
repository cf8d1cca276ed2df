"""The mirror's Nodes, Pods and Runs as the planner and policy see them: the way from Kubernetes' words into `core`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from kajitori.cluster.begun import BegunRuns
from kajitori.cluster.node_facts import node_facts
from kajitori.cluster.pools import Barred, PoolView
from kajitori.cluster.run_history import KinIndex
from kajitori.cluster.stored_runs import check_begun_so, keeps_nodes, member_of_template, type_of, was_admitted
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core import gang
from kajitori.core.admission.decide import Decision, Facts, RunIdentity, decide, limits_of, objections
from kajitori.core.admission.resolve import promised_restarts
from kajitori.core.gang.ledger import members_without_nodes
from kajitori.core.gang.memory import EarlierRun
from kajitori.core.nodes.preflight import policy_for_tests
from kajitori.core.nodes.provisioning import Pool
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.planner import MemberRequest
from kajitori.core.placement.snapshot import CPU, GPU, MEMORY, PODS, NodeFacts, NodeTable, Snapshot
from kajitori.core.policy.file import Policy
from kajitori.core.queue.explain import Use
from kajitori.core.spec.draft import Draft, read_draft
from kajitori.core.spec.kinds import kind_of
from kajitori.core.spec.node_request import NodeRequest
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.run import RunSpec, name_fault
from kajitori.core.spec.status import RunStatus
from kajitori.core.words import names, node_lists
from kajitori.errors import InvalidInput
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import RunObject

REMEMBERED_DECISIONS = 1024
"""Of so many different specs it is remembered what was made of them."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What members of an attempt will take that no bound Pod shows yet."""

    run: str
    """`namespace/name`."""
    attempt: int
    member: MemberRequest
    nodes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    """Of a sweep: of these members."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """An attempt's plan as it is stored, read once."""

    attempt: int
    member: MemberRequest
    nodes: dict[int, str]
    """Node by rank."""


class ClusterView:
    """The cluster at this moment. Facts about nodes are kept between questions; usage is read anew each time."""

    def __init__(self, mirror: Mirror, policy: PolicyFile) -> None:
        self._mirror = mirror
        self._policy = policy
        self._policy_version = 0
        self._facts: dict[str, NodeFacts] = {}
        self._table: NodeTable | None = None
        self._version = 0
        self._planned: dict[str, _Planned] = {}
        self._promised: set[str] = set()
        """UIDs of Runs that have nodes promised, as of the last look."""
        self._decisions: dict[tuple[object, ...], Decision] = {}
        """What policy makes of Runs of the same words, as of the version in `_decisions_of`."""
        self._decisions_of = 0
        self.begun = BegunRuns(mirror)
        self._kin: KinIndex | None = None
        self._pools = PoolView(mirror, self._is_test)

    @property
    def policy(self) -> Policy:
        """The policy in force now."""
        return self._policy.current().policy

    @property
    def policy_version(self) -> int:
        """Grows with every policy that is taken."""
        return self._policy.current().version

    @property
    def version(self) -> int:
        """Grows whenever policy or what is known of nodes changes: answers to `decide` may differ then."""
        self.table()
        return self._version

    def note_node(self, name: str) -> bool:
        """Looks at one Node anew; whether anything changed that matters to planning (heartbeats do not)."""
        node = self._mirror.nodes.get(name)
        facts = node_facts(node, self.policy) if node is not None else None
        if facts == self._facts.get(name):
            return False
        if facts is None:
            self._facts.pop(name, None)
        else:
            self._facts[name] = facts
        self._table = None
        return True

    def table(self) -> NodeTable:
        """All nodes, in topology order."""
        in_force = self._policy.current()
        if in_force.version != self._policy_version:
            self._policy_version = in_force.version
            self._facts = {name: node_facts(node, in_force.policy) for name, node in self._mirror.nodes.items()}
            self._table = None
        if self._table is None:
            self._table = NodeTable(self._facts.values())
            self._version += 1
        return self._table

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Pools that can grow, by name, in policy's order."""
        return self._pools.of(self.table(), self.policy)

    def possible_table(self) -> NodeTable:
        """All nodes, and those that pools may still get."""
        return self._pools.possible(self.table(), self.policy)

    def node_requests(self) -> Iterator[tuple[str, NodeRequest]]:
        """What runs have asked an autoscaler for and still need, by `namespace/name`."""
        return self._pools.requests()

    def kept(self) -> dict[str, Rows]:
        """Which nodes are kept for which run, because they came when it asked; by `namespace/name`."""
        return self._pools.holds(self.table(), self.policy)

    def barred(self) -> Barred:
        """Keeps gangs off nodes that came for others."""
        return self._pools.barred(self.table(), self.policy)

    def snapshot(self) -> Snapshot:
        """What is used on every node now, by whomever."""
        table = self.table()
        snapshot = Snapshot.empty(table)
        resource = self.policy.gpu.resource
        for row, node in enumerate(table.nodes):
            usage = self._mirror.usage_of(node.name)
            if usage is None:
                continue
            snapshot.used[row, CPU] = usage.cpu_millis
            snapshot.used[row, MEMORY] = usage.memory_bytes
            snapshot.used[row, GPU] = usage.other(resource)
            snapshot.used[row, PODS] = usage.pods
            snapshot.members[row] = usage.members
            snapshot.alone[row] = usage.lone_members > 0
        for pod in self._mirror.nominated():
            if pod.status.nominated_node_name in table.index:
                row, wanted = table.index[pod.status.nominated_node_name], self._mirror.usage_of_pod(pod)
                snapshot.used[row, CPU] += wanted.cpu_millis
                snapshot.used[row, MEMORY] += wanted.memory_bytes
                snapshot.used[row, GPU] += wanted.other(resource)
                snapshot.used[row, PODS] += 1
        return snapshot

    def promises(self) -> Iterator[Promise]:
        """Nodes that stored attempts have, but no bound Pod of theirs shows yet: free for nobody else.

        They follow from the Runs alone, so that whoever comes new to a cluster knows them from the first moment.
        """
        starting, keeping = [], []
        for run in self.begun.all():
            if self._holds_nodes(run):
                starting.append(run)
            if keeps_nodes(run):
                keeping.append(run)
        self._planned = {run.metadata.uid: self._plan_of(run) for run in starting}
        self._promised = {run.metadata.uid for run in (*starting, *keeping)}
        known = self.table().index
        for run in starting:
            planned = self._planned[run.metadata.uid]
            pods = (pod for pod in self._mirror.pods_of_run(run) if pod.spec.node_name)
            bound = {m.rank for pod in pods if (m := pod.member) is not None and m.attempt == planned.attempt}
            assert run.status is not None
            done = members_without_nodes(run.status.sweep) if run.status.sweep is not None else frozenset()
            left = {r: n for r, n in planned.nodes.items() if r not in bound and r not in done and n in known}
            if left:
                ranks = tuple(left) if run.status.sweep is not None else ()
                yield Promise(_name(run), planned.attempt, planned.member, tuple(left.values()), ranks)
        yield from (promise for run in keeping if (promise := self._kept_for(run)) is not None)

    def may_free(self, run: RunObject) -> bool:
        """Whether a change of the Run itself may free nodes: it had some promised when that was asked last. What its
        Pods have comes free with them."""
        return run.metadata.uid in self._promised

    def _kept_for(self, run: RunObject) -> Promise | None:
        """What an elastic gang's next attempt will have that no member of it has now (`core.spec.status.Resize`)."""
        status, table = run.status, self.table()
        if status is None or status.attempt is None or status.resize is None:
            return None
        rows = (table.index.get(name) for name in node_lists.expand(status.resize.nodes))
        kept = [table.nodes[row].name for row in rows if row is not None and bool(table.usable[row])]
        if len(kept) < status.resize.fewest:  # it waits, as others do
            return None
        if status.phase in (Phase.STARTING, Phase.RUNNING):
            has = Counter(gang.node_by_rank(status.attempt).values())
        else:
            pods = self._mirror.pods_of_run(run)
            has = Counter(pod.spec.node_name for pod in pods if not pod.is_finished)
        nodes = tuple((Counter(kept) - has).elements())
        if not nodes:
            return None
        member = member_of_template(status.attempt, self.policy.gpu.resource)
        return Promise(_name(run), status.attempts + 1, member, nodes)

    def _holds_nodes(self, run: RunObject) -> bool:
        """Whether members of the run's attempt are still to be made or bound, or may be without our having seen it."""
        status = run.status
        if status is None or status.attempt is None:
            return False
        if status.phase is Phase.STARTING:
            return True
        if status.sweep is not None:  # the rest of its attempt starts beside its other members
            return not status.phase.is_final
        if status.phase is Phase.RUNNING:  # Pods are watched apart from Runs: they may be seen later
            return len(self._mirror.pods_of_run(run)) < status.members.total
        # A service restarts one member beside the others; a batch run between two attempts holds nothing.
        return status.phase is Phase.RESTARTING and type_of(run) == "service"

    def _plan_of(self, run: RunObject) -> _Planned:
        assert run.status is not None and run.status.attempt is not None
        attempt = run.status.attempt
        before = self._planned.get(run.metadata.uid)
        if before is not None and before.attempt == attempt.number:
            return before
        nodes = gang.node_by_rank(attempt)
        return _Planned(attempt.number, member_of_template(attempt, self.policy.gpu.resource), nodes)

    def uses(self, node: str) -> Iterator[Use]:
        """Who takes what of a node. DaemonSet-like Pods without GPUs count too: what they take is not free."""
        resource = self.policy.gpu.resource
        for pod in self._mirror.pods_on_node(node):
            if pod.is_finished:
                continue
            usage = self._mirror.usage_of_pod(pod)
            run = self._mirror.run_of(pod)
            meta = pod.metadata
            yield Use(
                node=node,
                holder=f"{meta.namespace}/{run.metadata.name if run else meta.name}",
                owner=run.owner if run else "",
                is_run=run is not None,
                cpu_millis=usage.cpu_millis,
                memory_bytes=usage.memory_bytes,
                gpus=usage.other(resource),
                since=pod.status.start_time or meta.creation_timestamp,
            )

    def promised_uses(self) -> dict[str, list[Use]]:
        """What members that are still starting will take, by node: nobody else can have it, though no bound Pod shows
        it yet. What an elastic gang's next attempt will have is among it."""
        found: dict[str, list[Use]] = {}
        for promise in self.promises():
            namespace, _, name = promise.run.partition("/")
            run = self._mirror.runs.get((namespace, name))
            status = run.status if run is not None else None
            since = status.attempt.planned_at if status is not None and status.attempt is not None else ""
            for node in promise.nodes:
                use = Use(
                    node=node,
                    holder=promise.run,
                    owner=run.owner if run is not None else "",
                    is_run=True,
                    cpu_millis=promise.member.cpu_millis,
                    memory_bytes=promise.member.memory_bytes,
                    gpus=promise.member.gpus,
                    since=since,
                )
                found.setdefault(node, []).append(use)
        return found

    def earlier(
        self, spec: RunSpec | None, namespace: str, owner: str, *, than: RunObject | None = None
    ) -> tuple[EarlierRun, ...]:
        """What runs of the same kind needed, newest first; with `than`, those that were submitted before it."""
        if spec is None:
            return ()
        if self._kin is None:
            self._kin = KinIndex(self._mirror)
        return self._kin.earlier(kind_of(spec, namespace, owner), than)

    def decide(self, run: RunObject) -> tuple[RunSpec, Decision]:
        """What policy makes of a Run that stands in the cluster. Raises InvalidInput or Refused with every fault.

        People submit many runs that differ in their names alone: they share the answer, which is not for changing.
        """
        written, meta, owner = bytes(run.spec), run.metadata, run.owner
        draft, is_test = _draft_of(written), bool(self.tested_node(run))
        facts = replace(self._facts_about(run), earlier=self.earlier(draft.spec, meta.namespace, owner, than=run))
        identity = RunIdentity(meta.name, meta.namespace, owner)
        policy = policy_for_tests(self.policy) if is_test else self.policy
        if draft.spec is None or draft.faults:
            raise InvalidInput([*draft.faults, *objections(draft, policy, facts, run=identity)])
        check_begun_so(run.status, draft.spec)
        name = meta.name if draft.spec.checkpoint is not None or name_fault(meta.name) else ""
        key = (written, meta.namespace, owner, name, facts.admitted, facts.promised_restarts, facts.earlier, is_test)
        if self._decisions_of != self.version or len(self._decisions) >= REMEMBERED_DECISIONS:
            self._decisions, self._decisions_of = {}, self.version
        known = self._decisions.get(key)
        if known is None:
            known = self._decisions[key] = decide(draft.spec, policy, facts, run=identity)
        return draft.spec, known

    def tested_node(self, run: RunObject) -> str:
        """The node that a run tests; nothing where it is a run like any other."""
        if run.metadata.namespace != self.policy.preflight.namespace:
            return ""
        return run.metadata.annotations.get(names.ANNOTATION_TESTED_NODE, "")

    def _is_test(self, run: RunObject) -> bool:
        return names.ANNOTATION_TESTED_NODE in run.metadata.annotations and bool(self.tested_node(run))

    def outline(self, run: RunObject, status: RunStatus) -> tuple[gang.Run, RunSpec | None]:
        """A run that is refused now, as far as it goes on: its attempt runs until it is over or somebody ends it.

        Its spec comes with it where it can be read.
        """
        meta = run.metadata
        life = gang.run_without_spec(type_of(run), meta.generation, status, bool(meta.deletion_timestamp))
        draft = _draft_of(bytes(run.spec))
        if draft.spec is None:
            keep = self.policy.ended_runs.keep_for_seconds
            return replace(life, limits=replace(life.limits, remove_after_seconds=keep)), None
        spec = draft.spec
        limits = limits_of(spec, self.policy, self._facts_about(run))
        limits = replace(limits, restarts=0, grace_seconds=life.limits.grace_seconds)
        life = replace(life, limits=limits, stopped=spec.stopped, resumes=spec.resumes)
        return life, None if draft.faults else spec

    def _facts_about(self, run: RunObject) -> Facts:
        status = run.status
        return Facts(
            table=self.possible_table(),
            admitted=was_admitted(run),
            promised_restarts=promised_restarts(status.findings) if status is not None else 0,
        )


def _name(run: RunObject) -> str:
    return f"{run.metadata.namespace}/{run.metadata.name}"


@lru_cache(maxsize=REMEMBERED_DECISIONS)
def _draft_of(spec: bytes) -> Draft:
    return read_draft(msgspec.json.decode(spec))
