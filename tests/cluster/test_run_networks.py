"""NetworkPolicies of runs, on both API servers: there before the first Pod, put right meanwhile, gone after."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.harness.cluster import Cluster
from tests.harness.kube_server import KubeServer

from kajitori.controllers.runs.networks import NetworkKeeper
from kajitori.core.pods.reach import Reach, network_rules
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.words import names
from kajitori.errors import AlreadyExists, NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import NETWORK_POLICIES
from kajitori.kube.runs import RunObject

STORAGE = {"classes": {"internal": ["10.0.0.0/8", "fd00::/8"], "storage": ["10.9.0.0/16", "fd09::/32"]}}


def rules(*targets: str, sources: tuple[str, ...] | None = ("namespace",)) -> dict[str, Any]:
    """As policy has them, with ranges of both versions in each other."""
    policy = parse_policy({"traffic": STORAGE, "start": {"image": "kajitori:1", "server": "http://10.0.0.1:8600"}})
    found = network_rules(Reach(sources, targets), policy, first_step=True)
    assert found is not None
    return found


def run_in(namespace: str, uid: str = "u1") -> RunObject:
    meta = ObjectMeta(name="bert", namespace=namespace, uid=f"{namespace}-{uid}")
    return RunObject(metadata=meta, spec=msgspec.Raw(b"{}"))


async def policy_of(client: KubeClient, namespace: str, name: str = "bert") -> dict[str, Any]:
    return await client.get(NETWORK_POLICIES, name, namespace)


async def test_a_server_keeps_it_as_it_was_written(kube_server: KubeServer, own_namespace: str) -> None:
    """Nothing is added or taken away, so that a second look writes nothing; another wish is written at once."""
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
        await keeper.ensure(run_in(own_namespace, "u2"), rules("internal"))  # what an earlier run left makes way
        assert not await keeper.is_there(run)


async def test_a_strangers_is_left_alone(kube_server: KubeServer, own_namespace: str) -> None:
    theirs = {"metadata": {"name": "bert"}, "spec": {"podSelector": {}}}
    async with kube_server.client() as client:
        await client.create(NETWORK_POLICIES, theirs, own_namespace)
        with pytest.raises(AlreadyExists, match="belongs to something else"):
            await NetworkKeeper(client, lambda key: None).ensure(run_in(own_namespace), rules("internal"))
        assert "ingress" not in (await policy_of(client, own_namespace))["spec"]


async def until_it_says(cluster: Cluster, spec: dict[str, Any] | None) -> None:
    """Waits until a run's NetworkPolicy says this, or is gone."""
    for _ in range(200):
        try:
            found = (await policy_of(cluster.client, cluster.namespace))["spec"]
        except NotFound:
            found = None
        if found == spec:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{found}; {cluster.describe()}")


async def test_it_lives_as_long_as_its_run(cluster: Cluster) -> None:
    """Deleted or edited by somebody it comes back, by the next leader where the first was killed meanwhile; a run that
    is over has none, one that is resumed has it again."""
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
    await until_it_says(cluster, wanted)
    await cluster.client.patch(NETWORK_POLICIES, "bert", {"spec": {"egress": [{}]}}, cluster.namespace)
    await until_it_says(cluster, wanted)
    await cluster.kill_controller(first)
    await cluster.client.delete(NETWORK_POLICIES, "bert", cluster.namespace)
    cluster.start_controller()
    await until_it_says(cluster, wanted)
    assert cluster.status("bert").attempts == 1
    await cluster.change("bert", stopped=True)
    await cluster.reaches("bert", Phase.STOPPED)
    await until_it_says(cluster, None)
    await cluster.change("bert", stopped=False, resumes=1)
    await cluster.reaches("bert", Phase.RUNNING)
    await until_it_says(cluster, wanted)
    await cluster.change("bert", network={"from": ["all"], "to": ["all"]})  # at once: nothing has to be started again
    await until_it_says(cluster, None)
    assert cluster.status("bert").attempts == 2


async def test_no_pod_exists_before_it(cluster: Cluster) -> None:
    """Where it can't be made, members do not start unrestricted: none is made, and the run says why."""
    theirs = {"metadata": {"name": "bert"}, "spec": {"podSelector": {"matchLabels": {"app": "theirs"}}}}
    await cluster.client.create(NETWORK_POLICIES, theirs, cluster.namespace)
    cluster.start_controller()
    await cluster.submit("bert", network={"to": []})
    await cluster.until(lambda: cluster.status("bert").reason == Reason.ADMISSION, "it says so")
    assert "NetworkPolicy bert belongs to something else" in cluster.status("bert").message
    assert not cluster.pods("bert")
