"""A real API server accepts the objects that `decide` makes of specs: strictly, and without a warning about fields."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.real_server import RealServer

from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS
from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.pods.manifests import MemberPods, headless_service, launcher_of
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.status_parts.attempts import template_text
from kajitori.errors import InvalidInput
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import CLAIMS, NAMESPACES, PODS, SERVICES

pytestmark = pytest.mark.real

NAMESPACE = "manifests"
EVERY_VOLUME = {
    "a": {"claim": "c", "subPath": "x/y"},
    "b": {"hostPath": "/srv"},
    "c": {"configMap": "m"},
    "d": {"secret": "s"},
    "e": {"emptyDir": {"size": "1Gi", "memory": True}},
    "f": {"nfs": {"server": "nas", "path": "/x"}, "readOnly": True},
}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "bare": ({}, {}, "Guaranteed"),
    "training": (
        {
            "command": ["python", "train.py", "$(x)"],
            "args": ["--lr", "1"],
            "workingDir": "/work",
            "env": {"A": "1"},
            "replicas": 2,
            "launcher": "torchrun",
            "resources": {"cpu": 8, "memory": "64g", "gpu": 8, "gpuType": "H100", "shm": "16Gi", "wholeNode": True},
            "secrets": [{"name": "w"}, {"name": "hf", "key": "token", "env": "HF"}, {"name": "s", "path": "/s"}],
            "checkpoint": {"path": "/ckpt", "size": "1Gi"},
            "priority": "high",
            "user": "1000:100",
            "ports": [80, 8080],
            "labels": {"project": "x"},
            "tolerations": [{"key": "a", "value": "b"}, {"key": "c", "operator": "Exists", "effect": "NoExecute"}],
            "nodeSelector": {"disk": "ssd"},
        },
        {"checkpoint": {"storageClass": "fast"}},
        "Guaranteed",
    ),
    "everything that policy can add": (
        {
            "type": "service",
            "hostNetwork": True,
            "privileged": True,
            "user": 0,
            "volumes": [
                *({"name": name, "path": f"/{name}"} for name in EVERY_VOLUME),
                {"hostPath": "/home/a/x", "path": "/x", "readOnly": True},
            ],
            "checkpoint": {"path": "/ckpt"},
        },
        {
            "security": {
                "allowRoot": True,
                "allowPrivileged": True,
                "allowHostNetwork": True,
                "fsGroup": 5,
                "readOnlyRoot": True,
                "addCapabilities": ["IPC_LOCK"],
            },
            "mounts": {"hostPaths": ["/home/a"]},
            "checkpoint": {"kind": "folder", "root": "/shared"},
            "volumes": EVERY_VOLUME,
            "inject": {
                "labels": {"cost": "42"},
                "annotations": {"note": "x"},
                "env": {"P": "$(KAJI_RANK)"},
                "tolerations": [{"key": "t", "operator": "Exists", "effect": "NoExecute"}],
                "nodeSelector": {"disk": "ssd"},
                "schedulerName": "other",
                "resources": {"hugepages-1Gi": "2Gi"},
            },
            "images": {"pullSecrets": ["r"], "pullPolicy": "Always"},
        },
        "Guaranteed",
    ),
    "burstable": (
        {"qos": "burstable", "resources": {"memory": "8g", "memoryRequest": "2g", "cpuRequest": "500m"}},
        {},
        "Burstable",
    ),
    "unlimited": ({}, {"memoryWithoutLimit": "unlimited"}, "Burstable"),
}


@pytest.fixture
async def client(real_server: RealServer) -> AsyncIterator[KubeClient]:
    """A client of a cluster with Kajitori's definitions, and a namespace for these tests."""
    async with real_server.client() as opened:
        await install(opened)
        names = {item["metadata"]["name"] for item in (await opened.list(NAMESPACES)).items}
        if NAMESPACE not in names:
            await opened.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield opened


