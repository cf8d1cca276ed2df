"""The embedded API server over HTTP: objects, lists, watches. Expected values were read from kube-apiserver 1.36."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.servers.embedded_server import JSON_PATCH, MERGE, STRATEGIC, EmbeddedServer, embedded_server

from kajitori.embedded.apiserver.requests.formats import parse_body

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def config(name: str, data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": data or {}}


def pod(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        yield server


# --- writing ---------------------------------------------------------------------------------------------------------


async def test_the_server_sets_name_uid_time_version_and_managers(api: EmbeddedServer) -> None:
    """It ignores those that a client sends."""
    made = await api.call("POST", MAPS, config("a", {"x": "1"}, uid="mine", creationTimestamp="2000-01-01T00:00:00Z"))
    meta = made.body["metadata"]
    assert made.code == 201
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2000")
    assert meta["managedFields"][0]["manager"] == "tests"
    assert meta["managedFields"][0]["fieldsV1"] == {"f:data": {".": {}, "f:x": {}}}
    assert (await api.call("GET", f"{MAPS}/a")).body == made.body


async def test_generated_names_have_five_random_characters(api: EmbeddedServer) -> None:
    """They are from a set that forms no words."""
    names = {(await api.call("POST", MAPS, config("", generateName="x-"))).name for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


@pytest.mark.parametrize(
    ("path", "body", "code", "message"),
    [
        (MAPS, config("taken"), 409, 'configmaps "taken" already exists'),
        (MAPS, config("x", resourceVersion="1"), 500, "resourceVersion should not be set on objects to be created"),
        (MAPS, config("x", namespace="other"), 400, "the namespace of the provided object does not match"),
        ("/api/v1/namespaces/nope/configmaps", config("x"), 404, 'namespaces "nope" not found'),
        (MAPS, b"{bad", 400, "the body is no ConfigMap"),
        (MAPS, b"", 400, "the body is no ConfigMap"),
        (MAPS, {**config("x"), "kind": "Pod"}, 400, "the data is a Pod"),
        (MAPS, config("A_"), 422, 'ConfigMap "A_" is invalid: metadata.name: Invalid value'),
        (f"{MAPS}?fieldValidation=Strict", {**config("x"), "foo": 1}, 400, 'unknown field "foo"'),
        (f"{MAPS}?fieldValidation=Strict", b'{"data":{"a":"1","a":"2"}}', 400, 'duplicate field "data.a"'),
        (f"{MAPS}?dryRun=Some", config("x"), 422, 'dryRun: Unsupported value: ["Some"]'),
        ("/api/v1/configmaps", config("x"), 405, "does not allow this method"),
        (f"{MAPS}/x", config("x"), 405, "does not allow this method"),
        ("/api/v1/nothings", {}, 404, "could not find the requested resource"),
    ],
)
async def test_invalid_objects_are_refused_and_not_stored(
    api: EmbeddedServer, path: str, body: Any, code: int, message: str
) -> None:
    """Each with its status and message."""
    await api.call("POST", MAPS, config("taken"))
    before = (await api.call("GET", MAPS)).body["items"]
    answer = await api.call("POST", path, body)
    assert (answer.code, answer.body["kind"]) == (code, "Status")
    assert message in answer.body["message"]
    assert (await api.call("GET", MAPS)).body["items"] == before


async def test_unknown_fields_are_dropped_with_a_warning(api: EmbeddedServer) -> None:
    """Warn is the default, as kubectl relies on it; Ignore is silent."""
    made = await api.call("POST", MAPS, {**config("a"), "foo": 1})
    assert made.headers["Warning"] == '299 - "unknown field \\"foo\\""'
    assert "foo" not in made.body
    silent = await api.call("POST", f"{MAPS}?fieldValidation=Ignore", {**config("b"), "foo": 1})
    assert "Warning" not in silent.headers


async def test_a_dry_run_answers_and_changes_nothing(api: EmbeddedServer) -> None:
    """For each verb that writes."""
    made = await api.call("POST", f"{MAPS}?dryRun=All", config("a"))
    assert made.code == 201
    assert "resourceVersion" not in made.body["metadata"]
    assert (await api.call("GET", f"{MAPS}/a")).code == 404
    kept = await api.call("POST", MAPS, config("a", {"x": "1"}))
    assert (await api.call("PUT", f"{MAPS}/a?dryRun=All", config("a", {"x": "2"}))).body["data"] == {"x": "2"}
    patched = await api.call("PATCH", f"{MAPS}/a?dryRun=All", {"data": {"x": "3"}}, content_type=MERGE)
    assert patched.body["data"] == {"x": "3"}
    assert (await api.call("DELETE", f"{MAPS}/a?dryRun=All")).body["status"] == "Success"
    assert (await api.call("GET", f"{MAPS}/a")).body == kept.body


async def test_an_update_with_an_old_version_is_a_conflict(api: EmbeddedServer) -> None:
    """Without a version the update succeeds; without a change there is no new version."""
    made = await api.call("POST", MAPS, config("a"))
    changed = await api.call("PUT", f"{MAPS}/a", config("a", {"x": "1"}, resourceVersion=made.version))
    assert changed.code == 200
    stale = await api.call("PUT", f"{MAPS}/a", config("a", {"x": "2"}, resourceVersion=made.version))
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    again = await api.call("PUT", f"{MAPS}/a", config("a", {"x": "1"}))
    assert again.version == changed.version
    other = await api.call("PUT", f"{MAPS}/a", config("a", uid="other"))
    assert other.code == 409
    assert (await api.call("PUT", f"{MAPS}/nope", config("nope"))).code == 404


async def test_a_lease_is_created_by_put_and_then_needs_a_version(api: EmbeddedServer) -> None:
    """Leader election relies on both."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    body: dict[str, Any] = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}}
    assert (await api.call("PUT", path, body)).code == 201
    refused = await api.call("PUT", path, body)
    assert refused.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in refused.body["message"]


