"""Request bodies: their media type is checked, and repeated keys are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import World

from kajitori.api.app import openapi_document, operations
from kajitori.api.requests import bodies

SPEC = b'{"spec": {"image": "bert:3"}}'


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        ("application/json", 201),
        ("Application/JSON; charset=utf-8", 201),
        ("application/merge-patch+json", 201),
        ("", 201),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/yaml", 415),
        ("text/html+json", 415),
        ("nonsense", 415),
    ],
)
async def test_only_bodies_declared_as_json_are_accepted(world: World, media_type: str, status: int) -> None:
    headers = {"Content-Type": media_type} if media_type else {}
    answer = await world.http.post("/v1/runs", content=SPEC, headers=headers)
    assert answer.status_code == status
    if status == 415:
        assert answer.json()["code"] == "WrongMediaType"
        assert "Content-Type: application/json" in answer.json()["hint"]


async def test_no_operation_accepts_a_form_as_a_document(world: World) -> None:
    """All operations with a body are tried, including those added later."""
    tried = set()
    for path, method, operation in operations(openapi_document()):
        types = (operation.get("requestBody") or {}).get("content") or {}
        if not any(kind.endswith(("json", "yaml")) for kind in types):
            continue
        filled = path.format(namespace="team", name="bert", node="g1", digest="sha256:" + "0" * 64, number=0)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await world.http.request(method.upper(), filled, content=b"spec=1", headers=headers)
        assert answer.status_code == 415, path
        tried.add(path)
    assert {"/v1/runs", "/v1/policy/check", "/v1/runs/{namespace}/{name}/stop"} < tried


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"spec": {"image": "a", "image": "b"}}', ["spec.image"]),
        (b'{"name": "a", "spec": {}, "name": "a"}', ["name"]),
        (b'{"spec": {"env": {"A": "1", "B": "2", "A": "3", "B": "4"}}}', ["spec.env.A", "spec.env.B"]),
        (b'{"spec": {"volumes": [{"path": "/a"}, {"path": "/b", "path": "/c"}]}}', ["spec.volumes[1].path"]),
        (b'{"spec": {"\\u0061": 1, "a": 2}}', ["spec.a"]),
    ],
)
async def test_a_repeated_key_is_refused_and_named(world: World, body: bytes, fields: list[str]) -> None:
    """JSON readers differ in which of two values they take."""
    answer = await world.http.post("/v1/runs", content=body)
    assert answer.status_code == 422
    faults: list[dict[str, Any]] = answer.json()["faults"]
    assert [(fault["field"], fault["code"]) for fault in faults] == [(field, "Repeated") for field in fields]
    assert not world.kubernetes.objects.get(("runs", "team", "a"))


async def test_thousands_of_repeated_keys_are_found_in_linear_time(world: World) -> None:
    """The refusal names a limited number of them."""
    keys = ",".join(f'"k{number % 30_000}":1' for number in range(60_000))
    answer = await world.http.post("/v1/runs", content=f"{{{keys}}}".encode())
    assert (answer.status_code, len(answer.json()["faults"])) == (422, bodies.MAX_REPEATED_KEYS)
