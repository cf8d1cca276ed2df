"""The health of nodes from the mirror."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kajitori.cluster.health import HealthView
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import (
    Condition,
    ContainerState,
    ContainerStatus,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    Terminated,
)
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.formats.times import format_time
from kajitori.core.naming import names
from kajitori.core.nodes.health import MEMBERS_FAIL, MEMBERS_SLOW, TrialState
from kajitori.core.nodes.trail import TrailEvent, new_entry, write_trail
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import Notable
from kajitori.core.spec.status_parts.suspicions import SlowPlace
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.metadata import ObjectMeta, OwnerReference
from kajitori.kube.watch import Added

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
AN_HOUR_AGO = format_time(NOW - timedelta(hours=1))
RULES = {"preflight": {"image": "preflight:1", "timeLimit": "10m"}, "nodeHealth": {"badWhenTrue": ["*XID*"]}}


class Cluster:
    """A mirror that tests fill, and the view of it."""

    def __init__(self, **rules: Any) -> None:
        self.mirror = Mirror(KubeClient(KubeConfig(server="http://unused")))
        policy = PolicyFile(None, without_file=parse_policy({**RULES, **rules}))
        self.view = HealthView(self.mirror, ClusterView(self.mirror, policy))

    def node(self, name: str, *conditions: Condition, ready: str = "True", **meta: Any) -> None:
        taints = tuple(Taint(key=key) for key in meta.pop("taints", ()))
        status = NodeStatus(
            conditions=(Condition(type="Ready", status=ready, last_transition_time=AN_HOUR_AGO), *conditions)
        )
        self.mirror.nodes[name] = Node(
            metadata=ObjectMeta(name=name, uid=name, **meta), spec=NodeSpec(taints=taints), status=status
        )

    def run(
        self, name: str, status: RunStatus | None, *, tests: str = "", owner: str = "", namespace: str = ""
    ) -> RunObject:
        annotations = {names.ANNOTATION_TESTED_NODE: tests} if tests else {names.ANNOTATION_OWNER: owner}
        meta = ObjectMeta(
            name=name,
            namespace=namespace or (names.NAMESPACE if tests else "team"),
            uid=f"uid-{name}",
            annotations=annotations,
            creation_timestamp=AN_HOUR_AGO,
        )
        run = RunObject(metadata=meta, spec=msgspec.Raw(b"{}"), status=status)
        self.mirror.runs[meta.namespace, name] = run
        return run

    def pod(self, run: RunObject, node: str, *, exit_code: int | None = None, says: str = "") -> None:
        ended = Terminated(exit_code=exit_code, message=says) if exit_code is not None else None
        owner = OwnerReference(kind=names.KIND, name=run.metadata.name, uid=run.metadata.uid, controller=True)
        self.mirror._index(
            Added(
                Pod(
                    metadata=ObjectMeta(
                        name=f"{run.metadata.name}-1-0",
                        namespace=run.metadata.namespace,
                        uid="p",
                        owner_references=(owner,),
                    ),
                    spec=PodSpec(node_name=node),
                    status=PodStatus(
                        phase="Running" if ended is None else "Failed",
                        container_statuses=(ContainerStatus(name="main", state=ContainerState(terminated=ended)),),
                    ),
                )
            )
        )

    def signs(self, name: str, now: datetime = NOW) -> Any:
        return next(signs for signs in self.view.signs(now) if signs.node == name)


def test_only_conditions_that_policy_names_are_bad() -> None:
    cluster = Cluster()
    cluster.node(
        "n1",
        Condition(type="XIDError", status="True", reason="Xid79", last_transition_time=AN_HOUR_AGO),
        Condition(type="KernelDeadlock", status="True", last_transition_time=AN_HOUR_AGO),
        Condition(type="StorageReady", status="False", message="no disk", last_transition_time=""),
    )
    found = cluster.signs("n1").bad
    assert [(bad.type, bad.since, bad.says) for bad in found] == [
        ("XIDError", NOW - timedelta(hours=1), "Xid79"),
        ("StorageReady", None, "no disk"),
    ]


def test_the_end_of_the_last_bad_condition_of_an_unhealthy_node_is_known() -> None:
    cluster = Cluster()
    gone = Condition(type="XIDError", status="False", last_transition_time=AN_HOUR_AGO)
    cluster.node("n1", gone, taints=[names.TAINT_UNHEALTHY])
    assert cluster.signs("n1").cleared_at == NOW - timedelta(hours=1)


def test_a_silent_node_is_listed_with_the_runs_on_it() -> None:
    cluster = Cluster()
    cluster.node("n1", ready="Unknown")
    run = cluster.run("bert", RunStatus(phase=Phase.RUNNING))
    cluster.pod(run, "n1")
    signs = cluster.signs("n1")
    assert (signs.silent_since, signs.holders, signs.usable) == (NOW - timedelta(hours=1), ("team/bert",), False)


def test_a_heartbeat_is_no_change_of_a_node() -> None:
    cluster = Cluster()
    cluster.node("n1")
    cluster.view.signs(NOW)
    cluster.node("n1", resource_version="2")
    assert not cluster.view.note_node("n1")
    cluster.node("n1", annotations={names.ANNOTATION_TEST_WANTED: "ada"})
    assert cluster.view.note_node("n1")


@pytest.mark.parametrize(
    ("status", "state", "says"),
    [
        (None, TrialState.IMPOSSIBLE, "found no room for 10m"),
        (RunStatus(message="needs 8 GPUs"), TrialState.IMPOSSIBLE, "found no room for 10m: needs 8 GPUs"),
        (RunStatus(phase=Phase.RUNNING, attempts=1, attempt=Attempt(number=1, nodes="n1")), TrialState.GOES_ON, ""),
        (RunStatus(phase=Phase.SUCCEEDED), TrialState.PASSED, ""),
        (RunStatus(phase=Phase.FAILED, reason=Reason.TIME_LIMIT, message="too long"), TrialState.FAILED, "too long"),
        (RunStatus(phase=Phase.FAILED, reason=Reason.REFUSED, message="no"), TrialState.IMPOSSIBLE, "no"),
        (RunStatus(phase=Phase.FAILED, reason=Reason.COMMAND_NOT_FOUND), TrialState.IMPOSSIBLE, "CommandNotFound"),
        (RunStatus(phase=Phase.STOPPED, message="stopped"), TrialState.IMPOSSIBLE, "stopped"),
        (RunStatus(failed_starts=1, message="no such image"), TrialState.IMPOSSIBLE, "no such image"),
    ],
    ids=["unseen", "no room", "runs", "passed", "hangs", "refused", "no program", "stopped", "no image"],
)
def test_the_status_of_a_tests_run_becomes_its_state(status: RunStatus | None, state: TrialState, says: str) -> None:
    cluster = Cluster()
    cluster.node("n1", taints=[names.TAINT_PREFLIGHT])
    cluster.run("test-a", status, tests="n1")
    test = cluster.signs("n1").test
    assert (test.run, test.state, "; ".join(test.evidence)) == ("test-a", state, says)


def test_a_test_that_waits_for_runs_to_end_goes_on() -> None:
    cluster = Cluster()
    cluster.node("n1")
    cluster.run("test-a", RunStatus(message="needs a whole node"), tests="n1")
    cluster.pod(cluster.run("bert", RunStatus(phase=Phase.RUNNING)), "n1")
    assert cluster.signs("n1").test.state is TrialState.GOES_ON


def test_the_last_lines_of_a_failed_test_are_its_evidence() -> None:
    cluster = Cluster()
    cluster.node("n1")
    message = "member 0: exit code 1: 7 of 8 GPUs"
    status = RunStatus(phase=Phase.FAILED, reason=Reason.PROGRAM_FAILED, message=message, attempts=1)
    run = cluster.run("test-a", status, tests="n1")
    cluster.pod(run, "n1", exit_code=1, says="\n".join(f"line {number}" for number in range(9)) + "\n7 of 8 GPUs\n")
    assert cluster.signs("n1").test.evidence == ("exit code 1: 7 of 8 GPUs", "line 5", "line 6", "line 7", "line 8")


def test_only_runs_in_the_namespace_of_tests_are_tests() -> None:
    """In other namespaces any user may write that annotation."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.run("test-a", RunStatus(phase=Phase.SUCCEEDED), tests="n1", namespace="team")
    assert cluster.signs("n1").test is None
    assert not cluster.view.tests()


