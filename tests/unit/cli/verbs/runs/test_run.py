"""`kaji run`: what it sends, and what it prints about the new run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    invoke,
    view,
)
from tests.unit.cli.verbs.runs.followed_run import ANSWER, api_with_run, ended

from kajitori.client.connection import Lost


def test_detach_prints_only_the_name_on_stdout() -> None:
    """On stderr there is a line for each risk, and one for all defaults."""
    findings = [
        {"code": "CpuDefaulted", "message": "1 core"},
        {"code": "QosGuaranteed", "message": "requests are limits"},
        {"code": "TolerationsAdded", "message": "policy adds tolerations of gpu"},
        {"code": "RestartsForcedToZero", "message": "it is not started again"},
        {"code": "GraceDefaulted", "message": "30s grace"},
    ]
    made = view("bert", "Queued", status={"findings": findings})
    api = FakeWebApi(answers={"POST /v1/runs": (201, made)})
    result = invoke(api, "run", "-d", "--name", "bert", "-e", "A=1", "python:3.11", "python", "-c", "1", "--debug")
    assert result.exit_code == 0
    assert result.stdout == "bert\n"
    assert result.stderr == (
        "note: it is not started again\nnote: defaults: 1 core, 30s grace; kaji run --dry-run tells more\n"
    )
    (call,) = api.calls
    assert call.body == {
        "name": "bert",
        "namespace": "vision",
        "spec": {"image": "python:3.11", "args": ["python", "-c", "1", "--debug"], "env": {"A": "1"}},
    }


def test_a_run_begins_with_a_template_and_options_overrule_it() -> None:
    """A template that the policy lacks is refused with the known ones."""
    spec = {"image": "torch:2", "replicas": 2, "resources": {"gpu": 8, "gpuType": "h100"}}
    policy = {"templates": {"torch": {"description": "", "spec": spec}}}
    api = FakeWebApi(answers={"GET /v1/policy": (200, {"policy": policy}), "POST /v1/runs": (201, view("a", "Queued"))})
    assert invoke(api, "run", "-d", "--template", "torch", "--gpus", "4").exit_code == 0
    assert api.calls_to("POST", "/v1/runs")[-1].body["spec"] == spec | {"resources": {"gpu": 4, "gpuType": "h100"}}
    result = invoke(api, "run", "-d", "--template", "troch")
    assert result.exit_code == 2
    assert "--template: there is no template 'troch'" in result.stderr and "did you mean torch?" in result.stderr
    result = invoke(api, "run", "-d", "--template", "torch", "-f", "run.yaml")
    assert "leave one of them out" in result.stderr


def test_a_memory_limit_below_an_earlier_peak_is_a_warning() -> None:
    findings = [
        {"code": "MemoryBelowPeak", "message": "earlier runs peaked at 41Gi"},
        {"code": "MemoryPeak", "message": "earlier runs peaked at 1Gi"},
    ]
    made = view("bert", "Queued", status={"findings": findings})
    result = invoke(FakeWebApi(answers={"POST /v1/runs": (201, made)}), "run", "-d", "bert:3")
    assert result.stderr == "warning: earlier runs peaked at 41Gi\nnote: earlier runs peaked at 1Gi\n"


@pytest.mark.parametrize(
    ("peak", "flags", "expected"),
    [
        (60, [], "note: memory peaked at 60Gi of 64Gi\n"),
        (60, ["-q"], ""),
        (30, [], ""),
    ],
)
def test_a_memory_peak_near_the_limit_is_noted_at_the_end(peak: int, flags: list[str], expected: str) -> None:
    """A lower peak is shown only by kaji describe."""
    end = ended(memory={"peakBytes": peak * 2**30, "limitBytes": 2**36})
    assert invoke(api_with_run(end, end), "run", *flags, "bert:3").stderr == expected


def test_quiet_prints_no_findings() -> None:
    made = view("bert", "Queued", status={"findings": [{"code": "X", "message": "y"}]})
    assert invoke(FakeWebApi(answers={"POST /v1/runs": (201, made)}), "run", "-dq", "x").stderr == ""


def test_a_dry_run_shows_manifests_findings_and_the_start() -> None:
    """The server is asked to create nothing."""
    api = FakeWebApi(answers={"POST /v1/runs": ANSWER})
    result = invoke(api, "run", "--dry-run", "--gpus", "8", "--gpu-type", "h100", "x")
    assert api.calls[0].query == {"dryRun": ["true"]}
    assert len(api.calls) == 1
    assert "note: memory is 2Gi, the default" in result.stderr
    assert (
        "Takes 8 h100.\nWould make 1 Pod, 1 Service; see them with -o yaml.\nStart: nothing fits now\n" in result.stdout
    )
    any_type = ANSWER | {"run": view("bert", "Queued", spec={"replicas": 3, "resources": {"gpu": 8}})}
    expected = invoke(FakeWebApi(answers={"POST /v1/runs": any_type}), "run", "--dry-run", "--gpus", "8", "x").stdout
    assert "Takes 24 GPUs.\n" in expected
    assert yaml.safe_load(invoke(api, "run", "--dry-run", "-o", "yaml", "x").stdout) == ANSWER
    assert json.loads(invoke(api, "run", "--dry-run", "-o", "json", "x").stdout) == ANSWER


def test_a_manifest_is_read_from_a_file_or_from_stdin(tmp_path: Path) -> None:
    text = "kind: Run\napiVersion: kajitori.dev/v1alpha1\nmetadata: {name: gpt, namespace: nlp}\nspec: {image: x}\n"
    file = tmp_path / "run.yaml"
    file.write_text(text)
    for args, stdin in ((["-f", str(file)], None), (["-f", "-"], text)):
        api = FakeWebApi(answers={"POST /v1/runs": (201, view("gpt"))})
        assert invoke(api, "run", "-d", *args, stdin=stdin).exit_code == 0
        assert api.calls[0].body == {"name": "gpt", "namespace": "nlp", "spec": {"image": "x"}}


def test_a_submission_without_an_answer_is_not_repeated() -> None:
    """It is unknown whether the run was created; the error says so."""

    def lose(call: Any) -> Any:
        raise Lost("gone")

    api = FakeWebApi(answers={"POST /v1/runs": lose})
    result = invoke(api, "run", "x")
    assert result.exit_code == 125
    assert "kaji ps -a" in result.stderr
    assert len(api.calls) == 1
