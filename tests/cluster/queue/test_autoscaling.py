"""Gangs that request nodes from an autoscaler: all nodes in one request, and only while the gang needs them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.cluster import Cluster
from tests.harness.waiting import until
from tests.helpers.objects.autoscaler import LABEL, NAME, POOL, REQUESTS, Autoscaler, definition, fail, ignore, provide

from kajitori.cluster.nodes import node_requests
from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.nodes.provisioning_objects import CLASS_NAME, CONSUMES
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status_parts.node_request import RequestState
from kajitori.errors import InvalidInput
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import CUSTOM_RESOURCES, EVENTS, NODES, POD_TEMPLATES, PROVISIONING_REQUESTS, Resource

RBAC = Path(__file__).parents[3] / "deploy" / "rbac.yaml"
RBAC_GROUP = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
A100: dict[str, Any] = {"cpu": 1, "memory": "1Gi", "gpu": 8, "gpuType": "a100", "wholeNode": True}


async def submit(cluster: Cluster, name: str, replicas: int, **spec: Any) -> None:
    await cluster.submit(name, replicas=replicas, resources=A100, **spec)


def state_of(cluster: Cluster, name: str) -> RequestState | None:
    """Return the state of the run's node request."""
    request = cluster.status(name).node_request
    return request.state if request is not None else None


async def nothing_is_left(cluster: Cluster, scaler: Autoscaler) -> None:
    """Wait until no request and no template is left."""
    await cluster.until(lambda: not scaler.there, "no request left")
    assert not (await cluster.client.list(POD_TEMPLATES, cluster.namespace)).items


async def test_a_gang_larger_than_the_cluster_gets_its_nodes(cluster: Cluster) -> None:
    """One request asks for all nodes, and the run's message follows its progress. The members use the nodes, and
    afterwards the request is deleted."""
    cluster.use_policy(nodePools={"spot": POOL})
    async with Autoscaler(cluster).running() as scaler:
        scaler.behaves = ignore
        cluster.start_controller()
        await submit(cluster, "bert", 3)
        await cluster.until(lambda: scaler.there, "it asks")
        await cluster.until(lambda: cluster.status("bert").reason is Reason.PROVISIONING_NODES, "and says so")
        status = cluster.status("bert")
        assert status.phase is Phase.QUEUED and "requested 3 nodes of pool spot at " in status.message
        assert "no answer yet" in status.message and status.node_request is not None
        (request,) = scaler.seen
        run = await cluster.client.get(RUNS, "bert", cluster.namespace)
        owner = {"apiVersion": names.API_VERSION, "kind": "Run", "name": "bert", "uid": run["metadata"]["uid"]}
        template = await scaler.template_of(request)
        for made in (request, template):
            assert made["metadata"]["name"] == "bert-1-1"
            assert made["metadata"]["ownerReferences"] == [owner | {"controller": True}]
        assert request["spec"]["podSets"] == [{"count": 3, "podTemplateRef": {"name": "bert-1-1"}}]
        assert request["spec"]["provisioningClassName"] == "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
        assert request["spec"]["parameters"] == {"ValidUntilSeconds": "120"}
        pod = template["template"]["spec"]
        assert (
            pod["nodeSelector"] == {LABEL: "spot"}
            and pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
        )
        assert "command" not in pod["containers"][0] and "podAntiAffinity" in pod["affinity"]
        await scaler.say(request, "Accepted", "ProvisioningRequest was accepted")
        await scaler.say(request, "Provisioned", "expected in 2 minutes", "False")
        said = "accepted, provisioning: expected in 2 minutes"
        await cluster.until(lambda: said in cluster.status("bert").message, "its words")
        await provide(scaler, request)
        await cluster.reaches("bert", Phase.RUNNING)
        await nothing_is_left(cluster, scaler)
        assert cluster.status("bert").node_request is None and len(scaler.seen) == 1
        member = await cluster.client.get(Resource("", "v1", "pods", "Pod"), "bert-1-0", cluster.namespace)
        annotations = member["metadata"]["annotations"]
        assert annotations[CONSUMES] == "bert-1-1" and annotations[CLASS_NAME].startswith("best-effort-atomic")

        async def are_told() -> bool:
            events = (await cluster.client.list(EVENTS, cluster.namespace)).items
            return {"ProvisioningNodes", "NodesProvisioned"} <= {event["reason"] for event in events}

        await until(are_told, "events tell of it")  # they are written in the background


