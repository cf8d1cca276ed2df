"""Bad input through `kaji`, `POST /v1/runs` and `kubectl apply`, on the embedded and on a real server.

Each gets a clear, typed answer and leaves nothing behind. A Run from kubectl ends as refused, with the same reasons and
without a Pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from tests.cluster.admission.bad_specs import CASES, SPEC, Case
from tests.harness.cluster import Cluster, control_plane, run_manifest
from tests.harness.fixtures import real_server_of
from tests.harness.web_api import WebApi, web_api

from kajitori.cluster.run_object import RUNS
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.errors import NotFound
from kajitori.kube.resources import CLAIMS, PODS, PRIORITY_CLASSES, SERVICES

pytestmark = pytest.mark.asyncio(loop_scope="module")

POLICY = {
    "volumes": {"imagenet": {"emptyDir": {}}},
    "security": {"allowRoot": False},
    "mounts": {"hostPaths": ["/srv/data"]},
}


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real)]
)
async def web(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebApi]:
    """One cluster of eight nodes with eight GPUs for all tests of this module."""
    folder = tmp_path_factory.mktemp("web")
    async with control_plane(real_server_of(request), folder) as server, Cluster(server, folder).running() as cluster:
        cluster.use_policy_file(**POLICY)
        cluster.start_controller()
        async with web_api(cluster) as web:
            yield web


def manifests(specs: Mapping[str, dict[str, Any]]) -> str:
    """Return several Runs as JSON documents, one after the other."""
    return "\n".join(run_manifest(name, spec) for name, spec in specs.items())


@contextlib.asynccontextmanager
async def nothing_left(web: WebApi) -> AsyncIterator[None]:
    """Check that no Run, Pod or Service is left after the block."""
    assert await web.cluster.left_behind() == []
    yield
    assert await web.cluster.left_behind() == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_web_api_names_every_fault_and_creates_nothing(web: WebApi, case: Case) -> None:
    """422 with a fault for each field; a dry run answers the same."""
    async with nothing_left(web):
        answers = [
            await web.http.post("/v1/runs", params=params, json={"name": "bad", "spec": case.whole})
            for params in ({}, {"dryRun": "true"})
        ]
    for answer in answers:
        problem = answer.json()
        assert answer.status_code == 422, problem
        assert answer.headers["content-type"] == "application/problem+json"
        assert {fault["field"] for fault in problem["faults"]} == set(case.fields)
        for word in case.words:
            assert word in answer.text
        assert all(fault["hint"] or fault["message"] for fault in problem["faults"])


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.arguments], ids=[k for k, c in CASES.items() if c.arguments]
)
async def test_the_command_line_names_every_fault_and_creates_nothing(web: WebApi, case: Case) -> None:
    """The command ends with exit code 2 and all reasons at once, without a traceback."""
    image = "UPPER CASE" if "image" in case.spec else "bert:3"
    async with nothing_left(web):
        result = await web.kaji("run", "-d", "--name", "bad", *case.arguments, image, "train")
    assert result.returncode == 2, result
    assert "Traceback" not in result.stderr
    for word in (*case.words, case.option):
        assert word in result.stderr
    assert result.stdout == ""


@pytest.mark.conformance
async def test_faulty_runs_from_kubectl_end_as_refused_without_a_pod(web: WebApi) -> None:
    """Such a Run has phase Failed and reason Refused, with the same reasons. If the API server refuses it at once,
    there is no Run."""
    stored = {f"bad-{name}": case for name, case in CASES.items() if not case.refused_at_once}
    try:
        applied = await web.cluster.kubectl(
            "apply", "-f", "-", stdin=manifests({k: c.whole for k, c in stored.items()})
        )
        assert applied.returncode == 0, applied
        for name, case in CASES.items():
            if case.refused_at_once:
                refused = await web.cluster.apply(f"bad-{name}", case.whole)
                assert refused.returncode == 1, refused
                assert all(words in refused.stderr for words in case.refused_at_once), refused
        for name, case in stored.items():
            status = await web.cluster.reaches(name, Phase.FAILED)
            assert status.reason is Reason.REFUSED
            for words in (*case.fields, *case.words):
                assert words in status.message
        assert sorted(await web.cluster.left_behind()) == sorted(f"runs/{name}" for name in stored)
    finally:
        for name in stored:
            await remove(web, name)


async def remove(web: WebApi, name: str) -> None:
    """Delete the run and its objects; the real cluster here has no garbage collector."""
    with contextlib.suppress(NotFound):
        await web.cluster.client.delete(RUNS, name, web.cluster.namespace)
    await web.cluster.until(lambda: web.cluster.run(name) is None, f"{name} gone")
    await web.cluster.client.delete_collection(PODS, web.cluster.namespace, label_selector="", grace_seconds=0)
    with contextlib.suppress(NotFound):
        await web.cluster.client.delete(SERVICES, name, web.cluster.namespace)


# ---------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["Bad_Name", "1bert", "bert.one", "b" * 49, "-bert", "bert-", "../etc"])
async def test_a_bad_name_is_refused(web: WebApi, name: str) -> None:
    """The Web API and the command line quote the rule. If Kubernetes itself allows the name, the Run from kubectl ends
    as refused."""
    async with nothing_left(web):
        answer = await web.http.post("/v1/runs", json={"name": name, "spec": SPEC})
        result = await web.kaji("run", "-d", f"--name={name}", "bert:3")
    assert answer.status_code == 422
    assert [fault["field"] for fault in answer.json()["faults"]] == ["name"]
    assert result.returncode == 2 and "--name" in result.stderr and "lower-case letters" in result.stderr
    applied = await web.cluster.apply(name, SPEC)
    if applied.returncode == 0:
        try:
            status = await web.cluster.reaches(name, Phase.FAILED)
            assert status.reason is Reason.REFUSED and "metadata.name" in status.message
            assert await web.cluster.left_behind() == [f"runs/{name}"]
        finally:
            await remove(web, name)
    else:
        assert "metadata.name" in applied.stderr or "invalid" in applied.stderr
        assert await web.cluster.left_behind() == []


async def test_a_run_whose_name_is_taken_is_refused(web: WebApi) -> None:
    """409 and exit code 2; the existing run is not touched."""
    try:
        assert (await web.http.post("/v1/runs", json={"name": "bert", "spec": SPEC})).status_code == 201
        await web.cluster.reaches("bert", Phase.RUNNING)
        before = await web.cluster.client.get(RUNS, "bert", web.cluster.namespace)
        again = await web.http.post("/v1/runs", json={"name": "bert", "spec": SPEC | {"image": "other"}})
        assert (again.status_code, again.json()["code"]) == (409, "AlreadyExists")
        result = await web.kaji("run", "-d", "--name", "bert", "other")
        assert result.returncode == 2 and "kaji rm bert" in result.stderr
        created = await web.cluster.kubectl("create", "-f", "-", stdin=run_manifest("bert", SPEC))
        assert created.returncode == 1 and "AlreadyExists" in created.stderr
        after = await web.cluster.client.get(RUNS, "bert", web.cluster.namespace)
        assert (before["spec"], before["metadata"]["uid"]) == (after["spec"], after["metadata"]["uid"])
    finally:
        await remove(web, "bert")


# ---------------------------------------------------------------------------------------------- beside the spec


async def test_a_missing_env_file_is_named(web: WebApi) -> None:
    """The same error names all other faults of the command line, including those that only the server finds."""
    async with nothing_left(web):
        words = ("--env-file", "no/such.env", "--cpus", "many", "-v", "ghost:/g")
        result = await web.kaji("run", "-d", *words, "bert:3")
    assert result.returncode == 2
    for word in ("3 reasons", "no/such.env", "many", "ghost"):
        assert word in result.stderr


async def test_a_body_over_1_mib_is_refused(web: WebApi) -> None:
    """The Web API answers 413 before it parses the body. With kubectl, the API server refuses such a text in a known
    field. In other fields it stores the Run, which ends as refused, with a short status."""
    novel = "x" * (1 << 20)
    async with nothing_left(web):
        answer = await web.http.post("/v1/runs", json={"name": "bad", "spec": SPEC | {"env": {"NOVEL": novel}}})
        assert (answer.status_code, answer.json()["code"]) == (413, "TooLarge")
    too_large = SPEC | {"env": {"NOVEL": novel}, "args": [""] * 300_000}
    created = await web.cluster.kubectl("create", "-f", "-", stdin=run_manifest("bad", too_large))
    assert created.returncode == 1
    assert "spec.env.NOVEL: Too long" in created.stderr and "spec.args: Too many" in created.stderr
    assert await web.cluster.left_behind() == []
    spec = SPEC | {"env": {"NOVEL": novel[: 1 << 17]}, "y" * 100_000: novel[:100_000]}
    created = await web.cluster.kubectl("create", "-f", "-", stdin=run_manifest("bad", spec))
    try:
        assert created.returncode == 0, created
        status = await web.cluster.reaches("bad", Phase.FAILED)
        assert status.reason is Reason.REFUSED and len(status.message) < 5000
        assert await web.cluster.left_behind() == ["runs/bad"]
    finally:
        await remove(web, "bad")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"spec": {}}', b'{"spec": 3, "name": 4}']
)
async def test_a_body_that_is_not_a_request_is_refused(web: WebApi, body: bytes) -> None:
    """The answer is a problem document that says what is wrong with it."""
    async with nothing_left(web):
        answer = await web.http.post("/v1/runs", content=body)
    assert answer.status_code == 422 and answer.json()["faults"], answer.text


@pytest.mark.conformance
async def test_expired_credentials_are_reported_without_the_token(web: WebApi) -> None:
    """401 and exit code 125, with what to do."""
    token = "expired-0123456789"
    for method, path in (("POST", "/v1/runs"), ("GET", "/v1/runs"), ("GET", "/v1/gpus")):
        answer = await web.http.request(method, path, headers={"Authorization": f"Bearer {token}"}, json={})
        assert (answer.status_code, answer.json()["code"]) == (401, "Unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert token not in answer.text
    result = await web.kaji("run", "-d", "bert:3", KAJI_TOKEN=token)
    assert result.returncode == 125 and "expired" in result.stderr and token not in result.stderr
    assert (await web.http.get("/v1/runs", headers={"Authorization": "Bearer"})).status_code == 401
    assert (await web.http.get("/v1/runs", headers={"Authorization": "Basic YTpi"})).status_code == 401


@pytest.mark.usefixtures("changes_count_at_once")
async def test_a_faulty_policy_leaves_the_old_one_in_force(web: WebApi) -> None:
    """GET /v1/policy lists every fault. Runs are checked against the old policy."""
    policy_path = web.cluster.policy_path
    good = policy_path.read_text()
    try:
        policy_path.write_text("defaults: {memory: lots}\nvolums: {}\nsecurity: {allowPrivileged: perhaps}\n")
        checked = await web.kaji("policy", "check", str(policy_path))
        assert checked.returncode == 2 and all(
            word in checked.stderr for word in ("lots", "volums", "volumes", "allowPrivileged")
        )
        for _ in range(2):
            said = (await web.http.get("/v1/policy")).json()
            assert len(said["faults"]) == 3 and "imagenet" in str(said["policy"])
        answer = await web.http.post("/v1/runs", json={"spec": SPEC | {"privileged": True}})
        assert [fault["field"] for fault in answer.json()["faults"]] == ["spec.privileged"]
        allowed = {"volumes": [{"name": "imagenet", "path": "/data"}]}
        assert (await web.cluster.apply("fine", SPEC | allowed)).returncode == 0
        await web.cluster.reaches("fine", Phase.RUNNING)
    finally:
        policy_path.write_text(good)
        await remove(web, "fine")
    assert (await web.http.get("/v1/policy")).json()["faults"] == []


SITE = """
checkpoint: {storageClass: fastt}
volumes: {imagenet: {claim: imagenet}, there: {claim: policy-claim}}
images: {pullSecrets: [registry]}
inject: {nodeSelector: {pool: nowhere}, runtimeClass: gvisor}
priorities: {high: {value: 100, className: preempting}}
guarantees: [{namespace: nobodys, gpuType: z9, gpus: 8}]
network: {dns: {labels: {app: no-such-dns}}}
nodePools: {spot: {nodeSelector: {pool: spot}, node: {cpu: 8, memory: 64Gi}, maxNodes: 4}}
"""
LACKS = {
    "checkpoint.storageClass": "StorageClass fastt",
    "volumes.imagenet.claim": "PersistentVolumeClaim imagenet",
    "images.pullSecrets[0]": "Secret registry",
    "inject.nodeSelector.pool": "pool=nowhere",
    "inject.runtimeClass": "RuntimeClass gvisor",
    "priorities.high.className": "lets single Pods preempt others",
    "guarantees[0].namespace": "Namespace nobodys",
    "guarantees[0].gpuType": "type z9",
    "network.dns.labels": "app=no-such-dns",
    "nodePools": "ProvisioningRequests",
}


async def test_the_policy_check_names_objects_that_the_cluster_lacks(web: WebApi) -> None:
    """Each finding names the field, the missing object and the remedy. Objects that exist are not mentioned."""
    client, namespace = web.cluster.client, web.cluster.namespace
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(CLAIMS, {"metadata": {"name": "policy-claim"}, "spec": claim}, namespace)
    await client.create(PRIORITY_CLASSES, {"metadata": {"name": "preempting"}, "value": 5})
    try:
        checked = await web.kaji("policy", "check", "--live", "-N", namespace, "-o", "json", "-", stdin=SITE)
        text = await web.kaji("policy", "check", "--live", "-N", namespace, "-", stdin=SITE)
        in_force = await web.kaji("policy", "check", "--live", "-o", "json")
    finally:
        await client.delete(CLAIMS, "policy-claim", namespace)
        await client.delete(PRIORITY_CLASSES, "preempting")
    found = {fault["field"]: fault for fault in json.loads(checked.stdout)["faults"]}
    assert checked.returncode == 2 and found.keys() == LACKS.keys(), checked
    for path, words in LACKS.items():
        assert words in found[path]["message"] and found[path]["hint"], found[path]
    assert text.returncode == 2 and all(f"{path}: " in text.stderr for path in LACKS), text.stderr
    lacking = {fault["field"] for fault in json.loads(in_force.stdout)["faults"]}
    assert in_force.returncode == (2 if lacking else 0) and lacking <= {"checkpoint.storageClass"}, in_force


NONSENSE: dict[str, dict[str, Any]] = {
    "unknown-phase": {"phase": "Dreaming", "attempt": {"number": 7, "nodes": "gpu-[9-1"}},
    "nodes-that-are-none": {"attempt": {"nodes": "gpu-[9-1"}},
    "attempt-without-nodes": {"attempt": {"nodes": ""}},
    "negative-counts": {"attempts": -2, "restarts": -1, "members": {"running": -4}},
    "template-that-is-none": {"attempt": {"template": '{"spec": {"containers": "many"}}'}},
    "types-that-are-none-of-ours": {"attempt": "one", "members": [], "restarts": "twice"},
    "time-that-is-none": {"queuedAt": "yesterday", "startedAt": "2026-11-21"},
}


async def test_a_damaged_status_ends_only_its_own_run(web: WebApi) -> None:
    """Users who may write statuses can damage runs. Such a run ends with that reason and can be resumed and deleted.
    All other runs continue."""
    cluster = web.cluster
    spec = SPEC | {"replicas": 2}
    try:
        runs = manifests(dict.fromkeys(NONSENSE, spec))
        assert (await web.cluster.kubectl("apply", "-f", "-", stdin=runs)).returncode == 0
        await asyncio.gather(*(damage_until_end(web, name) for name in NONSENSE))
        assert (await web.cluster.apply("sound", SPEC)).returncode == 0
        await cluster.reaches("sound", Phase.RUNNING)
        assert (await web.http.get("/v1/runs")).json()["items"]
        assert (await web.http.get("/v1/gpus")).status_code == 200
        await asyncio.gather(*(resume_and_delete(web, name) for name in NONSENSE))
        assert cluster.status("sound").phase is Phase.RUNNING
    finally:
        for name in (*NONSENSE, "sound"):
            await remove(web, name)


async def damage_until_end(web: WebApi, name: str) -> None:
    """Damage the status of a running run and wait for the run's end."""
    cluster = web.cluster
    await cluster.reaches(name, Phase.RUNNING)
    await damage(web, name)
    await cluster.until(lambda: cluster.status(name).finished_at, f"the end of {name} is written")
    assert cluster.status(name).reason is Reason.STATUS_DAMAGED, name
    stored = await cluster.client.get(RUNS, name, cluster.namespace)
    assert stored["status"]["phase"] == "Failed" and "is not valid any more" in stored["status"]["message"], stored[
        "status"
    ]


