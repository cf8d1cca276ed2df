"""Nodes leave the pool when they harm runs, and come back; new ones are tested before they take work."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from tests.helpers.deployed import grant_tests
from tests.helpers.real_cluster import CONTROLLER
from tests.helpers.world import GPUS, World

from kajitori.api.app import create_app
from kajitori.api.context import ApiDependencies
from kajitori.api.serving.server import ApiServer
from kajitori.core.nodes.health import BY_HAND, CONDITION_GONE, MEMBERS_FAIL, PREFLIGHT_FAILED
from kajitori.core.nodes.trail import Entry, TrailEvent, read_trail
from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.kube.client import PatchKind
from kajitori.kube.objects import Node, Pod
from kajitori.kube.resources import EVENTS, NODES

WHOLE = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
QUICK = {"after": "0s", "backAfter": "1s", "provenAfter": "1s", "atMostPercent": 10}


def node(world: World, name: str) -> Node:
    return world.mirror.nodes[name]


def taints(world: World, name: str) -> dict[str, str]:
    return {taint.key: taint.value for taint in node(world, name).spec.taints}


def trail(world: World, name: str) -> tuple[Entry, ...]:
    return read_trail(node(world, name).metadata.annotations.get(names.ANNOTATION_HEALTH, ""))


@contextlib.asynccontextmanager
async def restored(world: World, *nodes: str) -> AsyncIterator[None]:
    """The nodes without any of our marks at the end, when nobody marks them any more: others use them, too."""
    try:
        yield
    finally:
        await world.stop_controllers()
        nothing = dict.fromkeys((names.ANNOTATION_HEALTH, names.ANNOTATION_TEST_WANTED, names.ANNOTATION_DRAIN))
        for name in nodes:
            patch = {"metadata": {"annotations": nothing}, "spec": {"taints": None, "unschedulable": None}}
            await world.client.patch(NODES, name, patch)
            if any(
                each.type == "KernelDeadlock" and each.status == "True" for each in node(world, name).status.conditions
            ):
                await say(world, name, "False")


async def say(world: World, name: str, status: str) -> None:
    """What node-problem-detector writes."""
    condition = {"type": "KernelDeadlock", "status": status, "reason": "DockerHung", "message": "task blocked"}
    condition |= {"lastTransitionTime": world.mirror.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
    patch = {"status": {"conditions": [condition]}}
    await world.client.patch(NODES, name, patch, kind=PatchKind.STRATEGIC, subresource="status")


def members_testing(world: World, name: str) -> list[Pod]:
    """The members of runs that test a node, which have not ended."""
    found = []
    for run in world.mirror.runs.values():
        if run.metadata.annotations.get(names.ANNOTATION_TESTED_NODE) == name:
            found += [pod for pod in world.mirror.pods_of_run(run) if not pod.is_finished]
    return found


async def use_tests(world: World, **rules: Any) -> None:
    """A policy with a test, whose runs live in this test's namespace; controllers may make them there."""
    if world.controllers is not world.client.config:
        await grant_tests(world.client, CONTROLLER, world.namespace)
    preflight = {"image": "registry/preflight:1", "namespace": world.namespace, "cpu": 1, "memory": "1Gi", **rules}
    world.use_policy(nodeHealth=QUICK, preflight=preflight)


