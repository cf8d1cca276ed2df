"""The Python client: words, typed answers and errors."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.cli.fake_web_api import GRID, RUNS, TOKEN, URL, FakeWebApi, ndjson, problem, view

from kajitori import AsyncClient, Client
from kajitori.api.views import queue, runs, telemetry
from kajitori.client import models
from kajitori.client.target import Target
from kajitori.client.web_api import Api
from kajitori.core.gang.sweeps.results import MemberResult
from kajitori.errors import InvalidInput, NotFound, Refused, Unsupported, WrongState


def client_of(api: FakeWebApi, namespace: str = "vision") -> Client:
    return Client.of(Api(Target(URL, TOKEN, namespace), transport=api, sleep=api.naps.append))


def submitted(*args: Any, **options: Any) -> dict[str, Any]:
    """Return the body of the request that `run` sends."""
    api = FakeWebApi(answers={"POST /v1/runs": view("x", "Queued")})
    client_of(api).run(*args, **options)
    return dict(api.calls_to("POST")[0].body)


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, kajitori\n"
        "found = [name for name in ('kajitori.client', 'msgspec', 'click', 'pydantic') if name in sys.modules]\n"
        "assert not found, found\nassert 'Client' in dir(kajitori)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_keywords_become_the_spec_that_options_become() -> None:
    body = submitted(
        "registry/bert:3",
        "train.py --lr 3e-4",
        name="bert",
        gpus="h100:8",
        cpus=2,
        memory="64g",
        replicas=4,
        env={"LR": "1"},
        volumes=["imagenet:/data:ro"],
        labels={"team": "vision"},
        checkpoint="/ckpt",
        restarts=3,
        whole_node=True,
    )
    spec = body["spec"]
    assert (body["name"], body["namespace"], body["labels"]) == ("bert", "vision", {"team": "vision"})
    assert spec["args"] == ["train.py", "--lr", "3e-4"]
    assert (spec["resources"]["gpu"], spec["resources"]["gpuType"], spec["resources"]["wholeNode"]) == (8, "h100", True)
    assert (spec["env"], spec["replicas"], spec["restarts"]) == ({"LR": "1"}, 4, 3)
    assert spec["volumes"] == [{"name": "imagenet", "path": "/data", "readOnly": True}]


@pytest.mark.parametrize("after", ["prepare", ["prepare"]])
def test_a_run_is_started_after_others_by_name(after: str | list[str]) -> None:
    assert submitted("python:3.11", after=after)["spec"]["after"] == [{"run": "prepare"}]


def test_a_run_is_started_after_a_run_that_the_client_returned() -> None:
    api = FakeWebApi(answers={"POST /v1/runs": view("prepare", "Queued")})
    client = client_of(api)
    prepare = client.run("python:3.11")
    client.run("python:3.11", after=[prepare, "fetch:ended"])
    others = [{"run": "prepare"}, {"run": "fetch", "condition": "ended"}]
    assert api.calls_to("POST")[-1].body["spec"]["after"] == others


def test_what_a_run_cannot_wait_for_is_refused() -> None:
    """The error names both faults: a value that is not a run, and a run of another namespace."""
    api = FakeWebApi(answers={"POST /v1/runs": view("prepare", "Queued", namespace="other")})
    client = client_of(api)
    elsewhere = client.run("python:3.11", namespace="other")
    with pytest.raises(InvalidInput) as refused:
        client.run("python:3.11", after=[5, elsewhere, None])  # type: ignore[list-item]
    assert [(fault.field, fault.message) for fault in refused.value.faults] == [
        ("after", "int is neither a name nor a run"),
        ("after", "prepare is a run of namespace other, and this one is of vision"),
        ("after", "NoneType is neither a name nor a run"),
    ]
    with pytest.raises(InvalidInput, match="pass names"):
        client.run("python:3.11", after=5)  # type: ignore[arg-type]
    client.run("python:3.11", after=elsewhere, namespace="other")
    assert api.calls_to("POST")[-1].body["spec"]["after"] == [{"run": "prepare"}]


def test_faults_name_keywords() -> None:
    """Faults found here name keyword arguments, and so do their hints and the server's faults."""
    with pytest.raises(InvalidInput) as caught:
        submitted("python:3.11", cpus="many", shm_size="1x")
    assert {fault.field for fault in caught.value.faults} == {"cpus", "shm_size"}
    fault = {"field": "spec.resources.gpuType", "message": "no such type", "hint": "say --gpu-type h100"}
    refused = problem(422, "Refused", "refused", faults=[fault])
    api = FakeWebApi(answers={"POST /v1/runs": refused})
    with pytest.raises(Refused) as refusal:
        client_of(api).run("python:3.11", gpus=1, gpu_type="h1000")
    assert refusal.value.faults[0].field.startswith("gpu_type")
    assert refusal.value.faults[0].hint == "say gpu_type='h100'"