async def resume_and_delete(web: WebApi, name: str) -> None:
    """A resumed run gets new members. Damaged once more, it can still be deleted."""
    cluster = web.cluster
    shown = (await web.http.get(f"/v1/runs/{cluster.namespace}/{name}")).json()
    assert shown["status"]["reason"] == "StatusDamaged", name
    await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods(name)), f"the members of {name} have ended")
    members = {pod.metadata.uid for pod in cluster.pods(name)}
    again = await web.http.post(f"/v1/runs/{cluster.namespace}/{name}/resume")
    assert again.status_code == 200, again.text
    status = await cluster.reaches(name, Phase.RUNNING)
    assert status.attempts > 1, name
    assert not {pod.metadata.uid for pod in cluster.pods(name, status.attempts)} & members, name
    await damage(web, name)
    deleted = await web.http.delete(f"/v1/runs/{cluster.namespace}/{name}")
    assert deleted.status_code in (200, 202), deleted.text
    await cluster.until(lambda: cluster.run(name) is None and not cluster.pods(name), f"{name} gone")


async def damage(web: WebApi, name: str) -> None:
    """Write an invalid status, as a user with the right to do so can."""
    nonsense = {"status": NONSENSE[name]}
    await web.cluster.client.patch(RUNS, name, nonsense, web.cluster.namespace, subresource="status")


