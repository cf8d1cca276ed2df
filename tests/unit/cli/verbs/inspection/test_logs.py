"""`kaji logs`: one member and several, earlier attempts, outages, documents for programs."""

from __future__ import annotations

import json
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

from kajitori.api.runs.members.ranks import MAX_RANKS
from kajitori.cli.follow.follow import MOST_MERGED

BERT, GPT, GPT2 = view("bert"), view("gpt-small", "Succeeded"), view("gpt-large", "Stopped")


@pytest.mark.parametrize(
    ("args", "query", "stdout"),
    [
        ([], {}, "a\n indented\n"),
        (["-t"], {"timestamps": ["true"]}, "a\n indented\n"),
        (["-f", "--tail", "5"], {"follow": ["true"], "tail": ["5"]}, "a\n indented\n"),
        (["-n", "0"], {"tail": ["0"]}, "a\n indented\n"),
        (["--attempt", "2"], {"attempt": ["2"]}, "a\n indented\n"),
        (["--since", "10m"], {"since": ["600s"]}, "a\n indented\n"),
        (["--since", "2026-11-21T10:00:00Z"], {"since": ["2026-11-21T10:00:00Z"]}, "a\n indented\n"),
        (["--rank", "0"], {"rank": ["0"]}, "a\n indented\n"),
    ],
)
def test_logs_takes_dockers_options(args: list[str], query: dict[str, Any], stdout: str) -> None:
    """A run with one member has no prefix."""
    api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": log_frames("a", " indented")})
    result = invoke(api, "logs", *args, "bert")
    assert (result.exit_code, result.stdout) == (0, stdout)
    assert api.calls_to("GET", "/logs")[0].query == {"frames": ["true"], **query}


def test_logs_of_a_waiting_run_say_on_stderr_why_it_waits() -> None:
    waiting = view("late", "Queued", status={"reason": "WaitingForGPU", "message": "needs 16 h100"})
    result = invoke(FakeWebApi([waiting]), "logs", "late")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "late: no log: waiting for GPUs: needs 16 h100\n"


@pytest.mark.parametrize(("args", "told"), [((), "--index N grid"), (("--index", "1"), "member 1 printed nothing")])
def test_a_sweep_that_printed_nothing_has_no_log_and_that_is_no_error(args: tuple[str, ...], told: str) -> None:
    """The log of a silent member is not stored, and kaji logs once exited with 2."""
    sweep = view("grid", "Succeeded", spec={"array": "0-1"})
    missing = problem(404, "NotFound", "no log of member 0 of grid is stored")
    api = FakeWebApi([sweep], answers={"GET /v1/runs/vision/grid/logs": missing})
    result = invoke(api, "logs", *args, "grid")
    assert (result.exit_code, result.stdout) == (0, "") and told in result.stderr
    assert "kaji results grid" in result.stderr
    assert invoke(api, "logs", "--attempt", "2", *args, "grid").exit_code == 2, "the attempt that was named is missing"


def test_logs_are_printed_byte_by_byte() -> None:
    frames = [frame("\r 10%"), frame("\r100%\n\x1b[31mred"), frame("\x1b[0m")]
    api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": frames})
    assert invoke(api, "logs", "bert").stdout_bytes == b"\r 10%\r100%\n\x1b[31mred\x1b[0m"


def test_logs_are_documents_for_programs() -> None:
    """One a line, also for one that comes in pieces and for an unfinished one. Control characters are escaped."""
    time = "2026-11-21T10:00:00.5Z"
    frames = [frame(f"{time} lo"), frame(f"ss\n\n{time} \x1b[31mred\n"), frame(f"{time} end")]
    api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": frames})
    lines = invoke(api, "logs", "-o", "json", "bert").stdout.splitlines()
    assert "\x1b" not in lines[2]
    documents = [json.loads(line) for line in lines]
    expected = [(time, "loss"), ("", ""), (time, "\x1b[31mred"), (time, "end")]
    assert [(document["time"], document["line"]) for document in documents] == expected
    assert {(document["rank"], document["attempt"]) for document in documents} == {(0, 1)}
    assert api.calls_to("GET", "/logs")[0].query["timestamps"] == ["true"]


