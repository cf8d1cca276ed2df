"""Submitting a run, stopping, resuming and deleting it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.parts import HealthCheck
from kajitori.core.spec.run import after_of


async def submit(world: World, body: Any, **params: Any) -> httpx2.Response:
    return await world.http.post("/v1/runs", json=body, params=params)


def writes(world: World) -> list[tuple[str, str, str]]:
    return [request for request in world.kubernetes.requests if request[0] != "GET" and "reviews" not in request[1]]


async def test_a_run_is_created_with_the_callers_own_credentials(world: World) -> None:
    """The caller is its owner. The answer shows what policy changed."""
    response = await submit(world, {"name": "bert", "labels": {"stage": "train"}, "spec": {"image": "bert:3"}})
    assert response.status_code == 201, response.text
    view = response.json()
    assert (view["name"], view["namespace"], view["owner"]) == ("bert", "team", "ada")
    assert view["status"]["findings"]
    made = world.kubernetes.get("runs", "bert")
    assert made["metadata"]["annotations"] == {
        "kajitori.dev/owner": "ada",
        "kajitori.dev/submitted-at": "2026-11-21T12:00:00.000000Z",
    }
    assert made["metadata"]["labels"] == {"stage": "train"}
    assert made["spec"] == {"image": "bert:3"}
    assert writes(world) == [("POST", "/apis/kajitori.dev/v1alpha1/namespaces/team/runs", "ada")]


async def test_a_name_is_derived_from_the_image(world: World) -> None:
    response = await submit(world, {"spec": {"image": "registry.example.org/bert:3"}})
    assert response.status_code == 201
    assert response.json()["name"].startswith("bert-")


async def test_a_taken_name_is_a_conflict_and_names_the_remedy(world: World) -> None:
    world.kubernetes.put("runs", run("bert"))
    response = await submit(world, {"name": "bert", "spec": {"image": "bert:3"}})
    assert response.status_code == 409
    assert response.json()["code"] == "AlreadyExists"
    assert "kaji rm bert" in response.json()["hint"]


@pytest.mark.parametrize("spec", [{"image": "bert:3"}, {"image": "bert:3", "replicas": 0}])
async def test_for_the_name_of_a_run_being_deleted_the_user_is_told_to_wait(world: World, spec: dict[str, Any]) -> None:
    """Deleting that run again would not help. The fault is reported alone and beside other faults."""
    leaving = run("bert")
    leaving["metadata"] |= {"deletionTimestamp": "2026-11-21T10:00:00Z", "finalizers": ["kajitori.dev/members"]}
    world.kubernetes.put("runs", leaving)
    await world.caught_up()
    problem = (await submit(world, {"name": "bert", "spec": spec})).json()
    (fault,) = [reported for reported in problem["faults"] if reported["field"] == "name"] or [
        problem | {"message": problem["detail"]}
    ]
    assert fault["code"] == "AlreadyExists"
    assert "is being deleted" in fault["message"]
    assert "wait until it is gone: kaji rm bert" in fault["hint"]


async def test_all_faults_of_a_submission_are_reported_at_once(world: World) -> None:
    """Faults of the request, of its labels and of the spec are in one answer, and nothing is created."""
    body = {
        "name": "No Good",
        "nmespace": "x",
        "labels": {"kajitori.dev/run": "forged"},
        "spec": {"image": "bert:3", "replicas": 0, "resources": {"memory": "lots"}},
    }
    response = await submit(world, body)
    assert response.status_code == 422
    fields = {fault["field"] for fault in response.json()["faults"]}
    assert fields == {"name", "nmespace", "labels['kajitori.dev/run']", "spec.replicas", "spec.resources.memory"}
    assert writes(world) == []


async def test_a_refusal_by_policy_names_every_reason(world: World) -> None:
    spec = {"image": "bert:3", "privileged": True, "resources": {"gpu": 4, "gpuType": "h900"}}
    response = await submit(world, {"name": "bert", "spec": spec})
    assert response.status_code == 422
    problem = response.json()
    assert problem["code"] == "Refused"
    assert {"spec.privileged", "spec.resources.gpuType"} <= {fault["field"] for fault in problem["faults"]}
    assert writes(world) == []


async def test_invalid_fields_and_refusals_by_policy_are_reported_together(world: World) -> None:
    """A user who corrects all of them is not refused again for another one."""
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    spec = {
        "image": "bert:3",
        "privileged": True,
        "replicas": "two",
        "resources": {"gpu": 4, "gpuType": "h900", "memory": "lots"},
        "secrets": [{"name": "ghost"}],
    }
    response = await submit(world, {"name": "bert", "labels": {"-": "x"}, "spec": spec}, dryRun="true")
    assert response.status_code == 422
    assert [fault["field"] for fault in response.json()["faults"]] == [
        "labels['-']",
        "spec.replicas",
        "spec.resources.memory",
        "name",
        "spec.privileged",
        "spec.secrets[0].name",
        "spec.resources.gpuType",
    ]
    refused = await submit(world, {"name": "bert", "spec": {"image": "bert:3", "privileged": True}})
    assert [fault["field"] for fault in refused.json()["faults"]] == ["name", "spec.privileged"]
    assert writes(world) == []


async def test_a_caller_who_may_not_create_runs_does_not_learn_taken_names(world: World) -> None:
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    world.kubernetes.denied.add(("ada", "create", "runs", "team"))
    response = await submit(world, {"name": "bert", "spec": {"image": "bert:3", "privileged": True}})
    assert [fault["field"] for fault in response.json()["faults"]] == ["spec.privileged"]


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        ({}, {"command": "pg_isready"}),
        ({"health": {"command": "mine"}}, {"command": "mine"}),
        ({"health": None}, None),
        ({"type": "notebook"}, None),
    ],
)
async def test_a_run_has_the_health_check_of_its_image_unless_it_says_otherwise(
    world: World, spec: dict[str, Any], stored: dict[str, Any] | None
) -> None:
    """An image's HEALTHCHECK was not read. null is `--no-healthcheck`; the program of a notebook is Kajitori's own."""

    async def look_up(image: str) -> HealthCheck:
        assert image == "postgres:17"
        return HealthCheck(command="pg_isready")

    world.app.state.kajitori = replace(world.api, runs=replace(world.api.runs, health_of_image=look_up))
    response = await submit(world, {"name": "db", "spec": {"image": "postgres:17", **spec}})
    assert response.status_code == 201, response.text
    assert world.kubernetes.get("runs", "db")["spec"].get("health") == stored


async def test_a_run_can_wait_for_others_by_the_beginning_of_their_names(world: World) -> None:
    world.kubernetes.put("runs", run("prepare-data", phase="Running"))
    world.kubernetes.put("runs", run("demo", phase="Running", type="service"))
    others = [{"run": "prep"}, {"run": "demo", "condition": "ended"}]
    response = await submit(world, {"name": "train", "spec": {"image": "bert:3", "after": others}})
    assert response.status_code == 201, response.text
    made = world.kubernetes.get("runs", "train")["spec"]["after"]
    assert made == [{"run": "prepare-data"}, {"run": "demo", "condition": "ended"}]


async def test_conditions_that_cannot_hold_are_all_refused_at_once(world: World) -> None:
    """Nothing waits for what cannot happen. Faults elsewhere in the request are reported with them."""
    world.kubernetes.put("runs", run("broken", phase="Failed"))
    world.kubernetes.put("runs", run("demo", phase="Running", type="service"))
    checked = run("db", phase="Running", type="service", health={"command": "true"})
    stopped = run("cache", phase="Stopped", type="service", health={"command": "true"})
    for one in (checked, stopped):
        world.kubernetes.put("runs", one)
    names = ("nosuch", "broken", "demo", "train", "db", "demo:healthy", "cache:healthy")
    spec = {"image": "bert:3", "replicas": 0, "after": [after_of(name) for name in names]}
    response = await submit(world, {"name": "train", "spec": spec})
    assert response.status_code == 422
    found = {fault["field"]: fault for fault in response.json()["faults"]}
    assert found.keys() == {"spec.replicas", *(f"spec.after[{index}].run" for index in range(7))}
    messages = [found[f"spec.after[{index}].run"]["message"] for index in range(4)]
    assert messages[0] == "there is no run 'nosuch' in namespace team"
    assert messages[1:3] == [
        "the condition succeeded cannot hold: broken failed",
        "the condition succeeded cannot hold: demo is a service, which never succeeds by itself",
    ]
    assert messages[3] == "a run cannot wait for itself"
    assert "kaji resume broken" in found["spec.after[1].run"]["hint"]
    assert "demo:ended" in found["spec.after[2].run"]["hint"]
    assert "(db:healthy)" in found["spec.after[4].run"]["hint"]
    assert found["spec.after[5].run"]["message"] == "the condition healthy cannot hold: demo has no health check"
    assert "--health-cmd" in found["spec.after[5].run"]["hint"]
    assert "kaji resume cache" in found["spec.after[6].run"]["hint"]


async def test_a_missing_secret_is_refused(world: World) -> None:
    world.kubernetes.put("secrets", {"metadata": {"name": "token", "namespace": "team"}})
    secrets = [{"name": "token"}, {"name": "tokn"}]
    response = await submit(world, {"spec": {"image": "bert:3", "secrets": secrets}})
    assert response.status_code == 422
    (fault,) = response.json()["faults"]
    assert "tokn" in fault["message"] + fault["value"]


async def test_a_dry_run_shows_the_manifests_and_creates_nothing(world: World) -> None:
    spec = {
        "image": "bert:3",
        "replicas": 2,
        "resources": {"gpu": 8, "gpuType": "h100"},
        "checkpoint": {"path": "/ckpt"},
    }
    response = await submit(world, {"name": "bert", "spec": spec}, dryRun="true")
    assert response.status_code == 200, response.text
    shown = response.json()
    assert [manifest["kind"] for manifest in shown["manifests"]] == ["Run", "Pod", "Service", "PersistentVolumeClaim"]
    assert shown["manifests"][1]["metadata"]["name"] == "bert-1-0"
    assert shown["start"]["message"] == "there is room for it on g[1-2]"
    assert shown["findings"] == shown["run"]["status"]["findings"]
    assert not [key for key in world.kubernetes.objects if key[0] == "runs"]


async def test_a_dry_run_explains_why_the_run_would_wait(world: World) -> None:
    """The explanation is that of `explain` for a waiting run."""
    world.kubernetes.put("nodes", {**world.kubernetes.get("nodes", "g2", ""), "spec": {"unschedulable": True}})
    await world.caught_up()
    spec = {"image": "bert:3", "replicas": 2, "resources": {"gpu": 8, "gpuType": "h100"}}
    shown = (await submit(world, {"name": "bert", "spec": spec}, dryRun="true")).json()
    assert shown["start"]["missing"] == {"members": 1, "gpu": 8}
    assert shown["start"]["blocked"] == [{"why": "cordoned", "nodes": "g2", "count": 1}]
    assert shown["start"]["sooner"] == ["--replicas 1", "--gpus 4"]
    assert [(blocker["kind"], blocker["name"]) for blocker in shown["start"]["toFree"]] == [("cordoned", "g2")]
    assert shown["start"]["room"] == {"free": 1, "reserved": 0, "held": 0, "cordoned": 1, "broken": 0}
    assert "affinity" not in shown["manifests"][1]["spec"]


async def test_a_body_over_the_limit_is_refused_before_it_is_read(world: World) -> None:
    """This holds with and without a Content-Length."""
    large = b'{"name": "' + b"x" * (1 << 20) + b'"}'

    async def pieces() -> Any:
        for start in range(0, len(large), 65536):
            yield large[start : start + 65536]

    for content in (large, pieces()):
        response = await world.http.post("/v1/runs", content=content)
        assert response.status_code == 413
        assert response.json()["code"] == "TooLarge"


async def test_a_body_that_is_no_json_is_one_fault(world: World) -> None:
    response = await world.http.post("/v1/runs", content=b"rubbish")
    (fault,) = response.json()["faults"]
    assert (response.status_code, fault["field"]) == (422, "body")
    assert fault["message"] == "is not JSON: invalid character (byte 0)"
    assert "Content-Type: application/json" in fault["hint"]


async def test_a_caller_who_may_not_create_runs_is_refused(world: World) -> None:
    world.kubernetes.denied.add(("ada", "create", "runs", "team"))
    response = await submit(world, {"spec": {"image": "bert:3"}})
    assert response.status_code == 403


@pytest.mark.parametrize("dry_run", ["true", "false"])
async def test_a_missing_namespace_is_named(world: World, dry_run: str) -> None:
    world.kubernetes.missing_namespaces.add("elsewhere")
    request = {"namespace": "elsewhere", "spec": {"image": "bert:3"}}
    answer = await world.http.post("/v1/runs", json=request, params={"dryRun": dry_run})
    problem = answer.json()
    assert (answer.status_code, problem["detail"]) == (404, "there is no namespace 'elsewhere'")
    assert problem["hint"] == "name a namespace that you may use; the cluster's operators create new ones"


async def test_a_failing_api_server_is_reported_as_unavailable(world: World) -> None:
    await world.http.get("/v1/version")
    world.kubernetes.failing = True
    response = await submit(world, {"spec": {"image": "bert:3"}})
    assert response.status_code == 503
    assert response.headers["retry-after"]


async def test_a_full_disk_is_reported_as_no_change(world: World) -> None:
    """Another failure leaves open whether the run was created; this one does not, so no search for the run is
    suggested."""
    world.kubernetes.disk_is_full = True
    answer = await submit(world, {"spec": {"image": "bert:3"}})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (507, "StorageFull")
    assert "disk is full" in problem["detail"] and "nothing was changed" in problem["hint"]
    assert "Retry-After" not in answer.headers


async def test_stop_is_written_into_the_spec(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Running"))
    response = await world.http.post("/v1/runs/team/bert/stop", json={"grace": "10s"})
    assert response.status_code == 200, response.text
    assert world.kubernetes.get("runs", "bert")["spec"] == {"image": "python:3.11", "stopped": True, "stopGrace": "10s"}
    assert response.json()["graceSeconds"] == 10
    assert response.json()["spec"]["stopped"] is True


async def test_stop_changes_nothing_in_a_run_that_has_ended(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Succeeded"))
    assert (await world.http.post("/v1/runs/team/bert/stop")).status_code == 200
    assert "stopped" not in world.kubernetes.get("runs", "bert")["spec"]


async def test_stop_refuses_only_a_grace_that_policy_forbids(world: World) -> None:
    """A run that policy would refuse for other reasons can still be stopped."""
    world.kubernetes.put("runs", run("bert", phase="Running", privileged=True))
    refused = await world.http.post("/v1/runs/team/bert/stop", json={"grace": "7d"})
    assert refused.status_code == 422
    assert [fault["field"] for fault in refused.json()["faults"]] == ["spec.stopGrace"]
    assert (await world.http.post("/v1/runs/team/bert/stop", json={"grace": "5s"})).status_code == 200
    unknown = await world.http.post("/v1/runs/team/bert/stop", json={"gracee": "5s"})
    assert unknown.json()["faults"][0]["hint"] == "did you mean grace?"


async def test_the_grace_of_a_stop_does_not_change_the_runs_own_grace(world: World) -> None:
    """It applies once: a run that was killed and resumed has its own grace again."""
    world.kubernetes.put("runs", run("bert", phase="Running", grace="10m"))
    killed = await world.http.post("/v1/runs/team/bert/stop", json={"grace": "0s"})
    assert killed.json()["graceSeconds"] == 1
    spec = world.kubernetes.get("runs", "bert")["spec"]
    assert (spec["grace"], spec["stopGrace"]) == ("10m", "0s")
    world.kubernetes.change("runs", "bert", status={"phase": "Stopped"})
    await world.http.post("/v1/runs/team/bert/resume")
    spec = world.kubernetes.get("runs", "bert")["spec"]
    assert (spec["grace"], spec.get("stopGrace")) == ("10m", None)


async def test_deleting_with_a_grace_writes_it_first(world: World) -> None:
    """It is written only into a run that has not ended. A caller who may not change the run deletes it nevertheless."""
    for phase, user, methods in (
        ("Running", "ada", ["PATCH", "DELETE"]),
        ("Succeeded", "ada", ["DELETE"]),
        ("Running", "bob", ["PATCH", "DELETE"]),
    ):
        world.kubernetes.put("runs", run("bert", phase=phase))
        world.kubernetes.denied = {("bob", "patch", "runs", "team")}
        world.kubernetes.requests.clear()
        headers = {"Authorization": f"Bearer {user}"}
        response = await world.http.delete("/v1/runs/team/bert", params={"grace": "0s"}, headers=headers)
        assert response.status_code == 202, response.text
        assert [method for method, _, _ in writes(world)] == methods
        assert ("runs", "team", "bert") not in world.kubernetes.objects


async def test_repeated_resume_requests_resume_a_run_once(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Stopped", stopped=True))
    for _ in range(2):
        assert (await world.http.post("/v1/runs/team/bert/resume")).status_code == 200
        spec = world.kubernetes.get("runs", "bert")["spec"]
        assert (spec["stopped"], spec["resumes"]) == (False, 1)
    world.kubernetes.change("runs", "bert", status={"phase": "Failed", "resumes": 1})
    await world.http.post("/v1/runs/team/bert/resume")
    assert world.kubernetes.get("runs", "bert")["spec"]["resumes"] == 2


async def test_a_run_that_has_not_ended_cannot_be_resumed(world: World) -> None:
    world.kubernetes.put("runs", run("bert", phase="Running"))
    response = await world.http.post("/v1/runs/team/bert/resume")
    assert response.status_code == 409
    assert "is Running" in response.json()["detail"]


async def test_the_checkpoint_is_deleted_with_its_run_only_on_request(world: World) -> None:
    claim = {"metadata": {"name": "bert-checkpoint", "namespace": "team"}}
    for wanted in (False, True):
        world.kubernetes.put("runs", run("bert", phase="Running"))
        world.kubernetes.put("persistentvolumeclaims", claim)
        response = await world.http.delete("/v1/runs/team/bert", params={"checkpoint": json.dumps(wanted)})
        assert response.status_code == 202
        assert ("runs", "team", "bert") not in world.kubernetes.objects
        assert (("persistentvolumeclaims", "team", "bert-checkpoint") in world.kubernetes.objects) is not wanted


@pytest.mark.parametrize("deletable", [True, False])
async def test_a_checkpoint_folder_is_deleted_only_if_policy_allows_it(world: World, deletable: bool) -> None:
    """The run is marked for the controller. If the controller may not delete folders, nothing is deleted. A run without
    a checkpoint is deleted."""
    document = {"checkpoint": {"kind": "folder", "root": "/c", "deletable": deletable}}
    policy = PolicyFile(None, without_file=parse_policy(document))
    world.change(cluster=ClusterView(world.mirror, policy))
    world.kubernetes.put("runs", {**run("plain"), "spec": {"image": "x"}})
    assert (await world.http.delete("/v1/runs/team/plain", params={"checkpoint": "true"})).status_code == 202
    assert [method for method, _, _ in writes(world)] == ["DELETE"]
    world.kubernetes.put("runs", {**run("bert"), "spec": {"image": "x", "checkpoint": {"path": "/ckpt"}}})
    response = await world.http.delete("/v1/runs/team/bert", params={"checkpoint": "true"})
    assert response.status_code == (202 if deletable else 422), response.text
    assert (("runs", "team", "bert") in world.kubernetes.objects) is not deletable
    assert [method for method, _, _ in writes(world)][1:] == (["PATCH", "DELETE"] if deletable else [])


async def test_run_and_checkpoint_are_deleted_both_or_not_at_all(world: World) -> None:
    """A caller who may not delete claims is refused before the run is deleted."""
    world.kubernetes.put("runs", run("bert"))
    world.kubernetes.denied.add(("ada", "delete", "persistentvolumeclaims", "team"))
    response = await world.http.delete("/v1/runs/team/bert", params={"checkpoint": "true"})
    assert response.status_code == 403
    assert ("runs", "team", "bert") in world.kubernetes.objects


async def test_deleting_an_unknown_run_is_refused(world: World) -> None:
    """A prefix of a name is not enough for a write."""
    world.kubernetes.put("runs", run("bert"))
    await world.caught_up()
    for name in ("ghost", "ber", "No Name"):
        response = await world.http.delete(f"/v1/runs/team/{name}")
        assert response.status_code == 404, name


async def test_a_finding_names_the_memory_peak_of_earlier_similar_runs(world: World) -> None:
    """It is in the answer and in a dry run. Runs of others and of other programs do not count."""
    for name, owner, peak in (("bert-1", "ada", 41), ("bert-2", "bob", 63)):
        earlier = run(name, owner=owner, phase="Succeeded", args=["train.py", "--seed", "1"])
        earlier["status"]["memory"] = {"peakBytes": peak * 2**30, "at": "2026-11-20T08:00:00Z"}
        world.kubernetes.put("runs", earlier)
    await world.caught_up()
    spec = {"image": "python:3.12", "args": ["train.py", "--seed", "2"], "resources": {"memory": "32Gi"}}
    for params, status in (({"dryRun": True}, 200), ({}, 201)):
        response = await submit(world, {"name": "bert-3", "spec": spec}, **params)
        assert response.status_code == status, response.text
        answer = response.json()
        findings = answer["findings"] if params else answer["status"]["findings"]
        (finding,) = [found for found in findings if found["code"].startswith("Memory")]
        assert finding["code"] == "MemoryBelowPeak"
        assert "41Gi a member (bert-1, 2026-11-20)" in finding["message"]
    response = await submit(world, {"spec": {**spec, "args": ["eval.py"]}})
    assert not [finding for finding in response.json()["status"]["findings"] if finding["code"].startswith("Memory")]


async def test_annotations_of_other_programs_are_kept_with_the_run(world: World) -> None:
    notes = {"docker.example.com/container": '{"Cmd": ["x"]}'}
    response = await submit(world, {"name": "bert", "annotations": notes, "spec": {"image": "bert:3"}})
    assert response.json()["annotations"] == notes
    refused = await submit(world, {"name": "b", "annotations": {"kajitori.dev/owner": "x"}, "spec": {"image": "b:3"}})
    assert [fault["field"] for fault in refused.json()["faults"]] == ["annotations['kajitori.dev/owner']"]
