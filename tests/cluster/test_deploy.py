"""The manifests under deploy/, on a real API server: it takes every word of them.

The rights that they give are compared with those that are used by tests/cluster/parts.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from tests.helpers.deployed import DEPLOY, manifest
from tests.helpers.real_cluster import RealCluster

from kajitori.core import names
from kajitori.errors import AlreadyExists
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NAMESPACES, Resource

MANIFESTS = sorted(path.name for path in DEPLOY.glob("*.yaml"))

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]


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
        for document in manifest(name):
            resource = await resource_of(client, document)
            path = resource.path(document["metadata"].get("namespace"), document["metadata"]["name"])
            params = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test", "force": "true"}
            headers = {"Content-Type": "application/apply-patch+yaml"}
            await client.request("PATCH", path, params=params, body=document, headers=headers)
