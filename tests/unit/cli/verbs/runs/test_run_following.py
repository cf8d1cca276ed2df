"""`kaji run` follows the run: its log, its restarts, broken connections, and its end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    clock_in,
    cut_after,
    frame,
    invoke,
    log_frames,
    ndjson,
    problem,
    view,
)
from tests.unit.cli.verbs.runs.followed_run import RUN, api_with_run, ended, log


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