async def test_a_node_leaves_for_its_condition_and_comes_back(world: World) -> None:
    """What runs on it goes on; the next run goes elsewhere; what others put on the node stays."""
    world.use_policy(nodeHealth=QUICK)
    world.start_controller()
    await world.submit("bert", replicas=2, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    sick = world.nodes_of("bert")[0]
    async with restored(world, sick):
        other = {"key": "team", "value": "vision", "effect": "PreferNoSchedule"}
        await world.client.patch(NODES, sick, {"spec": {"taints": [other]}})
        await say(world, sick, "True")
        await world.until(lambda: names.TAINT_UNHEALTHY in taints(world, sick), f"{sick} is out")
        assert taints(world, sick) == {"team": "vision", names.TAINT_UNHEALTHY: "KernelDeadlock"}
        (out,) = trail(world, sick)
        assert (out.what, out.reason, out.by) == (TrailEvent.OUT, "KernelDeadlock", "")
        assert "task blocked" in out.evidence[0]
        await world.submit("next", replicas=6, resources=WHOLE)
        await world.reaches("next", Phase.RUNNING)
        assert sick not in world.nodes_of("next")
        assert (world.status("bert").phase, world.status("bert").attempts) == (Phase.RUNNING, 1)
        await say(world, sick, "False")
        await world.until(lambda: names.TAINT_UNHEALTHY not in taints(world, sick), f"{sick} is back")
        assert taints(world, sick) == {"team": "vision"}
        assert [(each.what, each.reason) for each in trail(world, sick)][1:] == [(TrailEvent.BACK, CONDITION_GONE)]
        events = await world.client.list(EVENTS, "default", field_selector=f"involvedObject.name={sick}")
        assert "NodeOut" in {event["reason"] for event in events.items}


async def test_policy_may_have_runs_moved_away(world: World) -> None:
    """As kaji drain does; and what was cordoned for that is not any more when the node is back."""
    world.use_policy(nodeHealth=QUICK | {"drain": True})
    world.start_controller()
    await world.submit("bert", replicas=1, resources=WHOLE)
    await world.reaches("bert", Phase.RUNNING)
    sick = world.nodes_of("bert")[0]
    async with restored(world, sick):
        await say(world, sick, "True")
        status = await world.reaches("bert", Phase.RUNNING, attempt=2)
        assert sick not in world.nodes_of("bert")
        assert (status.restarts, node(world, sick).drained_by) == (0, "kajitori: KernelDeadlock")
        await say(world, sick, "False")
        await world.until(lambda: not node(world, sick).spec.unschedulable, f"{sick} is back")
        assert not node(world, sick).metadata.annotations.get(names.ANNOTATION_DRAIN)
        await world.until(lambda: len(world.pods("bert")) == 1, "attempt 1 is gone")


@contextlib.asynccontextmanager
async def web_api(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    """The Web API above this world, for its administrator."""
    dependencies = ApiDependencies(
        client=world.client, mirror=world.mirror, policy=world.policy, namespace=world.namespace
    )
    token = {"Authorization": f"Bearer {world.client.config.credentials.token}"}
    async with (
        ApiServer(create_app(dependencies)) as server,
        httpx2.AsyncClient(base_url=server.url, headers=token) as http,
    ):
        yield http


async def fail_on(world: World, run: str, sick: str, exit_code: str) -> None:
    """The run's member on this node fails, or is refused by its kubelet where that is no number, until the run is
    elsewhere."""
    while sick in world.nodes_of(run):
        status = await world.reaches(run, Phase.RUNNING)
        await world.behave(names.pod_name(run, status.attempts, world.nodes_of(run).index(sick)), exit_code=exit_code)
        await world.reaches(run, Phase.RUNNING, attempt=status.attempts + 1)


async def test_two_runs_that_fail_on_a_node_and_do_well_elsewhere_take_it_out(world: World) -> None:
    """One of them could not start there. And by hand it comes back, for good: what was before does not count any
    more."""
    world.use_policy(nodeHealth=QUICK, start={"pause": "1s", "longestPause": "1s"})
    world.start_controller()
    await world.submit("bert", replicas=1, resources=WHOLE, restarts=5)
    await world.reaches("bert", Phase.RUNNING)
    sick = world.nodes_of("bert")[0]
    async with restored(world, sick):
        for name, owner, exit_code in (("bert", "ada", "139"), ("gpt", "ben", "refused")):
            if name == "gpt":
                await world.submit(
                    name, replicas=1, resources=WHOLE, restarts=5, nodeSelector={"kubernetes.io/hostname": sick}
                )
                await world.reaches(name, Phase.RUNNING)
                await world.change(name, nodeSelector={"kubernetes.io/hostname": None})
            await world.give(name, owner)
            assert names.TAINT_UNHEALTHY not in taints(world, sick)
            await fail_on(world, name, sick, exit_code)
        await world.until(lambda: names.TAINT_UNHEALTHY in taints(world, sick), f"{sick} is out")
        (out,) = trail(world, sick)
        assert (out.reason, len(out.evidence)) == (MEMBERS_FAIL, 2)
        assert "bert (ada): member 0 of attempt 2 failed" in out.evidence[0], out.evidence
        assert "gpt (ben): member 0 of attempt 2 could not start" in out.evidence[1], out.evidence
        async with web_api(world) as http:
            answer = await http.post(f"/v1/nodes/{sick}/healthy")
            assert (answer.status_code, answer.json()["why"]) == (200, ""), answer.text
        await world.submit("third", replicas=1, resources=WHOLE, nodeSelector={"kubernetes.io/hostname": sick})
        await world.reaches("third", Phase.RUNNING)
        assert names.TAINT_UNHEALTHY not in taints(world, sick), "what was before does not count any more"
        assert trail(world, sick)[-1].reason == BY_HAND


async def test_a_new_node_is_tested_before_it_takes_work(world: World) -> None:
    """Once, though the controller was killed meanwhile."""
    await use_tests(world)
    name = "gpu-00003"
    async with restored(world, name):
        new = {"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"}
        await world.client.patch(NODES, name, {"spec": {"taints": [new]}})
        await world.until(lambda: names.TAINT_PREFLIGHT in taints(world, name), "it has the taint")
        first = world.start_controller()
        await world.submit("wide", replicas=8, resources=WHOLE)
        await world.reaches("wide", Phase.QUEUED)
        (pod,) = await world.until(lambda: members_testing(world, name), "its test")
        await world.until(lambda: "not tested yet" in world.status("wide").message, "said to whoever waits")
        assert pod.spec.node_name in ("", name)
        await world.kill_controller(first)
        await world.behave(pod.metadata.name, exit_code="0")
        world.start_controller()
        await world.reaches("wide", Phase.RUNNING)
        assert [each.what for each in trail(world, name)] == [TrailEvent.PASSED]
        assert not taints(world, name)
        await world.until(lambda: [run for _, run in world.mirror.runs] == ["wide"], "the run of the test is gone")


async def test_a_node_that_fails_its_test_stays_out_and_comes_back_by_the_next(world: World) -> None:
    """A person asks for the next one; the runs of tests are gone when nobody needs them any more."""
    await use_tests(world)
    world.start_controller()
    name = "gpu-00005"
    async with restored(world, name):
        new = {"key": names.TAINT_PREFLIGHT, "effect": "NoSchedule"}
        await world.client.patch(NODES, name, {"spec": {"taints": [new]}})
        (pod,) = await world.until(lambda: members_testing(world, name), "its test")
        await world.behave(pod.metadata.name, exit_code="3")
        await world.until(lambda: names.TAINT_UNHEALTHY in taints(world, name), f"{name} is out")
        assert taints(world, name) == {names.TAINT_UNHEALTHY: PREFLIGHT_FAILED}
        (out,) = trail(world, name)
        assert (out.what, out.reason) == (TrailEvent.OUT, PREFLIGHT_FAILED)
        assert "exit code 3" in out.evidence[0]
        assert [run for _, run in world.mirror.runs] == [out.run], "it stays to be read"
        await world.client.patch(NODES, name, {"metadata": {"annotations": {names.ANNOTATION_TEST_WANTED: "ada"}}})
        (again,) = await world.until(lambda: members_testing(world, name), "its next test")
        await world.behave(again.metadata.name, exit_code="0")
        await world.until(lambda: not taints(world, name), f"{name} is back")
        back = trail(world, name)[-1]
        assert (back.what, back.by) == (TrailEvent.BACK, "ada")
        assert names.ANNOTATION_TEST_WANTED not in node(world, name).metadata.annotations
        await world.until(lambda: not world.mirror.runs, "no run of a test is left")
