"""The verbs that act on runs that are there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import FakeWebApi, clock_in, cut_after, frame, invoke, logged, ndjson, problem, view

from kajitori.api.logs.routes import MAX_RANKS
from kajitori.cli.follow.follow import MOST_MERGED

BERT, GPT, GPT2 = view("bert"), view("gpt-small", "Succeeded"), view("gpt-large", "Stopped")
OTHER = view("bert", namespace="nlp", uid="other")


def test_a_unique_prefix_names_a_run() -> None:
    """A name may be cut short as long as it is clear."""
    api = FakeWebApi([BERT, GPT, GPT2])
    result = invoke(api, "stop", "b", "gpt-s")
    assert (result.exit_code, result.stdout) == (0, "bert\ngpt-small\n")
    assert [call.path for call in api.calls_to("POST")] == [
        "/v1/runs/vision/bert/stop",
        "/v1/runs/vision/gpt-small/stop",
    ]


def test_an_exact_name_wins_over_longer_ones() -> None:
    """A run whose name begins another's can still be named."""
    api = FakeWebApi([view("gpt"), view("gpt-2")])
    assert invoke(api, "stop", "gpt").stdout == "gpt\n"


def test_an_ambiguous_prefix_lists_the_candidates() -> None:
    """Nothing is done, not even to the runs that were named clearly."""
    api = FakeWebApi([BERT, GPT, GPT2])
    result = invoke(api, "stop", "bert", "gpt")
    assert result.exit_code == 2
    assert "several runs have names that begin with 'gpt': gpt-large, gpt-small" in result.stderr
    assert api.calls_to("POST") == []


def test_the_own_namespace_comes_first() -> None:
    """The same name in two namespaces means the one of one's own; the other is named with its namespace."""
    api = FakeWebApi([OTHER, BERT])
    invoke(api, "stop", "bert")
    invoke(api, "stop", "nlp/bert")
    invoke(api, "stop", "-N", "nlp", "bert")
    posts = [call.path for call in api.calls_to("POST")]
    assert posts == ["/v1/runs/vision/bert/stop", "/v1/runs/nlp/bert/stop", "/v1/runs/nlp/bert/stop"]


def test_two_foreign_namespaces_are_ambiguous() -> None:
    """Candidates are listed with their namespaces."""
    result = invoke(FakeWebApi([OTHER, BERT]), "stop", "bert", namespace="mine")
    assert result.exit_code == 2
    assert "nlp/bert, vision/bert" in result.stderr


def test_a_run_that_is_not_there() -> None:
    """The others are stopped all the same; the exit code tells."""
    api = FakeWebApi([BERT])
    result = invoke(api, "stop", "nope", "bert")
    assert (result.exit_code, result.stdout) == (2, "bert\n")
    assert "there is no run 'nope'" in result.stderr


def test_stop_with_a_grace() -> None:
    """-t takes seconds as docker does, or a time with units."""
    api = FakeWebApi([BERT])
    invoke(api, "stop", "-t", "90", "bert")
    invoke(api, "stop", "bert")
    assert [call.body for call in api.calls_to("POST")] == [{"grace": "1m30s"}, {}]
    wrong = invoke(api, "stop", "-t", "soon", "bert")
    assert (wrong.exit_code, len(api.calls_to("POST"))) == (2, 2)
    assert "--time: 'soon' is not a duration" in wrong.stderr


def test_resume() -> None:
    """Starts an ended run again."""
    api = FakeWebApi([GPT2])
    assert invoke(api, "resume", "gpt").stdout == "gpt-large\n"
    assert api.calls_to("POST")[0].path.endswith("/gpt-large/resume")