async def test_a_run_that_needs_no_nodes_any_more_deletes_its_request(cluster: Cluster) -> None:
    """The request is deleted when the run is stopped, deleted or edited."""
    cluster.use_policy(nodePools={"spot": POOL})
    async with Autoscaler(cluster).running() as scaler:
        scaler.behaves = ignore
        cluster.start_controller()
        await submit(cluster, "bert", 2)
        await cluster.until(lambda: "bert-1-1" in scaler.there, "it asks")
        await cluster.change("bert", replicas=3)
        await cluster.until(lambda: list(scaler.there) == ["bert-1-2"], "it asks for what it needs now")
        assert scaler.seen[-1]["spec"]["podSets"][0]["count"] == 3
        await cluster.change("bert", stopped=True)
        assert (await cluster.reaches("bert", Phase.STOPPED)).node_request is None
        await nothing_is_left(cluster, scaler)
        await submit(cluster, "gpt", 2)
        await cluster.until(lambda: scaler.there, "another asks")
        kept = {
            key: value for key, value in scaler.seen[-1]["metadata"].items() if key in ("labels", "ownerReferences")
        }
        stray = scaler.seen[-1] | {"metadata": kept | {"name": "gpt-1-7"}}
        await cluster.client.create(REQUESTS, stray, cluster.namespace)
        await cluster.until(
            lambda: any(request["metadata"]["name"] == "gpt-1-7" for request in scaler.seen), "a second one"
        )
        await cluster.until(lambda: list(scaler.there) == ["gpt-1-1"], "that no status names is deleted")
        await cluster.client.delete(RUNS, "gpt", cluster.namespace)
        await cluster.until(lambda: cluster.run("gpt") is None, "it is gone")
        await nothing_is_left(cluster, scaler)


async def test_a_failed_request_is_reported_and_repeated(cluster: Cluster) -> None:
    """The run's message quotes the autoscaler. The next request comes after a pause and has another name."""
    cluster.use_policy(nodePools={"spot": POOL})
    async with Autoscaler(cluster).running() as scaler:
        scaler.behaves = fail()
        cluster.start_controller()
        await submit(cluster, "bert", 2)
        await cluster.until(lambda: state_of(cluster, "bert") is RequestState.FAILED, "it has failed")
        status = cluster.status("bert")
        assert "the request for 2 nodes of pool spot failed: out of stock" in status.message, status.message
        assert "next request at " in status.message
        scaler.behaves = provide
        await cluster.reaches("bert", Phase.RUNNING)
        await nothing_is_left(cluster, scaler)
        made = [request["metadata"]["name"] for request in scaler.seen]
        assert made[:2] == ["bert-1-1", "bert-1-2"] and len(made) <= 3


