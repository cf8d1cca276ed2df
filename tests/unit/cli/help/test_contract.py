"""What programs may rely on: the description of all commands, JSON of what was done, errors as JSON, and schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from tests.helpers.output_schemas import check_output
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, problem

from kajitori.backup.restoring import Report
from kajitori.cli.app import kaji
from kajitori.cli.help.contract import CONTRACTS, SCHEMAS
from kajitori.entrypoints import backup
from kajitori.entrypoints.installation import installing
from kajitori.install.checks import Finding, State


def leaves(command: click.Command, ctx: click.Context, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something by itself."""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from leaves(inner, click.Context(inner, info_name=name, parent=ctx), (*path, name))
    if path and (not isinstance(command, click.Group) or command.invoke_without_command):
        yield " ".join(path), command


def test_every_verb_prints_json_or_says_why_not() -> None:
    """The table of contracts has exactly the commands that click has, and knows which of them take -o json."""
    takes_json = {}
    for verb, command in leaves(kaji, click.Context(kaji, info_name="kaji"), ()):
        formats = [p.type for p in command.params if p.name == "output"]
        takes_json[verb] = bool(formats) and isinstance(formats[0], click.Choice) and "json" in formats[0].choices
    assert takes_json == {verb: bool(each.shape) for verb, each in CONTRACTS.items()}
    assert all(bool(each.shape) != bool(each.without) for each in CONTRACTS.values())


def test_all_commands_are_described_as_click_knows_them() -> None:
    found = json.loads(invoke(FakeWebApi(), "--help", "-o", "json").stdout)
    verbs = {each["command"]: each for each in found["commands"]}
    assert set(found["sections"]["Runs"]) <= {name.removeprefix("kaji ") for name in verbs}
    assert verbs["kaji stop"]["changes"] and not verbs["kaji ps"]["changes"]
    assert verbs["kaji ps"]["schema"] == f"{SCHEMAS}#/verbs/ps"
    assert "byte for byte" in verbs["kaji attach"]["whyNoJson"]
    options = {each["names"][-1]: each for each in verbs["kaji run"]["options"]}
    assert options["--env"]["repeatable"] and options["--index"]["type"] == "integer range"
    assert options["--output"]["choices"] == ["json", "yaml", "name"]
    assert [each["command"] for each in verbs["kaji secret"]["commands"]] == [
        f"kaji secret {name}" for name in ("create", "ls", "rm")
    ]
    assert all(words.startswith("kaji run ") for words in verbs["kaji run"]["examples"])
    assert verbs["kaji up"]["options"][0]["names"] == ["--data"]


def test_one_command_is_described_alone() -> None:
    found = json.loads(invoke(FakeWebApi(), "secret", "rm", "-o", "json", "--help").stdout)
    assert (found["command"], found["changes"]) == ("kaji secret rm", True)
    assert found["arguments"] == [
        {"name": "names", "metavar": "NAME...", "type": "text", "required": True, "repeatable": True}
    ]


