"""`kaji run`: what is sent, what is shown while a run starts and runs, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    cli_of,
    clock_in,
    cut_after,
    frame,
    invoke,
    log_frames,
    ndjson,
    problem,
    view,
)

from kajitori.cli.app import kaji
from kajitori.client.connection import Lost, NotReached
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import InvalidInput

RUN = "/v1/runs/vision/bert"


def log(*lines: str) -> list[bytes]:
    return log_frames(*lines)


def api_with_run(end: dict[str, Any], *before: dict[str, Any], **more: Any) -> FakeWebApi:
    """Return a Web API with a run that goes through these views to its end."""
    first = before[0] if before else view("bert", "Queued")
    remaining = [*before, end]

    def watch() -> Iterator[bytes]:
        """Yield the present view and every later one; a client that reconnects begins with the view of that time."""
        yield ndjson(remaining[:1])[0]
        while len(remaining) > 1:
            del remaining[0]
            yield ndjson(remaining[:1])[0]

    answers = {"POST /v1/runs": (201, first), f"GET {RUN}/watch": lambda _: watch()}
    return FakeWebApi([end], answers=answers | more)


def ended(phase: str = "Succeeded", **status: Any) -> dict[str, Any]:
    return view("bert", phase, status=status)


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


def test_a_run_is_followed_to_its_end() -> None:
    """stdout has the program's output, stderr a line for each change; the exit code is the run's."""
    queued = view("bert", "Queued", status={"reason": "WaitingForGPU", "message": "needs 16 h100"})
    starting = view("bert", "Starting", status={"reason": "ImagePull", "message": "pulling"})
    fresh = view("bert", "Queued", status={"reason": "NotPlannedYet"})
    running = view("bert", status={"attempt": {"number": 1, "nodes": "gpu-1"}})
    api = api_with_run(ended(), fresh, queued, queued, starting, running, **{f"GET {RUN}/logs": log("epoch 1", "done")})
    result = invoke(api, "run", "registry/bert:3")
    assert result.exit_code == 0
    assert result.stdout == "epoch 1\ndone\n"
    assert result.stderr == (
        "bert: waiting for a place\nbert: waiting for GPUs: needs 16 h100\n"
        "bert: starting (its image): pulling\nbert: running on gpu-1\n"
    )
    (call,) = api.calls_to("GET", "/logs")
    wanted = {"follow": ["true"], "frames": ["true"]}
    assert call.query == wanted | {
        "fromAttempt": ["1"]
    }  # needed if the first attempt has ended before the log is requested


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (ended("Succeeded", exitCode=0), 0, ""),
        (ended("Failed", exitCode=3, reason="ProgramFailed", message="rank 0 ended with 3"), 3, "rank 0 ended with 3"),
        (ended("Failed", exitCode=137, reason="OutOfMemory"), 137, "OutOfMemory"),
        (ended("Failed", exitCode=127, reason="CommandNotFound"), 127, "CommandNotFound"),
        (ended("Failed", reason="CommandNotFound"), 127, "CommandNotFound"),
        (ended("Failed", reason="OutOfMemory"), 137, "OutOfMemory"),
        (ended("Failed", reason="Refused", message="policy changed"), 2, "policy changed"),
        (ended("Failed", reason="NodeLost"), 125, "NodeLost"),
        (ended("Failed", reason="DependencyNeverSatisfied"), 1, "DependencyNeverSatisfied"),
        (ended("Failed", reason="TimeLimit"), 143, "TimeLimit"),
        (ended("Stopped", exitCode=0), 0, "was stopped"),
        (ended("Stopped"), 143, "was stopped"),
    ],
)
def test_the_exit_code_tells_how_the_run_ended(end: dict[str, Any], code: int, words: str) -> None:
    """It is the program's; without one, that of a shell; 125 if the platform failed."""
    result = invoke(api_with_run(end, view("bert")), "run", "-q", "x")
    assert result.exit_code == code
    if end["status"]["phase"] == "Failed":
        assert words in result.stderr
        assert "kaji describe bert" in result.stderr


def test_lines_of_several_members_begin_with_their_rank() -> None:
    two = {"replicas": 2}
    lines = [*log_frames("hello"), *log_frames("there", rank=1)]
    api = api_with_run(view("bert", "Succeeded", spec=two), view("bert", spec=two), **{f"GET {RUN}/logs": lines})
    result = invoke(api, "run", "-n", "2", "x")
    assert result.stdout == "[0] hello\n[1] there\n"
    assert api.calls_to("GET", "/logs")[0].query["allRanks"] == ["true"]


def test_rank_follows_one_member_without_prefix() -> None:
    two = {"replicas": 2}
    api = api_with_run(view("bert", "Succeeded", spec=two), view("bert", spec=two), **{f"GET {RUN}/logs": log("x")})
    assert invoke(api, "run", "-n", "2", "--rank", "1", "x").stdout == "x\n"
    assert api.calls_to("GET", "/logs")[0].query["rank"] == ["1"]


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