async def test_new_nodes_are_kept_for_the_run_that_requested_them(cluster: Cluster) -> None:
    """No other run starts on the new nodes while one of the two is missing, or while they are not ready."""
    cluster.use_policy(nodePools={"spot": POOL | {"maxNodes": 2}})
    async with Autoscaler(cluster).running() as scaler:
        scaler.behaves = ignore
        scaler.taints = [{"key": "example.com/starting", "effect": "NoSchedule"}]
        cluster.start_controller()
        await submit(cluster, "bert", 2)
        await cluster.until(lambda: scaler.there, "it asks")
        await scaler.say(scaler.seen[0], "Provisioned", "ordered")
        await asyncio.sleep(1.1)
        scaler.add_nodes(1)
        await cluster.until(lambda: (n := cluster.mirror.nodes.get("spot-001")) and n.is_ready, "the first is there")
        await cluster.client.patch(NODES, "spot-001", {"spec": {"taints": None}})
        await submit(cluster, "small", 1, priority="high")
        said = "pool spot cannot grow"
        await cluster.until(lambda: said in cluster.status("small").message, "the other waits")
        assert "2 nodes" in cluster.status("small").message and not cluster.pods("small")
        scaler.add_nodes(1)
        await cluster.until(lambda: (n := cluster.mirror.nodes.get("spot-002")) and n.is_ready, "the second is there")
        assert cluster.status("bert").phase is Phase.QUEUED
        await cluster.client.patch(NODES, "spot-002", {"spec": {"taints": None}})
        await cluster.reaches("bert", Phase.RUNNING)
        assert cluster.status("small").phase is Phase.QUEUED and len(scaler.seen) == 1
        await cluster.change("bert", stopped=True)
        await cluster.reaches("small", Phase.RUNNING)


async def test_the_next_leader_repeats_no_request(cluster: Cluster) -> None:
    """The leader is killed before and after each of the two creations. There is exactly one request and one
    template."""
    cluster.use_policy(nodePools={"spot": POOL})
    async with Autoscaler(cluster).running() as scaler:
        scaler.behaves = ignore
        for number, (kind, after) in enumerate([(POD_TEMPLATES, False), (POD_TEMPLATES, True), (REQUESTS, True)]):
            name, reached = f"bert{number}", asyncio.Event()
            async with _StopsAtCreation(cluster.server.controller_config, kind, after, reached) as client:
                controller = cluster.start_controller(client=client)
                await submit(cluster, name, 1)
                await asyncio.wait_for(reached.wait(), 60)
                await cluster.kill_controller(controller)
            await _let_next_leader_finish(cluster, scaler, name)
        made = [request["metadata"]["name"] for request in scaler.seen]
        assert made == ["bert0-1-1", "bert1-1-1", "bert2-1-1"]
        templates = (await cluster.client.list(POD_TEMPLATES, cluster.namespace)).items
        assert sorted(template["metadata"]["name"] for template in templates) == made


async def _let_next_leader_finish(cluster: Cluster, scaler: Autoscaler, name: str) -> None:
    """Start the next leader, which carries out the plan that was written before the crash."""
    await cluster.until(lambda: state_of(cluster, name) is RequestState.ASKED, "the intent")
    controller = cluster.start_controller()
    await cluster.until(lambda: f"{name}-1-1" in scaler.there, "it is asked for")
    await cluster.stop_controller(controller)


class _StopsAtCreation(KubeClient):
    """Waits forever at the creation of one kind: before the creation, or after it."""

    def __init__(self, config: KubeConfig, kind: Resource, after: bool, reached: asyncio.Event) -> None:
        super().__init__(config)
        self._kind, self._after, self._reached = kind, after, reached

    async def create(self, resource: Resource, *arguments: Any, **options: Any) -> dict[str, Any]:
        if resource != self._kind:
            return await super().create(resource, *arguments, **options)
        if self._after:
            await super().create(resource, *arguments, **options)
        self._reached.set()
        await asyncio.Event().wait()
        raise AssertionError("never")