def test_help_of_the_program_in_a_run_is_not_ours() -> None:
    """After the image all words are the program's, also `--help -o json`."""
    api = FakeWebApi(answers={"POST /v1/runs": RUNS[0]})
    result = invoke(api, "run", "-d", "x", "train", "--help", "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "bert\n")
    assert api.calls_to("POST")[0].body["spec"]["args"] == ["train", "--help", "-o", "json"]
    assert "Usage: kaji run" in invoke(api, "run", "--help").stdout


@pytest.mark.parametrize(
    ("words", "items"),
    [
        (("stop", "gpt"), [{"namespace": "vision", "name": "gpt", "uid": "uid-gpt"}]),
        (("resume", "mnist"), [{"namespace": "vision", "name": "mnist", "uid": "uid-mnist"}]),
        (("rm", "--no-wait", "mnist"), [{"namespace": "vision", "name": "mnist", "uid": "uid-mnist"}]),
        (("prune", "-f", "--older-than", "999d"), []),
        (("secret", "rm", "wandb"), [{"name": "wandb"}]),
        (("uncordon", "cpu-1"), [{"name": "cpu-1"}]),
        (("keep", "gpt", "--until", "2h"), [{"namespace": "vision", "name": "gpt", "uid": "uid-gpt"}]),
        (("volumes", "rm", "old"), [{"name": "old"}]),
        (("token", "rm", "ci"), [{"name": "ci"}]),
        (("notify", "rm", "slack"), [{"name": "slack"}]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_was_done_is_told_as_json(words: tuple[str, ...], items: list[dict[str, Any]]) -> None:
    api = FakeWebApi(
        runs=RUNS,
        answers={
            "DELETE /v1/secrets/wandb": (202, None),
            "GET /v1/nodes/cpu-1": {"name": "cpu-1"},
            "GET /v1/nodes": {"items": [{"name": "cpu-1"}]},
            "POST /v1/nodes/cpu-1/uncordon": {"name": "cpu-1"},
            "POST /v1/runs/vision/gpt/keep": RUNS[1],
            "DELETE /v1/volumes/old": (204, None),
            "DELETE /v1/tokens/ci": (204, None),
            "DELETE /v1/channels/slack": (204, None),
        },
    )
    result = invoke(api, *words, "-o", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    verb = " ".join(word for word in words[:2] if f"{words[0]} {word}" in CONTRACTS or word == words[0])
    assert document == {"done": verb, "items": items}
    check_output(document, f"verbs/{verb}")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("policy check --live", {"policy": {}}),
        ("whoami", {"user": "ada", "groups": [], "namespaces": [], "everywhere": "", "operator": False}),
        ("inspect bert", [RUNS[0]]),
    ],
)
def test_the_schema_is_that_of_what_the_verb_prints(words: str, wrong: Any) -> None:
    """It has the fields that the command line adds to an answer of the Web API."""
    checked = {"namespace": "vision", "faults": [], "notes": []}
    me = {"user": "ada", "groups": [], "namespaces": [], "everywhere": "", "operator": False}
    answers = {"GET /v1/policy/cluster": checked, "GET /v1/whoami": me}
    result = invoke(FakeWebApi(RUNS, answers), *words.split(), "-o", "json")
    verb = "policy check" if words.startswith("policy") else words.split()[0]
    check_output(json.loads(result.stdout), f"verbs/{verb}")
    with pytest.raises(Exception, match="is a required property"):
        check_output(wrong, f"verbs/{verb}")


def test_waiting_tells_phases_and_exit_codes_as_json() -> None:
    document = json.loads(invoke(FakeWebApi(runs=RUNS), "wait", "mnist", "-o", "json").stdout)
    assert document["items"][0] | {"uid": ""} == {
        "namespace": "vision",
        "name": "mnist",
        "uid": "",
        "phase": "Failed",
        "exitCode": 3,
    }
    check_output(document, "verbs/wait")


@pytest.mark.parametrize(
    ("words", "code", "field"),
    [
        (("stop", "nobody"), "NotFound", None),
        (("run", "-d", "--gpus", "many", "--memory", "much", "x"), "Invalid", "--gpus"),
        (("ps", "--nope"), "Invalid", "--nope"),
        (("run", "x"), "Invalid", ""),
        (("explain", "bert"), "Unavailable", None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_errors_are_json_with_a_way_out(words: tuple[str, ...], code: str, field: str | None) -> None:
    """One line on stderr, for errors of the server, of a value, and of wrong usage."""
    away = problem(503, "Unavailable", "no controller", hint="try again later")
    api = FakeWebApi(runs=RUNS, answers={"GET /v1/runs/vision/bert/explain": away})
    verb, *rest = words
    result = invoke(api, verb, "-o", "json", *rest)
    document = json.loads(result.stderr.splitlines()[-1])
    check_output(document, "$defs/Error")
    error = document["error"]
    assert (error["code"], error["exitCode"]) == (code, result.exit_code)
    assert error["hint"] or all(fault["hint"] for fault in error["faults"])
    if field is not None:
        assert error["faults"][0]["field"] == field


def test_what_operators_get_has_the_documented_shape(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A check before an installation, the rendered manifests, and a restore; names of fields are camelCase."""
    found = [Finding("storage", State.WARN, "no StorageClass is the default", "make one the default")]
    monkeypatch.setattr(installing, "check", lambda _: found)
    report = Report(queued=["vision/bert"], rows={"runs": 3}, blobs=2)
    monkeypatch.setattr(backup, "bring_back", lambda *_, **__: report)
    for words in ("install --check", "install --dry-run", f"restore {tmp_path}"):
        result = invoke(FakeWebApi(), *words.split(), "-o", "json")
        assert result.exit_code == 0, result.stderr
        check_output(json.loads(result.stdout), f"verbs/{words.split()[0]}", complete=True)


def test_a_token_is_told_with_its_documented_shape() -> None:
    made = {"name": "ci", "namespace": "vision", "user": "system:serviceaccount:vision:ci", "role": "user"}
    made |= {"token": "secret", "expiresAt": "2026-12-23T08:40:00Z"}
    result = invoke(
        FakeWebApi(answers={"POST /v1/tokens": (201, made)}), "token", "create", "--for", "ci", "-o", "json"
    )
    check_output(json.loads(result.stdout), "verbs/token create", complete=True)