def test_rm_leaves_running_runs_alone() -> None:
    """Ended runs are deleted, a running one only with -f; its checkpoint only with -v."""
    api = FakeWebApi([BERT, GPT])
    result = invoke(api, "rm", "gpt", "bert")
    assert (result.exit_code, result.stdout) == (2, "gpt-small\n")
    assert "bert is Running" in result.stderr
    assert [(call.path, call.query) for call in api.calls_to("DELETE")] == [("/v1/runs/vision/gpt-small", {})]
    forced = invoke(api, "rm", "-fv", "bert", "nope")
    assert (forced.exit_code, forced.stdout) == (0, "bert\n")
    assert api.calls_to("DELETE")[-1].query == {"checkpoint": ["true"], "grace": ["0s"]}


def test_rm_returns_when_the_name_is_free() -> None:
    """It prints the name then: `kaji rm -f x && kaji run --name x` works. --no-wait does not wait."""
    api = FakeWebApi([GPT])
    path = "GET /v1/runs/vision/gpt-small"
    api.queues[path] = [{**GPT, "deleting": True}, {**GPT, "deleting": True}]
    assert invoke(api, "rm", "gpt").stdout == "gpt-small\n"
    assert (len(api.calls_to("GET", "/gpt-small")), len(api.naps)) == (3, 2)
    impatient = FakeWebApi([GPT])
    assert invoke(impatient, "rm", "--no-wait", "gpt").stdout == "gpt-small\n"
    assert impatient.calls_to("GET", "/gpt-small") == []


def test_the_name_of_a_deleted_run_may_be_anothers_by_now() -> None:
    """A new run of this name, or others whose names begin so, are not waited for."""
    api = FakeWebApi([GPT])
    api.answers["GET /v1/runs/vision/gpt-small"] = view("gpt-small", uid="another")
    assert (invoke(api, "rm", "gpt").stdout, api.naps) == ("gpt-small\n", [])
    message = "several runs have names that begin with 'gpt-small': gpt-small-1, gpt-small-2"
    fault = {"field": "name", "message": message, "code": "Ambiguous"}
    api = FakeWebApi(
        [GPT], answers={"GET /v1/runs/vision/gpt-small": problem(422, "Invalid", "several", faults=[fault])}
    )
    assert (invoke(api, "rm", "gpt").stdout, api.naps) == ("gpt-small\n", [])


def test_a_deletion_that_nobody_carries_out_is_not_waited_for_for_ever() -> None:
    """Ends with 125 and says what is left; the other runs are told of."""
    api = FakeWebApi([BERT, GPT])
    api.answers["GET /v1/runs/vision/bert"] = {**BERT, "deleting": True}
    members = [{"pod": f"bert-1-{rank}", "node": f"n{rank}", "phase": "Running"} for rank in range(5)]
    api.answers["GET /v1/runs/vision/bert/members"] = {"items": members}
    result = invoke(api, "rm", "-f", "bert", "gpt")
    assert (result.exit_code, result.stdout) == (125, "gpt-small\n")
    assert "bert is still being deleted: 5 members still run: bert-1-0 on n0, bert-1-1 on n1" in result.stderr
    assert "and 2 more; its name is not free" in result.stderr
    assert 30 < sum(api.naps) < 40


def test_rm_all_takes_what_has_ended_and_with_force_the_rest() -> None:
    """Of one's own, in all namespaces or in the one that is named."""
    api = FakeWebApi([BERT, GPT])
    assert invoke(api, "rm", "--all").exit_code == 2, "the fake lists a running one, too"
    assert api.calls[0].query == {"owner": ["@me"], "phase": ["Failed", "Stopped", "Succeeded"], "limit": ["500"]}
    api = FakeWebApi([BERT, GPT])
    assert invoke(api, "rm", "-f", "--all", "-N", "vision").stdout == "bert\ngpt-small\n"
    assert api.calls[0].query == {"owner": ["@me"], "namespace": ["vision"], "limit": ["500"]}
    assert invoke(FakeWebApi(), "rm", "--all").stderr == "there is no such run of yours\n"


