"""`kaji ps`: its requests, and its output for people and for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.unit.cli.fake_web_api import GRID, RUNS, FakeWebApi, invoke, printed, view

from kajitori.cli.words.runs import short_duration

STARTED = "2026-11-21T11:55:00Z"


def running(name: str, *command: str, started: str = STARTED, **more: Any) -> dict[str, Any]:
    """Return a run that has run since `started`."""
    return view(name, spec={"args": list(command)}, status={"startedAt": started} | more)


def test_ps_lists_the_users_active_runs() -> None:
    """Each row has the time that the run has run or waited, and its command."""
    long = running("gpt", "python", "train.py", "--lr", "3e-4", "--epochs", "100", "--name", "a b")
    ended = {**RUNS[2], "status": RUNS[2]["status"] | {"startedAt": STARTED, "finishedAt": "2026-11-21T11:55:07Z"}}
    api = FakeWebApi([RUNS[0], long, ended])
    result = invoke(api, "ps")
    assert result.exit_code == 0
    assert printed(result.stdout) == [
        "NAME    STATUS       REASON          MEMBERS   GPUS      TIME   COMMAND",
        "bert    Queued       WaitingForGPU   0/4       32 h100   2h",
        "gpt     Running                      1/1                 5m     python train.py --lr 3e-4 --e…",
        "mnist   Failed (3)   ProgramFailed   0/1                 7s",
    ]
    assert api.calls[0].query == {"owner": ["@me"], "active": ["true"], "limit": ["500"]}
    assert api.calls[0].authorization == "Bearer token-of-the-test"


def test_ps_wide_shows_everything_and_cuts_nothing() -> None:
    memory = {"peakBytes": 3 * 2**29, "limitBytes": 2**31, "rank": 1}
    status = {**RUNS[1]["status"], "memory": memory, "startedAt": STARTED}
    run = {**RUNS[1], "spec": {**RUNS[1]["spec"], "image": "bert:3", "args": ["x" * 50]}, "status": status}
    result = invoke(FakeWebApi([run]), "ps", "-o", "wide")
    assert printed(result.stdout) == [
        "NAME   STATUS    REASON   MEMBERS   GPUS   TIME   AGE         NAMESPACE   OWNER   RESTARTS   "
        "MEMORY PEAK             NODES       IMAGE    COMMAND",
        "gpt    Running            2/2              5m     5 minutes   vision      alice   1/3        "
        "1.5Gi of 2Gi (rank 1)   cpu-[1-2]   bert:3   " + "x" * 50,
    ]


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (90, "bert-cosy-gull   Queued   WaitingForGPU   0/4       32 h100   2h     python train.py --lr…"),
        (80, "bert-cosy-gull   Queued   WaitingForG…   0/4       32 h100   2h     python trai…"),
        (79, "bert-cosy-gull  Queued  WaitingForGPU  0/4      32 h100  2h    python train.py…"),
        (74, "bert-cosy-gull  Queued  WaitingForG…  0/4      32 h100  2h    python trai…"),
        (73, "bert-cosy-gull   Queued   WaitingForGPU   0/4       32 h100   2h"),
        (60, "bert-cosy-gull  Queued  WaitingForG…  0/4      32 h100  2h"),
        (50, "bert-cosy-gull   Queued   WaitingForGPU   0/4       32 h100   2h     python train.py --lr 3e-4"),
    ],
)
def test_ps_cuts_columns_to_fit_a_narrow_terminal(width: int, row: str) -> None:
    """The command is cut first, then the reason; then columns move together, then the command is left out. Names and
    states stay whole. If that is not enough, the terminal wraps the lines, and nothing is lost."""
    run = {**RUNS[0], "name": "bert-cosy-gull"}
    run["spec"] = {**run["spec"], "args": ["python", "train.py", "--lr", "3e-4"]}
    assert printed(invoke(FakeWebApi([run]), "ps", width=width).stdout)[1] == row


def test_ps_fits_a_terminal_of_80_columns() -> None:
    """Names, GPU types and states are as long as in practice."""
    runs = [
        {**RUNS[0], "name": "pytorch-splendid-kittiwake"[:23]},
        running("python-fond-albatross", "python", "train.py", "--config", "x" * 40, restarts=2),
        view("x", "Failed", status={"reason": "ProgramFailed", "exitCode": 137, "message": "killed"}),
        view("y", "Restarting", status={"reason": "NodeOutOfMemory", "startedAt": "2026-11-01T00:00:00Z"}),
    ]
    lines = printed(invoke(FakeWebApi(runs), "ps", "-a", width=80).stdout)
    assert max(map(len, lines)) <= 80


def test_ps_no_trunc_cuts_nothing() -> None:
    result = invoke(FakeWebApi(RUNS[:1]), "ps", "--no-trunc", width=40)
    assert "WaitingForGPU" in result.stdout
    run = running("gpt", "x" * 200)
    assert "x" * 200 in invoke(FakeWebApi([run]), "ps", "--no-trunc", width=40).stdout


@pytest.mark.parametrize(
    ("args", "query"),
    [
        (["-a"], {"owner": ["@me"]}),
        (["--all-users"], {"active": ["true"]}),
        (["-a", "--all-users", "-N", "nlp"], {"namespace": ["nlp"]}),
        (["--filter", "status=running,FAILED"], {"owner": ["@me"], "phase": ["Running", "Failed"]}),
        (
            ["-a", "--filter", "name=be", "--filter", "label=a=b"],
            {"owner": ["@me"], "name": ["be"], "labelSelector": ["a=b"]},
        ),
        (["-a", "--filter", "owner=bob"], {"owner": ["bob"]}),
        (["-a", "--filter", "sweep=true"], {"owner": ["@me"], "sweep": ["true"]}),
    ],
)
def test_ps_passes_filters_to_the_server(args: list[str], query: dict[str, list[str]]) -> None:
    api = FakeWebApi()
    assert invoke(api, "ps", *args).exit_code == 0
    assert {key: value for key, value in api.calls[0].query.items() if key != "limit"} == query


def test_ps_last_includes_ended_runs_and_requests_no_more() -> None:
    api = FakeWebApi()
    invoke(api, "ps", "-n", "3")
    assert api.calls[0].query == {"owner": ["@me"], "limit": ["3"]}


def test_ps_reads_all_pages() -> None:
    api = FakeWebApi(queues={"GET /v1/runs": [{"items": RUNS[:1], "continue": "x"}, {"items": RUNS[1:]}]})
    result = invoke(api, "ps", "-q")
    assert printed(result.stdout) == ["bert", "gpt", "mnist"]
    assert api.calls[1].query["continue"] == ["x"]


def test_ps_names_every_wrong_filter() -> None:
    """They are refused together before a server is asked, each with the nearest known word."""
    api = FakeWebApi()
    result = invoke(api, "ps", "--filter", "status=runing", "--filter", "colour=red")
    assert result.exit_code == 2
    assert "did you mean Running?" in result.stderr
    assert "'colour=red' is not a filter" in result.stderr
    assert api.calls == []


def test_ps_prints_json_yaml_or_names() -> None:
    """JSON and YAML are the API's own documents."""
    api = FakeWebApi(RUNS)
    assert json.loads(invoke(api, "ps", "-o", "json").stdout) == {"items": RUNS}
    assert yaml.safe_load(invoke(api, "ps", "-o", "yaml").stdout) == {"items": RUNS}
    assert printed(invoke(api, "ps", "-o", "name").stdout) == ["bert", "gpt", "mnist"]


