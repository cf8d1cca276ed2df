"""`kaji run` refuses a faulty request: all faults at once, by option, and nothing is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    cli_of,
    invoke,
    problem,
)
from tests.unit.cli.verbs.runs.followed_run import ANSWER

from kajitori.cli.app import kaji
from kajitori.client.connection import NotReached
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import InvalidInput


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--rank", "1"], "--rank 1: the run has no such member; its only member is 0"),
        (["-n", "2-4", "--rank", "4"], "--rank 4: the run has no such member; ranks are 0 to 3"),
        (["--array", "0-9:3", "--index", "4"], "--index 4: no member of --array 0-9:3 has this number"),
    ],
)
def test_a_rank_that_the_run_will_not_have_is_refused(words: list[str], expected: str) -> None:
    """The refusal comes before a server is asked."""
    api = FakeWebApi()
    result = invoke(api, "run", *words, "x")
    assert (result.exit_code, result.stderr.splitlines()[0], api.calls) == (2, f"kaji: {expected}", [])


def test_a_refusal_names_every_reason_by_option() -> None:
    """The exit code is 2, and each reason has its remedy."""
    faults = [
        {"field": "spec.resources.gpuType", "message": "there is no GPU type h1000", "hint": "known: a100, h100"},
        {"field": "spec.volumes[0].hostPath", "message": "/etc may not be mounted", "hint": "ask the operators"},
    ]
    api = FakeWebApi(answers={"POST /v1/runs": problem(422, "Refused", "2 reasons", faults=faults)})
    result = invoke(api, "run", "--gpus", "1", "--gpu-type", "h1000", "-v", "/etc:/e", "x")
    assert result.exit_code == 2
    assert result.stderr == (
        "kaji: refused, for 2 reasons:\n"
        "  --gpu-type: there is no GPU type h1000\n"
        "      known: a100, h100\n"
        "  --volume /etc:/e: /etc may not be mounted\n"
        "      ask the operators\n"
    )


def answer_with_faults(call: Any) -> Any:
    """Answer like a server that finds the spec's faults and an unknown volume."""
    try:
        parse_spec(call.body["spec"])
    except InvalidInput as error:
        faults = [{"field": fault.field, "message": fault.message, "hint": fault.hint} for fault in error.faults]
    ghost = {"field": "spec.volumes[1].name", "message": "there is no volume 'ghost'", "hint": "known: data"}
    return problem(422, "Invalid", "wrong", faults=[*faults, ghost])


@pytest.mark.parametrize("flags", [(), ("--dry-run",), ("-d",)])
def test_faults_of_options_spec_and_policy_are_one_refusal(flags: tuple[str, ...], tmp_path: Path) -> None:
    """The server is asked in a dry run about everything that could be read. Options that could not be read are reported
    once."""
    api = FakeWebApi(answers={"POST /v1/runs": answer_with_faults})
    words = ["--env-file", str(tmp_path / "no.env"), "-m", "lots", "-n", "two", "-v", "here", "-v", "ghost:/d"]
    result = invoke(api, "run", *flags, *words, "--priority", "urgent", "-p", "http", "x")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "kaji: this can't be done, for 7 reasons:",
        "  --publish: 'http' is not a port",
        "      name the port the program listens on: -p 8888",
        "  --replicas: 'two' is not a whole number",
        "      write a number, such as 3, or a range, such as 8-32",
        "  --memory: 'lots' is not a size",
        "      write a number with a unit, for example 64g or 512m",
        f"  --env-file: {tmp_path}/no.env can't be read: No such file or directory",
        "      check the path",
        "  --volume: 'here' does not say what is mounted where",
        "      write SOURCE:PATH, such as -v imagenet:/data:ro or -v $PWD:$PWD",
        "  --priority: 'urgent' is not one of high, normal, low",
        "  --volume ghost:/d: there is no volume 'ghost'",
        "      known: data",
    ]
    (call,) = api.calls
    assert call.query == {"dryRun": ["true"]}
    assert call.body["spec"]["volumes"] == ["here", {"path": "/d", "name": "ghost"}]


def test_faults_of_options_are_named_without_a_server(tmp_path: Path) -> None:
    """No server is known, or it does not answer."""

    def away(call: Any) -> Any:
        raise NotReached("refused")

    api = FakeWebApi(answers={"POST /v1/runs": away})
    for more in ({}, {"target": None, "runtime_dir": tmp_path}):
        cli = cli_of(api)
        for name, value in more.items():
            setattr(cli, name, value)
        result = CliRunner().invoke(kaji, ["run", "-m", "lots", "--type", "job", "x"], obj=cli)
        assert result.exit_code == 2
        assert [line for line in result.stderr.splitlines() if line.startswith("  --")] == [
            "  --memory: 'lots' is not a size",
            "  --type: 'job' is not one of batch, service, notebook",
        ]
    assert (len(api.calls), api.naps) == (1, [])


def test_a_fault_found_locally_is_refused_though_the_server_finds_none() -> None:
    api = FakeWebApi(answers={"POST /v1/runs": ANSWER})
    result = invoke(api, "run", "-d", "--restart", "always", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kaji: --restart: restarting is Kajitori's")


def test_a_missing_image_is_one_fault(tmp_path: Path) -> None:
    """With and without a server."""
    answer = problem(422, "Invalid", "wrong", faults=[{"field": "spec.image", "message": "is required"}])
    for api in (FakeWebApi(answers={"POST /v1/runs": answer}), FakeWebApi(answers={"POST /v1/runs": (503, {})})):
        result = invoke(api, "run")
        assert result.exit_code == 2
        assert result.stderr.splitlines()[0] == "kaji: IMAGE: is required"


def test_a_file_that_cannot_be_read_hides_no_other_fault(tmp_path: Path) -> None:
    """Faults of other options are reported with it, but not fields that the file may have; no server is asked."""
    api = FakeWebApi()
    result = invoke(api, "run", "-f", str(tmp_path / "no.yaml"), "--gpu-type", "h100", "-m", "lots", "--grace", "long")
    assert result.exit_code == 2
    assert [line.split(":")[0] for line in result.stderr.splitlines()[1::2]] == ["  --file", "  --memory", "  --grace"]
    assert api.calls == []


def test_a_taken_name_exits_with_2() -> None:
    api = FakeWebApi(answers={"POST /v1/runs": problem(409, "AlreadyExists", "bert exists", hint="kaji rm bert")})
    result = invoke(api, "run", "--name", "bert", "x")
    assert (result.exit_code, result.stderr) == (2, "kaji: bert exists\n      kaji rm bert\n")


def test_wrong_usage_exits_with_2_before_a_server_is_asked() -> None:
    api = FakeWebApi()
    for args in (["-o", "yaml", "x"], ["--rank", "1", "--all-ranks", "x"], ["--nope", "x"], ["-n"]):
        result = invoke(api, "run", *args)
        assert result.exit_code == 2, args
        assert result.stderr.startswith("kaji: "), args
    assert api.calls == []