@pytest.mark.parametrize("args", [["rm"], ["stop"], ["rm", "--all", "bert"], ["stop", "bert", "--all"]])
def test_either_names_or_all(args: list[str]) -> None:
    api = FakeWebApi([BERT])
    assert (invoke(api, *args).exit_code, api.calls) == (2, [])


def test_stop_all() -> None:
    """All of one's own runs that have not ended."""
    api = FakeWebApi([BERT])
    assert invoke(api, "stop", "--all").stdout == "bert\n"
    assert api.calls[0].query == {"owner": ["@me"], "active": ["true"], "limit": ["500"]}


def test_prune_asks_before_it_deletes() -> None:
    """It says what goes, and takes only yes for an answer."""
    for answer, code, stdout in (("y\n", 0, "gpt-small\n"), ("n\n", 1, ""), ("", 1, "")):
        api = FakeWebApi([GPT])
        result = invoke(api, "prune", stdin=answer)
        assert (result.exit_code, result.stdout) == (code, stdout)
        assert "This deletes 1 run: gpt-small" in result.stderr
        assert len(api.calls_to("DELETE")) == (code == 0)
    api = FakeWebApi([GPT])
    assert invoke(api, "prune", "-f", "-v").stdout == "gpt-small\n"
    assert api.calls_to("DELETE")[0].query == {"checkpoint": ["true"]}


def test_prune_of_older_runs_only() -> None:
    old = view("old", "Failed", status={"finishedAt": "2026-11-20T11:00:00Z"})
    new = view("new", "Failed", status={"finishedAt": "2026-11-21T11:00:00Z"})
    assert invoke(FakeWebApi([old, new]), "prune", "-f", "--older-than", "1d").stdout == "old\n"
    assert invoke(FakeWebApi([old, new]), "prune", "-f", "--filter", "until=24h").stdout == "old\n"
    assert invoke(FakeWebApi([old]), "prune", "-f", "--filter", "label=x").exit_code == 2
    assert "there is nothing to delete" in invoke(FakeWebApi([new]), "prune", "--older-than", "1d").stderr
    assert "--older-than: 'soon'" in invoke(FakeWebApi(), "prune", "--older-than", "soon").stderr


def test_kill_is_a_stop_without_grace() -> None:
    """TERM is kaji stop; other signals go to processes, and how is said."""
    api = FakeWebApi([BERT])
    for args, body in (
        (["bert"], {"grace": "0s"}),
        (["-s", "SIGKILL", "bert"], {"grace": "0s"}),
        (["-s", "15", "bert"], {}),
    ):
        assert invoke(api, "kill", *args).stdout == "bert\n"
        assert api.calls_to("POST", "/stop")[-1].body == body
    refused = invoke(api, "kill", "-s", "SIGUSR1", "bert")
    assert (refused.exit_code, len(api.calls_to("POST"))) == (2, 3)
    assert "kaji exec bert kill -USR1 PID" in refused.stderr


def test_start_is_resume() -> None:
    api = FakeWebApi([GPT2])
    assert invoke(api, "start", "gpt").stdout == "gpt-large\n"
    assert api.calls_to("POST")[0].path.endswith("/gpt-large/resume")


def test_start_follows_what_is_printed_from_then_on() -> None:
    """With -a, as docker start does: what earlier attempts printed is not shown again."""
    api = FakeWebApi([view("bert", "Stopped", status={"attempts": 2})])
    ended = view("bert", "Succeeded", status={"attempts": 3})
    api.answers["GET /v1/runs/vision/bert/watch"] = ndjson([BERT, ended])
    api.answers["GET /v1/runs/vision/bert/logs"] = logged("epoch 9", attempt=3)
    result = invoke(api, "start", "-a", "bert")
    assert (result.exit_code, result.stdout) == (0, "epoch 9\n")
    assert api.calls_to("GET", "/logs")[0].query["fromAttempt"] == ["3"]
    assert invoke(api, "start", "-a", "bert", "gpt").exit_code == 2