async def test_other_runs_start_where_nodes_cannot_be_requested(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message of a run that could use new nodes says why none are requested. They are requested once the kind is
    installed."""
    monkeypatch.setattr(node_requests, "LOOK_AGAIN_SECONDS", 0.3)
    cluster.use_policy(nodePools={"spot": POOL})
    cluster.start_controller()
    await submit(cluster, "bert", 2)
    said = "pool spot could grow by 2 for it, but this cluster has no ProvisioningRequests"
    await cluster.until(lambda: said in cluster.status("bert").message, "it says why")
    await cluster.submit("other")
    await cluster.reaches("other", Phase.RUNNING)
    async with Autoscaler(cluster).running() as scaler:
        await cluster.reaches("bert", Phase.RUNNING)
        await nothing_is_left(cluster, scaler)


@pytest.mark.conformance
@pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
async def test_the_delivered_role_allows_node_requests(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right, the run's message says so and other runs start. With it, a gang gets its nodes."""
    monkeypatch.setattr(node_requests, "LOOK_AGAIN_SECONDS", 0.3)
    role = next(
        document
        for document in yaml.safe_load_all(RBAC.read_text())
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == "kajitori-controller"
    )
    role["metadata"]["name"] = f"{cluster.namespace}-controller"
    lesser = role | {"rules": [rule for rule in role["rules"] if "autoscaling.x-k8s.io" not in rule["apiGroups"]]}
    subject = {"kind": "ServiceAccount", "name": "controller", "namespace": cluster.namespace}
    binding = {
        "metadata": {"name": role["metadata"]["name"]},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [subject],
    }
    await cluster.client.create(ACCOUNTS, {"metadata": {"name": "controller"}}, cluster.namespace)
    await cluster.client.create(ROLES, lesser)
    await cluster.client.create(BINDINGS, binding)
    cluster.use_policy(nodePools={"spot": POOL})
    path = f"{ACCOUNTS.path(cluster.namespace, 'controller')}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = json.loads(await cluster.client.request("POST", path, body=json.dumps(body).encode()))
    try:
        async with (
            Autoscaler(cluster).running() as scaler,
            KubeClient(cluster.client.config.with_token(made["status"]["token"])) as client,
        ):
            cluster.start_controller(client=client)
            await submit(cluster, "bert", 1)
            said = "Kajitori may not make ProvisioningRequests here"
            await cluster.until(lambda: said in cluster.status("bert").message, "it says why")
            await cluster.submit("other")
            await cluster.reaches("other", Phase.RUNNING)
            await cluster.client.patch(ROLES, role["metadata"]["name"], {"rules": role["rules"]})
            await cluster.reaches("bert", Phase.RUNNING)
            await nothing_is_left(cluster, scaler)
    finally:
        await cluster.client.delete(BINDINGS, role["metadata"]["name"])
        await cluster.client.delete(ROLES, role["metadata"]["name"])


@pytest.mark.conformance
async def test_the_kind_may_appear_vanish_and_have_an_older_version(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch notices and knows why nothing can be requested meanwhile."""
    monkeypatch.setattr(node_requests, "LOOK_AGAIN_SECONDS", 0.2)
    there = node_requests.NodeRequests(cluster.client, lambda: True, lambda _: cluster.touch())
    following = asyncio.create_task(there.follow())
    try:
        await cluster.until(lambda: there.why_not == node_requests.ABSENT, "it is absent")
        await Autoscaler(cluster).install(PROVISIONING_REQUESTS[1])
        await cluster.until(lambda: there.resource is PROVISIONING_REQUESTS[1], "it is there")
        assert there.why_not == ""
        await cluster.client.delete(CUSTOM_RESOURCES, NAME)
        await cluster.until(lambda: there.why_not == node_requests.ABSENT, "it is gone")
        assert there.resource is None and not following.done()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.conformance
async def test_the_definition_accepts_our_requests_and_refuses_faulty_ones(cluster: Cluster) -> None:
    """A request with an empty list of Pod sets is refused."""
    scaler = Autoscaler(cluster)
    await scaler.install()
    try:
        body: dict[str, Any] = {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {"name": "mine"},
            "spec": {"provisioningClassName": "mine.example.com", "podSets": []},
        }
        with pytest.raises(InvalidInput):
            await cluster.client.create(REQUESTS, body, cluster.namespace)
        body["spec"]["podSets"] = [{"count": 2, "podTemplateRef": {"name": "mine"}}]
        await cluster.client.create(REQUESTS, body, cluster.namespace)
        assert definition()["metadata"]["name"] == NAME
    finally:
        await scaler.uninstall()
