"""`kaji policy`: rendering and checking rules for everybody's Pods, and comparing policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.cli.fake_web_api import FakeWebApi, invoke

POLICY = {"pods": {"namespaces": ["team"]}, "memoryWithoutLimit": "refuse"}
IN_FORCE: dict[str, Any] = {"GET /v1/policy": {"path": "/p.yaml", "version": 1, "policy": POLICY, "faults": []}}
PODS = """
kind: Pod
metadata: {name: web, namespace: team}
spec: {hostPID: true, containers: [{name: main, image: web:1}]}
---
kind: Job
metadata: {name: other, namespace: elsewhere}
spec: {template: {spec: {containers: [{name: main, image: web:1}]}}}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "pods.yaml"
    file.write_text(PODS)
    return str(file)


def test_render_prints_the_admission_policies(tmp_path: Path) -> None:
    """For the policy in force, or for a file, without a server."""
    result = invoke(FakeWebApi(answers=IN_FORCE), "policy", "render")
    kinds = [body["kind"] for body in yaml.safe_load_all(result.stdout)]
    assert result.exit_code == 0 and kinds.count("ValidatingAdmissionPolicy") == 3
    file = tmp_path / "policy.yaml"
    file.write_text("pods: {namespaces: [team]}")
    with_defaults = invoke(FakeWebApi(), "policy", "render", str(file)).stdout
    without = invoke(FakeWebApi(), "policy", "render", str(file), "--without-defaults").stdout
    assert "MutatingAdmissionPolicy" in with_defaults and "MutatingAdmissionPolicy" not in without
    file.write_text("{}")
    nothing = invoke(FakeWebApi(), "policy", "render", str(file))
    assert (nothing.stdout, nothing.exit_code) == ("", 0)
    assert "nothing for the API server to enforce" in nothing.stderr


def test_check_names_the_faults_of_manifests(manifest: str) -> None:
    result = invoke(FakeWebApi(answers=IN_FORCE), "policy", "check", "-f", manifest)
    assert result.exit_code == 2
    assert f"{manifest}: Pod web: container main has no memory limit: set resources.limits.memory" in result.stderr
    assert f"{manifest}: Pod web: a Pod may not use the process IDs of its node: leave out hostPID" in result.stderr
    assert "Job other: the rules do not apply in namespace elsewhere" in result.stderr
    assert "1 checked, 1 would be refused." in result.stdout


def test_check_names_a_file_that_is_no_manifest(tmp_path: Path) -> None:
    for text in ("kind: Pod\nmetadata: {name: web}", "a: [", "\x00"):
        (tmp_path / "x.yaml").write_text(text)
        result = invoke(FakeWebApi(answers=IN_FORCE), "policy", "check", "-f", str(tmp_path / "x.yaml"))
        assert result.exit_code == 2 and "x.yaml" in result.stderr and "Traceback" not in result.stderr


def test_audit_shows_pods_by_owner() -> None:
    item = {"namespace": "team", "owner": "Deployment web", "rule": "root", "message": "it is root [root]", "pods": 7}
    answer = {"namespaces": ["team"], "rules": ["root"], "pods": 9, "brokenPods": 7, "items": [item]}
    result = invoke(FakeWebApi(answers={"GET /v1/policy/pods": answer}), "policy", "audit")
    assert "team        Deployment web      7   root   it is root" in result.stdout
    assert "7 of 9 Pods in namespace team would be refused" in result.stderr
    fine = answer | {"items": [], "brokenPods": 0}
    assert (
        "No Pod breaks a rule: 9 Pods"
        in invoke(FakeWebApi(answers={"GET /v1/policy/pods": fine}), "policy", "audit").stdout
    )
    nowhere = fine | {"namespaces": [], "pods": 0}
    assert "apply nowhere" in invoke(FakeWebApi(answers={"GET /v1/policy/pods": nowhere}), "policy", "audit").stdout


def test_diff_shows_each_part_that_changes(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text("queue: {order: fifo}")
    nothing: dict[str, Any] = {part: [] for part in ("fields", "refused", "moved", "lacks", "pods", "notes")}
    nothing["waiting"] = 3
    answers: dict[str, Any] = {"POST /v1/policy/diff": nothing}
    result = invoke(FakeWebApi(answers=answers), "policy", "diff", str(file))
    assert result.stdout == "Nothing changes for the cluster and 3 waiting runs.\n"
    fault = {"field": "spec.image", "message": "evil:1 may not run"}
    answers["POST /v1/policy/diff"] = nothing | {
        "fields": [{"field": "queue.order", "before": "length", "after": "fifo"}],
        "refused": [{"run": "team/bert", "owner": "ada", "faults": [fault]}],
        "moved": [{"run": "team/gpt", "owner": "bob", "before": 1, "after": 2}],
        "notes": ["no right to read Secrets"],
    }
    result = invoke(FakeWebApi(answers=answers), "policy", "diff", str(file))
    for text in (
        "queue.order   length   fifo",
        "Waiting runs that it refuses (1 of 3)",
        "team/bert   ada     spec.image: evil:1 may not run",
        "team/gpt   bob     1           2",
    ):
        assert text in result.stdout
    assert "note: no right to read Secrets" in result.stderr