def test_restart_stops_waits_and_starts() -> None:
    """All are told to stop first; one that has ended is only started; each name is printed when it is in the queue."""
    api = FakeWebApi([BERT, GPT])
    api.queues["GET /v1/runs/vision/bert"] = [BERT, BERT, view("bert", "Stopped")]
    assert invoke(api, "restart", "-t", "5", "bert", "gpt").stdout == "bert\ngpt-small\n"
    assert [call.path.rpartition("/vision/")[2] for call in api.calls_to("POST")] == [
        "bert/stop",
        "bert/resume",
        "gpt-small/resume",
    ]
    assert (api.calls_to("POST")[0].body, len(api.naps)) == ({"grace": "5s"}, 2)


def test_restart_of_a_run_that_does_not_stop() -> None:
    """It is not started beside itself; the others are."""
    api = FakeWebApi([BERT, GPT])
    result = invoke(api, "restart", "bert", "gpt")
    assert (result.exit_code, result.stdout) == (125, "gpt-small\n")
    assert "bert was asked to stop and has not" in result.stderr
    assert 60 < sum(api.naps) < 70, "its grace of 30 s and the margin"


def test_inspect_is_json_with_members() -> None:
    """A list, as docker inspect prints it; what is not there does not keep the others from it."""
    api = FakeWebApi([BERT, GPT])
    api.answers["GET /v1/runs/vision/bert/members"] = {"items": [{"rank": 0, "pod": "bert-1-0"}]}
    result = invoke(api, "inspect", "bert", "nope", "gpt-s")
    assert result.exit_code == 2
    assert "there is no run 'nope'" in result.stderr
    found = json.loads(result.stdout)
    assert [(run["name"], run["members"]) for run in found] == [
        ("bert", [{"rank": 0, "pod": "bert-1-0"}]),
        ("gpt-small", []),
    ]


def test_inspect_reads_no_templates_and_says_what_does() -> None:
    result = invoke(FakeWebApi([BERT]), "inspect", "-f", "{{.State.Status}}", "bert")
    assert (result.exit_code, "kaji inspect bert | jq -r" in result.stderr) == (2, True)


def test_port_says_where_members_listen() -> None:
    """Those that run; a rank stands before the address where there are several."""
    web = view("web", spec={"ports": [80, 8888], "replicas": 2})
    api = FakeWebApi([web, BERT])
    members = [
        {"rank": 0, "phase": "Running", "address": "10.0.0.3"},
        {"rank": 1, "phase": "Running", "address": "fd00::3"},
        {"rank": 2, "phase": "Pending", "address": ""},
    ]
    api.answers["GET /v1/runs/vision/web/members"] = {"items": members}
    assert invoke(api, "port", "web").stdout.splitlines() == [
        "rank 0: 80/tcp -> 10.0.0.3:80",
        "rank 0: 8888/tcp -> 10.0.0.3:8888",
        "rank 1: 80/tcp -> [fd00::3]:80",
        "rank 1: 8888/tcp -> [fd00::3]:8888",
    ]
    assert invoke(api, "port", "web", "80/tcp").stdout.count("->") == 2
    for args, said in ((["bert"], "-p PORT"), (["web", "99"], "it names 80, 8888")):
        assert said in invoke(api, "port", *args).stderr
    api.answers["GET /v1/runs/vision/web/members"] = {"items": []}
    assert "no member of web runs" in invoke(api, "port", "web").stderr


def test_attach_follows_from_now_to_the_end() -> None:
    """Only what is printed from now on; the exit code is the run's."""
    api = FakeWebApi([BERT, GPT])
    failed = view("bert", "Failed", status={"exitCode": 7, "reason": "ProgramFailed"})
    api.answers["GET /v1/runs/vision/bert/watch"] = ndjson([BERT, failed])
    api.answers["GET /v1/runs/vision/bert/logs"] = logged("epoch 9")
    result = invoke(api, "attach", "bert")
    assert (result.exit_code, result.stdout) == (7, "epoch 9\n")
    (read,) = api.calls_to("GET", "/logs")
    assert (read.query["tail"], "fromAttempt" in read.query) == (["0"], False)
    ended = invoke(api, "attach", "gpt")
    assert (ended.exit_code, "kaji logs gpt-small" in ended.stderr) == (2, True)


