"""`kaji notebook`, `kaji open` and `kaji tensorboard`: which address they open, and what they start before."""

from __future__ import annotations

import importlib.util
import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, URL, Call, FakeWebApi, invoke, problem, view

from kajitori.cli.connection import execution
from kajitori.cli.verbs.runs.notebook import default_name
from kajitori.cli.verbs.watching.tensorboard import NOT_INSTALLED

LINK = "http://kaji.test/#sign-in=c0de&to="
PATH = "/proxy/vision/notebook-ada/8888/"


def server(*runs: dict[str, Any], **answers: Any) -> FakeWebApi:
    told = {
        "GET /v1/whoami": {"user": "oidc:ada@example.org"},
        "GET /v1/policy": {"policy": {"notebooks": {"image": "own/lab:1"}}},
        "POST /v1/sign-in-links": {"code": "c0de"},
    }
    return FakeWebApi(runs=list(runs), answers=told | answers)


def notebook(phase: str = "Running", **more: Any) -> dict[str, Any]:
    programs = {"programs": [PATH]} if phase == "Running" else {}
    return view("notebook-ada", phase, spec={"type": "notebook"}, **programs, **more)


def test_a_notebook_is_started_waited_for_and_opened() -> None:
    """With the policy's image, and the options of `kaji run`."""
    api = server()

    def start(call: Call) -> dict[str, Any]:
        api.queues["GET /v1/runs/vision/notebook-ada"] = [notebook("Starting"), notebook()]
        return notebook("Queued", status={"message": "needs 2 h100"})

    api.answers["POST /v1/runs"] = start
    done = invoke(api, "notebook", "--gpus", "h100:2", "--time-limit", "8h")
    assert (done.exit_code, done.stdout) == (0, f"{LINK}{PATH}\n")
    assert "notebook-ada: Queued: needs 2 h100" in done.stderr
    body = api.calls_to("POST", "/v1/runs")[0].body
    assert (body["name"], body["spec"]["type"], body["spec"]["image"]) == ("notebook-ada", "notebook", "own/lab:1")
    assert body["spec"]["resources"] == {"gpu": 2, "gpuType": "h100"}
    assert api.naps == [1.0, 1.0]


def test_a_notebook_whose_program_does_not_answer_yet_is_waited_for() -> None:
    """The run is still called Running for a moment after its Pod was deleted, and JupyterLab takes seconds to load. Any
    answer of the program will do."""
    api = server(notebook())
    gone = problem(503, "Unavailable", "rank 0 of notebook-ada does not run yet")
    silent = problem(502, "ProgramNotReached", "nothing listens at port 8888")
    api.queues[f"GET {PATH}"] = [gone, silent, silent, problem(404, "NotFound", "no such page")]
    done = invoke(api, "notebook")
    assert (done.exit_code, done.stdout) == (0, f"{LINK}{PATH}\n"), done.stderr
    assert done.stderr.count("its program does not answer yet; what it prints: kaji logs notebook-ada") == 1
    assert len(api.calls_to("GET", PATH)) == 4


def test_a_notebook_on_a_simulated_node_is_told_to_run_no_program() -> None:
    api = server(notebook())
    api.answers[f"GET {PATH}"] = problem(501, "Unsupported", "the node gives no access", hint="it is simulated")
    refused = invoke(api, "notebook")
    assert (refused.exit_code, refused.stdout) == (125, "")
    assert "the node gives no access" in refused.stderr


def test_the_reason_of_failed_starts_is_told_once() -> None:
    """The pause before the next start grows each time."""
    api = server()
    storage = "PersistentVolumeClaim a: no class"
    api.answers["POST /v1/runs"] = notebook("Queued", status={"message": f"{storage}; tried again in 2 s"})
    failed = [
        notebook("Queued", status={"message": f"{storage}; {number} starts failed, tried again in {2**number} s"})
        for number in (2, 3, 4)
    ]
    api.queues["GET /v1/runs/vision/notebook-ada"] = [*failed, notebook()]
    assert invoke(api, "notebook").stderr.count(storage) == 1


SAME = ("--gpus", "h100:2", "--time-limit", "60m", "-m", "4g", "-e", "A=1", "-v", "data:/data", "--checkpoint", "/nb")
HAS = {
    "type": "notebook",
    "image": "own/lab:1",
    "resources": {"gpu": 2, "gpuType": "h100", "memory": "4Gi", "cpu": 1},
    "timeLimit": "1h",
    "env": {"A": "1"},
    "volumes": [{"name": "data", "path": "/data", "readOnly": False}],
    "checkpoint": {"path": "/nb", "size": "10Gi"},
}


