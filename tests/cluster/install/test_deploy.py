"""The manifests under deploy/ on a real API server, which must know every field.

tests/cluster/parts compares the rights in them with the rights that the parts use.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from tests.harness.platform.deployed import DEPLOY, manifest
from tests.harness.servers.real_server import RealServer

from kajitori.core.naming import names
from kajitori.errors import AlreadyExists, Forbidden
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NAMESPACES, PODS, Resource

MANIFESTS = sorted(path.name for path in DEPLOY.glob("*.yaml") if path.stem != "kustomization")

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]


async def resource_of(client: KubeClient, document: dict[str, Any]) -> Resource:
    """Return the resource of such a document, from the API server's discovery."""
    group, _, version = document["apiVersion"].rpartition("/")
    answer = json.loads(await client.request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}"))
    (found,) = [
        resource
        for resource in answer["resources"]
        if resource["kind"] == document["kind"] and "/" not in resource["name"]
    ]
    return Resource(group, version, found["name"], document["kind"], found["namespaced"])


@pytest.mark.parametrize("name", MANIFESTS)
async def test_every_field_of_a_manifest_is_known(real_server: RealServer, name: str) -> None:
    async with real_server.client() as client:
        for namespace in (names.NAMESPACE, names.messages_namespace(), f"{names.NAMESPACE}-agents"):
            with contextlib.suppress(AlreadyExists):
                await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        for document in manifest(name):
            resource = await resource_of(client, document)
            path = resource.path(document["metadata"].get("namespace"), document["metadata"]["name"])
            params = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test", "force": "true"}
            headers = {"Content-Type": "application/apply-patch+yaml"}
            await client.request("PATCH", path, params=params, body=document, headers=headers)


async def test_only_the_namespace_of_agents_admits_privileged_pods(real_server: RealServer) -> None:
    """The Web API, the controller and the relay fulfil Kubernetes' strictest standard. Agents do not, and have a
    namespace of their own."""
    namespace, _, agents = manifest("namespace.yaml")
    name = "strict-as-deployed"
    async with real_server.client() as client:
        labels = namespace["metadata"]["labels"]
        await client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        for part in ("server.yaml", "controller.yaml", "relay.yaml", "agent.yaml"):
            (found,) = [document for document in manifest(part) if document["kind"] in ("Deployment", "DaemonSet")]
            pod = found["spec"]["template"]
            body = {"metadata": {"name": "one", "labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
            body["spec"].pop("priorityClassName", None)
            if part == "agent.yaml":
                with pytest.raises(Forbidden, match="restricted"):
                    await client.create(PODS, body, name, dry_run=True)
                assert agents["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
            else:
                await client.create(PODS, body, name, dry_run=True)