async def test_concurrent_patches_all_succeed(api: EmbeddedServer) -> None:
    """A patch without a version is retried until it applies to the stored object."""
    await api.call("POST", MAPS, config("a"))
    patches = [api.call("PATCH", f"{MAPS}/a", {"data": {str(i): "x"}}, content_type=MERGE) for i in range(20)]
    assert {answer.code for answer in await asyncio.gather(*patches)} == {200}
    assert len((await api.call("GET", f"{MAPS}/a")).body["data"]) == 20


async def test_spec_and_status_are_changed_separately(api: EmbeddedServer) -> None:
    """`/status` keeps the spec, the object itself keeps the status; the generation counts changes of the spec."""
    made = await api.call("POST", PODS, {**pod("p"), "status": {"phase": "Failed"}})
    assert made.body["status"]["phase"] == "Pending"
    patch: dict[str, Any] = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    changed = await api.call("PATCH", f"{PODS}/p/status", patch, content_type=MERGE)
    assert changed.body["status"]["phase"] == "Running"
    assert "nodeName" not in changed.body["spec"]
    patch = {"status": {"phase": "Failed"}, "spec": {"containers": [{"name": "c", "image": "i:2"}]}}
    changed = await api.call("PATCH", f"{PODS}/p", patch, content_type=STRATEGIC)
    assert changed.body["status"]["phase"] == "Running"
    assert changed.body["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("content_type", "patch", "code", "message"),
    [
        (MERGE, {"metadata": {"name": "b"}}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        (MERGE, {"metadata": None}, 400, "metadata.name is missing"),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, 409, "the object has been modified"),
        (MERGE, {"metadata": {"uid": "x"}}, 422, "metadata.uid: Invalid value"),
        (MERGE, {"data": {"x": 1}}, 422, "patch: Invalid value"),
        (MERGE, b"{bad", 400, "error decoding patch"),
        (STRATEGIC, [], 400, "expected an object, not a list"),
        (JSON_PATCH, {}, 400, "expected a list of operations"),
        (JSON_PATCH, [{"op": "test", "path": "/data/x", "value": "9"}], 422, "the server rejected our request"),
        (JSON_PATCH, [{"op": "remove", "path": "/nope/x"}], 422, "the server rejected our request"),
        ("application/json", {}, 415, "the media type of the body"),
    ],
)
async def test_an_invalid_patch_is_refused(
    api: EmbeddedServer, content_type: str, patch: Any, code: int, message: str
) -> None:
    """The object is not changed."""
    made = await api.call("POST", MAPS, config("a", {"x": "1"}))
    answer = await api.call("PATCH", f"{MAPS}/a", patch, content_type=content_type)
    assert answer.code == code
    assert message in answer.body["message"]
    assert (await api.call("GET", f"{MAPS}/a")).body == made.body


