"""What `kaji ps` asks for, and what it prints for people and for programs."""

from __future__ import annotations

import json

import pytest
import yaml
from tests.unit.cli.fake_web_api import GRID, RUNS, FakeWebApi, invoke, printed


def test_ps_is_a_table() -> None:
    """Mine and active by default, in the words that people know."""
    api = FakeWebApi(RUNS)
    result = invoke(api, "ps")
    assert result.exit_code == 0
    assert printed(result.stdout) == [
        "NAME    STATUS       REASON          MEMBERS   GPUS      AGE",
        "bert    Queued       WaitingForGPU   0/4       32 h100   2 hours",
        "gpt     Running                      2/2                 5 minutes",
        "mnist   Failed (3)   ProgramFailed   0/1                 2 hours",
    ]
    assert api.calls[0].query == {"owner": ["@me"], "active": ["true"], "limit": ["500"]}
    assert api.calls[0].authorization == "Bearer token-of-the-test"


def test_ps_wide() -> None:
    """Wide tells who, where and how often."""
    memory = {"peakBytes": 3 * 2**29, "limitBytes": 2**31, "rank": 1}
    status = {**RUNS[1]["status"], "memory": memory}
    run = {**RUNS[1], "spec": {**RUNS[1]["spec"], "image": "bert:3"}, "status": status}
    result = invoke(FakeWebApi([run]), "ps", "-o", "wide")
    assert printed(result.stdout) == [
        "NAME   STATUS    REASON   MEMBERS   GPUS   AGE         NAMESPACE   OWNER   RESTARTS   MEMORY PEAK             "
        "NODES       IMAGE",
        "gpt    Running            2/2              5 minutes   vision      alice   1/3        1.5Gi of 2Gi (rank 1)  "
        " cpu-[1-2]   bert:3",
    ]


def test_ps_on_a_narrow_terminal_cuts_the_reason() -> None:
    """Names and states stay whole where there is little room. Where even that is too little, the terminal folds the
    lines, and nothing is lost."""
    cut = "bert   Queued   WaitingForG…   0/4       32 h100   2 hours"
    assert printed(invoke(FakeWebApi(RUNS[:1]), "ps", width=len(cut)).stdout)[1] == cut
    whole = cut.replace("WaitingForG…", "WaitingForGPU")
    assert printed(invoke(FakeWebApi(RUNS[:1]), "ps", width=len(cut) - 1).stdout)[1] == whole


def test_ps_no_trunc_cuts_nothing() -> None:
    """--no-trunc shows every word however narrow the terminal is."""
    result = invoke(FakeWebApi(RUNS[:1]), "ps", "--no-trunc", width=40)
    assert "WaitingForGPU" in result.stdout
    assert "2 hours" in result.stdout


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
    ],
)
def test_ps_asks_for_what_was_meant(args: list[str], query: dict[str, list[str]]) -> None:
    """Filters are the server's work."""
    api = FakeWebApi()
    assert invoke(api, "ps", *args).exit_code == 0
    assert {key: value for key, value in api.calls[0].query.items() if key != "limit"} == query


def test_ps_last_limits() -> None:
    """-n shows ended runs too, and asks for no more than is shown."""
    api = FakeWebApi()
    invoke(api, "ps", "-n", "3")
    assert api.calls[0].query == {"owner": ["@me"], "limit": ["3"]}


def test_ps_reads_all_pages() -> None:
    """A list that comes in pages is shown whole."""
    api = FakeWebApi(queues={"GET /v1/runs": [{"items": RUNS[:1], "continue": "x"}, {"items": RUNS[1:]}]})
    result = invoke(api, "ps", "-q")
    assert printed(result.stdout) == ["bert", "gpt", "mnist"]
    assert api.calls[1].query["continue"] == ["x"]


def test_ps_names_every_wrong_filter() -> None:
    """Wrong filters are refused together, with the nearest known word, before a server is asked."""
    api = FakeWebApi()
    result = invoke(api, "ps", "--filter", "status=runing", "--filter", "colour=red")
    assert result.exit_code == 2
    assert "did you mean Running?" in result.stderr
    assert "'colour=red' is no filter" in result.stderr
    assert api.calls == []


def test_ps_for_programs() -> None:
    """JSON and YAML are the API's own documents; names alone with -o name."""
    api = FakeWebApi(RUNS)
    assert json.loads(invoke(api, "ps", "-o", "json").stdout) == {"items": RUNS}
    assert yaml.safe_load(invoke(api, "ps", "-o", "yaml").stdout) == {"items": RUNS}
    assert printed(invoke(api, "ps", "-o", "name").stdout) == ["bert", "gpt", "mnist"]


def test_ps_counts_the_members_of_a_sweep_that_have_ended() -> None:
    """And the GPUs of those that may be there at once."""
    result = invoke(FakeWebApi([GRID]), "ps")
    assert printed(result.stdout)[1] == "grid   Running            37/100 ended   16 h100   2 hours"
