"""The OpenAPI document and the behaviour of the API agree."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.openapi.utils import get_openapi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import WebSocketRoute
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.fake_programs import FakeLog

from kajitori.api import app, web_page
from kajitori.api.answers.paging import decode_token, encode_token
from kajitori.api.app import openapi_document, operations
from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.runs.recording import state_of
from kajitori.errors import InvalidInput


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema behind a reference."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def assert_fits(document: dict[str, Any], schema: dict[str, Any], value: Any, where: str) -> None:
    """Check a value against the parts of JSON Schema that our types use."""
    schema = resolved(document, schema)
    if "anyOf" in schema:
        fitting = []
        for option in schema["anyOf"]:
            try:
                assert_fits(document, option, value, where)
                fitting.append(option)
            except AssertionError:
                pass
        assert fitting, f"{where}: {value!r} fits none"
        return
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    if "type" in schema:
        assert isinstance(value, kinds[schema["type"]]), f"{where}: {value!r} is no {schema['type']}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= set(value), where
        for key, part in value.items():
            if key in properties:
                assert_fits(document, properties[key], part, f"{where}.{key}")
            elif "properties" in schema:
                assert schema.get("additionalProperties"), f"{where}.{key} is not described"
            elif isinstance(schema.get("additionalProperties"), dict):
                assert_fits(document, schema["additionalProperties"], part, f"{where}.{key}")
    if isinstance(value, list) and "items" in schema:
        for index, part in enumerate(value):
            assert_fits(document, schema["items"], part, f"{where}[{index}]")


async def furnish(world: World) -> None:
    """Create a cluster for which no answer is empty."""
    made = world.kubernetes.put("runs", run("bert", replicas=2) | {"status": attempts(1, phase="Running")})
    waiting = run("queued", replicas=9, resources={"gpu": 8, "gpuType": "h100"})
    world.kubernetes.put("runs", waiting | {"status": {"phase": "Queued"}})
    for rank in range(2):
        member = world.kubernetes.put("pods", pod(made, rank=rank, node="g1", gpus=4))
        world.kubernetes.logs["team", member["metadata"]["name"]] = FakeLog("2026-11-21T10:00:00Z hello")
    ended = {"phase": "Running", "attempts": 1, "sweep": {"failed": "3"}}
    grid = world.kubernetes.put("runs", run("grid", array="2-4") | {"status": ended})
    world.kubernetes.put("pods", pod(grid, rank=2, node="g1"))
    about = {"kind": "Run", "name": "bert"}
    meta = {"name": "e", "namespace": "team"}
    world.kubernetes.put("events", {"metadata": meta, "involvedObject": about, "lastTimestamp": "2026-11-21T10:00:00Z"})
    world.change("stores", logs=KeptLogs(world.blobs))
    await world.caught_up()


def test_overlapping_first_requests_build_the_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI's builder fails when two threads run it at once."""
    built: list[dict[str, Any]] = []

    def build(**options: Any) -> dict[str, Any]:
        built.append(get_openapi(**options))
        return built[-1]

    monkeypatch.setattr(app, "get_openapi", build)
    app._built_document.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        documents = list(threads.map(lambda _: openapi_document(), range(8)))
    assert len(built) == 1
    assert all(document is built[0] for document in documents)


def test_every_route_is_described() -> None:
    """The exceptions are tested separately in tests/cluster/people/test_outsiders.py; a new exception belongs there as
    well."""
    described = {(path, method.upper()) for path, method, _ in operations(openapi_document())}
    routes: list[Any] = [route for router in app.ROUTERS for route in router.routes]
    sockets = {route.path for route in routes if isinstance(route, WebSocketRoute)}
    calls = {(route.path, method) for route in routes for method in getattr(route, "methods", ())}
    assert sockets == {f"/v1/runs/{{namespace}}/{{name}}/{stream}" for stream in ("attach", "exec", "port-forward")}
    browsers = {("/sign-in/start", "GET"), ("/sign-in/callback", "GET"), ("/sign-out", "POST")}  # test_two_teams.py
    browsers.add(("/sign-in/link", "POST"))  # identity/test_routes.py
    pages: list[Any] = list(web_page.router.routes)  # test_web_page.py
    browsers |= {(route.path, "GET") for route in pages}
    assert calls - described == {("/metrics", "GET"), *browsers}


