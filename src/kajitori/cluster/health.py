"""The health of nodes from the mirror, in the types of `core.nodes.health`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Node
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import parse_time
from kajitori.core.naming import names
from kajitori.core.nodes.evidence import failures_of, proven_at, slow_on, unstarted_on, without_outages
from kajitori.core.nodes.health import BUSY_RECHECK, BadCondition, Failure, Signs, Trial, TrialState, Verdict, examine
from kajitori.core.nodes.trail import Entry, read_trail
from kajitori.core.policy.file import Policy
from kajitori.core.spec.reasons import Phase, Reason

_SHOWN_HOLDERS = 5
_LAST_LINES = 5
_NODES_FAULT = (Reason.PROGRAM_FAILED, Reason.TIME_LIMIT)
"""Reasons of a test's end that are the node's fault; any other end is not."""


class HealthView:
    """The health of all nodes. The signs of a node are cached until its Node changes; runs are read anew each time."""

    def __init__(self, mirror: Mirror, cluster: ClusterView) -> None:
        self._mirror = mirror
        self._cluster = cluster
        self._policy_version = 0
        self._signs: dict[str, tuple[Node, Signs]] = {}

    def note_node(self, name: str) -> bool:
        """Return whether a Node changed in a way that matters to its health; heartbeats do not."""
        before = self._signs.pop(name, None)
        node = self._mirror.nodes.get(name)
        if node is None or before is None:
            return True
        signs = self._signs_of(node)
        return signs != before[1] or bool(signs.silent_since)

    def verdict(self, now: datetime) -> Verdict:
        """Return the verdict about each node, from everything that the mirror shows now."""
        policy = self._cluster.policy
        failures, proven = self._failures_by_node(now)
        signs = self.signs(now)
        verdict = examine(signs, failures, policy.node_health, policy.preflight, now)
        if proven is not None:
            verdict.examine_by(proven)
        if any(sign.test is not None and sign.test.state is TrialState.GOES_ON for sign in signs):
            verdict.examine_by(now + BUSY_RECHECK)  # it may never fit
        return verdict

    def signs(self, now: datetime) -> list[Signs]:
        """Return the signs of every node."""
        if self._cluster.policy_version != self._policy_version:
            self._policy_version = self._cluster.policy_version
            self._signs.clear()
        tests = self.tests()
        found = []
        for node in self._mirror.nodes.values():
            signs = self._signs_of(node)
            if signs.silent_since is not None:
                signs = replace(signs, holders=self._runs_on(signs.node))
            test = tests[signs.node][-1] if signs.node in tests else None
            if test is not None or signs.unhealthy is not None or signs.awaits_test:
                usage = self._mirror.usage_of(signs.node)
                signs = replace(signs, busy=usage is not None and usage.members > 0)
            if test is not None:
                signs = replace(signs, test=self._trial_of(test, signs, now))
            found.append(signs)
        if len(self._signs) > len(found):  # its nodes are gone
            self._signs = {name: known for name, known in self._signs.items() if name in self._mirror.nodes}
        return found

    def tests(self) -> dict[str, list[RunObject]]:
        """Return the runs that test each node, the oldest first; without those that are being deleted."""
        found: dict[str, list[RunObject]] = defaultdict(list)
        for run in self._mirror.runs.values():
            node = self._cluster.tested_node(run)
            if node and not run.metadata.deletion_timestamp:
                found[node].append(run)
        for runs in found.values():
            runs.sort(key=lambda run: (run.metadata.creation_timestamp, run.metadata.name))
        return found

    def trail(self, node: str) -> tuple[Entry, ...]:
        """Return the recorded events of a node."""
        known = self._mirror.nodes.get(node)
        return self._signs_of(known).trail if known is not None else ()

    # ------------------------------------------------------------------------------------------ nodes

    def _signs_of(self, node: Node) -> Signs:
        name = node.metadata.name
        known = self._signs.get(name)
        if known is not None and known[0] is node:
            return known[1]
        signs = signs_of(node, self._cluster.policy)
        self._signs[name] = (node, signs)
        return signs

    def _runs_on(self, node: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for pod in self._mirror.pods_on_node(node):
            run = self._mirror.run_of(pod)
            if run is not None and not pod.is_finished:
                found[f"{run.metadata.namespace}/{run.metadata.name}"] = None
        return tuple(sorted(found)[:_SHOWN_HOLDERS])

    # ------------------------------------------------------------------------------------------ runs

    def _failures_by_node(self, now: datetime) -> tuple[Mapping[str, list[Failure]], datetime | None]:
        """Return failures by node, and the time at which a run that failed will have run long enough on other nodes to
        blame the first one."""
        found: dict[str, list[Failure]] = defaultdict(list)
        moments: list[datetime] = []
        unstarted: list[tuple[str, datetime]] = []
        health = self._cluster.policy.node_health
        for (namespace, name), run in self._mirror.runs.items():
            status = run.status
            if status is None or not (status.avoid_nodes or status.slow) or self._cluster.tested_node(run):
                continue
            for node, failure in slow_on(f"{namespace}/{name}", run.owner, status):
                found[node].append(failure)
            if not status.avoid_nodes:
                continue
            for node, failure in failures_of(f"{namespace}/{name}", run.owner, status, health, now):
                found[node].append(failure)
            unstarted += unstarted_on(status)
            proven = proven_at(status, health)
            if proven is not None and proven > now:
                moments.append(proven)
        return without_outages(found, unstarted, len(self._mirror.nodes)), min(moments, default=None)

    def _trial_of(self, run: RunObject, signs: Signs, now: datetime) -> Trial:
        status, name = run.current_status, run.metadata.name
        if status.phase is Phase.SUCCEEDED:
            return Trial(name, TrialState.PASSED)
        if status.phase.is_final or status.failed_starts:
            if status.phase is Phase.FAILED and status.reason in _NODES_FAULT:
                return Trial(name, TrialState.FAILED, self._last_words(run) or (_describe_end(status.message),))
            return Trial(name, TrialState.IMPOSSIBLE, (status.message or status.reason.value,))
        patience_seconds = self._cluster.policy.preflight.time_limit_seconds
        created = parse_time(run.metadata.creation_timestamp)
        in_vain = status.attempt is None and not signs.busy  # other Pods leave too little room for the test
        if in_vain and created is not None and created + timedelta(seconds=patience_seconds) < now:
            found = f"found no room for {format_duration(patience_seconds)}: {status.message}".removesuffix(": ")
            return Trial(name, TrialState.IMPOSSIBLE, (found,))
        return Trial(name, TrialState.GOES_ON)

    def _last_words(self, run: RunObject) -> tuple[str, ...]:
        """Return how a test ended, with its last line, then the lines before that."""
        assert run.status is not None
        for pod in self._mirror.pods_of_run(run):
            for container in pod.status.container_statuses:
                ended = container.state.terminated
                if ended is not None and ended.message:
                    lines = [line for line in ended.message.splitlines() if line.strip()][-_LAST_LINES:]
                    return (_describe_end(run.status.message), *lines[:-1])
        return ()


def _describe_end(message: str) -> str:
    """Return how a test ended; it has one member."""
    return message.removeprefix("member 0: ")


def signs_of(node: Node, policy: Policy) -> Signs:
    """Return the signs of a node's health, from its conditions, taints and annotations."""
    health = policy.node_health
    bad, cleared = [], []
    silent_since = None
    taints = {taint.key: taint.value for taint in node.spec.taints}
    is_out = names.TAINT_UNHEALTHY in taints
    for condition in node.status.conditions:
        if condition.type == "Ready":
            silent_since = parse_time(condition.last_transition_time) if condition.status != "True" else None
        elif health.is_bad(condition.type, condition.status):
            since = parse_time(condition.last_transition_time)
            bad.append(BadCondition(condition.type, since, condition.message or condition.reason))
        elif is_out and health.watches(condition.type):
            cleared.append(parse_time(condition.last_transition_time))
    annotations = node.metadata.annotations
    return Signs(
        node=node.metadata.name,
        usable=node.is_ready and not node.spec.unschedulable,
        silent_since=silent_since,
        bad=tuple(bad),
        cleared_at=max((moment for moment in cleared if moment is not None), default=None),
        unhealthy=taints.get(names.TAINT_UNHEALTHY),
        awaits_test=policy.preflight.taint in taints,
        wanted_by=annotations.get(names.ANNOTATION_TEST_WANTED, ""),
        testable=policy.preflight.covers(node.metadata.labels),
        trail=read_trail(annotations.get(names.ANNOTATION_HEALTH, "")),
    )