def test_of_a_large_gang_only_rank_0_is_shown_by_default() -> None:
    many = {"replicas": 1000}
    api = api_with_run(view("bert", "Succeeded", spec=many), view("bert", spec=many), **{f"GET {RUN}/logs": log("x")})
    result = invoke(api, "run", "-n", "1000", "x")
    assert result.stdout == "x\n"
    assert "rank 0 of 1000" in result.stderr
    assert "allRanks" not in api.calls_to("GET", "/logs")[0].query
    result = invoke(api, "run", "--all-ranks", "-n", "1000", "x")
    assert (result.exit_code, result.stdout) == (0, "x\n")
    assert "note: at most 256 logs are merged into one\n" in result.stderr


def test_restarts_are_reported_on_stderr_while_the_log_goes_on() -> None:
    first = view("bert", status={"attempt": {"number": 1, "nodes": "a"}})
    again = view("bert", "Restarting", status={"reason": "NodeLost", "attempt": {"number": 1}})
    second = view("bert", status={"attempt": {"number": 2, "nodes": "b"}})
    api = api_with_run(ended(), first, again, second, **{f"GET {RUN}/logs": log("x")})
    result = invoke(api, "run", "x")
    assert result.stderr == "bert: restarting after the loss of a node\nbert: running again on b\n"


def test_stages_that_pass_quickly_are_not_reported() -> None:
    """Restarts always are."""
    fresh = view("bert", "Queued", status={"reason": "NotPlannedYet"})
    starting = view("bert", "Starting", status={"reason": "Creating", "message": "1 member not running yet"})
    running = view("bert", status={"attempt": {"number": 1, "nodes": "a"}})
    failed = {"reason": "ProgramFailed", "message": "member 0: exit code 3", "restarts": 1}
    again = view("bert", "Restarting", status=failed)
    views = (fresh, starting, running, again, starting, again, starting, running)
    api = api_with_run(ended(), *views, **{f"GET {RUN}/logs": log("x")})
    result = invoke(api, "run", "x", settle_seconds=3600.0)
    assert result.stderr.splitlines() == [
        "bert: restarting (1 of 3): member 0: exit code 3",
        "note: a program that fails is started again; with --restarts 0 it is not",
        "bert: running again on a",
    ]


@pytest.mark.parametrize(
    ("spec", "findings", "allowed"),
    [
        ({"restarts": 2}, [], " of 2"),
        ({}, [{"code": "RestartsDefaulted", "message": "5 restarts"}], " of 5"),
        ({}, [], ""),
    ],
)
def test_each_restart_after_a_failure_is_counted(spec: dict[str, Any], findings: list[Any], allowed: str) -> None:
    """This holds if the program fails too quickly to be seen running. How to switch restarts off is said once."""
    status = {"reason": "ProgramFailed", "message": "member 0: exit code 3", "findings": findings}
    views = [
        view("bert", "Restarting", spec={"restarts": None} | spec, status=status | {"restarts": n}) for n in (1, 2)
    ]
    api = api_with_run(ended("Failed", exitCode=3, reason="ProgramFailed"), *views, **{f"GET {RUN}/logs": log("x")})
    expected = invoke(api, "run", "x").stderr.splitlines()
    lines = [line for line in expected if not line.startswith("note: defaults")]
    assert lines[:3] == [
        f"bert: restarting (1{allowed}): member 0: exit code 3",
        "note: a program that fails is started again; with --restarts 0 it is not",
        f"bert: restarting (2{allowed}): member 0: exit code 3",
    ]
    assert "--restarts" not in "".join(lines[3:])


def test_a_failed_start_is_reported_again_only_if_the_reason_changes() -> None:
    """When starts keep failing, the command that stops the run is named."""
    starting = view("bert", "Starting", status={"reason": "Creating"})
    paused = [
        view("bert", "Queued", status={"reason": "ImagePull", "message": f"{why}; tried again", "failedStarts": count})
        for count, why in enumerate(("no image", "no image", "bad image", "bad image"), start=1)
    ]
    views = [shown for pause in paused for shown in (starting, pause)]
    api = api_with_run(ended("Stopped"), *views)
    result = invoke(api, "run", "x")
    assert result.stderr == (
        "bert: starting\nbert: waiting after a failed start (its image): no image; tried again\n"
        "bert: waiting after a failed start (its image): bad image; tried again; "
        "if it can't be mended: kaji stop bert\nkaji: bert was stopped\n"
    )


def test_no_log_is_requested_of_a_run_that_never_started() -> None:
    end = view("bert", "Failed", status={"reason": "Refused", "attempts": 0})
    api = api_with_run(end, view("bert", "Queued"))
    assert invoke(api, "run", "x").exit_code == 2
    assert api.calls_to("GET", "/logs") == []