def test_every_reference_leads_to_a_schema() -> None:
    """The build of the web page stops at one that leads nowhere."""
    document = openapi_document()
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert named <= set(document["components"]["schemas"])


ELSEWHERE = ("/v1/members/", "/v1/code/", "/v1/channels/")
ENDLESS = ("/watch", "/changes", "/stacks", "/why")
"""Ends of the paths of answers that take long, which have tests of their own."""


async def test_answers_to_reads_match_the_document(world: World) -> None:
    """Routes of members need a ticket (start/test_routes.py), those of code an upload (test_code.py), those of one
    channel a channel (test_channels.py), some of telemetry an agent (telemetry/), those of files a Pod
    (tests/cluster/web/test_web_files.py), those of a member's files and processes programs (runs/members/), that of a
    notebook a notebook (proxy/test_gate.py)."""
    await furnish(world)
    api = world.app.state.kajitori
    run = api.mirror.runs["team", "bert"]
    await api.stores.history.record([state_of(run, run.current_status, world.mirror.now(), confirmed=None)])
    document = (await world.http.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    checked = set()
    extra: dict[str, dict[str, Any]] = {"/v1/runs/{namespace}/{name}/logs": {"allRanks": "true"}}
    extra["/v1/compare"] = {"run": ["team/bert", "team/queued"]}
    extra["/v1/runs/{namespace}/{name}/stats"] = {"live": "false"}
    for path, method, operation in operations(document):
        elsewhere = path.startswith(ELSEWHERE) or "{node}" in path or "{rank}" in path
        elsewhere = elsewhere or path == "/v1/stats/prometheus" or path.endswith(("/notebook", "/processes"))
        elsewhere = elsewhere or "/files" in path or "/member-files" in path
        if method != "get" or path.endswith(ENDLESS) or elsewhere:
            continue
        others = {"explain": ("bert", "queued"), "results": ("grid",)}
        for name in others.get(path.rpartition("/")[2], ("bert",)):
            target = path.format(namespace="team", name="g1" if "/nodes/" in path else name)
            response = await world.http.get(target, params=extra.get(path, {}))
            assert response.status_code == 200, (target, response.text)
            media_type = response.headers["content-type"].partition(";")[0]
            schema = operation["responses"]["200"]["content"][media_type]["schema"]
            documents = response.text.splitlines() if "ndjson" in media_type else [response.text]
            assert documents
            for text in documents:
                assert_fits(document, schema, json.loads(text), target)
            checked.add(path)
    assert len(checked) >= 12


async def test_answers_to_writes_match_the_document(world: World) -> None:
    document = (await world.http.get("/openapi.json")).json()
    body = {"name": "bert", "spec": {"image": "bert:3", "checkpoint": {"path": "/c"}}}
    calls: list[tuple[str, str, dict[str, Any], int]] = [
        ("POST", "/v1/runs", {"json": body, "params": {"dryRun": "true"}}, 200),
        ("POST", "/v1/runs", {"json": body}, 201),
        ("POST", "/v1/runs/{namespace}/{name}/stop", {"json": {"grace": "5s"}}, 200),
        ("POST", "/v1/runs/{namespace}/{name}/restart", {}, 200),
        ("POST", "/v1/runs/{namespace}/{name}/note", {"json": {"text": "ok"}}, 200),
        ("DELETE", "/v1/runs/{namespace}/{name}", {}, 202),
        ("POST", "/v1/policy/check", {"content": b"defaults: {}"}, 200),
        ("POST", "/v1/policy/cluster", {"content": b"checkpoint: {kind: none}"}, 200),
        ("POST", "/v1/policy/diff", {"content": b"queue: {order: fifo}"}, 200),
        ("POST", "/v1/networks/check", {"content": b"clusters: [{name: alpha, pods: [172.17.0.0/16]}]"}, 200),
        ("POST", "/v1/runs", {"json": {"spec": {}}}, 422),
    ]
    for method, path, options, status in calls:
        response = await world.http.request(method, path.format(namespace="team", name="bert"), **options)
        assert response.status_code == status, response.text
        described = document["paths"][path][method.lower()]["responses"][str(status)]["content"]
        schema = described[response.headers["content-type"]]["schema"]
        assert_fits(document, schema, response.json(), path)


async def test_an_unknown_query_parameter_is_refused(world: World) -> None:
    """A caller must not believe that a misspelt filter took effect. Probes may have other parameters."""
    reads = [path for path, calls in openapi_document()["paths"].items() if "get" in calls and path.startswith("/v1/")]
    reads = [path for path in reads if not path.startswith("/v1/members/")]  # they need a ticket
    for path in reads:
        filled = path.format(namespace="team", name="bert", digest="sha256:" + "0" * 64, rank=0, node="g1")
        answer = await world.http.get(filled, params={"nonsense": "1"})
        assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "nonsense"), path
    assert {"/v1/queue", "/v1/networks", "/v1/runs"} < set(reads)
    assert (await world.http.get("/healthz", params={"verbose": ""})).status_code == 200