def test_an_incomplete_log_exits_with_125() -> None:
    """It must not look like a whole log."""
    for broken in (cut_after(frame("a\n"), b'{"rank'), [frame("a\n"), frame("half")[:-1]]):
        api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": lambda _, expected=broken: expected})
        result = invoke(api, "logs", "bert")
        assert (result.exit_code, result.stdout) == (125, "a\n")
        assert "broke" in result.stderr or "half a log" in result.stderr


def test_logs_of_several_members_are_resumed_for_each_member() -> None:
    """After a broken connection each log continues after its own last line."""
    api = FakeWebApi([view("bert", spec={"replicas": 2})])
    api.queues["GET /v1/runs/vision/bert/logs"] = [
        cut_after(*log_frames("a"), *log_frames("b", rank=1), *log_frames("c")),
        [*log_frames("d"), *log_frames("e", rank=1)],
    ]
    result = invoke(api, "logs", "-f", "bert")
    assert result.stdout == "[0] a\n[1] b\n[0] c\n[0] d\n[1] e\n"
    assert api.calls_to("GET", "/logs")[1].query["resume"] == ["0.1.c", "1.1.b"]


@pytest.mark.parametrize(
    ("verb", "path"),
    [("logs -f", "/logs"), ("wait", "/watch"), ("events -f", "/events")],
)
@pytest.mark.parametrize(("failures", "expected"), [(3, []), (6, ["away", "back"])])
def test_an_outage_and_its_end_are_reported_once_while_following(
    verb: str, path: str, failures: int, expected: list[str]
) -> None:
    """The report comes after a few seconds, says how long kaji keeps trying, and that the run goes on."""
    path = f"GET /v1/runs/vision/bert{path}"
    api = FakeWebApi([BERT], answers={path: ndjson([view("bert", "Succeeded")]) if verb == "wait" else []})
    api.queues[path] = [problem(503, "Unavailable", "the API server is away")] * failures
    result = invoke(api, *verb.split(), "bert")
    words = {
        "away": f"bert: the API server is away; it is tried again until {clock_in(120)}, and the run itself goes on",
        "back": "bert: the server answers again",
    }
    assert (result.exit_code, result.stderr.splitlines()) == (0, [words[name] for name in expected])


def test_more_logs_than_a_server_merges_are_refused_at_once() -> None:
    """And --all-ranks is not suggested for such a run."""
    api = FakeWebApi([view("bert", spec={"replicas": MOST_MERGED + 1})])
    result = invoke(api, "logs", "--all-ranks", "bert")
    assert result.exit_code == 2
    assert result.stderr == (
        "kaji: --all-ranks: bert has 257 members; at most 256 logs are merged into one\n"
        "      choose some of them: --rank R[-S]\n"
    )
    assert invoke(api, "logs", "bert").stderr == "bert: rank 0 of 257; others with --rank R[-S]\n"
    assert MOST_MERGED == MAX_RANKS


@pytest.mark.parametrize(
    ("status", "flags", "expected"),
    [
        ({"phase": "Stopped"}, [], "ranks 0,2-3"),
        ({"phase": "Running", "attempt": {"number": 3}}, ["--attempt", "2"], "ranks 0,2-3"),
        ({"phase": "Running", "attempt": {"number": 3}}, ["--attempt", "3"], ""),
        ({"phase": "Running", "attempt": {"number": 3}}, [], ""),
    ],
)
def test_members_without_a_stored_log_are_named(status: dict[str, Any], flags: list[str], expected: str) -> None:
    """Otherwise they would look like members that printed nothing."""
    run = view("bert", spec={"replicas": 4}, status=status)
    api = FakeWebApi([run], answers={"GET /v1/runs/vision/bert/logs": log_frames("a", rank=1)})
    result = invoke(api, "logs", *flags, "bert")
    assert (result.exit_code, result.stdout) == (0, "[1] a\n")
    assert result.stderr == (
        f"bert: nothing of {expected}: of members whose Pods are gone, logs are kept of rank 0, of those that failed, "
        "then of some others\n"
        if expected
        else ""
    )