def test_a_missing_image_is_named_as_an_argument() -> None:
    with pytest.raises(InvalidInput) as caught:
        submitted()
    [fault] = caught.value.faults
    assert (fault.field, fault.hint) == ("image", 'name one, such as "python:3.11"')


def test_a_client_shows_its_server_and_namespace() -> None:
    """It is the last value of a notebook's first cell."""
    assert repr(client_of(FakeWebApi())) == f"<Client {URL}, namespace vision>"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("echo a; echo b", ";"),
        ("python train.py > log", ">"),
        ("echo $KAJI_RANK", "$KAJI_RANK"),
        ("python train.py 'a;b", "close the quotes"),
    ],
)
def test_a_text_that_needs_a_shell_is_refused(command: str, found: str) -> None:
    """No shell would run it. Quotes, a list and Kubernetes' own $(NAME) say that the program gets it."""
    with pytest.raises(InvalidInput) as caught:
        submitted("python:3.11", command)
    assert found in str(caught.value) and caught.value.faults[0].field == "command"
    quoted = """python -c 'import a; b' --name "a $b" --rank $(KAJI_RANK)"""
    words = ["python", "-c", "import a; b", "--name", "a $b", "--rank", "$(KAJI_RANK)"]
    assert submitted("python:3.11", quoted)["spec"]["args"] == words
    assert submitted("python:3.11", ["echo", "a; b"])["spec"]["args"] == ["echo", "a; b"]


def test_the_hint_of_an_error_stands_below_its_traceback() -> None:
    with pytest.raises(NotFound) as caught:
        client_of(FakeWebApi()).get("bert")
    assert caught.value.__notes__ == [f"Hint: {caught.value.hint}"]


def test_an_unknown_keyword_is_a_type_error() -> None:
    """It names the most similar one."""
    with pytest.raises(TypeError, match=r"run\(\) got an unexpected keyword argument 'gpu'; did you mean gpus\?"):
        submitted("python:3.11", gpu=3)
    with pytest.raises(TypeError, match=r"'banana'$"):
        submitted("python:3.11", banana=3)


def test_a_folder_of_code_is_packed_and_uploaded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")

    def found(call: Any) -> Any:
        return 200, {"digest": call.path.rpartition("/")[2]}

    api = FakeWebApi(answers={"POST /v1/runs": view("x", "Queued")})
    original = api.answer
    api.answer = lambda call: found(call) if call.path.startswith("/v1/code/") else original(call)  # type: ignore[method-assign]
    client_of(api).run("python:3.11", ["python", "train.py"], code=tmp_path)
    assert api.calls_to("POST")[0].body["spec"]["code"]["digest"].startswith("sha256:")


def test_runs_are_typed() -> None:
    run = client_of(FakeWebApi(runs=RUNS)).get("mnist")
    assert (run.phase, run.reason, run.exit_code, run.is_final) == ("Failed", "ProgramFailed", 3, True)
    assert repr(run) == "<Run vision/mnist: Failed (ProgramFailed)>"
    with pytest.raises(NotFound):
        client_of(FakeWebApi(runs=RUNS)).get("nothing")


def test_waiting_prints_each_change_once() -> None:
    states = [view("bert", "Queued", status={"reason": "WaitingForGPU", "message": "needs 8"})] * 2
    states += [view("bert", "Running", status={"members": {"total": 2, "running": 2}}), view("bert", "Succeeded")]
    lines: list[str] = []
    api = FakeWebApi(runs=[states[0]], queues={"GET /v1/runs/vision/bert": list(states)})
    run = client_of(api).get("bert").wait(60, progress=lines.append)
    assert run.exit_code == 0
    assert lines == [
        "bert: Queued (WaitingForGPU): needs 8",
        "bert: Running, 2 of 2 members run",
        "bert: Succeeded",
    ]


def test_waiting_ends_with_its_timeout() -> None:
    api = FakeWebApi(runs=RUNS)
    with pytest.raises(TimeoutError, match="bert is still Queued"):
        client_of(api).wait("bert", timeout=0)