@pytest.mark.parametrize("options", [(), SAME, ("--image", "own/lab:1"), ("--template", "lab")])
@pytest.mark.parametrize("phase", ["Running", "Stopped"])
def test_a_notebook_is_opened_again_with_the_options_that_it_has(phase: str, options: tuple[str, ...]) -> None:
    """The same command twice opens the notebook twice; amounts are compared, not texts."""
    has = notebook(phase) | {"spec": HAS}
    api = server(has)
    api.answers["GET /v1/policy"] = {
        "policy": {"templates": {"lab": {"spec": {"type": "notebook", "timeLimit": "1h"}}}}
    }
    api.answers["POST /v1/runs/vision/notebook-ada/resume"] = notebook() | {"spec": HAS}
    done = invoke(api, "notebook", *options)
    assert done.stdout == f"{LINK}{PATH}\n", done.stderr
    assert not api.calls_to("POST", "/v1/runs")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--gpus", "h100:4", "--time-limit", "1h"), "--gpus would have no effect (it has 2)"),
        (("--time-limit", "8h"), "--time-limit would have no effect (it has 1h)"),
        (("--gpus", "0"), "--gpus would have no effect (it has 2)"),
        (("--priority", "high"), "--priority would have no effect (it has none)"),
        (("--image", "other"), "--image would have no effect (it has own/lab:1)"),
        (("-e", "B=2"), "--env B would have no effect (it has none)"),
        (("--template", "lab"), "(it has 1h)"),
    ],
)
def test_options_that_a_notebook_does_not_have_are_refused(options: tuple[str, ...], told: str) -> None:
    """Only those are named, with what it has, how to open it as it is, and how to change it."""
    api = server(notebook() | {"spec": HAS})
    api.answers["GET /v1/policy"] = {
        "policy": {"templates": {"lab": {"spec": {"type": "notebook", "timeLimit": "2h"}}}}
    }
    refused = invoke(api, "notebook", *options)
    assert refused.exit_code != 0
    assert told in refused.stderr, refused.stderr
    assert refused.stderr.count("would have no effect") == 1, refused.stderr
    for way_out in ("kaji notebook notebook-ada;", "kaji rm -f notebook-ada"):
        assert way_out in refused.stderr
    assert not api.calls_to("POST", "/v1/runs")


def test_an_ended_notebook_goes_on_with_its_files() -> None:
    ended = notebook("Stopped")
    api = server(ended)
    api.answers["POST /v1/runs/vision/notebook-ada/resume"] = {**ended, "spec": {**ended["spec"], "resumes": 1}}
    api.queues["GET /v1/runs/vision/notebook-ada"] = [notebook()]
    done = invoke(api, "notebook")
    assert (done.stdout, "started again" in done.stderr) == (f"{LINK}{PATH}\n", True)


@pytest.mark.parametrize("ending", [{"spec": {"type": "notebook", "stopped": True}}, {"deleting": True}])
def test_a_notebook_that_is_still_ending_is_waited_for(ending: dict[str, Any]) -> None:
    """The address of a program that is about to end is of no use."""
    is_deleted = "deleting" in ending
    api = server()
    listed: list[list[dict[str, Any]]] = [[{**notebook(), **ending}], [] if is_deleted else [notebook("Stopped")]]
    api.answers["GET /v1/runs"] = lambda call: {"items": listed.pop(0)}
    start = "POST /v1/runs" if is_deleted else "POST /v1/runs/vision/notebook-ada/resume"
    api.answers[start] = notebook("Queued")
    api.queues["GET /v1/runs/vision/notebook-ada"] = [notebook()]
    done = invoke(api, "notebook")
    assert (done.stdout, "still ending" in done.stderr) == (f"{LINK}{PATH}\n", True), done.output
    assert len(api.calls_to(*start.split())) == 1


def test_a_notebook_that_fails_says_where_its_output_is() -> None:
    api = server()
    api.answers["POST /v1/runs"] = notebook("Queued")
    api.queues["GET /v1/runs/vision/notebook-ada"] = [notebook("Failed", status={"message": "exited with 127"})]
    done = invoke(api, "notebook")
    assert (done.exit_code != 0, "kaji logs notebook-ada" in done.stderr) == (True, True)


