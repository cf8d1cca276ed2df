"""Pods that pretend to be members of another user's run do not count, and Kajitori does not touch them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.cluster import SIM, Cluster
from tests.harness.web_api import web_api

from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.pods import manifests
from kajitori.core.spec.reasons import Phase
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NAMESPACES, PODS

CONTAINER = {"name": names.MEMBER_CONTAINER, "image": "x", "command": ["y"]}
MALLORY = "mallory"
OWN = "kajitori.dev/test"
"""Annotation of the foreign Pods, by which the tests notice that another client changed them."""


class Mallory:
    """A user who may create Pods in their own namespace and in the namespace of the run."""

    def __init__(self, cluster: Cluster, client: KubeClient) -> None:
        self.cluster = cluster
        self.client = client
        """Changes by this client have the field manager `mallory`, so they can be told from those of Kajitori."""
        self.namespace = f"{cluster.namespace}-mallory"
        self.made: dict[tuple[str, str], str] = {}
        """UIDs of Mallory's Pods."""

    async def pod(self, name: str, namespace: str = "", **written: Any) -> None:
        """Create a Pod with all public properties of a member of `victim`, on a chosen node."""
        run = self.cluster.run("victim")
        assert run is not None
        member = names.read_pod_name(name)
        assert member is not None
        labels = names.member_labels("victim", run.metadata.uid, member.attempt, member.rank)
        metadata = {
            "name": name,
            "labels": labels | {names.LABEL_WHOLE_NODE: "true"},
            "annotations": {OWN: "mine", **written.pop("annotations", {})},
            **written,
        }
        spec = {"containers": [CONTAINER], "nodeName": "gpu-00008", "restartPolicy": "Never"}
        body = {"metadata": metadata, "spec": spec}
        made = await self.client.create(PODS, body, namespace or self.namespace)
        self.made[made["metadata"]["namespace"], name] = made["metadata"]["uid"]

    async def ends(self, name: str, namespace: str = "") -> None:
        """Let the program of a Pod fail, with a memory peak that no member ever had."""
        namespace = namespace or self.namespace
        said = {f"{SIM}exit-code": "1", f"{SIM}memory": "900Gi"}
        await self.client.patch(PODS, name, {"metadata": {"annotations": said}}, namespace)
        await self.cluster.until(lambda: self.shown(name, namespace).is_finished, f"{name} has ended")

    def shown(self, name: str, namespace: str = "") -> Pod:
        """Return the Pod as the mirror shows it."""
        return self.cluster.mirror.pods[namespace or self.namespace, name]

    async def check_untouched(self) -> None:
        """Check that all of Mallory's Pods exist unchanged: not deleted, with their labels and owners."""
        for namespace, name in self.made:
            meta = (await self.cluster.client.get(PODS, name, namespace))["metadata"]
            assert "deletionTimestamp" not in meta, name
            assert (meta["uid"], meta["annotations"][OWN]) == (self.made[namespace, name], "mine")
            managers = {entry["manager"] for entry in meta["managedFields"] if entry.get("subresource") != "status"}
            assert managers == {MALLORY}, "nodes write statuses, and nobody else writes anything"


@pytest.fixture
async def mallory(cluster: Cluster) -> AsyncIterator[Mallory]:
    """Mallory, with a running gang of three named `victim` and a controller."""
    cluster.start_controller()
    await cluster.submit("victim", replicas=3, restarts=2)
    await cluster.reaches("victim", Phase.RUNNING)
    async with KubeClient(cluster.client.config, user_agent=MALLORY) as client:
        there = Mallory(cluster, client)
        await cluster.client.create(NAMESPACES, {"metadata": {"name": there.namespace}})
        yield there
    for namespace in (there.namespace, cluster.namespace):
        await cluster.client.delete_collection(PODS, namespace, label_selector="", grace_seconds=0)


def members_of_victim(cluster: Cluster) -> list[str]:
    run = cluster.run("victim")
    assert run is not None
    return sorted(pod.metadata.name for pod in cluster.mirror.pods_of_run(run))


async def wait_for_controller(cluster: Cluster) -> None:
    """Wait until the controller has processed all earlier news: it has acted on a later change of the victim."""
    run = cluster.run("victim")
    assert run is not None and run.status is not None
    await cluster.change("victim", priority="high" if b'"high"' not in bytes(run.spec) else "normal")
    generation = run.metadata.generation + 1
    await cluster.until(lambda: cluster.status("victim").observed_generation >= generation, "the victim was looked at")


