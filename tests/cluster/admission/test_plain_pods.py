"""Rules of the policy for Pods that users create without Kajitori, enforced by the API server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from tests.harness.commands import kubectl
from tests.harness.fixtures import REAL
from tests.harness.servers.kube_server import KubeServer

from kajitori.cluster.platform.policy_keeper import PolicyKeeper
from kajitori.core.admission.member_policy import IS_CONTROLLER
from kajitori.core.admission.plain_pods.policies import CRON_JOBS, DEFAULTS, TEMPLATES
from kajitori.core.admission.plain_pods.policies import PODS as PODS_POLICY
from kajitori.core.naming import names
from kajitori.core.policy.file import parse_policy
from kajitori.errors import Forbidden, KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    PODS,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)

pytestmark = pytest.mark.conformance

RULES = {
    "memoryWithoutLimit": "default",
    "defaults": {"memory": "3Gi"},
    "images": {"allow": ["python:*"]},
    "ceilings": {"member": {"memory": "8Gi", "gpu": 8}},
    "inject": {"nodeSelector": {"pool": "ml"}},
}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    listed = [{"name": f"c{i}", "image": "python:3", **c} for i, c in enumerate(containers or ({},))]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": listed, **spec}}


def limits(**amounts: str) -> dict[str, Any]:
    return {"resources": {"limits": {name.replace("gpu", "nvidia.com/gpu"): text for name, text in amounts.items()}}}


class Enforced:
    """The rules, in force in one namespace."""

    def __init__(self, admin: KubeClient, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self.admin.create(PODS, body, self.namespace, dry_run=True)

    async def faults(self, body: dict[str, Any]) -> list[str]:
        """Return the faults that the API server names."""
        with pytest.raises(Forbidden) as caught:
            await self.create(body)
        return caught.value.message.partition("denied request: ")[2].split("; ")


@pytest.fixture
async def enforced(kube_server: KubeServer, own_namespace: str) -> AsyncIterator[Enforced]:
    """The rules in force. They are deleted when the policy no longer contains them."""
    pods = {"namespaces": [own_namespace], "reasons": {"images": "see https://wiki/images"}}
    policies = [parse_policy(RULES | {"pods": pods})]
    async with kube_server.client() as admin:
        keeper = PolicyKeeper(admin, lambda: policies[-1], lambda: True, time.monotonic)
        await keeper.keep()
        found = Enforced(admin, own_namespace)
        await until_in_force(found)
        yield found
        policies.append(parse_policy(RULES))
        await keeper.keep()
        for resource in (VALIDATING_POLICIES, VALIDATING_BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS):
            left = {item["metadata"]["name"] for item in (await admin.list(resource)).items}
            assert not left & {PODS_POLICY, TEMPLATES, CRON_JOBS, DEFAULTS}


async def until_in_force(enforced: Enforced) -> None:
    """Wait until the API server enforces the policies. A real one does so a moment after they are stored."""
    for _ in range(100):
        try:
            created = await enforced.create(pod("probe", limits(gpu="1")))
        except KajitoriError:
            await asyncio.sleep(0.1)
            continue
        try:
            await enforced.create(pod("probe", {"securityContext": {"privileged": True}}))
        except Forbidden:
            if "memory" in created["spec"]["containers"][0]["resources"]["limits"]:
                return
        await asyncio.sleep(0.1)
    raise AssertionError("the policies are not in force")


async def test_a_pod_that_breaks_rules_is_refused_with_all_faults(enforced: Enforced) -> None:
    wrong = pod(
        "wrong",
        {"image": "evil:1", "securityContext": {"privileged": True}} | limits(memory="9Gi"),
        hostPID=True,
        volumes=[{"name": "v", "hostPath": {"path": "/etc"}}],
        tolerations=[{"operator": "Exists"}],
    )
    assert await enforced.faults(wrong) == [
        "a Pod without GPUs may not tolerate the taints of nodes with GPUs: leave out the toleration of all taints"
        " [gpuNodes]",
        "container c0 has an image that may not run, or whose name is not written in the usual way (allowed: python:*)"
        " [images: see https://wiki/images]",
        "its containers may use or reserve more memory together than the ceiling of 8Gi [ceilings]",
        "container c0 is privileged: leave out securityContext.privileged [privileged]",
        "a Pod may not use the process IDs of its node: leave out hostPID [hostNamespaces]",
        "a Pod may not mount the folder /etc of its node (allowed: none) [hostFolders]",
        "a Pod may not tolerate all taints [tolerations]",
    ]


async def test_a_controllers_reader_of_a_checkpoint_is_exempt(enforced: Enforced) -> None:
    """The folder may be on a node with GPUs. Users without a controller's rights gain nothing by the label."""
    reader = pod("bert-files", tolerations=[{"operator": "Exists"}])
    reader["metadata"]["labels"] = {names.LABEL_READER: "bert"}
    made = await enforced.create(reader)
    assert "affinity" not in made["spec"]
    stored = await enforced.admin.get(VALIDATING_POLICIES, PODS_POLICY)
    conditions = {one["name"]: one["expression"] for one in stored["spec"]["matchConditions"]}
    assert IS_CONTROLLER in conditions["no-reader"]


