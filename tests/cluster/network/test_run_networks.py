"""NetworkPolicies of runs, on both API servers: created before the first Pod, repaired, and deleted after the end."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.harness.cluster import Cluster
from tests.harness.servers.kube_server import KubeServer
from tests.harness.waiting import until

from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.controllers.runs.networks import NetworkKeeper
from kajitori.core.naming import names
from kajitori.core.pods.reach import Reach, network_rules
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.errors import AlreadyExists, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import ENDPOINT_SLICES, NETWORK_POLICIES, SERVICES

pytestmark = pytest.mark.conformance

STORAGE = {"classes": {"internal": ["10.0.0.0/8", "fd00::/8"], "storage": ["10.9.0.0/16", "fd09::/32"]}}


def rules(*targets: str, sources: tuple[str, ...] | None = ("namespace",)) -> dict[str, Any]:
    """Return the rules of a run, with a range inside another one in both IP versions."""
    policy = parse_policy({"traffic": STORAGE, "start": {"image": "kajitori:1", "server": "http://10.0.0.1:8600"}})
    found = network_rules(Reach(sources, targets), policy, first_step=True)
    assert found is not None
    return found


def run_in(namespace: str, uid: str = "u1") -> RunObject:
    meta = ObjectMeta(name="bert", namespace=namespace, uid=f"{namespace}-{uid}")
    return RunObject(metadata=meta, spec=msgspec.Raw(b"{}"))


async def policy_of(client: KubeClient, namespace: str, name: str = "bert") -> dict[str, Any]:
    return await client.get(NETWORK_POLICIES, name, namespace)


async def test_a_server_stores_a_network_policy_unchanged(kube_server: KubeServer, own_namespace: str) -> None:
    """So the next comparison writes nothing, and a change of the wanted policy is written at once."""
    run = run_in(own_namespace)
    async with kube_server.client() as client:
        keeper = NetworkKeeper(client, lambda key: None)
        await keeper.ensure(run, rules("internet", "storage"))
        made = await policy_of(client, own_namespace)
        await NetworkKeeper(client, lambda key: None).ensure(run, rules("internet", "storage"))
        assert await policy_of(client, own_namespace) == made
        await keeper.ensure(run, rules("internal"))
        changed = await policy_of(client, own_namespace)
        assert changed["metadata"]["uid"] == made["metadata"]["uid"]
        assert changed["spec"] != made["spec"]
        assert await keeper.is_there(run)
        assert not await keeper.is_there(run_in(own_namespace, "u0"))
        await keeper.ensure(run_in(own_namespace, "u2"), rules("internal"))  # replaces the one of an earlier run
        assert not await keeper.is_there(run)


async def test_a_foreign_network_policy_is_not_touched(kube_server: KubeServer, own_namespace: str) -> None:
    theirs = {"metadata": {"name": "bert"}, "spec": {"podSelector": {}}}
    async with kube_server.client() as client:
        await client.create(NETWORK_POLICIES, theirs, own_namespace)
        with pytest.raises(AlreadyExists, match="belongs to something else"):
            await NetworkKeeper(client, lambda key: None).ensure(run_in(own_namespace), rules("internal"))
        assert "ingress" not in (await policy_of(client, own_namespace))["spec"]


async def until_policy_is(cluster: Cluster, spec: dict[str, Any] | None) -> None:
    """Wait until the spec of the run's NetworkPolicy is this, or until it is gone."""
    for _ in range(200):
        try:
            found = (await policy_of(cluster.client, cluster.namespace))["spec"]
        except NotFound:
            found = None
        if found == spec:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{found}; {cluster.describe()}")


async def test_a_network_policy_exists_as_long_as_its_run(cluster: Cluster) -> None:
    """A deleted or edited policy is restored, also by the next leader after a kill. An ended run has none, and a
    resumed run has one again."""
    cluster.use_policy(defaults={"network": {"to": ["internal"]}})
    first = cluster.start_controller()
    await cluster.submit("bert", replicas=2, network={"from": ["namespace"]})
    await cluster.reaches("bert", Phase.RUNNING)
    made = await policy_of(cluster.client, cluster.namespace)
    wanted = made["spec"]
    assert wanted["podSelector"]["matchLabels"] == {names.LABEL_RUN_UID: cluster.pods("bert")[0].owner_run_uid}
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Run"
    assert sorted(wanted["policyTypes"]) == ["Egress", "Ingress"]
    await cluster.client.delete(NETWORK_POLICIES, "bert", cluster.namespace)
    await until_policy_is(cluster, wanted)
    await cluster.client.patch(NETWORK_POLICIES, "bert", {"spec": {"egress": [{}]}}, cluster.namespace)
    await until_policy_is(cluster, wanted)
    await cluster.kill_controller(first)
    await cluster.client.delete(NETWORK_POLICIES, "bert", cluster.namespace)
    cluster.start_controller()
    await until_policy_is(cluster, wanted)
    assert cluster.status("bert").attempts == 1
    await cluster.change("bert", stopped=True)
    await cluster.reaches("bert", Phase.STOPPED)
    await until_policy_is(cluster, None)
    await cluster.change("bert", stopped=False, resumes=1)
    await cluster.reaches("bert", Phase.RUNNING)
    await until_policy_is(cluster, wanted)
    await cluster.change("bert", network={"from": ["all"], "to": ["all"]})  # at once, without a restart
    await until_policy_is(cluster, None)
    assert cluster.status("bert").attempts == 2


