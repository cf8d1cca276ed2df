"""Documents that are nested too deeply or repeat too much are refused in every format, with 400, and quickly."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.embedded_server import (
    APPLY,
    JSON,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Answer,
    EmbeddedServer,
    embedded_server,
)

from kajitori.embedded.apiserver.schemas.nesting import DEEPEST

YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/test.dev/v1/namespaces/default/things"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
DEPTHS = (DEEPEST + 1, 600, 5_000, 100_000)
"""Depths just over the limit, over Python's recursion limit in some places and in all, and over that of C."""


def definition(schema: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing", "singular": "thing"}
    spec = {"group": "test.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.dev"},
        "spec": spec,
    }


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        made = await server.call(
            "POST", DEFINITIONS, definition({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        )
        assert made.code == 201
        yield server


def objects(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def lists(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def thing(name: str, value: bytes) -> bytes:
    head = b'{"apiVersion":"test.dev/v1","kind":"Thing","metadata":{"name":"' + name.encode() + b'"},"x":'
    return head + value + b"}"


def as_yaml(document: bytes) -> bytes:
    """Return the document as YAML, without the last bracket so that it is no JSON."""
    return document.replace(b'"', b"").replace(b":", b": ")


@pytest.mark.parametrize("value", [objects, lists])
async def test_documents_that_are_nested_too_deeply_are_refused(api: EmbeddedServer, value: Any) -> None:
    """Bodies of every kind of request, in every format; the server continues to work."""
    assert (await api.call("POST", THINGS, thing("there", b"1"))).code == 201
    for levels in DEPTHS:
        deep = value(levels)
        requests = [
            ("POST", THINGS, thing("a", deep), JSON),
            ("POST", THINGS, thing("a", as_yaml(deep)), YAML),
            ("PUT", f"{THINGS}/there", thing("there", deep), JSON),
            ("PATCH", f"{THINGS}/there", b'{"x":' + deep + b"}", MERGE),
            ("PATCH", f"{THINGS}/there", b'[{"op":"add","path":"/x","value":' + deep + b"}]", JSON_PATCH),
            ("PATCH", f"{THINGS}/there?fieldManager=me", thing("there", deep), APPLY),
            ("PATCH", f"{THINGS}/there?fieldManager=me", as_yaml(thing("there", deep)), APPLY),
            ("PATCH", "/api/v1/namespaces/default", b'{"x":' + deep + b"}", STRATEGIC),
            ("POST", MAPS, b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":' + deep + b"}", JSON),
            ("POST", REVIEWS, b'{"spec":{"x":' + deep + b"}}", JSON),
            ("DELETE", f"{THINGS}/there", b'{"x":' + deep + b"}", JSON),
        ]
        for method, path, body, content_type in requests:
            _refused(await api.call(method, path, body, content_type=content_type), (levels, method, path))
    assert (await api.call("GET", f"{THINGS}/there")).body["x"] == 1


def _refused(answer: Answer, what: Any) -> None:
    assert answer.code == 400, (what, answer.body)
    said = answer.body["message"]
    assert f"{DEEPEST} levels" in said, (what, said)


@pytest.mark.parametrize("value", [objects, lists])
async def test_documents_of_the_largest_depth_can_be_used(api: EmbeddedServer, value: Any) -> None:
    """Created, read in each format, changed, watched and deleted."""
    deep = value(DEEPEST - 8)
    assert (await api.call("POST", THINGS, thing("a", deep))).code == 201
    got = await api.call("GET", f"{THINGS}/a")
    for accept in (YAML, "application/json;as=Table;v=v1;g=meta.k8s.io"):
        assert (await api.call("GET", THINGS, headers={"Accept": accept})).code == 200
    assert (await api.call("PUT", f"{THINGS}/a", got.body | {"y": 1})).code == 200
    assert (await api.call("PATCH", f"{THINGS}/a", b'{"z":' + deep + b"}", content_type=MERGE)).code == 200
    applied = await api.call("PATCH", f"{THINGS}/a?fieldManager=me&force=true", thing("a", deep), content_type=APPLY)
    assert applied.code == 200, applied.body
    async with api.watch(THINGS, resourceVersion="0") as events:
        assert (await events.next())["object"]["z"]
    assert (await api.call("DELETE", f"{THINGS}/a")).code == 200


async def test_a_deep_schema_is_in_the_openapi_documents(api: EmbeddedServer) -> None:
    """Every client reads them."""
    assert (await api.call("DELETE", f"{DEFINITIONS}/things.test.dev")).code == 200
    for levels, code in ((DEEPEST // 2 - 8, 201), (DEEPEST, 400)):
        schema: Any = {"type": "object"}
        for _ in range(levels):
            schema = {"type": "object", "properties": {"a": schema}}
        assert (await api.call("POST", DEFINITIONS, definition(schema))).code == code
        assert (await api.call("GET", "/openapi/v3/apis/test.dev/v1")).code == (200 if code == 201 else 404)
        await api.call("DELETE", f"{DEFINITIONS}/things.test.dev")


async def test_patches_that_build_depth_or_size_are_refused(api: EmbeddedServer) -> None:
    """Each operation is small: one more level, or a copy of everything."""
    assert (await api.call("POST", THINGS, thing("a", b"{}"))).code == 201
    deeper = [{"op": "add", "path": "/x" + "/a" * level, "value": {}} for level in range(1, 2 * DEEPEST)]
    _refused(await api.call("PATCH", f"{THINGS}/a", deeper, content_type=JSON_PATCH), "additions")
    doubled: list[Any] = [{"op": "add", "path": "/x", "value": {"a": "a" * 1000}}]
    doubled += [{"op": "copy", "from": "/x", "path": f"/x/{step}"} for step in range(40)]
    answer = await api.call("PATCH", f"{THINGS}/a", doubled, content_type=JSON_PATCH)
    assert (answer.code, "accumulated size" in answer.body["message"]) == (413, True)
    nested = [{"op": "copy", "from": "/x", "path": "/x/a"}] * (2 * DEEPEST)
    _refused(await api.call("PATCH", f"{THINGS}/a", nested, content_type=JSON_PATCH), "copies")
    assert (await api.call("GET", f"{THINGS}/a")).body["x"] == {}


async def test_yaml_with_excessive_or_recursive_aliases_is_refused(api: EmbeddedServer) -> None:
    head = b"apiVersion: test.dev/v1\nkind: Thing\nmetadata: {name: a}\n"
    fine = await api.call("POST", THINGS, head + b"x: &x [1, 2]\ny: *x\n", content_type=YAML)
    assert (fine.code, fine.body["y"]) == (201, [1, 2])
    bomb = b"x0: &x0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
    for step in range(1, 12):
        bomb += b"x%d: &x%d [%s]\n" % (step, step, b", ".join([b"*x%d" % (step - 1)] * 9))
    for body, said in ((bomb, "more than 100000 values"), (b"x: &x [*x]\n", "the alias *x is inside the value")):
        answer = await api.call("POST", THINGS, head + body, content_type=YAML)
        assert (answer.code, said in answer.body["message"]) == (400, True), answer.body
    deep = b"x0: &x0 [1]\n" + b"".join(b"x%d: &x%d [*x%d]\n" % (step, step, step - 1) for step in range(1, 2 * DEEPEST))
    _refused(await api.call("POST", THINGS, head + deep, content_type=YAML), "aliases in aliases")


async def test_deep_json_in_protobuf_is_refused(api: EmbeddedServer) -> None:
    """Protobuf messages are not nested deeply; the JSON in one of them may be."""

    def varint(number: int) -> bytes:
        return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)

    def field(number: int, value: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(value)) + value

    managed = field(1, b"me") + field(6, b"FieldsV1") + field(7, field(1, objects(5_000)))
    raw = field(1, field(1, b"a") + field(17, managed))
    body = b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, raw)
    _refused(await api.call("POST", MAPS, body, content_type=PROTOBUF), "protobuf")


async def test_deep_json_in_other_places_is_refused(api: EmbeddedServer) -> None:
    """In a continue token, and in a Secret of registry credentials."""
    token = base64.urlsafe_b64encode(lists(2_000)).decode()
    answer = await api.call("GET", MAPS, params={"continue": token, "limit": "1"})
    assert (answer.code, "continue" in answer.body["message"]) == (400, True)
    secret = {
        "metadata": {"name": "a"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(lists(100_000)).decode()},
    }
    answer = await api.call("POST", "/api/v1/namespaces/default/secrets", secret)
    assert (answer.code, f"{DEEPEST} levels" in answer.body["message"]) == (422, True)