async def test_defaults_are_filled_in(enforced: Enforced) -> None:
    """A container without a memory limit gets the policy's default. A Pod without GPUs is kept off nodes with GPUs."""
    requests = {"resources": {"requests": {"memory": "4Gi"}}}
    made = await enforced.create(pod("bare", {}, limits(memory="1Gi"), requests))
    assert [c["resources"]["limits"]["memory"] for c in made["spec"]["containers"]] == ["3Gi", "1Gi", "4Gi"]
    assert made["spec"]["nodeSelector"] == {"pool": "ml"}
    required = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = ("kajitori.dev/gpu-type", "nvidia.com/gpu.product", "amd.com/gpu.product-name")
    absent = [{"key": label, "operator": "DoesNotExist"} for label in labels]
    assert required["nodeSelectorTerms"] == [{"matchExpressions": absent}]


async def test_defaults_are_added_to_the_pods_own_constraints(enforced: Enforced) -> None:
    terms: list[dict[str, Any]] = [
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    made = await enforced.create(pod("chosen", affinity=affinity, nodeSelector={"zone": "a"}))
    assert made["spec"]["nodeSelector"] == {"pool": "ml", "zone": "a"}
    found = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [len(term["matchExpressions"]) for term in found["nodeSelectorTerms"]] == [4, 3]
    assert found["nodeSelectorTerms"][1]["matchFields"] == terms[1]["matchFields"]


async def test_pods_with_gpus_get_no_node_affinity(enforced: Enforced) -> None:
    made = await enforced.create(pod("gpus", limits(gpu="2", memory="1Gi")))
    assert "affinity" not in made["spec"]


async def test_pods_of_other_namespaces_are_not_checked(enforced: Enforced) -> None:
    body = pod("elsewhere", {"image": "evil:1"}, hostPID=True, serviceAccountName="default")
    try:
        await enforced.admin.create(PODS, body, "default", dry_run=True)
    except Forbidden as error:  # a real API server without controllers has no service account here
        assert "ValidatingAdmissionPolicy" not in error.message


@pytest.mark.parametrize("kube_server", [pytest.param("real", marks=REAL)], indirect=True)
async def test_a_template_whose_pods_would_be_refused_gets_a_warning(
    kube_server: KubeServer, enforced: Enforced
) -> None:
    """Only on a real API server: the embedded one has no Deployments."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x", hostPID=True)["spec"]}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": enforced.namespace},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    apply = partial(kubectl, kube_server.kubeconfig, "apply", "--dry-run=server", "-f", "-")
    for _ in range(100):  # the policy of templates may be enforced later than that of Pods
        answered = await asyncio.to_thread(apply, stdin=json.dumps(body), env={}, seconds=60.0)
        assert "deployment.apps/web created" in answered.stdout
        if answered.stderr:
            break
        await asyncio.sleep(0.1)
    assert "Warning: " in answered.stderr and "leave out hostPID [hostNamespaces]" in answered.stderr
