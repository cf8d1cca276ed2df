"""Verbs for existing runs."""

from __future__ import annotations

import json
import re
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

from kajitori.api.logs.routes import MAX_RANKS
from kajitori.cli.follow.follow import MOST_MERGED

BERT, GPT, GPT2 = view("bert"), view("gpt-small", "Succeeded"), view("gpt-large", "Stopped")
OTHER = view("bert", namespace="nlp", uid="other")


def test_a_unique_prefix_is_enough_to_name_a_run() -> None:
    api = FakeWebApi([BERT, GPT, GPT2])
    result = invoke(api, "stop", "b", "gpt-s")
    assert (result.exit_code, result.stdout) == (0, "bert\ngpt-small\n")
    assert [call.path for call in api.calls_to("POST")] == [
        "/v1/runs/vision/bert/stop",
        "/v1/runs/vision/gpt-small/stop",
    ]


def test_an_exact_name_takes_precedence_over_longer_ones() -> None:
    api = FakeWebApi([view("gpt"), view("gpt-2")])
    assert invoke(api, "stop", "gpt").stdout == "gpt\n"


def test_an_ambiguous_prefix_lists_the_candidates() -> None:
    """Nothing is done, not even to the runs that were named exactly."""
    api = FakeWebApi([BERT, GPT, GPT2])
    result = invoke(api, "stop", "bert", "gpt")
    assert result.exit_code == 2
    assert "several runs have names that begin with 'gpt': gpt-large, gpt-small" in result.stderr
    assert api.calls_to("POST") == []


def test_a_run_of_the_users_namespace_takes_precedence() -> None:
    """One with the same name elsewhere is named with its namespace."""
    api = FakeWebApi([OTHER, BERT])
    invoke(api, "stop", "bert")
    invoke(api, "stop", "nlp/bert")
    invoke(api, "stop", "-N", "nlp", "bert")
    posts = [call.path for call in api.calls_to("POST")]
    assert posts == ["/v1/runs/vision/bert/stop", "/v1/runs/nlp/bert/stop", "/v1/runs/nlp/bert/stop"]


def test_a_name_in_two_other_namespaces_is_ambiguous() -> None:
    """The candidates are listed with their namespaces."""
    result = invoke(FakeWebApi([OTHER, BERT]), "stop", "bert", namespace="mine")
    assert result.exit_code == 2
    assert "nlp/bert, vision/bert" in result.stderr


def test_an_unknown_run_does_not_keep_others_from_being_stopped() -> None:
    """The exit code is 2."""
    api = FakeWebApi([BERT])
    result = invoke(api, "stop", "nope", "bert")
    assert (result.exit_code, result.stdout) == (2, "bert\n")
    assert "there is no run 'nope'" in result.stderr


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
    """TERM is kaji stop; for other signals the error names kaji exec."""
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


def test_restart_stops_waits_and_starts() -> None:
    """All are stopped first; an ended run is only started. A name is printed when its run is in the queue."""
    api = FakeWebApi([BERT, GPT])
    api.queues["GET /v1/runs/vision/bert"] = [BERT, BERT, view("bert", "Stopped")]
    assert invoke(api, "restart", "-t", "5", "bert", "gpt").stdout == "bert\ngpt-small\n"
    assert [call.path.rpartition("/vision/")[2] for call in api.calls_to("POST")] == [
        "bert/stop",
        "bert/resume",
        "gpt-small/resume",
    ]
    assert (api.calls_to("POST")[0].body, len(api.naps)) == ({"grace": "5s"}, 2)


def test_restart_does_not_start_a_run_that_has_not_stopped() -> None:
    """Other runs are restarted."""
    api = FakeWebApi([BERT, GPT])
    result = invoke(api, "restart", "bert", "gpt")
    assert (result.exit_code, result.stdout) == (125, "gpt-small\n")
    assert "bert was asked to stop and has not" in result.stderr
    assert 60 < sum(api.naps) < 70, "its grace of 30 s and the margin"


def test_inspect_is_json_with_members() -> None:
    """A list, as docker inspect prints it; an unknown run does not keep the others from it."""
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


def test_history_shows_of_a_run_what_ps_shows() -> None:
    """Also if its object is removed: exit code, members, nodes, image and command."""
    spec = {"command": ["python", "train.py"], "image": "registry/bert:4"}
    run = view("old", "Failed", status={"exitCode": 3, "reason": "ProgramFailed"}, spec=spec, nodes="gpu-[1-2]")
    listed = {"name": "old", "namespace": "vision", "removedAt": "2026-11-21T11:00:00Z", "run": run}
    api = FakeWebApi([run], {"GET /v1/history": {"items": [listed]}})
    for wide in ((), ("-o", "wide")):
        of_ps, of_history = (cells_of(invoke(api, *words, *wide).stdout) for words in (("ps", "-a"), ("history",)))
        assert of_ps["STATUS"] == "Failed (3)" and of_ps["COMMAND"] == "python train.py"
        assert of_history["REMOVED"] == "yes" and of_ps.items() <= of_history.items()
    assert api.calls[-1].query["details"] == ["true"]