def test_each_failed_attempt_of_a_notebook_is_told_with_its_reason() -> None:
    """What failed before the command is not. The program of a notebook that is started again and again did once look
    like one that is slow."""
    taken = "member 0: exit code 1: port 9123 is taken"
    before, now = ({"attempt": n, "at": f"2026-11-21T10:00:0{n}Z", "message": taken} for n in (1, 2))
    api = server(notebook("Starting", status={"setback": before}))
    api.answers[f"GET {PATH}"] = problem(502, "ProgramNotReached", "nothing listens")
    api.queues["GET /v1/runs/vision/notebook-ada"] = [
        *(notebook(status={"setback": now}), notebook("Restarting", status={"setback": now, "message": taken})),
        notebook("Failed", status={"message": f"{taken} (restarted 3 of 3 times)"}),
    ]
    done = invoke(api, "notebook")
    assert done.exit_code != 0
    assert done.stderr.count("notebook-ada: attempt 2 ended: member 0: exit code 1: port 9123 is taken\n") == 1
    assert "attempt 1" not in done.stderr
    assert "notebook-ada: Restarting\n" in done.stderr


def test_a_failed_notebook_that_is_started_again_says_why_it_had_ended() -> None:
    api = server(notebook("Failed", status={"message": "member 0: exit code 127"}))
    api.answers["POST /v1/runs/vision/notebook-ada/resume"] = notebook()
    done = invoke(api, "notebook")
    assert done.stderr.startswith("notebook-ada has ended (Failed: member 0: exit code 127), and is started again\n")


def test_a_wrong_name_of_a_notebook_is_a_fault_of_its_argument() -> None:
    """The verb has no --name."""
    refused = invoke(server(), "notebook", "Bad_Name")
    assert refused.exit_code == 2 and refused.stderr.startswith("kaji: NAME: 'Bad_Name' is not a valid name")


def test_a_run_that_is_no_notebook_is_left_alone() -> None:
    done = invoke(server(view("bert")), "notebook", "bert")
    assert (done.exit_code != 0, "no notebook" in done.stderr) == (True, True)


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("oidc:ada@example.org", "notebook-ada"),
        ("system:serviceaccount:vision:ci", "notebook-ci"),
        ("Ada Lovelace", "notebook-ada-lovelace"),
        ("x" * 80, f"notebook-{'x' * 39}"),
    ],
)
def test_notebooks_are_named_after_their_users(user: str, name: str) -> None:
    assert default_name(user) == name


@pytest.mark.parametrize(
    ("port", "place"), [("6006", "/proxy/vision/bert/6006/"), ("6006-3", "/proxy/vision/bert/6006-3/")]
)
def test_open_shows_what_a_run_serves(port: str, place: str) -> None:
    bert = view("bert", spec={"replicas": 4})
    assert invoke(server(bert), "open", "bert", port).stdout == f"{LINK}{place}\n"


@pytest.mark.parametrize(
    ("run", "port", "told"),
    [
        (view("bert", spec={"replicas": 4}), "6006-4", "PORT: bert has 4 members\n      ranks are 0 to 3\n"),
        (view("bert"), "6006-1", "PORT: bert has 1 member\n      its only rank is 0\n"),
        (view("grid", spec={"array": "3-5,9"}), "6006-6", "PORT: grid has 4 members\n      its indices are 3-5,9\n"),
        (
            view("bert", "Failed"),
            "6006",
            "bert is Failed: nothing listens there\n      start it again: kaji resume bert\n",
        ),
    ],
)
def test_open_refuses_a_member_that_can_serve_nothing(run: dict[str, Any], port: str, told: str) -> None:
    """The browser showed an error of the proxy, under a link that looked right."""
    done = invoke(server(run), "open", run["name"], port)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"kaji: {told}")


@pytest.mark.parametrize("port", ["web", "0", "70000", "6006-x"])
def test_open_refuses_what_is_no_port(port: str) -> None:
    done = invoke(server(view("bert")), "open", "bert", port)
    assert (done.exit_code, "is no port" in done.stderr) == (2, True)


def test_tensorboard_needs_a_folder_and_a_run_that_has_begun() -> None:
    """And says what to type instead."""
    done = invoke(server(view("bert")), "tensorboard", "bert")
    assert (done.exit_code != 0, "--logdir PATH" in done.stderr) == (True, True)
    waiting = view("bert", "Queued", spec={"tensorboard": "/ckpt/tb"})
    done = invoke(server(waiting), "tensorboard", "bert")
    assert (done.exit_code != 0, "kaji metrics bert" in done.stderr) == (True, True)