@pytest.mark.conformance
async def test_pods_of_another_namespace_are_not_members(mallory: Mallory) -> None:
    """The foreign Pods have the run's labels and the names of members of its current and next attempt. They fail and
    are not deleted."""
    cluster = mallory.cluster
    for name in ("victim-1-0", "victim-1-1", "victim-2-0", "victim-1-7"):
        await mallory.pod(name)
        await mallory.ends(name)
    await wait_for_controller(cluster)
    status = cluster.status("victim")
    assert (status.phase, status.attempts, status.restarts, status.interruptions) == (Phase.RUNNING, 1, 0, 0)
    assert (status.members.total, status.members.running, status.members.failed) == (3, 3, 0)
    assert status.memory is None or status.memory.peak_bytes < 2**40 // 2
    assert status.avoid_nodes == {} and status.notable == []
    assert members_of_victim(cluster) == ["victim-1-0", "victim-1-1", "victim-1-2"]
    await mallory.check_untouched()


@pytest.mark.conformance
async def test_pods_that_only_have_the_labels_are_not_members(mallory: Mallory) -> None:
    """One has a rank beyond the run's members, one belongs to the next attempt, one has a copied signature. They
    survive the run, although its own Pods are deleted by that label."""
    cluster = mallory.cluster
    found = await cluster.client.get(PODS, "victim-1-2", cluster.namespace)
    signature = found["metadata"]["annotations"][names.ANNOTATION_SIGNATURE]
    copied = {names.ANNOTATION_SIGNATURE: signature}
    await mallory.pod("victim-1-7", cluster.namespace, annotations=copied)
    await mallory.pod("victim-1-3", cluster.namespace)
    await mallory.pod("victim-1-2", annotations=copied)
    await mallory.ends("victim-1-3", cluster.namespace)
    await wait_for_controller(cluster)
    status = cluster.status("victim")
    assert (status.phase, status.attempts, status.members.total, status.members.running) == (Phase.RUNNING, 1, 3, 3)
    assert members_of_victim(cluster) == ["victim-1-0", "victim-1-1", "victim-1-2"]
    assert await listed_ranks(cluster) == [0, 1, 2]
    await cluster.behave("victim-1-1", exit_code="1")
    status = await cluster.reaches("victim", Phase.RUNNING, attempt=2)
    assert (status.restarts, status.members.total, status.members.running) == (1, 3, 3)
    await cluster.client.delete(RUNS, "victim", cluster.namespace)
    await cluster.until(lambda: cluster.run("victim") is None, "the run is gone")
    left = {key for key in cluster.mirror.pods if key[0] in (cluster.namespace, mallory.namespace)}
    assert left == set(mallory.made)
    await mallory.check_untouched()


async def listed_ranks(cluster: Cluster) -> list[int]:
    """Return the ranks of the members that the Web API lists."""
    async with web_api(cluster) as web:
        answer = await web.http.get(f"/v1/runs/{cluster.namespace}/victim/members")
    return [member["rank"] for member in answer.json()["items"]]


async def test_an_owner_in_another_namespace_makes_no_member(mallory: Mallory) -> None:
    """Kubernetes' garbage collector may delete such a Pod, because its owner does not exist in its namespace. The run
    continues."""
    cluster = mallory.cluster
    run = cluster.run("victim")
    assert run is not None
    owner = manifests.owner_of_members("victim", run.metadata.uid)
    await mallory.pod("victim-1-0", ownerReferences=[owner])
    said = {f"{SIM}exit-code": "1"}
    with contextlib.suppress(NotFound):  # it may have been collected already
        await cluster.client.patch(PODS, "victim-1-0", {"metadata": {"annotations": said}}, mallory.namespace)
    await wait_for_controller(cluster)
    status = cluster.status("victim")
    assert (status.phase, status.attempts, status.restarts, status.members.running) == (Phase.RUNNING, 1, 0, 3)


async def test_a_rank_that_was_not_planned_does_not_count(mallory: Mallory) -> None:
    """The Pod has the owner reference, which every user who may create Pods there can write. It is deleted with the
    run."""
    cluster = mallory.cluster
    run = cluster.run("victim")
    assert run is not None
    owner = manifests.owner_of_members("victim", run.metadata.uid)
    await mallory.pod("victim-1-7", cluster.namespace, ownerReferences=[owner])
    await mallory.ends("victim-1-7", cluster.namespace)
    await wait_for_controller(cluster)
    status = cluster.status("victim")
    assert (status.phase, status.restarts, status.members.total, status.members.running) == (Phase.RUNNING, 0, 3, 3)
    assert (status.members.failed, status.notable, members_of_victim(cluster)[-1]) == (0, [], "victim-1-2")
    await cluster.client.delete(RUNS, "victim", cluster.namespace)
    await cluster.until(
        lambda: not any(key[0] == cluster.namespace for key in cluster.mirror.pods), "all of its Pods are gone"
    )
