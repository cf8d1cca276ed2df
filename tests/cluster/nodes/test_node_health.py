"""Nodes leave the pool when they harm runs, and come back; new nodes are tested before they take work."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.harness.cluster import Cluster
from tests.harness.platform.deployed import grant_tests
from tests.harness.platform.parts import GPUS
from tests.harness.servers.kube_server import CONTROLLER
from tests.harness.waiting import until
from tests.harness.web_api import web_api
from tests.helpers.callers.rights import SUBMIT, until_allowed

from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.run_object import RUNS
from kajitori.controllers.watching import feed
from kajitori.core.naming import names
from kajitori.core.nodes import health
from kajitori.core.nodes.health import (
    BY_HAND,
    CONDITION_GONE,
    MEMBERS_FAIL,
    MEMBERS_SLOW,
    PREFLIGHT_FAILED,
    PREFLIGHT_PASSED,
)
from kajitori.core.nodes.trail import Entry, TrailEvent, read_trail
from kajitori.core.spec.reasons import Phase
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.history.store import History
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import EVENTS, NODES

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
QUICK = {"after": "0s", "backAfter": "1s", "provenAfter": "1s", "atMostPercent": 10}


def node(cluster: Cluster, name: str) -> Node:
    return cluster.mirror.nodes[name]


def taints(cluster: Cluster, name: str) -> dict[str, str]:
    return {taint.key: taint.value for taint in node(cluster, name).spec.taints}


def trail(cluster: Cluster, name: str) -> tuple[Entry, ...]:
    return read_trail(node(cluster, name).metadata.annotations.get(names.ANNOTATION_HEALTH, ""))


@contextlib.asynccontextmanager
async def restored(cluster: Cluster, *nodes: str) -> AsyncIterator[None]:
    """Remove all of Kajitori's marks from the nodes at the end, after the controllers have stopped, because other tests
    use the same nodes."""
    try:
        yield
    finally:
        await cluster.stop_controllers()
        nothing = dict.fromkeys((names.ANNOTATION_HEALTH, names.ANNOTATION_TEST_WANTED, names.ANNOTATION_DRAIN))
        for name in nodes:
            patch = {"metadata": {"annotations": nothing}, "spec": {"taints": None, "unschedulable": None}}
            await cluster.client.patch(NODES, name, patch)
            if any(
                condition.type == "KernelDeadlock" and condition.status == "True"
                for condition in node(cluster, name).status.conditions
            ):
                await report_condition(cluster, name, "False")


async def report_condition(cluster: Cluster, name: str, status: str) -> None:
    """Write a condition, as node-problem-detector does."""
    condition = {"type": "KernelDeadlock", "status": status, "reason": "DockerHung", "message": "task blocked"}
    condition |= {"lastTransitionTime": cluster.mirror.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
    patch = {"status": {"conditions": [condition]}}
    await cluster.client.patch(NODES, name, patch, kind=PatchKind.STRATEGIC, subresource="status")


def members_testing(cluster: Cluster, name: str) -> list[Pod]:
    """Return the running members of the runs that test a node."""
    found = []
    for run in cluster.mirror.runs.values():
        if run.metadata.annotations.get(names.ANNOTATION_TESTED_NODE) == name:
            found += [pod for pod in cluster.mirror.pods_of_run(run) if not pod.is_finished]
    return found


async def use_tests(cluster: Cluster, **rules: Any) -> None:
    """Set a policy with a node test whose runs are in this test's namespace, and allow controllers to create them
    there."""
    if cluster.server.is_real:
        await grant_tests(cluster.client, CONTROLLER, cluster.namespace)
        await until_allowed(cluster.client, cluster.namespace, SUBMIT, user=CONTROLLER)
    preflight = {"image": "registry/preflight:1", "namespace": cluster.namespace, "cpu": 1, "memory": "1Gi", **rules}
    cluster.use_policy(nodeHealth=QUICK, preflight=preflight)


async def test_a_condition_takes_a_node_out_until_it_ends(cluster: Cluster) -> None:
    """Runs on the node continue, and the next run goes elsewhere. Taints of others are kept."""
    cluster.use_policy(nodeHealth=QUICK)
    cluster.start_controller()
    await cluster.submit("bert", replicas=2, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    sick = cluster.nodes_of("bert")[0]
    async with restored(cluster, sick):
        other = {"key": "team", "value": "vision", "effect": "PreferNoSchedule"}
        await cluster.client.patch(NODES, sick, {"spec": {"taints": [other]}})
        await report_condition(cluster, sick, "True")
        await cluster.until(lambda: names.TAINT_UNHEALTHY in taints(cluster, sick), f"{sick} is out")
        assert taints(cluster, sick) == {"team": "vision", names.TAINT_UNHEALTHY: "KernelDeadlock"}
        (out,) = trail(cluster, sick)
        assert (out.what, out.reason, out.by) == (TrailEvent.OUT, "KernelDeadlock", "")
        assert "task blocked" in out.evidence[0]
        await cluster.submit("next", replicas=6, resources=WHOLE)
        await cluster.reaches("next", Phase.RUNNING)
        assert sick not in cluster.nodes_of("next")
        assert (cluster.status("bert").phase, cluster.status("bert").attempts) == (Phase.RUNNING, 1)
        await report_condition(cluster, sick, "False")
        await cluster.until(lambda: names.TAINT_UNHEALTHY not in taints(cluster, sick), f"{sick} is back")
        assert taints(cluster, sick) == {"team": "vision"}
        assert [(entry.what, entry.reason) for entry in trail(cluster, sick)][1:] == [(TrailEvent.BACK, CONDITION_GONE)]

        async def is_told() -> bool:
            events = await cluster.client.list(EVENTS, "default", field_selector=f"involvedObject.name={sick}")
            return "NodeOut" in {event["reason"] for event in events.items}

        await until(is_told, "an event tells of it")  # events are written in the background


async def test_policy_may_drain_an_unhealthy_node(cluster: Cluster) -> None:
    """The drain works as with `kaji drain`. The node is uncordoned when it is healthy again."""
    cluster.use_policy(nodeHealth=QUICK | {"drain": True})
    cluster.start_controller()
    await cluster.submit("bert", replicas=1, resources=WHOLE)
    await cluster.reaches("bert", Phase.RUNNING)
    sick = cluster.nodes_of("bert")[0]
    async with restored(cluster, sick):
        await report_condition(cluster, sick, "True")
        status = await cluster.reaches("bert", Phase.RUNNING, attempt=2)
        assert sick not in cluster.nodes_of("bert")
        assert (status.restarts, node(cluster, sick).drained_by) == (0, "kajitori: KernelDeadlock")
        await report_condition(cluster, sick, "False")
        await cluster.until(lambda: not node(cluster, sick).spec.unschedulable, f"{sick} is back")
        assert not node(cluster, sick).metadata.annotations.get(names.ANNOTATION_DRAIN)
        await cluster.until(lambda: len(cluster.pods("bert")) == 1, "attempt 1 is gone")


async def fail_on(cluster: Cluster, run: str, sick: str, exit_code: str) -> None:
    """Let the run's member on this node fail with an exit code, or be refused by its kubelet (`refused`), until the run
    is on another node."""
    while sick in cluster.nodes_of(run):
        status = await cluster.reaches(run, Phase.RUNNING)
        await cluster.behave(
            names.pod_name(run, status.attempts, cluster.nodes_of(run).index(sick)), exit_code=exit_code
        )
        await cluster.reaches(run, Phase.RUNNING, attempt=status.attempts + 1)


async def test_two_runs_that_fail_only_on_one_node_take_it_out(cluster: Cluster) -> None:
    """One of the runs could not start on the node. When an operator marks the node as healthy, it returns, and earlier
    failures no longer count."""
    cluster.use_policy(nodeHealth=QUICK, start={"pause": "1s", "longestPause": "1s"})
    cluster.start_controller()
    await cluster.submit("bert", replicas=1, resources=WHOLE, restarts=5)
    await cluster.reaches("bert", Phase.RUNNING)
    sick = cluster.nodes_of("bert")[0]
    async with restored(cluster, sick):
        for name, owner, exit_code in (("bert", "ada", "139"), ("gpt", "ben", "refused")):
            if name == "gpt":
                await cluster.submit(
                    name, replicas=1, resources=WHOLE, restarts=5, nodeSelector={"kubernetes.io/hostname": sick}
                )
                await cluster.reaches(name, Phase.RUNNING)
                await cluster.change(name, nodeSelector={"kubernetes.io/hostname": None})
            await cluster.give(name, owner)
            assert names.TAINT_UNHEALTHY not in taints(cluster, sick)
            await fail_on(cluster, name, sick, exit_code)
        await cluster.until(lambda: names.TAINT_UNHEALTHY in taints(cluster, sick), f"{sick} is out")
        (out,) = trail(cluster, sick)
        assert (out.reason, len(out.evidence)) == (MEMBERS_FAIL, 2)
        assert "bert (ada): member 0 of attempt 2 failed" in out.evidence[0], out.evidence
        assert "gpt (ben): member 0 of attempt 2 could not start" in out.evidence[1], out.evidence
        async with web_api(cluster) as web:
            answer = await web.http.post(f"/v1/nodes/{sick}/healthy")
            assert (answer.status_code, answer.json()["why"]) == (200, ""), answer.text
        await cluster.submit("third", replicas=1, resources=WHOLE, nodeSelector={"kubernetes.io/hostname": sick})
        await cluster.reaches("third", Phase.RUNNING)
        assert names.TAINT_UNHEALTHY not in taints(cluster, sick), "what was before does not count any more"
        assert trail(cluster, sick)[-1].reason == BY_HAND


async def test_a_new_node_is_tested_before_it_takes_work(cluster: Cluster) -> None:
    """The node is tested once, although the controller is killed meanwhile."""
    await use_tests(cluster)
    name = "gpu-00003"
    async with restored(cluster, name):
        new = {"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"}
        await cluster.client.patch(NODES, name, {"spec": {"taints": [new]}})
        await cluster.until(lambda: names.TAINT_PREFLIGHT in taints(cluster, name), "it has the taint")
        first = cluster.start_controller()
        await cluster.submit("wide", replicas=8, resources=WHOLE)
        await cluster.reaches("wide", Phase.QUEUED)
        (pod,) = await cluster.until(lambda: members_testing(cluster, name), "its test")
        await cluster.until(lambda: "not tested yet" in cluster.status("wide").message, "said to whoever waits")
        assert pod.spec.node_name in ("", name)
        await cluster.kill_controller(first)
        await cluster.behave(pod.metadata.name, exit_code="0")
        cluster.start_controller()
        await cluster.reaches("wide", Phase.RUNNING)
        assert [entry.what for entry in trail(cluster, name)] == [TrailEvent.PASSED]
        assert not taints(cluster, name)
        await cluster.until(lambda: [run for _, run in cluster.mirror.runs] == ["wide"], "the run of the test is gone")


async def test_a_node_that_fails_its_test_stays_out_until_it_passes(cluster: Cluster) -> None:
    """A user requests the next test. The runs of tests are deleted when they are no longer needed."""
    await use_tests(cluster)
    cluster.start_controller()
    name = "gpu-00005"
    async with restored(cluster, name):
        new = {"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"}
        await cluster.client.patch(NODES, name, {"spec": {"taints": [new]}})
        (pod,) = await cluster.until(lambda: members_testing(cluster, name), "its test")
        await cluster.behave(pod.metadata.name, exit_code="3")
        await cluster.until(lambda: names.TAINT_UNHEALTHY in taints(cluster, name), f"{name} is out")
        assert taints(cluster, name) == {names.TAINT_UNHEALTHY: PREFLIGHT_FAILED}
        (out,) = trail(cluster, name)
        assert (out.what, out.reason) == (TrailEvent.OUT, PREFLIGHT_FAILED)
        assert "exit code 3" in out.evidence[0]
        assert [run for _, run in cluster.mirror.runs] == [out.run], "it stays to be read"
        await cluster.client.patch(NODES, name, {"metadata": {"annotations": {names.ANNOTATION_TEST_WANTED: "ada"}}})
        (again,) = await cluster.until(lambda: members_testing(cluster, name), "its next test")
        await cluster.behave(again.metadata.name, exit_code="0")
        await cluster.until(lambda: not taints(cluster, name), f"{name} is back")
        back = trail(cluster, name)[-1]
        assert (back.what, back.by) == (TrailEvent.BACK, "ada")
        assert names.ANNOTATION_TEST_WANTED not in node(cluster, name).metadata.annotations
        await cluster.until(lambda: not cluster.mirror.runs, "no run of a test is left")


def slow_minutes(run_uid: str, rank: int, now: float) -> list[Interval]:
    """Return a quarter of an hour in which a rank works while three wait."""
    used = Band(4, 0.49, 0.49, 0.5, 0.64, 0.95, Place((rank + 1) % 4), Place(rank))
    return [Interval(run_uid, 1, 60, int(now) // 60 * 60 - 60 * ago, 4, {"cpu.used": used}) for ago in range(1, 16)]


async def test_a_node_that_slows_two_runs_leaves_for_a_test(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank is slow in each run. The test begins when the runs have ended, and the node comes back."""
    monkeypatch.setattr(feed, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(health, "BUSY_RECHECK", timedelta(seconds=0.2))  # the end of the last member wakes nobody
    cluster.history = history = History(f"sqlite://{cluster.folder}/history.db")
    await use_tests(cluster)
    first = cluster.start_controller()
    sick = "gpu-00002"
    async with restored(cluster, sick):
        for name, owner, rank in (("bert", "ada", 0), ("gpt", "ben", 3)):
            await cluster.submit(name, replicas=4, nodeSelector={"kubernetes.io/hostname": sick})
            await cluster.reaches(name, Phase.RUNNING)
            await cluster.give(name, owner)
            uid, now = cluster.mirror.runs[cluster.namespace, name].metadata.uid, cluster.mirror.now().timestamp()
            await history.record_telemetry(slow_minutes(uid, rank, now))
        assert names.TAINT_UNHEALTHY not in taints(cluster, sick)
        await cluster.kill_controller(first)
        cluster.start_controller()  # it finds these minutes in history
        await cluster.until(lambda: names.TAINT_UNHEALTHY in taints(cluster, sick), f"{sick} is out")
        (out,) = trail(cluster, sick)
        assert (out.reason, len(out.evidence)) == (MEMBERS_SLOW, 2)
        assert f"bert (ada): Rank 0 on {sick} has been slower than its peers" in out.evidence[0], out.evidence
        assert not members_testing(cluster, sick), "runs are left there"
        for name in ("bert", "gpt"):
            await cluster.client.delete(RUNS, name, cluster.namespace)
        (pod,) = await cluster.until(lambda: members_testing(cluster, sick), "its test")
        await cluster.behave(pod.metadata.name, exit_code="0")
        await cluster.until(lambda: not taints(cluster, sick), f"{sick} is back")
        assert trail(cluster, sick)[-1].reason == PREFLIGHT_PASSED
    await history.close()
