"""Runs' NetworkPolicies under a real enforcer: connections between real Pods and hosts outside the cluster.

Needs kube-router, which Kajitori does not install: on the PATH, or at the path in KAJITORI_POLICY_ENFORCER.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Set
from typing import Any

import pytest
from tests.harness.cluster import Cluster
from tests.harness.web_api import web_api
from tests.helpers.network.enforced import HOSTS, NODE, PROGRAM, WEB_API, EnforcedNode, Place, enforced_node, forward

from kajitori.core.policy.file import with_first_step
from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import PODS

NEEDED = ("ip", "nft", "nsenter", "iptables", "ipset")
PATIENCE_SECONDS = 200.0
RULES: dict[str, Any] = {
    "traffic": {"classes": {"internal": ["10.0.0.0/8"], "storage": ["10.9.0.0/16"]}},
    "security": {"allowRoot": True, "allowPrivilegeEscalation": True, "dropCapabilities": [], "seccompProfile": ""},
    "start": {"pause": "1s", "longestPause": "2s", "deadline": "2m"},
}
NETWORKS: dict[str, list[str] | None] = {
    "open": None,
    "alone": [],
    "friends": ["namespace"],
    "cluster": ["internal"],
    "named": ["internal", "10.8.0.0/15"],
    "anywhere": ["internal", "storage", "internet"],
}
"""The `from` and `to` of each run."""
MEMBERS = {"open-1-0", "alone-1-0", "alone-1-1", "friends-1-0", "cluster-1-0", "named-1-0", "anywhere-1-0"}
EVERYBODY = MEMBERS | HOSTS.keys()
ALLOWED: dict[str, Set[str]] = {
    "open": EVERYBODY,
    "alone": {"alone-1-0", "alone-1-1"},
    "friends": MEMBERS,
    "cluster": MEMBERS | {"internal", "web"},
    "named": MEMBERS | {"internal", "web", "storage"},
    "anywhere": EVERYBODY,
}
"""The peers that a run may talk to as a result, in both directions."""
SMALL = {"command": ["sleep", "100000"], "resources": {"cpu": 0.1, "memory": "64Mi"}}
RESOLVER = {
    "metadata": {"name": "dns", "labels": {"app": "dns"}},
    "spec": {"nodeName": NODE, "containers": [{"name": "dns", "image": "dns:1", "command": SMALL["command"]}]},
}

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root: run as root"),
    pytest.mark.skipif(
        not PROGRAM,
        reason="needs kube-router to enforce NetworkPolicies: on $PATH, or its path in $KAJITORI_POLICY_ENFORCER",
    ),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in NEEDED),
        reason=f"needs {', '.join(NEEDED)}: apt-get install iproute2 nftables util-linux iptables ipset",
    ),
]


async def until_they_talk(places: Mapping[str, Place], allowed: Mapping[str, Set[str]]) -> None:
    """Wait until exactly the allowed pairs reach each other."""

    def may(one: str, other: str) -> bool:
        return one in HOSTS or other in allowed[one.split("-", maxsplit=1)[0]]

    pairs = [(one, other) for one in places for other in places if one != other and not {one, other} <= HOSTS.keys()]
    wanted = {(one, other): may(one, other) and may(other, one) for one, other in pairs}
    for _ in range(30):
        calls = [asyncio.to_thread(places[one].reaches, places[other]) for one, other in pairs]
        found = dict(zip(pairs, await asyncio.gather(*calls), strict=True))
        if found == wanted:
            return
    wrong = {pair: passes for pair, passes in found.items() if passes != wanted[pair]}
    raise AssertionError(f"what passes and should not, or does not and should: {wrong}")


@contextlib.asynccontextmanager
async def with_web_api(cluster: Cluster, node: EnforcedNode) -> AsyncIterator[None]:
    """Serve a Web API outside the node, for the first step of members, and start a controller."""
    async with web_api(cluster) as web, forward(node.outside, WEB_API, 8600, web.port):
        cluster.policy.complete(lambda policy: with_first_step(policy, "kajitori:1", f"http://{WEB_API}:8600"))
        cluster.start_controller()
        yield


@pytest.mark.parametrize("flags", [(), ("--use-nftables-for-netpol",)], ids=["ipsets", "nftables"])
@pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
async def test_exactly_the_requested_connections_pass(cluster: Cluster, flags: tuple[str, ...]) -> None:
    """Members of a gang always reach each other, the Web API and resolvers behind a Service. An edit takes effect
    without a restart."""
    resolvers = {"namespace": cluster.namespace, "labels": {"app": "dns"}}
    cluster.use_policy(**RULES, network={"dns": resolvers})
    async with enforced_node(cluster, *flags) as node, with_web_api(cluster, node):
        await cluster.client.create(PODS, RESOLVER, cluster.namespace)
        for name, wish in NETWORKS.items():
            spec = SMALL if wish is None else SMALL | {"network": {"from": wish, "to": wish}}
            await cluster.submit(name, **spec, replicas=2 if name == "alone" else 1, nodeSelector=node.selector)
        for name in NETWORKS:
            await cluster.reaches(name, Phase.RUNNING, attempt=1, seconds=PATIENCE_SECONDS)
        places = node.hosts | {pod.metadata.name: node.pod(pod) for name in NETWORKS for pod in cluster.pods(name)}
        assert places.keys() == EVERYBODY
        await until_they_talk(places, ALLOWED)
        names = node.service(cluster.mirror.pods[cluster.namespace, "dns"])
        assert await asyncio.to_thread(places["alone-1-0"].reaches, names)

        await cluster.change("alone", network={"from": ["all"], "to": ["all"]})
        await cluster.change("anywhere", network={"from": ["storage"], "to": ["storage"]})
        await until_they_talk(places, ALLOWED | {"alone": EVERYBODY, "anywhere": {"storage"}})