@pytest.mark.conformance
async def test_managed_fields_list_the_status_as_one_field(web: WebApi) -> None:
    """Otherwise the API server would list every field of the status at each write."""
    try:
        assert (await web.cluster.apply("one", SPEC)).returncode == 0
        await web.cluster.reaches("one", Phase.RUNNING)
        stored = await web.cluster.client.get(RUNS, "one", web.cluster.namespace)
        managed = [entry for entry in stored["metadata"]["managedFields"] if entry.get("subresource") == "status"]
        assert [entry["fieldsV1"] for entry in managed] == [{"f:status": {}}]
    finally:
        await remove(web, "one")


async def test_an_edited_spec_counts_for_the_next_attempt(web: WebApi) -> None:
    """Running members continue, even if the new spec is refused; the run then ends with that reason."""
    cluster = web.cluster
    try:
        assert (await web.cluster.apply("edited", SPEC | {"replicas": 2, "restarts": 5})).returncode == 0
        await cluster.reaches("edited", Phase.RUNNING)
        for changes in ({"replicas": 3, "command": ["other"]}, {"replicas": 4, "nonsense": {"a": 1}}):
            attempt = cluster.status("edited").attempts
            edited = await cluster.client.patch(RUNS, "edited", {"spec": changes}, cluster.namespace)
            seen = partial(_has_seen, cluster, edited["metadata"]["generation"])
            await cluster.until(seen, "the change is seen")
            assert (cluster.status("edited").phase, cluster.status("edited").attempts) == (Phase.RUNNING, attempt)
            await cluster.behave(f"edited-{attempt}-0", exit_code="1")
            if changes["replicas"] == 3:
                await cluster.reaches("edited", Phase.RUNNING, attempt=2)
                assert len(cluster.pods("edited", 2)) == 3
        status = await cluster.reaches("edited", Phase.FAILED)
        assert status.reason in (Reason.REFUSED, Reason.PROGRAM_FAILED)
        await cluster.until(lambda: all(pod.is_finished for pod in cluster.pods("edited")), "its members have ended")
    finally:
        await remove(web, "edited")


def _has_seen(cluster: Cluster, generation: int) -> bool:
    return cluster.status("edited").observed_generation == generation