def test_wait_prints_exit_codes() -> None:
    """One a line, in the order of the names; running ones are waited for."""
    api = FakeWebApi([BERT, GPT])
    failed = view("bert", "Failed", status={"exitCode": 7, "reason": "ProgramFailed"})
    api.answers["GET /v1/runs/vision/bert/watch"] = ndjson([BERT, failed])
    result = invoke(api, "wait", "bert", "gpt")
    assert (result.exit_code, result.stdout) == (0, "7\n0\n")


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
def test_logs(args: list[str], query: dict[str, Any], stdout: str) -> None:
    """Docker's options; a run of one member has no prefix."""
    api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": logged("a", " indented")})
    result = invoke(api, "logs", *args, "bert")
    assert (result.exit_code, result.stdout) == (0, stdout)
    assert api.calls_to("GET", "/logs")[0].query == {"frames": ["true"], **query}


def test_logs_of_a_run_that_waits_say_why_there_are_none() -> None:
    """On stderr: what a program reads stays empty."""
    waiting = view("late", "Queued", status={"reason": "WaitingForGPU", "message": "needs 16 h100"})
    result = invoke(FakeWebApi([waiting]), "logs", "late")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "late: no log: waiting for GPUs: needs 16 h100\n"


def test_a_log_is_shown_byte_by_byte() -> None:
    """Whatever the program printed, as docker shows it."""
    said = [frame("\r 10%"), frame("\r100%\n\x1b[31mred"), frame("\x1b[0m")]
    api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": said})
    assert invoke(api, "logs", "bert").stdout_bytes == b"\r 10%\r100%\n\x1b[31mred\x1b[0m"


def test_a_broken_log_that_is_not_followed_fails() -> None:
    """Half a log must not look like a whole one."""
    for broken in (cut_after(frame("a\n"), b'{"rank'), [frame("a\n"), frame("half")[:-1]]):
        api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": lambda _, said=broken: said})
        result = invoke(api, "logs", "bert")
        assert (result.exit_code, result.stdout) == (125, "a\n")
        assert "broke" in result.stderr or "half a log" in result.stderr


def test_logs_of_several_members_go_on_where_each_was() -> None:
    """After a break each member's log goes on behind its own last line."""
    api = FakeWebApi([view("bert", spec={"replicas": 2})])
    api.queues["GET /v1/runs/vision/bert/logs"] = [
        cut_after(*logged("a"), *logged("b", rank=1), *logged("c")),
        [*logged("d"), *logged("e", rank=1)],
    ]
    result = invoke(api, "logs", "-f", "bert")
    assert result.stdout == "[0] a\n[1] b\n[0] c\n[0] d\n[1] e\n"
    assert api.calls_to("GET", "/logs")[1].query["resume"] == ["0.1.c", "1.1.b"]


@pytest.mark.parametrize(
    ("verb", "path"),
    [("logs -f", "/logs"), ("wait", "/watch"), ("events -f", "/events")],
)
@pytest.mark.parametrize(("failures", "said"), [(3, []), (6, ["away", "back"])])
def test_whoever_follows_is_told_that_the_server_is_away_and_that_it_is_back(
    verb: str, path: str, failures: int, said: list[str]
) -> None:
    """Once each, after a few seconds, though nothing else is told; until when it is tried, and that the run goes on."""
    path = f"GET /v1/runs/vision/bert{path}"
    api = FakeWebApi([BERT], answers={path: ndjson([view("bert", "Succeeded")]) if verb == "wait" else []})
    api.queues[path] = [problem(503, "Unavailable", "the API server is away")] * failures
    result = invoke(api, *verb.split(), "bert")
    words = {
        "away": f"bert: the API server is away; it is tried again until {clock_in(120)}, and the run itself goes on",
        "back": "bert: the server answers again",
    }
    assert (result.exit_code, result.stderr.splitlines()) == (0, [words[each] for each in said])


