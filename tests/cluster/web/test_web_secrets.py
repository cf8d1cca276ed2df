"""Secrets and volumes through the Web API, on the embedded and on a real API server: lists without values, and
claims."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.harness.cluster import Cluster
from tests.harness.web_api import web_api

from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import CLAIMS, SECRETS

pytestmark = pytest.mark.conformance

VALUE = base64.b64encode(b"s3cr3t").decode()


@pytest.fixture
async def http(cluster: Cluster) -> AsyncIterator[httpx2.AsyncClient]:
    cluster.use_policy(checkpoint={"kind": "claim"}, volumes={"imagenet": {"claim": "nowhere"}})
    cluster.start_controller()
    async with web_api(cluster) as web:
        yield web.http


async def test_a_secret_is_created_listed_replaced_and_deleted(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    """The list has types and numbers of keys from the API server, and never values."""
    body = {"name": "wandb", "data": {"key": VALUE}}
    assert (await http.post("/v1/secrets", json=body)).status_code == 201
    assert (await http.post("/v1/secrets", json=body)).status_code == 409
    more = {"name": "wandb", "data": {"a": VALUE, "b": VALUE}}
    assert (await http.post("/v1/secrets", json=more, params={"replace": "true"})).status_code == 201
    stored = await cluster.client.get(SECRETS, "wandb", cluster.namespace)
    assert (stored["type"], stored["data"]) == ("Opaque", {"a": VALUE, "b": VALUE})
    await cluster.client.patch(SECRETS, "wandb", {"data": {"c": VALUE}}, cluster.namespace)
    answer = await http.get("/v1/secrets")
    (shown,) = [item for item in answer.json()["items"] if item["name"] == "wandb"]
    assert (shown["type"], shown["keyCount"], shown["keys"]) == ("Opaque", 3, None)
    assert VALUE not in answer.text
    assert (await http.delete("/v1/secrets/wandb")).status_code == 202
    assert (await http.delete("/v1/secrets/wandb")).status_code == 404


async def test_a_checkpoint_is_listed_and_deleted_after_its_run(cluster: Cluster, http: httpx2.AsyncClient) -> None:
    """The checkpoint is not deleted while its run has Pods. A volume with a missing claim is listed as missing."""
    checkpoint = {"path": "/ckpt", "size": "1Gi"}
    await cluster.submit("bert", checkpoint=checkpoint)

    async def claim() -> dict[str, object] | None:
        found = [item for item in (await http.get("/v1/volumes")).json()["items"] if item["kind"] == "checkpoint"]
        return found[0] if found else None

    await cluster.until(lambda: cluster.pods("bert"), "its member is made, and so is the claim")
    shown = await claim()
    assert shown is not None and (shown["name"], shown["sizeBytes"], shown["usedBy"]) == (
        "bert-checkpoint",
        1 << 30,
        ["bert"],
    )
    states = {item["name"]: item["state"] for item in (await http.get("/v1/volumes")).json()["items"]}
    assert states["imagenet"] == "Missing"
    assert (await http.delete("/v1/volumes/bert-checkpoint")).status_code == 409
    await cluster.change("bert", stopped=True)
    await cluster.reaches("bert", Phase.STOPPED)
    assert (await http.delete("/v1/volumes/bert-checkpoint")).status_code == 202
    found = await cluster.client.list(CLAIMS, cluster.namespace)
    assert all(item["metadata"].get("deletionTimestamp") for item in found.items), "gone, or kept by its protection"