def test_ps_counts_the_members_of_a_sweep_that_have_ended() -> None:
    """Its GPUs are those of the members that may run at the same time."""
    result = invoke(FakeWebApi([GRID]), "ps")
    assert printed(result.stdout)[1] == "grid   Running            37/100 ended   16 h100"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (7980, "2h13m"),
        (86400, "1d"),
        (277200, "3d5h"),
    ],
)
def test_short_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    """From an hour on they have the two largest units."""
    assert short_duration(seconds) == text


LABELLED = running("gpt", "python", "train.py", exitCode=3) | {"labels": {"team": "vision", "a\tb": "c"}}
LABELLED["spec"] |= {"ports": [80], "volumes": [{"name": "imagenet", "path": "/d"}], "hostNetwork": True}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{.Names}}", "gpt\n"),
        ("{{ .Name }}:{{.Image}}", "gpt:registry/bert:3\n"),
        ("{{.ID}}\\t{{.Status}}", "vision/gpt Running\n"),
        ("{{.Command}}|{{.RunTime}}|{{.RunningFor}}", "python train.py|5m|2 hours ago\n"),
        ('{{.Label "team"}}/{{.Label "none"}}', "vision/\n"),
        ("{{json .Command}}", '"python train.py"\n'),
        ("{{upper .State}}{{lower .State}}", "RUNNINGrunning\n"),
        ("{{.Ports}} {{.Mounts}} {{.Networks}} {{.ExitCode}}", "80 imagenet host 3\n"),
        ("no field", "no field\n"),
        ("table {{.Names}}\\t{{.RunTime}}", "NAMES   RUN TIME\ngpt     5m\n"),
        ("table {{.Names}}\\t{{.MemoryPeak}}", "NAMES   MEMORY PEAK\ngpt\n"),
    ],
)
def test_format_takes_a_go_template_as_docker_does(template: str, text: str) -> None:
    """Tabs are typed as in docker."""
    result = invoke(FakeWebApi([LABELLED]), "ps", "--format", template)
    assert (result.exit_code, result.stdout.replace("gpt   \n", "gpt\n")) == (0, text)