def test_more_logs_than_a_server_merges() -> None:
    """It is said at once, and not recommended where it can't be done."""
    api = FakeWebApi([view("bert", spec={"replicas": MOST_MERGED + 1})])
    result = invoke(api, "logs", "--all-ranks", "bert")
    assert result.exit_code == 2
    assert result.stderr == (
        "kaji: --all-ranks: bert has 257 members; at most 256 logs are merged into one\n"
        "      choose one of them: --rank R\n"
    )
    assert invoke(api, "logs", "bert").stderr == "bert: rank 0 of 257; others with --rank R\n"
    assert MOST_MERGED == MAX_RANKS


@pytest.mark.parametrize(
    ("status", "flags", "said"),
    [
        ({"phase": "Stopped"}, [], "ranks 0,2-3"),
        ({"phase": "Running", "attempt": {"number": 3}}, ["--attempt", "2"], "ranks 0,2-3"),
        ({"phase": "Running", "attempt": {"number": 3}}, ["--attempt", "3"], ""),
        ({"phase": "Running", "attempt": {"number": 3}}, [], ""),
    ],
)
def test_whose_log_is_gone_is_said(status: dict[str, Any], flags: list[str], said: str) -> None:
    """What was not kept must not look like members that said nothing."""
    run = view("bert", spec={"replicas": 4}, status=status)
    api = FakeWebApi([run], answers={"GET /v1/runs/vision/bert/logs": logged("a", rank=1)})
    result = invoke(api, "logs", *flags, "bert")
    assert (result.exit_code, result.stdout) == (0, "[1] a\n")
    assert result.stderr == (
        f"bert: nothing of {said}: of members whose Pods are gone, logs are kept of rank 0, of those that failed, then "
        "of some others\n"
        if said
        else ""
    )


def test_what_a_server_finds_wrong_is_said_in_the_words_of_the_command_line() -> None:
    faults = [{"field": "rank", "message": "bert has 1 member", "hint": "its only rank is 0"}]
    refused = problem(422, "InvalidInput", "wrong", faults=faults)
    api = FakeWebApi([BERT], answers={"GET /v1/runs/vision/bert/logs": refused})
    result = invoke(api, "logs", "--rank", "3", "bert")
    assert (result.exit_code, result.stderr) == (2, "kaji: --rank: bert has 1 member\n      its only rank is 0\n")


def test_wrong_log_options_are_refused() -> None:
    """Before a server is asked."""
    api = FakeWebApi([BERT])
    for args in (["--tail", "-1"], ["--since", "yesterday"], ["--rank", "1", "--all-ranks"], ["--rank", "-1"]):
        assert invoke(api, "logs", *args, "bert").exit_code == 2
    assert api.calls == []


def test_what_is_forbidden_is_said() -> None:
    """403 ends with 2 and the server's words."""
    api = FakeWebApi(
        [BERT], answers={"POST /v1/runs/vision/bert/stop": problem(403, "Forbidden", "bob may not stop it")}
    )
    result = invoke(api, "stop", "bert")
    assert (result.exit_code, result.stderr) == (2, "kaji: bob may not stop it\n")


def test_expired_credentials() -> None:
    """401 ends with 125 and the way out, once for many runs."""
    api = FakeWebApi(answers={"GET /v1/runs": problem(401, "Unauthenticated", "the token has expired", hint="log in")})
    result = invoke(api, "stop", "a", "b")
    assert (result.exit_code, result.stderr) == (125, "kaji: the token has expired\n      log in\n")