@pytest.mark.parametrize(("options", "where"), [((), "bert"), (("--rank", "2"), "--rank 2 bert")])
def test_a_missing_tensorboard_comes_with_a_command_that_works(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], where: str
) -> None:
    """What follows the name of the run is the command of `kaji exec`: the option that stood there was executed."""
    monkeypatch.setattr(execution, "execute", lambda *_, **__: NOT_INSTALLED)
    api = server(view("bert", spec={"tensorboard": "/ckpt/tb", "image": "x"}))
    done = invoke(api, "tensorboard", "bert", "--print", *options)
    assert f"kaji exec {where} python3 -m pip install tensorboard" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("options", "asked", "place"), [((), "", "6007"), (("--rank", "2", "--port", "7000"), "7000", "6007-2")]
)
def test_tensorboard_is_opened_at_the_port_that_it_listens_on(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], asked: str, place: str
) -> None:
    """Members of `kaji up` share the ports of their machine, so the usual port may be that of another run's
    TensorBoard. The link is printed once, when TensorBoard listens."""
    api = server(view("bert", spec={"tensorboard": "/ckpt/tb", "replicas": 3}))
    seen: list[str] = []

    def execute(_target: Any, _run: Any, words: list[str], *, stderr: Any, **_more: Any) -> int:
        assert words[-2:] == ["/ckpt/tb", asked]
        for said in (
            b"NOTE: starting\n",
            b"TensorBoard 2.21.0 at http://127.0.0.1:60",
            b"07/ (Press CTRL+C to quit)\n",
        ):
            seen.append(f"{len(api.calls_to('POST', '/v1/sign-in-links'))}")
            stderr.write(said)
            stderr.flush()
        return 0

    monkeypatch.setattr(execution, "execute", execute)
    done = invoke(api, "tensorboard", "bert", "--print", *options)
    assert (done.exit_code, done.stdout) == (0, f"{LINK}/proxy/vision/bert/{place}/\n"), done.output
    assert (seen, len(api.calls_to("POST", "/v1/sign-in-links"))) == (["0", "0", "0"], 1)
    assert "NOTE: starting" in done.stderr


BOARD = """
import os, socket, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with socket.create_server((options["--host"], int(options["--port"]))) as server:
    server.accept()
print(*os.listdir(options["--logdir"] + "/bert"), file=open(sys.argv[0] + ".saw", "w"))
sys.exit(3)
"""
"""Stands for TensorBoard: notes what it shows, and ends after the first visit."""


def test_event_files_of_an_ended_run_are_shown_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the TensorBoard of this machine, if it has one."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("bert/events.out.tfevents.1"))
    api = server(view("bert", "Succeeded", spec={"tensorboard": "/ckpt/tb"}))
    api.answers["GET /v1/runs/vision/bert/files"] = {"items": []}
    api.answers["GET /v1/runs/vision/bert/files/archive"] = lambda call: (200, [packed.getvalue()])
    environment = {"KAJI_SERVER": URL, "KAJI_TOKEN": TOKEN, "KAJI_INSECURE_HTTP": "1", "PATH": str(tmp_path)}
    done = invoke(api, "tensorboard", "bert", environment=environment)
    assert (done.exit_code != 0, "kaji cp bert:/ckpt/tb FOLDER" in done.stderr) == (True, True)
    board = tmp_path / "tensorboard"
    board.write_text(f"#!{sys.executable} -I{BOARD}")
    board.chmod(0o755)
    done = invoke(api, "tensorboard", "bert", "--print", environment=environment)
    assert (done.exit_code, done.stdout[:17]) == (3, "http://127.0.0.1:"), done.output
    assert (tmp_path / "tensorboard.saw").read_text() == "events.out.tfevents.1\n"
    (asked,) = api.calls_to("GET", "/files/archive")
    assert asked.query["path"] == ["/ckpt/tb/."]
    assert "is shown by the TensorBoard of this machine" in done.stderr
    refused = problem(409, "WrongState", "bert has no checkpoint folder")
    api.answers["GET /v1/runs/vision/bert/files"] = api.answers["GET /v1/runs/vision/bert/files/archive"] = refused
    done = invoke(api, "tensorboard", "bert", "--print", environment=environment)
    assert (done.exit_code != 0, "no checkpoint folder" in done.stderr) == (True, True)
    assert "is shown" not in done.stderr, "nothing is announced that does not happen"