async def test_a_body_over_the_limit_is_refused(api: EmbeddedServer) -> None:
    """413, whether or not the length was announced."""
    big = b'{"data":{"x":"' + b"x" * (4 << 20) + b'"}}'
    try:
        answer = await api.call("POST", MAPS, big)
    except OSError:
        return  # The server closed the connection before all was sent.
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")


async def test_bodies_and_answers_may_be_yaml(api: EmbeddedServer) -> None:
    """Dates stay text; other media types are refused."""
    body = b"kind: ConfigMap\nmetadata: {name: y}\ndata: {day: '2026-01-01'}\n"
    assert (await api.call("POST", MAPS, body, content_type="application/yaml")).code == 201
    answer = await api.call("GET", f"{MAPS}/y", headers={"Accept": "application/yaml"})
    assert b"day: '2026-01-01'" in answer.body
    assert (await api.call("POST", MAPS, b"x", content_type="text/plain")).code == 415
    assert (await api.call("GET", MAPS, headers={"Accept": "text/html"})).code == 406


def test_json_declared_as_yaml_is_read() -> None:
    """kubectl and our own client send it with server-side apply. YAML that is not JSON is read as well."""
    assert parse_body(b'{"some": 1e3, "day": "2026-01-01"}', "application/yaml") == {"some": 1000, "day": "2026-01-01"}
    assert parse_body(b"day: 2026-01-01\nsome: 1_000\n", "application/yaml") == {"some": 1000, "day": "2026-01-01"}


# --- listing ---------------------------------------------------------------------------------------------------------


async def test_all_pages_show_the_state_of_the_first(api: EmbeddedServer) -> None:
    """Objects that are created or deleted between two pages do not show; the number of remaining objects does."""
    for index in range(5):
        await api.call("POST", MAPS, config(f"c{index}"))
    first = await api.call("GET", MAPS, params={"limit": "2"})
    assert first.body["metadata"]["remainingItemCount"] == 3
    await api.call("DELETE", f"{MAPS}/c3")
    await api.call("POST", MAPS, config("c33"))
    names = [item["metadata"]["name"] for item in first.body["items"]]
    token = first.body["metadata"]["continue"]
    while token:
        page = await api.call("GET", MAPS, params={"limit": "2", "continue": token})
        assert page.version == first.version
        names += [item["metadata"]["name"] for item in page.body["items"]]
        token = page.body["metadata"].get("continue", "")
    assert names == ["c0", "c1", "c2", "c3", "c4"]


async def test_an_old_continue_token_has_expired(api: EmbeddedServer) -> None:
    """410, so that the client starts again; an invalid token is 400."""
    for index in range(3):
        await api.call("POST", MAPS, config(f"c{index}"))
    token = (await api.call("GET", MAPS, params={"limit": "1"})).body["metadata"]["continue"]
    await api.call("POST", MAPS, config("later"))
    api.store.compact()
    answer = await api.call("GET", MAPS, params={"limit": "1", "continue": token})
    assert (answer.code, answer.body["reason"]) == (410, "Expired")
    assert (await api.call("GET", MAPS, params={"continue": "abc"})).code == 400


