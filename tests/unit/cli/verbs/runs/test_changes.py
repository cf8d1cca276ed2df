"""Verbs that change runs: stop, kill, label, resume, update, rm, prune, restart; and wait."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    invoke,
    log_frames,
    ndjson,
    problem,
    view,
)

BERT, GPT, GPT2 = view("bert"), view("gpt-small", "Succeeded"), view("gpt-large", "Stopped")


def test_stop_takes_a_grace_in_seconds_or_with_units() -> None:
    api = FakeWebApi([BERT])
    invoke(api, "stop", "-t", "90", "bert")
    invoke(api, "stop", "bert")
    assert [call.body for call in api.calls_to("POST")] == [{"grace": "1m30s"}, {}]
    wrong = invoke(api, "stop", "-t", "soon", "bert")
    assert (wrong.exit_code, len(api.calls_to("POST"))) == (2, 2)
    assert "--time: 'soon' is not a duration" in wrong.stderr


def test_label_sets_and_removes_labels_of_several_runs() -> None:
    """Words without `=` or a last dash are runs: no name of a run has either."""
    api = FakeWebApi([BERT, GPT2])
    result = invoke(api, "label", "bert", "gpt", "stage=a=b", "note=", "old-")
    assert result.stdout == "bert\ngpt-large\n", result.stderr
    assert [call.body for call in api.calls_to("POST")] == [
        {"set": {"stage": "a=b", "note": ""}, "remove": ["old"]}
    ] * 2
    for words in (("bert",), ("stage=a",)):
        assert "KEY=VALUE sets one, KEY- removes one" in invoke(api, "label", *words).stderr


def test_resume_starts_an_ended_run_again() -> None:
    api = FakeWebApi([GPT2])
    assert invoke(api, "resume", "gpt").stdout == "gpt-large\n"
    assert api.calls_to("POST")[0].path.endswith("/gpt-large/resume")


def test_update_changes_only_what_is_named() -> None:
    """`default` removes a field; without any change nothing is asked."""
    api = FakeWebApi([BERT, GPT2])
    result = invoke(api, "update", "bert", "--time-limit", "7d", "--restarts", "20", "--priority", "default")
    assert result.stdout == "bert\n"
    (call,) = api.calls_to("PATCH")
    assert (call.path, call.body) == (
        "/v1/runs/vision/bert",
        {"timeLimit": "7d", "restarts": 20, "priority": None},
    )
    nothing = invoke(api, "update", "bert")
    assert (nothing.exit_code, len(api.calls_to("PATCH"))) == (2, 1)
    assert "othing is to be changed" in nothing.stderr and "--time-limit" in nothing.stderr
    fault = {"field": "timeLimit", "message": "'soon' is not a duration", "value": "soon", "hint": ""}
    api.answers["PATCH /v1/runs/vision/bert"] = problem(422, "Invalid", "no", faults=[fault])
    refused = invoke(api, "update", "bert", "--time-limit", "soon")
    assert refused.stderr.startswith("kaji: --time-limit: 'soon' is not a duration"), refused.stderr


def test_rm_deletes_ended_runs_and_running_ones_only_with_force() -> None:
    """The checkpoint is deleted only with -v."""
    api = FakeWebApi([BERT, GPT])
    result = invoke(api, "rm", "gpt", "bert")
    assert (result.exit_code, result.stdout) == (2, "gpt-small\n")
    assert "bert is Running" in result.stderr
    assert [(call.path, call.query) for call in api.calls_to("DELETE")] == [("/v1/runs/vision/gpt-small", {})]
    forced = invoke(api, "rm", "-fv", "bert", "nope")
    assert (forced.exit_code, forced.stdout) == (0, "bert\n")
    assert api.calls_to("DELETE")[-1].query == {"checkpoint": ["true"], "grace": ["0s"]}


def test_rm_returns_when_the_name_is_free() -> None:
    """So `kaji rm -f x && kaji run --name x` works. --no-wait does not wait."""
    api = FakeWebApi([GPT])
    path = "GET /v1/runs/vision/gpt-small"
    api.queues[path] = [{**GPT, "deleting": True}, {**GPT, "deleting": True}]
    assert invoke(api, "rm", "gpt").stdout == "gpt-small\n"
    assert (len(api.calls_to("GET", "/gpt-small")), len(api.naps)) == (3, 2)
    impatient = FakeWebApi([GPT])
    assert invoke(impatient, "rm", "--no-wait", "gpt").stdout == "gpt-small\n"
    assert impatient.calls_to("GET", "/gpt-small") == []


def test_rm_does_not_wait_for_another_run_with_the_name() -> None:
    """A new run with this name, or runs with names that begin with it, do not count."""
    api = FakeWebApi([GPT])
    api.answers["GET /v1/runs/vision/gpt-small"] = view("gpt-small", uid="another")
    assert (invoke(api, "rm", "gpt").stdout, api.naps) == ("gpt-small\n", [])
    message = "several runs have names that begin with 'gpt-small': gpt-small-1, gpt-small-2"
    fault = {"field": "name", "message": message, "code": "Ambiguous"}
    api = FakeWebApi(
        [GPT], answers={"GET /v1/runs/vision/gpt-small": problem(422, "Invalid", "several", faults=[fault])}
    )
    assert (invoke(api, "rm", "gpt").stdout, api.naps) == ("gpt-small\n", [])


def test_rm_gives_up_a_deletion_that_is_not_carried_out() -> None:
    """It exits with 125 and says what is left; other runs are deleted and printed."""
    api = FakeWebApi([BERT, GPT])
    api.answers["GET /v1/runs/vision/bert"] = {**BERT, "deleting": True}
    members = [{"pod": f"bert-1-{rank}", "node": f"n{rank}", "phase": "Running"} for rank in range(5)]
    api.answers["GET /v1/runs/vision/bert/members"] = {"items": members}
    result = invoke(api, "rm", "-f", "bert", "gpt")
    assert (result.exit_code, result.stdout) == (125, "gpt-small\n")
    assert "bert is still being deleted: 5 members still run: bert-1-0 on n0, bert-1-1 on n1" in result.stderr
    assert "and 2 more; its name is not free" in result.stderr
    assert 30 < sum(api.naps) < 40


def test_rm_all_deletes_the_users_ended_runs_and_with_force_all() -> None:
    """In all namespaces, or in the named one."""
    api = FakeWebApi([BERT, GPT])
    assert invoke(api, "rm", "--all").exit_code == 2, "the fake lists a running one, too"
    assert api.calls[0].query == {"owner": ["@me"], "phase": ["Failed", "Stopped", "Succeeded"], "limit": ["500"]}
    api = FakeWebApi([BERT, GPT])
    assert invoke(api, "rm", "-f", "--all", "-N", "vision").stdout == "bert\ngpt-small\n"
    assert api.calls[0].query == {"owner": ["@me"], "namespace": ["vision"], "limit": ["500"]}
    assert invoke(FakeWebApi(), "rm", "--all").stderr == "you have no such runs; there is nothing to do\n"


@pytest.mark.parametrize("args", [["rm"], ["stop"], ["rm", "--all", "bert"], ["stop", "bert", "--all"]])
def test_names_and_all_exclude_each_other_and_one_is_needed(args: list[str]) -> None:
    api = FakeWebApi([BERT])
    assert (invoke(api, *args).exit_code, api.calls) == (2, [])


def test_stop_all_stops_the_users_active_runs() -> None:
    api = FakeWebApi([BERT])
    assert invoke(api, "stop", "--all").stdout == "bert\n"
    assert api.calls[0].query == {"owner": ["@me"], "active": ["true"], "limit": ["500"]}


def test_prune_asks_before_it_deletes() -> None:
    """It lists what would be deleted, and only yes confirms it."""
    for answer, code, stdout in (("y\n", 0, "gpt-small\n"), ("n\n", 1, ""), ("", 1, "")):
        api = FakeWebApi([GPT])
        result = invoke(api, "prune", stdin=answer)
        assert (result.exit_code, result.stdout) == (code, stdout)
        assert "This deletes 1 run: gpt-small" in result.stderr
        assert len(api.calls_to("DELETE")) == (code == 0)
    api = FakeWebApi([GPT])
    assert invoke(api, "prune", "-f", "-v").stdout == "gpt-small\n"
    assert api.calls_to("DELETE")[0].query == {"checkpoint": ["true"]}


def test_prune_asks_no_program() -> None:
    """With -o json stdin belongs to a program: without -f nothing is deleted, and the error is JSON, too."""
    api = FakeWebApi([GPT])
    result = invoke(api, "prune", "-o", "json", stdin="y\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert json.loads(result.stderr)["error"]["message"] == "-o json asks nothing: add -f to delete without a question"
    assert not api.calls


def test_prune_can_be_limited_to_older_runs() -> None:
    old = view("old", "Failed", status={"finishedAt": "2026-11-20T11:00:00Z"})
    new = view("new", "Failed", status={"finishedAt": "2026-11-21T11:00:00Z"})
    assert invoke(FakeWebApi([old, new]), "prune", "-f", "--older-than", "1d").stdout == "old\n"
    assert invoke(FakeWebApi([old, new]), "prune", "-f", "--filter", "until=24h").stdout == "old\n"
    assert invoke(FakeWebApi([old]), "prune", "-f", "--filter", "label=x").exit_code == 2
    assert "there is nothing to delete" in invoke(FakeWebApi([new]), "prune", "--older-than", "1d").stderr
    assert "--older-than: 'soon'" in invoke(FakeWebApi(), "prune", "--older-than", "soon").stderr


def test_kill_is_a_stop_without_grace() -> None:
    """TERM, INT and QUIT are kaji stop."""
    api = FakeWebApi([BERT])
    for args, body in (
        (["bert"], {"grace": "0s"}),
        (["-s", "SIGKILL", "bert"], {"grace": "0s"}),
        (["-s", "15", "bert"], {}),
        (["-s", "INT", "bert"], {}),
    ):
        assert invoke(api, "kill", *args).stdout == "bert\n"
        assert api.calls_to("POST", "/stop")[-1].body == body


def test_other_signals_and_those_for_single_ranks_go_to_programs() -> None:
    """A program that ignores the signal is named; one that could not be reached is an error."""
    api = FakeWebApi([BERT])
    path = "POST /v1/runs/vision/bert/signal-programs"
    items = [{"rank": 0, "pid": 1, "ignored": True}, {"rank": 1, "pid": 7}]
    api.answers[path] = {"signal": "USR1", "items": items}
    done = invoke(api, "kill", "-s", "SIGUSR1", "bert")
    assert (done.exit_code, done.stdout) == (0, "bert\n")
    assert "rank 0 of bert ignores USR1" in done.stderr
    assert api.calls_to("POST")[-1].body == {"signal": "USR1"}
    api.answers[path] = {"signal": "KILL", "items": [{"rank": 3, "error": "it has no shell"}]}
    done = invoke(api, "kill", "-s", "9", "--rank", "3", "bert")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "rank 3 of bert did not get KILL: it has no shell" in done.stderr
    assert api.calls_to("POST")[-1].body == {"signal": "KILL", "ranks": "3"}


def test_kill_names_the_options_that_the_server_refuses() -> None:
    api = FakeWebApi([BERT])
    faults = [{"field": "signal", "message": "no"}, {"field": "ranks", "message": "no"}]
    api.answers["POST /v1/runs/vision/bert/signal-programs"] = problem(422, "Invalid", "no", faults=faults)
    said = invoke(api, "kill", "-s", "FOO", "--rank", "3", "bert").stderr
    assert "--signal: no" in said and "--rank: no" in said


def test_start_is_resume() -> None:
    api = FakeWebApi([GPT2])
    assert invoke(api, "start", "gpt").stdout == "gpt-large\n"
    assert api.calls_to("POST")[0].path.endswith("/gpt-large/resume")


def test_start_attach_shows_only_the_new_attempts_log() -> None:
    """As docker start -a does."""
    api = FakeWebApi([view("bert", "Stopped", status={"attempts": 2})])
    ended = view("bert", "Succeeded", status={"attempts": 3})
    api.answers["GET /v1/runs/vision/bert/watch"] = ndjson([BERT, ended])
    api.answers["GET /v1/runs/vision/bert/logs"] = log_frames("epoch 9", attempt=3)
    result = invoke(api, "start", "-a", "bert")
    assert (result.exit_code, result.stdout) == (0, "epoch 9\n")
    assert api.calls_to("GET", "/logs")[0].query["fromAttempt"] == ["3"]
    assert invoke(api, "start", "-a", "bert", "gpt").exit_code == 2


def test_restart_asks_once_and_waits_until_the_runs_are_queued_again() -> None:
    """All are asked first; an ended run is not waited for. A name is printed when its run is in the queue."""
    api = FakeWebApi([BERT, GPT])
    again = view("bert", "Queued", spec={"resumes": 1}, status={"resumes": 1})
    api.queues["GET /v1/runs/vision/bert"] = [BERT, view("bert", "Stopped"), again]
    assert invoke(api, "restart", "-t", "5", "bert", "gpt").stdout == "bert\ngpt-small\n"
    assert [call.path.rpartition("/vision/")[2] for call in api.calls_to("POST")] == [
        "bert/restart",
        "gpt-small/restart",
    ]
    assert (api.calls_to("POST")[0].body, len(api.naps)) == ({"grace": "5s"}, 2)


def test_restart_tells_which_run_was_not_queued_again() -> None:
    """Because no controller ends it, or because it was stopped meanwhile. Other runs are restarted."""
    api = FakeWebApi([BERT, GPT])
    result = invoke(api, "restart", "bert", "gpt")
    assert (result.exit_code, result.stdout) == (125, "gpt-small\n")
    assert "bert was asked to restart and has not ended" in result.stderr
    assert 60 < sum(api.naps) < 70, "its grace of 30 s and the margin"
    api.answers["GET /v1/runs/vision/bert"] = view("bert", "Stopped", spec={"resumes": 1, "stopped": True})
    assert "bert was stopped meanwhile" in invoke(api, "restart", "bert").stderr


def test_wait_prints_exit_codes() -> None:
    """One a line, in the order of the names; running runs are waited for."""
    api = FakeWebApi([BERT, GPT])
    failed = view("bert", "Failed", status={"exitCode": 7, "reason": "ProgramFailed"})
    api.answers["GET /v1/runs/vision/bert/watch"] = ndjson([BERT, failed])
    result = invoke(api, "wait", "bert", "gpt")
    assert (result.exit_code, result.stdout) == (0, "7\n0\n")