@pytest.mark.parametrize(
    "args",
    [
        ("--rank", "0,2-3"),
        ("--rank", "0", "--rank", "2-3"),
        ("--index", "0,2,3"),
        ("--rank", "2-3,0,2"),
    ],
)
def test_logs_of_some_members_are_merged_with_their_ranks(args: tuple[str, ...]) -> None:
    api = FakeWebApi(
        [view("bert", spec={"replicas": 300})],
        answers={"GET /v1/runs/vision/bert/logs": [*log_frames("a"), *log_frames("b", rank=3)]},
    )
    result = invoke(api, "logs", *args, "bert")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "[0] a\n[3] b\n", "")
    assert api.calls_to("GET", "/logs")[0].query == {"frames": ["true"], "rank": ["0", "2", "3"]}


def test_logs_of_some_members_are_searched() -> None:
    found = ndjson([{"rank": 2, "attempt": 1, "time": "", "line": "loss=nan", "number": 1}])
    api = FakeWebApi([view("bert", spec={"replicas": 4})], answers={"GET /v1/runs/vision/bert/logs/search": found})
    result = invoke(api, "logs", "--rank", "1-2", "--grep", "nan", "bert")
    assert (result.exit_code, result.stdout) == (0, "[2] loss=nan\n")
    assert api.calls_to("GET", "/search")[0].query["rank"] == ["1", "2"]


def test_members_that_were_named_and_have_no_stored_log_are_named() -> None:
    run = view("bert", spec={"replicas": 4}, status={"phase": "Stopped"})
    api = FakeWebApi([run], answers={"GET /v1/runs/vision/bert/logs": log_frames("a", rank=1)})
    assert invoke(api, "logs", "--rank", "1-2", "bert").stderr.startswith("bert: nothing of rank 2: of members")


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        (
            "0;3",
            "invalid value for '--rank' / '--index': '0;3' is not a number or a range of numbers; write 3, 0-3 or 0,3",
        ),
        ("3-0", "invalid value for '--rank' / '--index': '3-0': a range goes upwards; write 3, 0-3 or 0,3"),
        ("0-256", "--rank: 257 members are named; at most 256 logs are merged into one\n      name fewer"),
        (
            "0-9999999",
            "invalid value for '--rank' / '--index': a list of more than 100000 entries; write 3, 0-3 or 0,3",
        ),
    ],
)
def test_ranks_that_are_no_list_are_refused(ranks: str, expected: str) -> None:
    result = invoke(FakeWebApi([view("bert", spec={"replicas": 4})]), "logs", "--rank", ranks, "bert")
    assert result.exit_code == 2 and result.stderr.startswith(f"kaji: {expected}")


def test_faults_of_a_log_request_name_the_option() -> None:
    faults = [{"field": "rank", "message": "bert has 1 member", "hint": "its only rank is 0"}]
    refused = problem(422, "InvalidInput", "wrong", faults=faults)
    api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": refused})
    result = invoke(api, "logs", "--rank", "3", "bert")
    assert (result.exit_code, result.stderr) == (2, "kaji: --rank: bert has 1 member\n      its only rank is 0\n")


def test_wrong_log_options_are_refused_before_a_server_is_asked() -> None:
    api = FakeWebApi([BERT])
    for args in (["--tail", "-1"], ["--since", "yesterday"], ["--rank", "1", "--all-ranks"], ["--rank", "-1"]):
        assert invoke(api, "logs", *args, "bert").exit_code == 2
    assert api.calls == []