def test_broken_connections_lose_and_repeat_no_line() -> None:
    """This holds for a watch and for a log that break in the middle of a line."""
    api = api_with_run(ended(), view("bert"))
    api.queues[f"GET {RUN}/watch"] = [
        cut_after(*ndjson([view("bert", "Queued")]), b'{"na'),
        problem(503, "Unavailable", "busy"),
    ]
    api.queues[f"GET {RUN}/logs"] = [
        cut_after(*log_frames("a", "b"), *log_frames("half of", end=""), frame("a line that is not whole")[:-4]),
        problem(500, "Internal", "something failed that should not; this is a bug in Kajitori"),
        [frame(" a line\n"), *log_frames("d")],
    ]
    result = invoke(api, "run", "x")
    assert result.exit_code == 0, result.output
    assert result.stdout == "a\nb\nhalf of a line\nd\n"
    assert [call.query.get("resume") for call in api.calls_to("GET", "/logs")] == [None, *[["0.1.half of"]] * 2]
    assert "bug" not in result.stderr


def test_a_server_that_stays_unavailable_exits_with_125() -> None:
    """kaji tries for two minutes, and says so."""
    api = api_with_run(ended(), view("bert", "Queued"))
    api.answers[f"GET {RUN}/watch"] = problem(503, "Unavailable", "no API server")
    result = invoke(api, "run", "x")
    assert result.exit_code == 125
    assert "no API server" in result.stderr
    assert sum(api.naps) == pytest.approx(120)
    words = f"no API server; it is tried again until {clock_in(120)}, and the run itself goes on"
    assert result.stderr.count(words) == 1


def test_an_outage_is_reported_once_by_both_threads() -> None:
    """One thread reads the log, the other watches the run."""
    api = api_with_run(ended(), view("bert"))
    away = problem(503, "Unavailable", "no API server")
    for path, answer in (("watch", ndjson([view("bert")])), ("logs", cut_after(*log_frames("a")))):
        api.queues[f"GET {RUN}/{path}"] = [answer, *[away] * 6]
    api.answers[f"GET {RUN}/logs"] = log_frames("b")
    result = invoke(api, "run", "x")
    assert (result.exit_code, result.stdout) == (0, "a\nb\n")
    assert [result.stderr.count(words) for words in ("no API server; it is tried", "answers again")] == [1, 1]


def test_a_run_deleted_while_it_is_followed_exits_with_125() -> None:
    api = FakeWebApi(answers={"POST /v1/runs": (201, view("bert", "Queued"))})
    api.answers[f"GET {RUN}/watch"] = ndjson([view("bert", "Running")])
    api.answers[f"GET {RUN}"] = problem(404, "NotFound", "there is no run 'bert'", hint="see them all: kaji ps -a")
    result = invoke(api, "run", "x")
    assert result.exit_code == 125
    assert result.stderr.endswith("kaji: bert was deleted\n      see them all: kaji ps -a\n")


def test_rm_deletes_the_run_after_its_end() -> None:
    """The exit code is the run's."""
    api = api_with_run(ended("Failed", exitCode=4, reason="ProgramFailed"), view("bert"))
    assert invoke(api, "run", "--rm", "x").exit_code == 4
    assert [call.path for call in api.calls_to("DELETE")] == [RUN]


def test_rm_is_also_done_by_the_cluster() -> None:
    """So it holds with -d, and if the command is killed. A run that is gone already is no error."""
    api = api_with_run(ended("Succeeded"), view("bert"))
    api.answers[f"DELETE {RUN}"] = problem(404, "NotFound", "there is no run 'bert'")
    assert invoke(api, "run", "--rm", "x").exit_code == 0
    assert invoke(api, "run", "-d", "--rm", "x").exit_code == 0
    assert [call.body["spec"]["removeAfter"] for call in api.calls_to("POST", "/v1/runs")] == ["10m", "10s"]


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
        "      known: high, low, normal",
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


ANSWER = {
    "run": view("bert", "Queued", spec={"resources": {"gpu": 8, "gpuType": "h100"}}),
    "manifests": [{"kind": "Pod", "metadata": {"name": "bert-1-0"}}, {"kind": "Service"}],
    "findings": [{"code": "DefaultMemory", "message": "memory is 2Gi, the default"}],
    "start": {"message": "nothing fits now"},
}


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


def test_wrong_usage_exits_with_2_before_a_server_is_asked() -> None:
    api = FakeWebApi()
    for args in (["-o", "yaml", "x"], ["--rank", "1", "--all-ranks", "x"], ["--nope", "x"], ["-n"]):
        result = invoke(api, "run", *args)
        assert result.exit_code == 2, args
        assert result.stderr.startswith("kaji: "), args
    assert api.calls == []


def test_a_submission_without_an_answer_is_not_repeated() -> None:
    """It is unknown whether the run was created; the error says so."""

    def lose(call: Any) -> Any:
        raise Lost("gone")

    api = FakeWebApi(answers={"POST /v1/runs": lose})
    result = invoke(api, "run", "x")
    assert result.exit_code == 125
    assert "kaji ps -a" in result.stderr
    assert len(api.calls) == 1