def failed_then(phase: Phase, *, elsewhere: str = "n2", hours: float = 1, **more: Any) -> RunStatus:
    """Return the status of a run that failed on n1 and has been in its second attempt for this many hours."""
    started = format_time(NOW - timedelta(hours=hours))
    fields = {"avoid_nodes": {"n1": 2}, "reason": Reason.PROGRAM_FAILED.value, "at": AN_HOUR_AGO} | more
    note = Notable(rank=3, node="n1", reason=fields["reason"], message="exit code 139", attempt=1, since=fields["at"])
    attempt = Attempt(number=2, nodes=elsewhere, started_at=started)
    return RunStatus(phase=phase, attempts=2, attempt=attempt, notable=[note], avoid_nodes=fields["avoid_nodes"])


def against_n1(status: RunStatus) -> Sequence[str]:
    """Return the evidence against node n1 if one run failed there for certain, and another run has this status. It is
    empty if that is not enough. No other node may have evidence against it."""
    cluster = Cluster(nodeHealth={"failedRuns": 2})
    for name in ("n1", "n2"):
        cluster.node(name)
    cluster.run("sure", failed_then(Phase.SUCCEEDED), owner="ada")
    cluster.run("asked", status, owner="ben")
    changes = cluster.view.verdict(NOW).changes
    assert [(change.node, change.entry.reason) for change in changes] in ([], [("n1", MEMBERS_FAIL)])
    return changes[0].entry.evidence if changes else ()


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (failed_then(Phase.SUCCEEDED), True),
        (failed_then(Phase.RUNNING), True),
        (failed_then(Phase.RUNNING, hours=0.1), False),
        (failed_then(Phase.RUNNING, reason=Reason.STUCK.value), True),
        (failed_then(Phase.FAILED), False),
        (failed_then(Phase.SUCCEEDED, elsewhere="n[1-2]"), False),
        (failed_then(Phase.SUCCEEDED, reason=Reason.OUT_OF_MEMORY.value), False),
        (failed_then(Phase.SUCCEEDED, reason=Reason.NODE_LOST.value), False),
        (failed_then(Phase.SUCCEEDED, avoid_nodes={"n1": 1, "n2": 1, "n3": 1}), False),
        (failed_then(Phase.SUCCEEDED, avoid_nodes={"n4": 1}), False),
        (failed_then(Phase.SUCCEEDED, avoid_nodes={}), False),
        (failed_then(Phase.SUCCEEDED, avoid_nodes={"n1": 1, "n2": 1}), True),
        (msgspec.structs.replace(failed_then(Phase.SUCCEEDED), attempt=None), False),
        (failed_then(Phase.SUCCEEDED, at=""), False),
    ],
    ids=[
        "succeeded elsewhere",
        "runs elsewhere",
        "not for long yet",
        "hung there, runs elsewhere",
        "failed elsewhere, too",
        "succeeded there as well",
        "its own memory",
        "lost",
        "fails everywhere",
        "another node was at fault",
        "nobody was to blame",
        "half of its failures",
        "is nowhere now",
        "nobody knows when",
    ],
)
def test_failures_that_count_against_a_node(status: RunStatus, counts: bool) -> None:
    evidence = against_n1(status)
    assert bool(evidence) == counts
    if counts:
        assert "run team/asked (ben): member 3 of attempt 1 failed" in " ".join(evidence)