def test_format_json_is_a_document_a_line() -> None:
    """The names of fields are docker's, so scripts for docker ps work."""
    lines = invoke(FakeWebApi(RUNS), "ps", "--format", "json").stdout.splitlines()
    assert [json.loads(line)["Names"] for line in lines] == ["bert", "gpt", "mnist"]
    assert invoke(FakeWebApi(RUNS), "ps", "--format", "{{json .}}").stdout.splitlines() == lines
    docker = {"ID", "Image", "Command", "CreatedAt", "RunningFor", "Ports", "State", "Status", "Names", "Labels"}
    assert docker | {"Mounts", "Networks"} <= json.loads(lines[0]).keys()


def test_format_names_every_fault_before_a_row_is_printed() -> None:
    result = invoke(FakeWebApi(RUNS), "ps", "--format", "{{.Name}} {{.Nmaes}} {{if .x}}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no field .Nmaes" in result.stderr and "did you mean Names?" in result.stderr
    assert "{{if .x}} is not understood" in result.stderr


def test_format_table_without_columns_is_the_default_table() -> None:
    assert invoke(FakeWebApi(RUNS), "ps", "--format", "table").stdout == invoke(FakeWebApi(RUNS), "ps").stdout
    both = invoke(FakeWebApi(RUNS), "ps", "--format", "json", "-o", "yaml")
    assert both.exit_code == 2 and "--format and -o exclude each other" in both.stderr


def test_an_empty_list_says_that_a_role_is_missing() -> None:
    """A person whom nobody has given a role learns what to tell the operators; programs get the empty list alone."""
    who = {"user": "oidc:ben", "groups": ["nlp", "system:authenticated"], "namespaces": [], "operator": False}
    api = FakeWebApi([], answers={"GET /v1/whoami": who})
    assert invoke(api, "ps").stderr == (
        "note: you have no role in any namespace yet, so you see no runs. Ask the operators for one, and tell them: "
        "you are oidc:ben, and your groups are nlp\n"
    )
    for words in (("-q",), ("-o", "json"), ("--format", "{{.Name}}")):
        assert invoke(api, "ps", *words).stderr == ""
    api.answers["GET /v1/whoami"] = who | {"namespaces": [{"namespace": "vision", "role": "viewer", "logs": True}]}
    assert invoke(api, "ps").stderr == "" and api.calls[-1].query == {"namespace": ["vision"]}
    assert invoke(api, "ps", "-N", "fresh").stderr == "" and api.calls[-1].query == {"namespace": ["fresh"]}
