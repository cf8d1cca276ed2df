"""`kaji report`: tables of one run and of several, and the questions that it asks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, printed, problem

from kajitori.core.usage.lost_time.slices import Category


def part(category: str, hours: float, members: int = 2, gpus: int = 16) -> dict[str, Any]:
    seconds = round(hours * 3600)
    return {"category": category, "meaning": Category(category).meaning, "seconds": seconds} | {
        "gpuSeconds": seconds * gpus,
        "memberSeconds": seconds * members,
    }


RUN: dict[str, Any] = {
    "run": "gpt",
    "categories": [part("productive", 1.5), part("lost", 0.5), part("idle", 0), part("queued", 2, 0, 0)],
    "causes": [{"cause": "NodeLost", "times": 2, "gpuSeconds": 28800, "memberSeconds": 3600}],
    "words": ["37.5% of its time was productive: 1h30m of 4h since it was submitted."],
}


def item(key: str, times: int, *parts: dict[str, Any]) -> dict[str, Any]:
    sums = {name: sum(each[name] for each in parts) for name in ("gpuSeconds", "memberSeconds")}
    return {"key": key, "times": times, "categories": list(parts)} | sums


def report(by: str, *items: dict[str, Any], gpus: int = 16) -> dict[str, Any]:
    total = item("", 3, part("productive", 6, gpus=gpus), part("lost", 2, gpus=gpus), part("unclear", 2, gpus=gpus))
    times = {"since": "2026-10-22T00:00:00Z", "until": "2026-11-21T12:00:00Z"}
    return {"by": by, "ratio": 0.6, "total": total, "items": list(items)} | times


def test_a_run_is_told_by_category_and_cause() -> None:
    """Categories that never were are left out."""
    api = FakeWebApi(RUNS, {"GET /v1/runs/vision/gpt/report": RUN})
    result = invoke(api, "report", "gpt")
    assert printed(result.stdout) == [
        "TIME         LASTED   SHARE   GPU HOURS   MEANING",
        "productive    1h30m   37.5%       24.00   the program ran, and its work was kept",
        "lost            30m   12.5%        8.00   work since the last checkpoint, done again",
        "queued           2h   50.0%        0.00   without nodes",
        "",
        "CAUSE      TIMES   GPU HOURS",
        "NodeLost       2        8.00",
    ]
    assert printed(result.stderr) == RUN["words"]


def test_the_cluster_is_told_by_cause() -> None:
    """With the last 30 days unless another time is named."""
    cost = item("NodeLost", 3, part("lost", 2), part("starting", 0.5))
    api = FakeWebApi(RUNS, {"GET /v1/report": report("cause", cost)})
    result = invoke(api, "report", "--all-users")
    assert api.calls[-1].query == {"by": ["cause"], "since": ["2026-10-22T12:00:00Z"], "cluster": ["true"]}
    assert printed(result.stdout) == [
        "CAUSE      TIMES   GPU HOURS   SHARE    LOST   STARTING",
        "NodeLost       3       40.00   25.0%   32.00       8.00",
    ]
    assert "60.0% of 160.00 GPU hours were productive" in result.stderr
    assert "32.00 of them are unclear" in result.stderr


def test_a_small_share_is_not_shown_as_zero() -> None:
    shown = report("cause", item("NodeLost", 3, part("lost", 2)))
    shown["total"]["categories"][-1] = part("unclear", 0.001, gpus=1)
    api = FakeWebApi(RUNS, {"GET /v1/report": shown})
    assert "<0.01 of them are unclear" in invoke(api, "report", "--all-users").stderr


def test_teams_are_told_with_their_total() -> None:
    """In hours of members where nobody has GPUs."""
    rows = [item(team, 1, part("productive", 3, gpus=0), part("lost", 1, gpus=0)) for team in ("speech", "vision")]
    api = FakeWebApi(RUNS, {"GET /v1/report": report("team", *rows, gpus=0)})
    assert printed(invoke(api, "report", "--by", "team", "--since", "7d").stdout) == [
        "TEAM     TIMES   MEMBER HOURS    SHARE   PRODUCTIVE   LOST   UNCLEAR",
        "speech       1           8.00    40.0%         6.00   2.00      0.00",
        "vision       1           8.00    40.0%         6.00   2.00      0.00",
        "total        3          20.00   100.0%        12.00   4.00      4.00",
    ]
    csv = invoke(api, "report", "--by", "team", "--owner", "ana", "-o", "csv").stdout.splitlines()
    assert api.calls[-1].query["owner"] == ["ana"]
    assert csv[:2] == ["team,times,category,gpuSeconds,memberSeconds", "speech,1,productive,0,21600"]


def test_nothing_to_report_is_said() -> None:
    empty = report("cause") | {"total": item("", 0)}
    result = invoke(FakeWebApi(RUNS, {"GET /v1/report": empty}), "report")
    assert (result.stdout, result.stderr.startswith("no run had nodes from 2026-10-22")) == ("", True)


@pytest.mark.parametrize("option", ["--all-users", "--by=team", "--since=7d", "--owner=ana", "--output=csv"])
def test_options_for_several_runs_are_refused_with_a_run(option: str) -> None:
    result = invoke(FakeWebApi(RUNS), "report", "gpt", option)
    assert (result.exit_code, "about several runs" in result.stderr) == (2, True)


def test_a_refusal_names_the_way_out() -> None:
    refused = problem(403, "Forbidden", "ana may not list the runs of all namespaces", hint="ask for one: -N TEAM")
    result = invoke(FakeWebApi(RUNS, {"GET /v1/report": refused}), "report", "--all-users")
    assert (result.exit_code != 0, "-N TEAM" in result.stderr) == (True, True)