def test_a_run_with_the_same_name_is_not_taken_for_it() -> None:
    api = FakeWebApi(runs=[view("bert")])
    run = client_of(api).get("bert")
    api.runs = [view("bert", uid="another")]
    with pytest.raises(NotFound, match="was deleted"):
        run.refresh()


def test_a_run_that_has_not_ended_is_removed_by_force_only() -> None:
    api = FakeWebApi(runs=RUNS)
    client = client_of(api)
    with pytest.raises(WrongState, match="gpt is Running"):
        client.remove("gpt")
    client.remove("gpt", force=True)
    assert api.calls_to("DELETE")[0].query["grace"] == ["0s"]


def test_results_and_stops() -> None:
    rows = [{"index": 1, "state": "Succeeded", "result": {"loss": 0.5}, "added": "by a newer server"}]
    path = "/v1/runs/vision/grid"
    api = FakeWebApi(runs=[GRID], answers={f"GET {path}/results": {"items": rows}})
    run = client_of(api).get("grid")
    assert [(row.index, row.result) for row in run.results(best=True)] == [(1, {"loss": 0.5})]
    run.stop("5m")
    run.kill()
    assert [call.body for call in api.calls_to("POST", "/stop")] == [{"grace": "5m"}, {"grace": "0s"}]


def test_programs_of_a_run_get_a_signal() -> None:
    """By its name, with or without SIG, or as Python knows it. A program that did not get it is an error."""
    api = FakeWebApi(runs=RUNS)
    path = "POST /v1/runs/vision/bert/signal-programs"
    items = [{"rank": 0, "pid": 1, "ignored": True}, {"rank": 3, "pid": 7}]
    api.answers[path] = {"signal": "USR1", "items": items}
    run = client_of(api).get("bert")
    first, other = run.signal(signal.SIGUSR1)
    assert (first.rank, first.ignored, other.rank, other.pid, other.ignored) == (0, True, 3, 7, False)
    run.signal("sigusr1", ranks=[3, 0, 1])
    assert [call.body for call in api.calls_to("POST")] == [{"signal": "USR1"}, {"signal": "USR1", "ranks": "0-1,3"}]
    api.answers[path] = {"signal": "USR1", "items": [{"rank": 3, "error": "it has no shell"}]}
    with pytest.raises(WrongState, match="rank 3 of bert did not get USR1: it has no shell"):
        run.signal("USR1")


def test_figures_of_a_node_have_the_times_of_their_values() -> None:
    """The server sends the times once for all series. A name is quoted, so that it stays one part of the path."""
    at = ["2026-11-21T10:00:00Z", "2026-11-21T10:01:00Z"]
    series = [
        {"name": "cpu.used", "unit": "cores", "kind": "counter", "description": "…", "values": [1.5, None]},
        {"name": "gpu.used", "unit": "", "kind": "gauge", "description": "…", "gpu": 3, "values": [0.5, 1.0]},
    ]
    api = FakeWebApi(answers={"GET /v1/nodes/h100-1/metrics": {"node": "h100-1", "at": at, "series": series}})
    processors, gpu = client_of(api).node_metrics("h100-1", "cpu.", "gpu.used", since="2h")
    assert (processors.name, processors.gpu, processors.at, processors.values) == ("cpu.used", None, at, [1.5, None])
    assert (gpu.gpu, gpu.at, gpu.values) == (3, at, [0.5, 1.0])
    assert api.calls[-1].query == {"since": ["2h"], "name": ["cpu.", "gpu.used"]}
    with pytest.raises(NotFound, match="/v1/nodes/a%2Fb/metrics"):
        client_of(api).node_metrics("a/b")


def test_a_run_is_changed_while_it_runs() -> None:
    api = FakeWebApi(RUNS)
    client = client_of(api)
    assert client.update("bert", time_limit="7d", restarts=20).name == "bert"
    assert [call.body for call in api.calls_to("PATCH")] == [{"timeLimit": "7d", "restarts": 20}]
    with pytest.raises(InvalidInput, match="image: can't be changed while a run waits or runs"):
        client.update("bert", image="other")