async def test_no_member_starts_without_its_network_policy(cluster: Cluster) -> None:
    """If the policy cannot be created, no member is created, and the run says why."""
    theirs = {"metadata": {"name": "bert"}, "spec": {"podSelector": {"matchLabels": {"app": "theirs"}}}}
    await cluster.client.create(NETWORK_POLICIES, theirs, cluster.namespace)
    cluster.start_controller()
    await cluster.submit("bert", network={"to": []})
    await cluster.until(lambda: cluster.status("bert").reason == Reason.ADMISSION, "it says so")
    assert "NetworkPolicy bert belongs to something else" in cluster.status("bert").message
    assert not cluster.pods("bert")


async def names_of(cluster: Cluster) -> dict[str, set[str]]:
    """Return the runs to which each name leads, by the network's Service and the name."""
    found: dict[str, set[str]] = {}
    for one in (await cluster.client.list(ENDPOINT_SLICES, cluster.namespace)).items:
        labels = one["metadata"]["labels"]
        for endpoint in one["endpoints"] or () if names.LABEL_RUN in labels else ():
            network = labels["kubernetes.io/service-name"][-8:]
            found.setdefault(f"{network}/{endpoint.get('hostname')}", set()).add(labels[names.LABEL_RUN])
    return found


async def test_runs_find_each_other_in_their_networks_alone(cluster: Cluster) -> None:
    """Two networks of a namespace may both have a `db`. The names are there once a run runs, follow it to its next
    attempt, also under the next leader, and are deleted with it; the network with its last run."""
    first = cluster.start_controller()
    shop, blog = ([{"name": network, "aliases": ["db"]}] for network in ("shop", "blog"))
    await cluster.submit("shop-db", networks=shop)
    await cluster.submit("blog-db", networks=blog)
    await cluster.submit("shop-web", type="service", replicas=2, networks=[{"name": "shop"}])
    for run in ("shop-db", "blog-db", "shop-web"):
        await cluster.reaches(run, Phase.RUNNING)
    a, b = (names.network_service(network) for network in ("shop", "blog"))
    wanted = {f"{a[-8:]}/db": {"shop-db"}, f"{a[-8:]}/shop-db": {"shop-db"}, f"{a[-8:]}/shop-web": {"shop-web"}}
    assert await names_of(cluster) == wanted | {f"{b[-8:]}/db": {"blog-db"}, f"{b[-8:]}/blog-db": {"blog-db"}}
    await cluster.change("blog-db", networks=[*blog, {"name": "shop", "aliases": ["posts"]}])  # while it runs

    async def has_more_names() -> bool:
        of_pod = cluster.pods("blog-db")[0].metadata.annotations[names.ANNOTATION_NETWORKS]
        return of_pod == f"{b},{a}" and (await names_of(cluster)).get(f"{a[-8:]}/posts") == {"blog-db"}

    await until(has_more_names, "a run that is put into a network is found there at once, and its Pod is told")
    await cluster.change("blog-db", networks=blog)
    service = await cluster.client.get(SERVICES, a, cluster.namespace)
    assert {owner["name"] for owner in service["metadata"]["ownerReferences"]} >= {"shop-db", "shop-web"}
    with pytest.raises(NotFound):
        await cluster.client.get(SERVICES, "shop-db", cluster.namespace)
    await cluster.kill_controller(first)
    cluster.start_controller()
    await cluster.change("shop-db", stopped=True)
    await cluster.reaches("shop-db", Phase.STOPPED)
    assert f"{a[-8:]}/db" not in await names_of(cluster)
    await cluster.change("shop-db", stopped=False, resumes=1)
    await cluster.reaches("shop-db", Phase.RUNNING)
    assert (await names_of(cluster))[f"{a[-8:]}/db"] == {"shop-db"}
    for run in ("shop-db", "shop-web", "blog-db"):
        await cluster.client.delete(RUNS, run, cluster.namespace)

    async def all_is_gone() -> bool:
        services = {one["metadata"]["name"] for one in (await cluster.client.list(SERVICES, cluster.namespace)).items}
        return not services & {a, b} and not await names_of(cluster)

    await until(all_is_gone, "networks and names are deleted with their runs")