async def test_references_resolve_and_every_operation_has_a_description(world: World) -> None:
    document = (await world.http.get("/openapi.json")).json()
    assert document == json.loads(json.dumps(openapi_document()))
    known = document["components"]["schemas"]

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                assert value["$ref"].rsplit("/", 1)[1] in known
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(document)
    for path, method, operation in operations(document):
        assert operation["summary"] and operation["description"], (method, path)


def test_spec_and_status_of_a_run_are_typed() -> None:
    """Clients generate their types from the document."""
    properties = openapi_document()["components"]["schemas"]["RunView"]["properties"]
    kinds = {field: properties[field]["$ref"].rsplit("/", 1)[1] for field in ("spec", "status")}
    assert kinds == {"spec": "RunSpec", "status": "RunStatus"}


TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
WORDS = (
    st.sampled_from(["", "bert", "0", "-1", "true", "1h", "a=b", "%00", "é", "../..", "a" * 300, "[]", "WyJhIl0"])
    | TEXT
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
SPEC_FIELDS = ["image", "replicas", "resources", "env", "labels", "volumes", "secrets", "checkpoint", "ports", "user"]
SPECS = st.dictionaries(st.sampled_from(SPEC_FIELDS), JSON, max_size=5) | JSON
BODIES = st.one_of(
    st.binary(max_size=40),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries({"spec": SPECS}, optional={"name": JSON, "labels": JSON, "namespace": JSON}).map(
        lambda value: json.dumps(value).encode()
    ),
    st.just(b"[" * 5000),
    st.just(b'{"spec":{"image":"\\ud800"}}'),
)
PARAMETERS = ["limit", "continue", "name", "owner", "phase", "labelSelector", "rank", "tail", "since", "dryRun", "x"]


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
async def test_no_random_request_causes_an_internal_error(world: World, data: st.DataObject) -> None:
    """Each request is answered, or refused with a problem document."""
    if not world.kubernetes.objects.get(("runs", "team", "bert")):
        await furnish(world)
    path, method, _ = data.draw(
        st.sampled_from(
            [operation for operation in operations(world.app.openapi()) if not operation[0].endswith(ENDLESS)]
        )
    )
    part = WORDS.map(lambda text: quote(text.encode("utf-8", "replace"), safe="") or "x")
    filled = path.replace("{namespace}", data.draw(st.just("team") | part)).replace(
        "{name}", data.draw(st.just("bert") | part)
    )
    filled = filled.replace("{digest}", data.draw(st.just("sha256:" + "0" * 64) | part))
    filled = filled.replace("{number}", data.draw(st.integers(-1, 9).map(str) | part))
    params = data.draw(st.dictionaries(st.sampled_from(PARAMETERS), WORDS, max_size=3))
    encodable = {key: value.encode("utf-8", "replace").decode() for key, value in params.items()}
    body = data.draw(BODIES) if method in ("post", "put") else None
    response = await world.http.request(method.upper(), filled, params=encodable, content=body)
    assert response.status_code < 500, (method, filled, params, body, response.text)
    if response.status_code >= 400 and method != "head":
        assert response.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "code", "detail", "hint", "faults"} == set(response.json())


@given(TEXT)
def test_a_continue_token_is_decoded_or_refused(text: str) -> None:
    """An encoded value is decoded unchanged."""
    with pytest.raises(InvalidInput):
        decode_token(text + "!", int)
    assert decode_token(encode_token(("2026", text.encode("utf-8", "replace").decode(), "x")), tuple[str, str, str])