def test_answers_of_a_server_of_another_version_are_read_or_named() -> None:
    """Words and fields that are new are kept or ignored, and fields that are missing have defaults. An answer that
    cannot be read is an error with a way out."""
    newer = view("bert", "Hibernating", status={"reason": "SnowFell", "snow": [1]}, added={"deep": None})
    older = {"name": "old", "namespace": "vision", "uid": "u"}
    broken = {"name": "broken", "namespace": ["vision"], "uid": "u"}
    client = client_of(FakeWebApi(runs=[newer, older]))
    run = client.get("bert")
    assert (run.phase, run.reason, run.is_final, run.exit_code) == ("Hibernating", "SnowFell", False, None)
    old = client.get("old")
    assert (old.phase, old.reason, old.state.labels, old.is_final) == ("Queued", "", {}, False)
    with pytest.raises(Unsupported, match="not a RunState as this client knows it") as caught:
        client_of(FakeWebApi(answers={"GET /v1/runs": {"items": [broken]}})).list()
    assert caught.value.hint == "the server may have another version: kaji version shows both"


def test_exec_returns_what_a_command_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a thread with a running event loop, as a notebook's is."""

    async def output_of(target: Target, run: Any, command: Sequence[str], rank: int) -> models.CommandOutput:
        assert (run["name"], list(command), rank) == ("gpt", ["echo", "a b"], 1)
        return models.CommandOutput(exit_code=3, stdout=b"a b\n", stderr=b"oops")

    monkeypatch.setattr("kajitori.client.members.streams.output_of", output_of)
    client = client_of(FakeWebApi(runs=RUNS))

    async def in_a_notebook() -> Any:
        return client.exec("gpt", "echo 'a b'", rank=1)

    done = asyncio.run(in_a_notebook())
    assert (done.exit_code, done.text, done.stderr) == (3, "a b\n", b"oops")


def test_async_methods_are_those_of_the_client() -> None:
    public = {name for name in vars(Client) if not name.startswith("_")} - {"api", "of", "target", "close"}
    assert public - set(vars(AsyncClient)) <= {"submit", "upload"}


async def test_the_async_client_waits_and_streams() -> None:
    states = [view("bert", "Running"), view("bert", "Succeeded")]
    event = {"time": "2026-11-21T10:00:00Z", "reason": "Started", "object": "Run/bert"}
    api = FakeWebApi(
        runs=[states[0]],
        queues={"GET /v1/runs/vision/bert": list(states)},
        answers={"GET /v1/runs/vision/bert/events": ndjson([event] * 3)},
    )
    async with AsyncClient.of(client_of(api)) as client:
        run, told = await client.get("bert"), list[str]()
        assert (await asyncio.wait_for(run.wait(progress=told.append), 20)).exit_code == 0
        assert told == ["bert: Running", "bert: Succeeded"]
        assert [found.reason async for found in run.events()] == ["Started"] * 3
        with pytest.raises(NotFound):
            _ = [line async for line in client.logs("nothing")]


PAIRS: Sequence[tuple[type[msgspec.Struct], type[msgspec.Struct]]] = (
    (models.RunState, runs.RunView),
    (models.Member, runs.MemberView),
    (models.Result, MemberResult),
    (models.Event, runs.EventView),
    (models.Extreme, telemetry.ExtremeView),
    (models.Band, telemetry.BandPoint),
    (models.Series, telemetry.BandSeries),
    (models.Explanation, queue.ExplanationView),
    (models.Outlook, queue.WhatIf),
)


@pytest.mark.parametrize(("model", "answer"), PAIRS, ids=lambda kind: kind.__name__)
def test_models_have_the_fields_of_the_servers_views(model: type[msgspec.Struct], answer: type[msgspec.Struct]) -> None:
    """Each field of a model is in the view under the same name."""
    sent = {field.encode_name for field in msgspec.structs.fields(answer)} | {"document"}
    assert {field.encode_name for field in msgspec.structs.fields(model)} <= sent


def test_a_list_warns_a_person_without_a_role() -> None:
    """Once the person has a role, an empty list costs no second request."""
    who: dict[str, Any] = {"user": "oidc:ben", "groups": [], "namespaces": [], "operator": False}
    api = FakeWebApi([], answers={"GET /v1/whoami": who})
    client = client_of(api)
    with pytest.warns(UserWarning, match="no role in any namespace yet.*you are oidc:ben$"):
        assert not client.list()
    who["namespaces"] = [{"namespace": "vision", "role": "user", "logs": True}]
    for _ in range(3):
        assert not client.list()
    assert len(api.calls_to("GET", "/whoami")) == 2