async def create_strictly(client: KubeClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Create an object in a server-side dry run that refuses unknown and duplicate fields."""
    params = {"dryRun": "All", "fieldValidation": "Strict"}
    answer: dict[str, Any] = json.loads(
        await client.request("POST", path, params=params, body=json.dumps(body).encode())
    )
    return answer


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bind_direct", [False, True])
async def test_members_pass_strict_validation_unchanged(client: KubeClient, case: str, bind_direct: bool) -> None:
    """A member's Pod passes validation and admission, with the expected QoS class and only our tolerations."""
    document, policy, qos = CASES[case]
    spec = parse_spec({"image": "bert:3"} | document)
    decision = decide(spec, parse_policy(policy), Facts(), run=RunIdentity("bert", NAMESPACE))
    pods = MemberPods(
        decision.template,
        run_name="bert",
        namespace=NAMESPACE,
        run_uid="0c6b2b5a-0000-4000-8000-000000000000",
        attempt=1,
        world_size=spec.replicas,
        port=20000,
        launcher=launcher_of(spec),
        bind_direct=bind_direct,
    )
    sent = pods.pod(0, "node-1")
    pod = await create_strictly(client, PODS.path(NAMESPACE), sent)
    assert pod["status"]["qosClass"] == qos
    assert pod["spec"]["preemptionPolicy"] == "Never"
    assert pod["spec"]["tolerations"] == sent["spec"]["tolerations"]
    service = headless_service(run_name="bert", namespace=NAMESPACE, run_uid="u", ports=spec.ports)
    assert (await create_strictly(client, SERVICES.path(NAMESPACE), service))["spec"]["clusterIP"] == "None"
    if decision.claim is not None:
        await create_strictly(client, CLAIMS.path(NAMESPACE), decision.claim)


def run(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kajitori.dev/v1alpha1", "kind": "Run", "metadata": {"name": "bert"}, "spec": spec}


async def test_a_run_keeps_fields_that_the_schema_does_not_know(client: KubeClient) -> None:
    """Unknown fields and unchecked values reach Kajitori, which refuses them with all reasons."""
    spec = {
        "image": "bert:3",
        "resources": {"cpu": 0.5, "memory": "64g", "gpus": 8},
        "volumes": [{"name": "x", "nmae": "x", "path": "/data"}],
        "user": 1000,
        "zebra": {"a": [1]},
    }
    kept = await create_strictly(client, RUNS.path(NAMESPACE), run(spec))
    assert kept["spec"] == spec
    with pytest.raises(InvalidInput) as caught:
        parse_spec(kept["spec"])
    assert {fault.field for fault in caught.value.faults} == {
        "spec.resources.gpus",
        "spec.volumes[0].nmae",
        "spec.zebra",
    }


@pytest.mark.parametrize(
    "spec", [{"replicas": "4"}, {"env": {"A": 3}}, {"command": "python x"}, {"resources": [1]}, {"stopped": "yes"}]
)
async def test_the_api_server_refuses_values_of_the_wrong_type(client: KubeClient, spec: dict[str, Any]) -> None:
    """At once, and nothing is stored."""
    with pytest.raises(InvalidInput):
        await client.create(RUNS, run(spec), NAMESPACE)
    assert not (await client.list(RUNS, NAMESPACE)).items


async def test_spec_and_status_do_not_overwrite_each_other(client: KubeClient) -> None:
    """An attempt's template comes back unchanged."""
    template = template_text({"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]}})
    created = await client.create(RUNS, run({"image": "a:1"}) | {"status": {"phase": "Running"}}, NAMESPACE)
    try:
        assert "status" not in created
        created["status"] = {"phase": "Starting", "attempt": {"number": 1, "nodes": "a-1", "template": template}}
        created["spec"] = {"image": "other:1"}
        written = await client.replace(RUNS, created, subresource="status")
        assert written["spec"] == {"image": "a:1"}
        assert written["status"]["attempt"]["template"] == template
    finally:
        await client.delete(RUNS, "bert", NAMESPACE)
