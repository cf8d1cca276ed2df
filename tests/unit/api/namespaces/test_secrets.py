"""Secrets through the Web API: created, listed and deleted with the caller's own rights; no answer holds a value."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.kube import tables

VALUE = "s3cr3t-value"
ENCODED = base64.b64encode(VALUE.encode()).decode()


async def make(world: World, name: str = "wandb", *, user: str = "ada", **more: Any) -> httpx2.Response:
    body = {"name": name, "data": {"key": ENCODED}} | more.pop("body", {})
    return await world.http.post("/v1/secrets", json=body, headers={"Authorization": f"Bearer {user}"}, **more)


async def test_a_secret_is_created_with_the_callers_rights(world: World) -> None:
    response = await make(world)
    assert (response.status_code, response.json()["keys"]) == (201, ["key"])
    assert VALUE not in response.text and ENCODED not in response.text
    made = world.kubernetes.get("secrets", "wandb")
    assert (made["type"], made["data"]) == ("Opaque", {"key": ENCODED})
    assert ("POST", "/api/v1/namespaces/team/secrets", "ada") in world.kubernetes.requests


async def test_the_api_server_decides_what_a_caller_may_do_with_secrets(world: World) -> None:
    """This server has no right of its own to Secrets."""
    await make(world)
    world.kubernetes.denied = {("bob", verb, "secrets", "team") for verb in ("create", "list", "delete", "update")}
    headers = {"Authorization": "Bearer bob"}
    refused = [
        await make(world, "other", user="bob"),
        await world.http.get("/v1/secrets", headers=headers),
        await world.http.delete("/v1/secrets/wandb", headers=headers),
    ]
    assert [response.status_code for response in refused] == [403, 403, 403]
    assert {user for _, path, user in world.kubernetes.requests if "secrets" in path} == {"ada", "bob"}


async def test_a_list_holds_no_values(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of keys are known of Secrets that were created here and not changed since. The list comes in pages."""
    monkeypatch.setattr(tables, "PAGE_SIZE", 2)
    await make(world)
    changed = world.kubernetes.get("secrets", "wandb")
    others: dict[str, dict[str, Any]] = {
        "changed": {**changed, "data": {"key": ENCODED, "more": ENCODED}},
        "foreign": {"metadata": {}, "type": "kubernetes.io/tls", "data": {"tls.key": ENCODED, "tls.crt": ENCODED}},
    }
    for name, secret in others.items():
        meta = {**secret["metadata"], "name": name, "namespace": "team"}
        world.kubernetes.put("secrets", {**secret, "metadata": {key: meta[key] for key in meta if key != "uid"}})
    response = await world.http.get("/v1/secrets")
    assert ENCODED not in response.text
    assert [(item["name"], item["type"], item["keys"], item["keyCount"]) for item in response.json()["items"]] == [
        ("changed", "Opaque", None, 2),
        ("foreign", "kubernetes.io/tls", None, 2),
        ("wandb", "Opaque", ["key"], 1),
    ]


async def test_an_existing_secret_is_replaced_only_on_request(world: World) -> None:
    """All its keys are replaced."""
    await make(world)
    taken = await make(world, body={"data": {"other": ENCODED}})
    assert (taken.status_code, taken.json()["code"]) == (409, "AlreadyExists")
    assert "--replace" in taken.json()["hint"]
    assert (await make(world, body={"data": {"other": ENCODED}}, params={"replace": "true"})).status_code == 201
    assert world.kubernetes.get("secrets", "wandb")["data"] == {"other": ENCODED}


async def test_a_secret_that_a_run_uses_is_not_deleted(world: World) -> None:
    """Ended runs do not count. A caller who may not list runs does not learn their names."""
    await make(world)
    world.kubernetes.put("runs", run("bert", phase="Running", secrets=[{"name": "wandb"}]))
    world.kubernetes.put("runs", run("old", phase="Failed", secrets=[{"name": "wandb"}]))
    world.kubernetes.put("runs", run("odd", phase="Running", secrets="nonsense"))
    await world.caught_up()
    assert (await world.http.get("/v1/secrets")).json()["items"][0]["usedBy"] == ["bert"]
    refused = await world.http.delete("/v1/secrets/wandb")
    assert (refused.status_code, "is used by bert" in refused.json()["detail"]) == (409, True)
    world.kubernetes.denied = {("bob", "list", "runs", "team")}
    seen = await world.http.get("/v1/secrets", headers={"Authorization": "Bearer bob"})
    assert seen.json()["items"][0]["usedBy"] == []
    assert (await world.http.delete("/v1/secrets/wandb", params={"force": "true"})).status_code == 202
    for name in ("wandb", "No%20Name", "a%3Fb"):
        assert (await world.http.delete(f"/v1/secrets/{name}")).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"data": {"key": f"{VALUE}!"}},
        {"data": {"key": 1234567890}},
        {"data": VALUE},
        {"data": {}},
        {"data": {"a b": ENCODED}},
        {"data": {"..": ENCODED}},
        {"data": {"key": base64.b64encode(b"x" * 600_000).decode()}},
        {"value": VALUE},
        {"stringData": {"key": VALUE}},
        {"name": "No Name"},
    ],
)
async def test_a_refusal_does_not_repeat_the_value(world: World, body: dict[str, Any]) -> None:
    """Nothing is created."""
    response = await make(world, body=body)
    assert response.status_code == 422, response.text
    assert VALUE not in response.text and "1234567890" not in response.text
    assert not [key for key in world.kubernetes.objects if key[0] == "secrets"]


async def test_secrets_can_be_in_another_namespace(world: World) -> None:
    """A namespace that is no valid name does not lead to another path."""
    await make(world, body={"namespace": "other"})
    assert world.kubernetes.get("secrets", "wandb", "other")["data"] == {"key": ENCODED}
    assert len((await world.http.get("/v1/secrets", params={"namespace": "other"})).json()["items"]) == 1
    assert (await world.http.get("/v1/secrets")).json() == {"namespace": "team", "items": []}
    for odd in ("../pods", "a/b", "A"):
        assert (await world.http.get("/v1/secrets", params={"namespace": odd})).status_code == 422
    world.kubernetes.missing_namespaces = {"gone"}
    assert "no namespace 'gone'" in (await make(world, body={"namespace": "gone"})).json()["detail"]
