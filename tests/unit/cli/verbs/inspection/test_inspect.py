"""Verbs that show one run: inspect, history, files, port, attach."""

from __future__ import annotations

import json
import re

import pytest
from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    invoke,
    log_frames,
    ndjson,
    view,
)

BERT, GPT, GPT2 = view("bert"), view("gpt-small", "Succeeded"), view("gpt-large", "Stopped")


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
