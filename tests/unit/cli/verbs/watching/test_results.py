"""The output of `kaji results` for the members of a sweep."""

from __future__ import annotations

import csv
import io
import json

from tests.unit.cli.fake_web_api import GRID, FakeWebApi, invoke, printed

ROWS = [
    {
        "index": 0,
        "state": "Succeeded",
        "attempt": 1,
        "exitCode": 0,
        "node": "gpu-1",
        "startedAt": "2026-11-21T11:00:00Z",
        "endedAt": "2026-11-21T11:01:30Z",
        "peakBytes": 3 << 30,
        "result": {"loss": 0.5, "note": "a,b"},
    },
    {"index": 1, "state": "Failed", "restarts": 2, "exitCode": 7, "reason": "ProgramFailed", "message": "exit code 7"},
    {"index": 2, "state": "Running", "startedAt": "2026-11-21T11:59:50Z"},
    {"index": 3, "state": "Succeeded", "exitCode": 0, "result": "fine"},
    {"index": 4, "state": "Waiting"},
]


def results_of(*args: str) -> str:
    api = FakeWebApi([GRID])
    pages = [{"items": ROWS[:2], "continue": "x"}, {"items": ROWS[2:], "incomplete": "no store"}]
    api.queues["GET /v1/runs/vision/grid/results"] = [(200, page) for page in pages]
    result = invoke(api, "results", "grid", *args)
    assert result.exit_code == 0
    assert "some details are missing: no store" in result.stderr
    assert [call.query.get("continue") for call in api.calls_to("GET", "/results")] == [None, ["x"]]
    return result.stdout


def test_results_are_a_table_with_all_pages() -> None:
    """Each row has the member's state, its time, and its result or the reason of its failure."""
    assert printed(results_of()) == [
        "INDEX   STATE       EXIT   RESTARTS    TIME   RESULT",
        "    0   Succeeded      0          0   1m30s   loss=0.5 note=a,b",
        "    1   Failed         7          2           ProgramFailed: exit code 7",
        "    2   Running                   0     10s",
        "    3   Succeeded      0          0           fine",
        "    4   Waiting                   0",
    ]
    wide = printed(results_of("-o", "wide"))
    assert "MEMORY" in wide[0]
    assert "3Gi" in wide[1]
    assert "gpu-1" in wide[1]


def test_results_are_available_as_csv_and_json() -> None:
    """CSV has a column for each key of the results."""
    rows = list(csv.DictReader(io.StringIO(results_of("-o", "csv"))))
    assert [row["index"] for row in rows] == ["0", "1", "2", "3", "4"]
    first = rows[0]
    assert (first["result.loss"], first["result.note"], first["seconds"], first["result"]) == ("0.5", "a,b", "90", "")
    assert (rows[1]["restarts"], rows[1]["message"], rows[3]["result"]) == ("2", "exit code 7", "fine")
    assert json.loads(results_of("-o", "json"))["items"] == ROWS


def test_results_can_be_filtered_by_state() -> None:
    api = FakeWebApi([GRID])
    api.answers["GET /v1/runs/vision/grid/results"] = {"items": []}
    assert invoke(api, "results", "grid", "--state", "failed", "--state", "NOTRUN").exit_code == 0
    assert api.calls_to("GET", "/results")[0].query["state"] == ["Failed", "NotRun"]
    assert invoke(api, "results", "grid", "--state", "lost").exit_code == 2


def test_the_best_results_come_with_the_value_that_orders_them() -> None:
    """No more pages are read than needed."""
    api = FakeWebApi([GRID])
    page = {"items": ROWS[:1], "continue": "x", "by": "loss", "order": "lowest", "names": ["loss"]}
    api.answers["GET /v1/runs/vision/grid/results"] = page
    result = invoke(api, "results", "grid", "--best", "1")
    assert (result.exit_code, len(printed(result.stdout))) == (0, 2)
    assert "the lowest loss first" in result.stderr
    (call,) = api.calls_to("GET", "/results")
    assert (call.query["best"], call.query["limit"]) == (["true"], ["1"])
    assert "by" not in call.query


def test_the_value_that_orders_results_can_be_chosen() -> None:
    api = FakeWebApi([GRID])
    api.answers["GET /v1/runs/vision/grid/results"] = {"items": [], "names": ["lr", "x"]}
    result = invoke(api, "results", "grid", "--best", "3")
    assert "choose one: --by lr or --by x" in result.stderr
    assert invoke(api, "results", "grid", "--best", "3", "--by", "x", "--order", "highest").exit_code == 0
    assert api.calls_to("GET", "/results")[-1].query["by"] == ["x"]
    assert invoke(api, "results", "grid", "--by", "x").exit_code == 2
    assert invoke(api, "results", "grid", "--best", "3", "--state", "failed").exit_code == 2
