"""The mirror's Nodes, Pods and Runs in the types of the planner and of policy in `core`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import msgspec

from kajitori.cluster.devices import Devices
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.nodes.node_facts import node_facts
from kajitori.cluster.nodes.pools import Barred, PoolView
from kajitori.cluster.occupancy.index import Occupancy
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.dependencies import Dependencies
from kajitori.cluster.runs.run_history import RunHistory
from kajitori.cluster.runs.stored_runs import StoredSpecs, check_stays_gang_or_sweep, was_admitted, with_wishes
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core import gang
from kajitori.core.admission.decide import Decision, Facts, RunIdentity, decide, limits_of, objections
from kajitori.core.admission.resolve import promised_restarts
from kajitori.core.gang.memory import EarlierRun
from kajitori.core.naming import names
from kajitori.core.nodes.preflight import policy_for_tests
from kajitori.core.nodes.provisioning import Pool
from kajitori.core.placement.choosing import Rows
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.pods.networks import UNKNOWN_DNS, ClusterDns
from kajitori.core.policy.file import Policy
from kajitori.core.queue.explain import Use
from kajitori.core.spec.kinds import kind_of
from kajitori.core.spec.reading.draft import Draft, read_draft
from kajitori.core.spec.run import RunSpec, name_fault
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.node_request import NodeRequest
from kajitori.errors import InvalidInput

REMEMBERED_DECISIONS = 1024
"""Number of different specs with decisions that are kept."""


class ClusterView:
    """The cluster at this moment. Facts about nodes and occupancy are kept between questions and follow the mirror."""

    def __init__(self, mirror: Mirror, policy: PolicyFile, dns: ClusterDns = UNKNOWN_DNS) -> None:
        self._dns = dns
        self._mirror = mirror
        self._policy = policy
        self._policy_version = 0
        self.devices = Devices(mirror, lambda: self.policy)
        self._facts: dict[str, NodeFacts] = {}
        self._table: NodeTable | None = None
        self._version = 0
        self._decisions: dict[tuple[object, ...], Decision] = {}
        """Policy's decisions as of version `_decisions_of`. Runs that differ in their names alone share one."""
        self._decisions_of = 0
        self.specs = StoredSpecs(mirror)
        self.dependencies = Dependencies(mirror, self.specs)
        self.occupancy = Occupancy(mirror, self.specs, self.table, self.devices, lambda: self.policy.gpu.resource)
        self._history: RunHistory | None = None
        self._pools = PoolView(mirror, self.occupancy, self._is_test)

    def close(self) -> None:
        """Stop following the mirror. A view that lives as long as its process need not be closed."""
        self.specs.close()
        self.dependencies.close()
        self.occupancy.close()
        self.devices.close()
        if self._history is not None:
            self._history.close()

    @property
    def policy(self) -> Policy:
        """The policy in force now."""
        return self._policy.current().policy

    @property
    def policy_version(self) -> int:
        """A number that grows with every policy that takes effect."""
        return self._policy.current().version

    @property
    def version(self) -> int:
        """A number that grows whenever policy or the facts of nodes change: `decide` may then give another answer."""
        self.table()
        return self._version

    def note_node(self, name: str) -> bool:
        """Read one Node anew; return whether anything changed that matters to planning. Heartbeats do not."""
        node = self._mirror.nodes.get(name)
        facts = node_facts(node, self.policy, self.devices.offers(name)) if node is not None else None
        if facts == self._facts.get(name):
            return False
        if facts is None:
            self._facts.pop(name, None)
        else:
            self._facts[name] = facts
        self._table = None
        return True

    def table(self) -> NodeTable:
        """Return all nodes, in topology order."""
        in_force = self._policy.current()
        if in_force.version != self._policy_version:
            self._policy_version = in_force.version
            self.devices.read_all_again()
            self.devices.take_changed()
            self._facts = {
                name: node_facts(node, in_force.policy, self.devices.offers(name))
                for name, node in self._mirror.nodes.items()
            }
            self._table = None
        for name in self.devices.take_changed():
            self.note_node(name)
        if self._table is None:
            self._table = NodeTable(self._facts.values())
            self._version += 1
        return self._table

    def has_cpu_nodes(self) -> bool:
        """Return whether there are nodes without GPUs; true if there are no nodes at all."""
        table = self.table()
        return not table.nodes or not bool(table.has_gpu.all())

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Node pools that can grow, by name, in policy's order."""
        return self._pools.of(self.table(), self.policy)

    def possible_table(self) -> NodeTable:
        """Return all nodes, and those that pools may still get."""
        return self._pools.possible(self.table(), self.policy)

    def node_requests(self) -> Iterator[tuple[str, NodeRequest]]:
        """Yield the node requests that runs have made to an autoscaler and still need, by `namespace/name`."""
        return self._pools.requests()

    def kept(self) -> dict[str, Rows]:
        """Return the nodes that an autoscaler made for a run and that are kept for it, by `namespace/name`."""
        return self._pools.holds(self.table(), self.policy)

    def barred(self) -> Barred:
        """Return the function that keeps gangs off nodes that an autoscaler made for other runs."""
        return self._pools.barred(self.table(), self.policy)

    def uses(self, node: str) -> Iterator[Use]:
        """Yield the resources of each Pod on a node, including Pods of DaemonSets."""
        for pod in self._mirror.pods_on_node(node):
            if pod.is_finished:
                continue
            usage = self._mirror.usage_of_pod(pod)
            gpus = self.occupancy.gpus_of(pod)
            run = self._mirror.run_of(pod)
            meta = pod.metadata
            yield Use(
                node=node,
                holder=f"{meta.namespace}/{run.metadata.name if run else meta.name}",
                owner=run.owner if run else "",
                is_run=run is not None,
                cpu_millis=usage.cpu_millis,
                memory_bytes=usage.memory_bytes,
                gpus=sum(gpus.values()),
                gpu_type=next(iter(gpus), ""),
                since=pod.status.start_time or meta.creation_timestamp,
            )

    def promised_uses(self) -> dict[str, list[Use]]:
        """Return, by node, the resources that are promised to members without a bound Pod, and the nodes that are kept
        for the next attempt of an elastic gang. No other run can have them."""
        found: dict[str, list[Use]] = {}
        for promise in self.occupancy.promises():
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
                    gpu_type=promise.member.gpu_type,
                    since=since,
                )
                found.setdefault(node, []).append(use)
        return found

    def earlier(
        self, spec: RunSpec | None, namespace: str, owner: str, *, than: RunObject | None = None
    ) -> tuple[EarlierRun, ...]:
        """Return the memory peaks of earlier runs of the same kind, newest first; with `than`, only of runs submitted
        before it."""
        if spec is None:
            return ()
        if self._history is None:
            self._history = RunHistory(self._mirror)
        return self._history.earlier(kind_of(spec, namespace, owner), than)

    def decide(self, run: RunObject) -> tuple[RunSpec, Decision]:
        """Return the spec of a stored Run and policy's decision about it. Raises InvalidInput or Refused with every
        fault.

        Runs that differ in their names alone share one decision, which must not be changed.
        """
        written, meta, owner = bytes(run.spec), run.metadata, run.owner
        draft, is_test = _draft_of(written), bool(self.tested_node(run))
        facts = replace(self._facts_about(run), earlier=self.earlier(draft.spec, meta.namespace, owner, than=run))
        identity = RunIdentity(meta.name, meta.namespace, owner)
        policy = policy_for_tests(self.policy) if is_test else self.policy
        if draft.spec is None or draft.faults:
            raise InvalidInput([*draft.faults, *objections(draft, policy, facts, run=identity)])
        check_stays_gang_or_sweep(run.status, draft.spec)
        # Folder, claim and address of a run have its name; a notebook has a folder and an address without asking.
        is_named = draft.spec.checkpoint is not None or draft.spec.type == "notebook" or name_fault(meta.name)
        name = meta.name if is_named else ""
        key = (written, meta.namespace, owner, name, facts.admitted, facts.promised_restarts, facts.earlier, is_test)
        if self._decisions_of != self.version or len(self._decisions) >= REMEMBERED_DECISIONS:
            self._decisions, self._decisions_of = {}, self.version
        known = self._decisions.get(key)
        if known is None:
            known = self._decisions[key] = decide(draft.spec, policy, facts, run=identity)
        return draft.spec, known

    def tested_node(self, run: RunObject) -> str:
        """Return the node that a run tests; empty for every other run."""
        if run.metadata.namespace != self.policy.preflight.namespace:
            return ""
        return run.metadata.annotations.get(names.ANNOTATION_TESTED_NODE, "")

    def _is_test(self, run: RunObject) -> bool:
        return names.ANNOTATION_TESTED_NODE in run.metadata.annotations and bool(self.tested_node(run))

    def outline(self, run: RunObject, status: RunStatus) -> tuple[gang.Run, RunSpec | None]:
        """Return a run that policy refuses now in the form that the state machine needs: its attempt continues until it
        ends or a user ends it. If the spec can be read, it is included.
        """
        meta = run.metadata
        life = gang.run_without_spec(self.specs.of(run).type, meta.generation, status, bool(meta.deletion_timestamp))
        draft = _draft_of(bytes(run.spec))
        if draft.spec is None:
            keep = self.policy.ended_runs.keep_for_seconds
            return replace(life, limits=replace(life.limits, remove_after_seconds=keep)), None
        spec = draft.spec
        limits = limits_of(spec, self.policy, self._facts_about(run))
        limits = replace(limits, restarts=0, grace_seconds=life.limits.grace_seconds)
        return with_wishes(replace(life, limits=limits), spec), None if draft.faults else spec

    def _facts_about(self, run: RunObject) -> Facts:
        status = run.status
        return Facts(
            table=self.possible_table(),
            admitted=was_admitted(run),
            promised_restarts=promised_restarts(status.findings) if status is not None else 0,
            dns=self._dns,
        )


@lru_cache(maxsize=REMEMBERED_DECISIONS)
def _draft_of(spec: bytes) -> Draft:
    return read_draft(msgspec.json.decode(spec))