def unstarted(node: str = "n1", *, elsewhere: str = "n2", at: str = AN_HOUR_AGO, **more: Any) -> RunStatus:
    """Return the status of a run that could not start on a node, and is in its second attempt."""
    note = Notable(rank=3, node=node, reason=Reason.VOLUME.value, message="no such server", attempt=1, since=at)
    attempt = Attempt(number=2, nodes=elsewhere, started_at=format_time(NOW))
    fields: dict[str, Any] = {"phase": Phase.RUNNING, "attempts": 2, "attempt": attempt, "avoid_nodes": {node: 2}}
    return RunStatus(unstarted=[note], **(fields | more))


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (unstarted(), True),
        (unstarted(phase=Phase.FAILED), True),
        (unstarted(failed_starts=1), False),
        (unstarted(elsewhere="n[1-2]"), False),
        (unstarted(attempts=1, attempt=Attempt(number=1, nodes="n2")), False),
        (unstarted(avoid_nodes={"n1": 2, "n3": 2}), False),
        (unstarted(avoid_nodes={"n1": 2, "n3": 1}), True),
        (unstarted(avoid_nodes={}), False),
        (unstarted(attempt=None), False),
        (unstarted(at=""), False),
        (unstarted(at=format_time(NOW - timedelta(days=2))), False),
    ],
    ids=[
        "started elsewhere",
        "and failed there",
        "has not started since",
        "started there as well",
        "not since",
        "could not start elsewhere, either",
        "hardly elsewhere",
        "nobody was to blame",
        "is nowhere now",
        "nobody knows when",
        "long ago",
    ],
)
def test_starts_that_failed_on_one_node_only_count_against_it(status: RunStatus, counts: bool) -> None:
    """As with other failures, runs of several users are needed."""
    evidence = against_n1(status)
    assert bool(evidence) == counts
    if counts:
        message = f"run team/asked (ben): member 3 of attempt 1 could not start at {AN_HOUR_AGO}: no such server"
        assert message in evidence