async def test_lists_may_name_a_version(api: EmbeddedServer) -> None:
    """Exactly a version, at least a version; a future version is 504 with a cause of its own."""
    made = await api.call("POST", MAPS, config("a"))
    await api.call("POST", MAPS, config("b"))
    exact = {"resourceVersion": made.version, "resourceVersionMatch": "Exact"}
    answer = await api.call("GET", MAPS, params=exact)
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a"]
    answer = await api.call("GET", MAPS, params={"resourceVersion": made.version})
    assert len(answer.body["items"]) == 2
    future = await api.call("GET", MAPS, params={"resourceVersion": str(int(made.version) + 1000)})
    assert future.code == 504
    assert future.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert (await api.call("GET", MAPS, params={"resourceVersionMatch": "Exact"})).code == 422


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"labelSelector": "a=1"}, ["x"]),
        ({"labelSelector": "a!=1"}, ["y", "z"]),
        ({"labelSelector": "a in (1,2),b"}, ["y"]),
        ({"labelSelector": "!a"}, ["z"]),
        ({"labelSelector": "a>1"}, ["y"]),
        ({"fieldSelector": "metadata.name=y"}, ["y"]),
        ({"fieldSelector": "metadata.name!=y,status.phase=Pending"}, ["x", "z"]),
        ({"fieldSelector": "spec.nodeName="}, ["x", "y", "z"]),
    ],
)
async def test_lists_are_filtered_by_label_and_field_selectors(
    api: EmbeddedServer, parameters: dict[str, str], names: list[str]
) -> None:
    """Equality- and set-based label selectors, and the kind's fields."""
    for name, labels in (("x", {"a": "1"}), ("y", {"a": "2", "b": "1"}), ("z", {})):
        await api.call("POST", PODS, pod(name, labels=labels))
    answer = await api.call("GET", PODS, params=parameters)
    assert [item["metadata"]["name"] for item in answer.body["items"]] == names


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        (PODS, {"labelSelector": "a in (b"}, "unable to parse requirement: found '', expected: ',' or ')'"),
        (PODS, {"fieldSelector": "status.phase"}, "invalid selector: 'status.phase'; can't understand 'status.phase'"),
        (PODS, {"fieldSelector": "spec.image=x"}, "field label not supported: spec.image"),
        (
            MAPS,
            {"fieldSelector": "data=x"},
            '"data" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
async def test_an_invalid_selector_is_refused(
    api: EmbeddedServer, path: str, parameters: dict[str, str], message: str
) -> None:
    """With 400, rather than a list of something else."""
    answer = await api.call("GET", path, params=parameters)
    assert (answer.code, answer.body["message"]) == (400, message)


async def test_items_of_built_in_lists_have_no_kind(api: EmbeddedServer) -> None:
    """In the order of kube-apiserver; large answers are compressed on request."""
    await api.call("POST", MAPS, config("big", {"x": "y" * 200_000}))
    headers = {"Accept-Encoding": "gzip", "Authorization": f"Bearer {api.token}"}
    async with api.session.get(api.url + MAPS, headers=headers) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        body = await response.json()
    assert body["kind"] == "ConfigMapList"
    assert "kind" not in body["items"][0]


async def test_lists_as_tables_and_as_partial_metadata(api: EmbeddedServer) -> None:
    """As requested by `kubectl get` and by metadata informers."""
    await api.call("POST", MAPS, config("a", {"x": "1"}))
    table = await api.call("GET", MAPS, headers=TABLE)
    assert table.body["kind"] == "Table"
    assert table.body["rows"][0]["cells"][:2] == ["a", 1]
    partial = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    listed = await api.call("GET", MAPS, headers=partial)
    assert listed.body["kind"] == "PartialObjectMetadataList"
    assert set(listed.body["items"][0]) == {"kind", "apiVersion", "metadata"}


# --- watching --------------------------------------------------------------------------------------------------------


async def test_a_watch_shows_only_selected_objects(api: EmbeddedServer) -> None:
    """An object that enters the selection is added, one that leaves it is deleted, in its last selected state."""
    version = (await api.call("GET", MAPS)).version
    async with api.watch(MAPS, resourceVersion=version, labelSelector="w=1") as events:
        await api.call("POST", MAPS, config("a", labels={"w": "1"}))
        await api.call("POST", MAPS, config("b"))
        left = await api.call("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"w": "2"}}}, content_type=MERGE)
        await api.call("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"w": "1"}}}, content_type=MERGE)
        await api.call("PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, content_type=MERGE)
        await api.call("DELETE", f"{MAPS}/a")
        seen = await events.take(5)
    assert [event["type"] for event in seen] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert {event["object"]["metadata"]["labels"]["w"] for event in seen} == {"1"}
    assert seen[1]["object"]["metadata"]["resourceVersion"] == left.version


async def test_a_watch_without_a_version_begins_with_existing_objects(api: EmbeddedServer) -> None:
    """A watch with `sendInitialEvents` says when these end."""
    await api.call("POST", MAPS, config("a"))
    async with api.watch(MAPS) as events:
        assert (await events.next())["type"] == "ADDED"
    streamed = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(MAPS, **streamed) as events:
        added, bookmark = await events.take(2)
        assert (added["type"], bookmark["type"]) == ("ADDED", "BOOKMARK")
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await api.call("POST", MAPS, config("b"))
        assert (await events.next())["object"]["metadata"]["name"] == "b"


async def test_a_watch_from_a_compacted_version_ends_with_an_error(api: EmbeddedServer) -> None:
    """410 as an event: the client lists again."""
    version = (await api.call("GET", MAPS)).version
    await api.call("POST", MAPS, config("a"))
    api.store.compact()
    async with api.watch(MAPS, resourceVersion=version) as events:
        event = await events.next()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await events.next() is None


async def test_a_watch_ends_after_its_timeout_with_a_bookmark(api: EmbeddedServer) -> None:
    """The bookmark names the version to continue from."""
    version = (await api.call("GET", MAPS)).version
    async with api.watch(MAPS, resourceVersion=version, timeoutSeconds="1", allowWatchBookmarks="true") as events:
        await api.call("POST", PODS, pod("p"))
        bookmark = await events.next()
        assert bookmark["type"] == "BOOKMARK"
        assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(version)
        assert await events.next() is None


async def test_watches_do_not_outlive_their_clients(api: EmbeddedServer) -> None:
    """A client that disconnects leaves no watch behind."""
    collection = api.store._collection_of("/configmaps")
    async with api.watch(MAPS) as events:
        assert len(collection.watchers) == 1
        events.response.close()
    async with asyncio.timeout(60):
        while collection.watchers:  # noqa: ASYNC110 - no event tells when a connection has ended
            await asyncio.sleep(0)


# --- other requests --------------------------------------------------------------------------------------------------


async def test_requests_on_behalf_of_another_user_are_judged_as_that_user(api: EmbeddedServer) -> None:
    """`kubectl --as ana --as-group crew`."""
    headers = {"Impersonate-User": "ana", "Impersonate-Group": "crew"}
    answer = await api.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers=headers)
    assert answer.body["status"]["userInfo"] == {"username": "ana", "groups": ["crew", "system:authenticated"]}


async def test_unauthenticated_requests_are_refused(api: EmbeddedServer) -> None:
    """401 for a wrong token, 403 for none."""
    answer = await api.call("GET", MAPS, headers={"Authorization": "Bearer wrong"})
    assert (answer.code, answer.body["message"]) == (401, "Unauthorized")
    async with api.session.get(api.url + MAPS) as response:
        assert response.status == 403
        message = (await response.json())["message"]
    assert message.startswith('configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps"')


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/livez", 200),
        ("GET", "/version", 200),
        ("POST", "/version", 405),
        ("GET", "/nowhere", 404),
        ("GET", "/apis/nowhere.io/v1/foos", 404),
        ("GET", f"{PODS}/p/portforward", 404),
        ("DELETE", "/api/v1/namespaces", 405),
        ("DELETE", f"{PODS}/p/status", 405),
    ],
)
async def test_unserved_paths_are_refused(api: EmbeddedServer, method: str, path: str, code: int) -> None:
    """Health and version are served."""
    assert (await api.call(method, path)).code == code


async def test_metrics_count_requests(api: EmbeddedServer) -> None:
    """By verb, resource and code."""
    await api.call("GET", f"{MAPS}/nope")
    text = (await api.call("GET", "/metrics")).body.decode()
    assert 'apiserver_request_total{code="404",resource="configmaps",verb="GET"} 1.0' in text
    assert 'apiserver_storage_objects{resource="namespaces"} 4.0' in text


async def test_a_restarted_server_has_all_objects(tmp_path: Path) -> None:
    """And custom kinds; versions only grow. Watchers list again, since the data may be from a backup."""
    async with embedded_server(tmp_path) as api:
        made = await api.call("POST", MAPS, config("a"))
    async with embedded_server(tmp_path) as api:
        assert (await api.call("GET", f"{MAPS}/a")).body == made.body
        later = await api.call("POST", MAPS, config("b"))
        assert int(later.version) > int(made.version)
        async with api.watch(MAPS, resourceVersion=made.version) as events:
            assert (await events.next())["object"]["code"] == 410


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/apis/apps/v1/namespaces/default/deployments", "nothing here would act on them"),
        ("/apis/apps/v1/daemonsets", "nothing here would act on them"),
        ("/apis/batch/v1/namespaces/default/jobs/a", "nothing here would act on them"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/a", "its one user is the administrator"),
    ],
)
async def test_unsupported_kinds_are_refused_with_a_reason(api: EmbeddedServer, path: str, why: str) -> None:
    answer = await api.call("GET", path)
    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    assert "does not serve" in answer.body["message"] and why in answer.body["message"]