def cells_of(table: str) -> dict[str, str]:
    """Return the cells of a table's only row by title."""
    titles, row = table.splitlines()
    starts = [found.start() for found in re.finditer(r"(?<!\S)\S+(?: \S+)*", titles)]
    ends = [*starts[1:], None]
    return {titles[start:end].strip(): row[start:end].strip() for start, end in zip(starts, ends, strict=True)}


def test_inspect_shows_a_removed_run_from_history() -> None:
    """Its members are asked for by its UID, since another run may have its name."""
    api = FakeWebApi([GPT])
    removed = view("old", "Failed") | {"removedAt": "2026-11-21T11:00:00Z", "attempts": [{"number": 1}]}
    api.answers["GET /v1/history"] = {"items": [{"name": "old", "namespace": "vision", "uid": "uid-old"}]}
    api.answers["GET /v1/history/vision/uid-old"] = removed
    api.answers["GET /v1/runs/vision/uid-old/members"] = {"items": []}
    result = invoke(api, "inspect", "old")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [removed | {"members": []}])


@pytest.mark.parametrize("words", [("files", "old"), ("cp", "old:/ckpt/model.pt", ".")])
def test_files_of_a_removed_run_name_the_command_that_opens_them(words: tuple[str, ...]) -> None:
    """A new run of the same name has the folder."""
    api = FakeWebApi([GPT])
    spec = {"image": "python:3", "checkpoint": {"path": "/ckpt"}}
    removed = view("old", "Failed", spec=spec) | {"removedAt": "2026-11-21T11:00:00Z"}
    api.answers["GET /v1/history"] = {"items": [{"name": "old", "namespace": "vision", "uid": "uid-old"}]}
    api.answers["GET /v1/history/vision/uid-old"] = removed
    result = invoke(api, *words)
    assert result.exit_code == 2
    assert "the run old was removed" in result.stderr
    assert "kaji run -d -N vision --name old --checkpoint /ckpt --cpus 0.1 -m 64m" in result.stderr


def test_inspect_refuses_a_template_and_suggests_jq() -> None:
    result = invoke(FakeWebApi([BERT]), "inspect", "-f", "{{.State.Status}}", "bert")
    assert (result.exit_code, "kaji inspect bert | jq -r" in result.stderr) == (2, True)


def test_port_lists_addresses_of_running_members() -> None:
    """With several members each line begins with the rank."""
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
    for args, message in ((["bert"], "-p PORT"), (["web", "99"], "it names 80, 8888")):
        assert message in invoke(api, "port", *args).stderr
    api.answers["GET /v1/runs/vision/web/members"] = {"items": []}
    assert "no member of web runs" in invoke(api, "port", "web").stderr


def test_attach_shows_only_new_output_until_the_end() -> None:
    """The exit code is the run's."""
    api = FakeWebApi([BERT, GPT])
    failed = view("bert", "Failed", status={"exitCode": 7, "reason": "ProgramFailed"})
    api.answers["GET /v1/runs/vision/bert/watch"] = ndjson([BERT, failed])
    api.answers["GET /v1/runs/vision/bert/logs"] = log_frames("epoch 9")
    result = invoke(api, "attach", "bert")
    assert (result.exit_code, result.stdout) == (7, "epoch 9\n")
    (read,) = api.calls_to("GET", "/logs")
    assert (read.query["tail"], "fromAttempt" in read.query) == (["0"], False)
    ended = invoke(api, "attach", "gpt")
    assert (ended.exit_code, "kaji logs gpt-small" in ended.stderr) == (2, True)


def test_wait_prints_exit_codes() -> None:
    """One a line, in the order of the names; running runs are waited for."""
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
        "      choose one of them: --rank R\n"
    )
    assert invoke(api, "logs", "bert").stderr == "bert: rank 0 of 257; others with --rank R\n"
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


def test_a_forbidden_request_exits_with_2_and_the_servers_message() -> None:
    api = FakeWebApi(
        [BERT], answers={"POST /v1/runs/vision/bert/stop": problem(403, "Forbidden", "bob may not stop it")}
    )
    result = invoke(api, "stop", "bert")
    assert (result.exit_code, result.stderr) == (2, "kaji: bob may not stop it\n")


def test_expired_credentials_exit_with_125_and_are_reported_once() -> None:
    """For any number of runs."""
    api = FakeWebApi(answers={"GET /v1/runs": problem(401, "Unauthenticated", "the token has expired", hint="log in")})
    result = invoke(api, "stop", "a", "b")
    hint = "the token in $KAJI_TOKEN is wrong or has expired: put a new one there, or kaji login http://kaji.test"
    assert (result.exit_code, result.stderr) == (125, f"kaji: the token has expired\n      {hint}\n")
