"""The kinds of the embedded API server, compared with a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.harness.servers.real_server import RealServer
from tests.helpers.objects import kinds_cases
from tests.helpers.objects.kinds_cases import Case

from kajitori.embedded.apiserver.discovery.openapi import OpenApi
from kajitori.embedded.apiserver.reads import tables
from kajitori.embedded.apiserver.registry import KindRegistry, built_in
from kajitori.embedded.apiserver.schemas import protobuf
from kajitori.kube.client import KubeClient
from kajitori.kube.errors import ApiError
from kajitori.kube.resources import CUSTOM_RESOURCES, Resource

pytestmark = pytest.mark.real

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
EXTENSIONS = ("list-type", "list-map-keys", "patch-merge-key", "patch-strategy")
TRIES = 50


def _path(registry: KindRegistry, body: dict[str, Any]) -> str:
    kind = registry.find_kind(body["apiVersion"], body["kind"])
    if kind is not None:
        resource = kind.resource
    else:
        group, _, version = body["apiVersion"].partition("/")
        resource = Resource(group, version, "bars", body["kind"])
    return resource.path("default" if resource.namespaced else None)


async def _ask(client: KubeClient, path: str, case: Case) -> tuple[int, dict[str, Any] | None]:
    body = json.dumps(case.body).encode()
    try:
        answer = await client.request("POST", path, params={"dryRun": "All"}, body=body)
    except ApiError as error:
        return error.status, None
    return 201, json.loads(answer)


@pytest.mark.parametrize("file", ["pods", "others", "definitions", "admission_policies"])
async def test_recorded_answers_are_still_those_of_a_real_server(real_server: RealServer, file: str) -> None:
    """A real server still answers every recorded case with the same code and object."""
    registry = built_in()
    async with real_server.client() as client:
        for case in kinds_cases.load(file):
            code, obj = await _ask(client, _path(registry, case.body), case)
            assert (case.name, code) == (case.name, case.code)
            if case.object is not None:
                assert obj is not None
                assert kinds_cases.comparable(obj) == case.object


async def test_recorded_answers_about_custom_resources(real_server: RealServer) -> None:
    """The same for custom resources. Their definition is created before and deleted afterwards."""
    registry = built_in()
    definition = kinds_cases.definition()
    name = definition["metadata"]["name"]
    async with real_server.client() as client:
        await client.create(CUSTOM_RESOURCES, definition)
        try:
            for _ in range(TRIES):
                made = await client.get(CUSTOM_RESOURCES, name)
                conditions = (made.get("status") or {}).get("conditions") or []
                if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                    break
                await asyncio.sleep(0.1)
            for case in kinds_cases.load("custom_resources"):
                code, obj = await _served(client, _path(registry, case.body), case)
                assert (case.name, code) == (case.name, case.code)
                if case.object is not None:
                    assert obj is not None
                    assert kinds_cases.comparable(obj) == case.object
        finally:
            await client.delete(CUSTOM_RESOURCES, name)


async def _served(client: KubeClient, path: str, case: Case) -> tuple[int, dict[str, Any] | None]:
    """Create an object of a definition that is served a moment after it is established."""
    for _ in range(TRIES):
        answer = await _ask(client, path, case)
        if answer[0] != 404:
            break
        await asyncio.sleep(0.1)
    return answer


async def test_openapi_names_the_same_merge_keys(real_server: RealServer) -> None:
    """Types, merge keys, list types and required fields of every built-in type agree with the real OpenAPI."""
    registry = built_in()
    ours = OpenApi(registry)
    differences: list[str] = []
    compared = 0
    async with real_server.client() as client:
        for path in sorted({_document(one.resource) for one in registry.all()}):
            real = json.loads(await client.request("GET", f"/openapi/v3/{path}"))["components"]["schemas"]
            document = ours.v3(path)
            assert document is not None
            for name, schema in json.loads(document)["components"]["schemas"].items():
                compared += 1
                differences += _differences(name, schema, real.get(name))
    assert compared > 200
    assert differences == []


def _document(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _differences(name: str, ours: dict[str, Any], real: dict[str, Any] | None) -> list[str]:
    short = name.rpartition(".")[2]
    if real is None or short in ("NodeAllocatableResourceClaimStatus", "JSONSchemaProps"):
        # Newer than the real server, or recursive and kept as it is.
        return []
    found = []
    if sorted(ours.get("required", [])) != sorted(real.get("required", [])):
        found.append(f"{short}: required {ours.get('required')} but really {real.get('required')}")
    if ours.get("x-kubernetes-map-type") != real.get("x-kubernetes-map-type"):
        found.append(f"{short}: x-kubernetes-map-type")
    for field, part in ours.get("properties", {}).items():
        other = real.get("properties", {}).get(field)
        if other is None:
            found.append(f"{short}.{field}: unknown to the real server")
            continue
        for extension in EXTENSIONS:
            key = f"x-kubernetes-{extension}"
            mine = None if part.get(key) == "atomic" else part.get(key)
            theirs = None if other.get(key) == "atomic" else other.get(key)
            if mine != theirs:
                found.append(f"{short}.{field}: {key} {mine} but really {theirs}")
    return found


async def test_tables_have_the_same_columns(real_server: RealServer) -> None:
    """Names, types, formats and priorities of the columns of every built-in kind."""
    async with real_server.client() as client:
        for kind in built_in().all():
            if kind.virtual:
                continue
            answer = json.loads(await client.request("GET", kind.resource.path(), headers={"Accept": TABLE}))
            mine = tables.to_table(kind, [])
            keys = ("name", "type", "format", "priority")
            real = [[one[key] for key in keys] for one in answer["columnDefinitions"]]
            assert [[one[key] for key in keys] for one in mine["columnDefinitions"]] == real, kind.resource.plural


async def test_tables_have_the_same_cells(real_server: RealServer) -> None:
    """The tables of a real server's own objects have the same cells."""
    registry = built_in()
    async with real_server.client() as client:
        for plural in ("namespaces", "services", "priorityclasses", "configmaps", "leases", "endpointslices"):
            kind = next(one for one in registry.all() if one.resource.plural == plural)
            path = kind.resource.path()
            params = {"includeObject": "Object"}
            answer = json.loads(await client.request("GET", path, params=params, headers={"Accept": TABLE}))
            names = [one["name"] for one in answer["columnDefinitions"]]
            for row in answer["rows"]:
                mine = tables.to_table(kind, [row["object"]])["rows"][0]["cells"]
                for name, ours, real in zip(names, mine, row["cells"], strict=True):
                    if name != "Age":
                        assert ours == real, (plural, name)


async def test_protobuf_means_the_same_as_json(real_server: RealServer) -> None:
    """A protobuf answer of a real server reads like its JSON answer."""
    registry = built_in()
    compared = 0
    async with real_server.client() as client:
        for case in (*kinds_cases.load("pods"), *kinds_cases.load("others")):
            if case.object is None:
                continue
            kind = registry.find_kind(case.body["apiVersion"], case.body["kind"])
            assert kind is not None
            read = []
            for media_type in ("application/json", protobuf.MEDIA_TYPE):
                path, body = _path(registry, case.body), json.dumps(case.body).encode()
                answer = await client.request(
                    "POST", path, params={"dryRun": "All"}, body=body, headers={"Accept": media_type}
                )
                obj = json.loads(answer) if media_type == "application/json" else protobuf.decode(answer)
                assert kind.conform(obj) == []
                read.append(kinds_cases.comparable(obj))
            assert read[0] == read[1], case.name
            compared += 1
    assert compared > 10