def test_no_failures_are_reported_if_policy_does_not_count_them() -> None:
    cluster = Cluster(nodeHealth={"failedRuns": 0})
    cluster.node("n1")
    for number in range(9):
        cluster.run(f"r{number}", failed_then(Phase.SUCCEEDED), owner=f"p{number}")
        cluster.run(f"s{number}", unstarted(), owner=f"p{number}")
    verdict = cluster.view.verdict(NOW)
    assert (verdict.changes, verdict.warnings) == ([], [])


@pytest.mark.parametrize(("minutes", "counts"), [(-50, True), (-14, False), (10, False), (16, False), (50, True)])
def test_starts_that_failed_on_several_nodes_at_once_do_not_count(minutes: int, counts: bool) -> None:
    """A file server may have been unavailable. It does not matter that these runs have not started since."""
    cluster = Cluster(nodeHealth={"failedRuns": 2})
    for name in ("n1", "n2", "n3"):
        cluster.node(name)
    for name in ("ada", "ben"):
        cluster.run(name, unstarted(), owner=name)
    when = format_time(NOW - timedelta(hours=1) + timedelta(minutes=minutes))
    cluster.run("other", unstarted("n3", at=when, phase=Phase.QUEUED, failed_starts=1), owner="eve")
    assert [change.node for change in cluster.view.verdict(NOW).changes] == ["n1"] * counts


def test_the_next_look_is_due_when_a_run_has_succeeded_for_long_enough() -> None:
    cluster = Cluster()
    cluster.node("n1")
    cluster.run("bert", failed_then(Phase.RUNNING, hours=0.1))
    assert cluster.view.verdict(NOW).next_at == NOW + timedelta(minutes=4)
    fine = Cluster()
    fine.node("n1")
    fine.run("bert", failed_then(Phase.RUNNING, hours=0.1, avoid_nodes={}))
    assert fine.view.verdict(NOW).next_at is None, "its success would prove nothing"


def test_the_trail_is_read_from_the_node() -> None:
    cluster = Cluster()
    entry = new_entry(NOW, TrailEvent.BACK, by="ada")
    cluster.node("n1", annotations={names.ANNOTATION_HEALTH: write_trail([entry])})
    assert cluster.signs("n1").trail == cluster.view.trail("n1") == (entry,)
    assert cluster.view.trail("n2") == ()


@pytest.mark.parametrize(
    ("sign", "second", "leaves"),
    [
        ("gpu.sm.active", ("n1", "0"), False),
        ("gpu.sm.active", ("n1", "3"), True),
        ("gpu.clock.sm", ("n1", "0"), True),
        ("link.rate", ("n1", "0"), True),
        ("gpu.sm.active", ("n2", "3"), False),
    ],
)
def test_runs_that_were_slow_on_one_node_take_it_out(sign: str, second: tuple[str, str], leaves: bool) -> None:
    cluster = Cluster()
    for name in ("n1", "n2", "n3"):
        cluster.node(name)
    for run, owner, (node, ranks) in (("bert", "ada", ("n1", "0")), ("gpt", "ben", second)):
        slow = SlowPlace(attempt=1, node=node, ranks=ranks, at=AN_HOUR_AGO, sign=sign, message="Rank 0 is slow.")
        cluster.run(run, RunStatus(phase=Phase.RUNNING, slow=[slow]), owner=owner)
    changes = cluster.view.verdict(NOW).changes
    assert [(change.node, change.entry.reason) for change in changes] == [("n1", MEMBERS_SLOW)] * leaves
    assert [change.entry.evidence for change in changes] == [
        ("run team/bert (ada): Rank 0 is slow.", "run team/gpt (ben): Rank 0 is slow.")
    ] * leaves


def test_a_rank_that_is_slow_on_every_node_blames_none() -> None:
    cluster = Cluster()
    for name in ("n1", "n2", "n3"):
        cluster.node(name)
    places = [
        SlowPlace(attempt=number, node=node, ranks="2", at=AN_HOUR_AGO, sign="cpu.used", message="Rank 2 is slow.")
        for number, node in ((1, "n1"), (2, "n2"))
    ]
    cluster.run("bert", RunStatus(phase=Phase.RUNNING, slow=places), owner="ada")
    other = msgspec.structs.replace(places[0], ranks="5")
    cluster.run("gpt", RunStatus(phase=Phase.RUNNING, slow=[other]), owner="ben")
    assert cluster.view.verdict(NOW).changes == []
