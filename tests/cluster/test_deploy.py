"""The manifests under deploy/, on a real API server: it takes every word of them, and they give the rights that are
needed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.real_cluster import RealCluster

from kajitori.core import names
from kajitori.errors import AlreadyExists
from kajitori.kube.client import KubeClient
from kajitori.kube.install import install
from kajitori.kube.mirror import Mirror
from kajitori.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, PODS, RUNS, Resource

ROOT = Path(__file__).parents[2]
MANIFESTS = sorted(path.name for path in (ROOT / "deploy").glob("*.yaml"))
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((ROOT / "deploy" / name).read_text()) if each]


async def resource_of(client: KubeClient, document: dict[str, Any]) -> Resource:
    """Where the API server keeps such a document, as it says itself."""
    group, _, version = document["apiVersion"].rpartition("/")
    answer = json.loads(await client.request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}"))
    (found,) = [each for each in answer["resources"] if each["kind"] == document["kind"] and "/" not in each["name"]]
    return Resource(group, version, found["name"], document["kind"], found["namespaced"])


@pytest.mark.parametrize("name", MANIFESTS)
async def test_every_field_of_a_manifest_is_known(real_cluster: RealCluster, name: str) -> None:
    async with real_cluster.client() as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
        for document in documents(name):
            resource = await resource_of(client, document)
            path = resource.path(document["metadata"].get("namespace"), document["metadata"]["name"])
            params = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test", "force": "true"}
            headers = {"Content-Type": "application/apply-patch+yaml"}
            await client.request("PATCH", path, params=params, body=document, headers=headers)


async def test_the_relays_account_may_watch_what_it_tells(real_cluster: RealCluster) -> None:
    async with real_cluster.client() as client:
        await install(client)
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
        for document in documents("relay.yaml"):
            kinds = {each.kind: each for each in (ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)}
            if document["kind"] in kinds:
                await client.create(kinds[document["kind"]], document)
        path = ACCOUNTS.path(names.NAMESPACE, "kajitori-relay", "token")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = json.loads(await client.request("POST", path, body=request))["status"]["token"]
    config = real_cluster.config.with_token(token)
    async with KubeClient(config) as relay, Mirror(relay, (PODS, RUNS)) as mirror:
        await mirror.wait_synced()
        assert mirror.synced
