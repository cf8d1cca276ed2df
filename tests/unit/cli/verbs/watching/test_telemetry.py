"""The output of `kaji stats` and `kaji metrics`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, ndjson, printed, view

from kajitori.cli.words.telemetry import value_words

RUN = "GET /v1/runs/vision/gpt"


def ranks(*more: dict[str, Any]) -> dict[str, Any]:
    values = {"cpu.used": 1.5, "memory.used": 2**30, "memory.limit": 2**32, "train.step": 1234.0, "output.age": 3.0}
    gpus = [{"device": "A", "values": {"gpu.used": 97.0}}, {"device": "B", "values": {"gpu.used": 3.0}}]
    first = {"rank": 0, "node": "g1", "values": values, "gpus": gpus, "at": "2026-11-21T12:00:00Z", "live": True}
    rows = [first, *more]
    known = {"run": "gpt", "namespace": "vision", "attempt": 1, "at": "2026-11-21T12:00:00Z"}
    return known | {"ranks": rows, "total": len(rows)}


def test_stats_have_a_row_for_each_rank() -> None:
    """Columns without any value are left out. GPUs that differ are shown as a range."""
    old = {"rank": 1, "node": "g2", "values": {"cpu.used": 0.1, "output.age": 700.0}, "at": "2026-11-21T11:59:00Z"}
    api = FakeWebApi(RUNS, {f"{RUN}/stats": ranks(old)})
    result = invoke(api, "stats", "--no-stream", "gpt")
    assert printed(result.stdout) == [
        "RANK   NODE   CPU %   MEM / LIMIT   MEM %      GPU %   STEP   SILENT",
        "   0   g1      150%     1Gi / 4Gi     25%   3% – 97%   1234",
        "   1   g2       10%                                             700s",
    ]
    assert printed(result.stderr) == [
        "1 rows are means of the last minute: their nodes did not answer, or were not asked."
    ]


@pytest.mark.parametrize("options", [("--no-stream",), ()])
def test_stats_of_a_run_that_has_ended_say_so(options: tuple[str, ...]) -> None:
    """With --no-stream they said that no member reports yet."""
    api = FakeWebApi([view("bert", "Failed")])
    api.answers["GET /v1/runs/vision/bert/stats"] = {"ranks": [], "total": 0}
    api.answers["GET /v1/runs/vision/bert/stats/watch"] = []
    done = invoke(api, "stats", *options, "bert")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "bert has ended; the past: kaji metrics bert\n"


def test_stats_stream_until_the_run_ends() -> None:
    api = FakeWebApi(RUNS, {f"{RUN}/stats/watch": ndjson([ranks(), ranks()])})
    result = invoke(api, "stats", "--rank", "0", "gpt")
    assert [line.split()[0] for line in printed(result.stdout)] == ["RANK", "0", "RANK", "0"]
    assert "gpt has ended" in result.stderr
    assert api.calls[-1].query == {"rank": ["0"], "limit": ["64"]}


def point(at: str, p50: float, **more: Any) -> dict[str, Any]:
    ends = {"min": {"value": p50 - 90, "rank": 77, "gpu": 1}, "max": {"value": p50 + 2, "rank": 4, "gpu": 0}}
    return {"at": at, "attempt": 1, "count": 512, "p10": p50 - 1, "p50": p50, "p90": p50 + 1} | ends | more


def bands() -> dict[str, Any]:
    points = [point(f"2026-11-21T12:0{minute}:00Z", 90.0 + minute) for minute in range(5)]
    series = {"name": "gpu.used", "unit": "%", "kind": "gauge", "description": "Share of time", "points": points}
    other = series | {"name": "gpu.xid", "unit": "count", "points": points[:1]}
    return {"run": "gpt", "namespace": "vision", "intervalSeconds": 60, "ranks": 64, "series": [series, other]}


def test_metrics_plot_the_bands_and_name_the_extremes() -> None:
    api = FakeWebApi(RUNS, {f"{RUN}/metrics": bands()})
    result = invoke(api, "metrics", "gpt")
    lines = printed(result.stdout)
    assert lines[0] == "gpu.used: median 94% of 512 values, least 4% (rank 77 GPU 1), most 96% (rank 4 GPU 0)"
    assert lines[2].lstrip().startswith("95%┤")
    assert "\x1b" not in result.stdout
    assert result.stderr == "Also measured: gpu.xid (kaji metrics gpt NAME)\n"


def test_metrics_are_listed_and_written_as_csv() -> None:
    api = FakeWebApi(RUNS, {f"{RUN}/metrics": bands()})
    listed = printed(invoke(api, "metrics", "--list", "gpt").stdout)
    assert listed[1].split()[:2] == ["gpu.used", "94%"]
    lines = invoke(api, "metrics", "-o", "csv", "--since", "2h", "gpt", "gpu.").stdout.splitlines()
    assert lines[1] == "gpu.used,%,2026-11-21T12:00:00Z,1,512,0.0,77,89.0,90.0,91.0,92.0,4"
    assert api.calls[-1].query == {"since": ["2h"], "name": ["gpu."]}


def test_one_rank_is_asked_for_in_full_resolution() -> None:
    samples = [{"at": f"2026-11-21T12:00:{second}Z", "value": 1.5} for second in ("00", "15")]
    series = {"name": "cpu.used", "unit": "cores", "kind": "counter", "description": "Time", "samples": samples}
    answer = {"run": "gpt", "namespace": "vision", "rank": 3, "node": "g1", "series": [series]}
    api = FakeWebApi(RUNS, {f"{RUN}/members/3/metrics": answer})
    lines = invoke(api, "metrics", "--rank", "3", "-o", "csv", "gpt").stdout.splitlines()
    assert lines[1] == "cpu.used,cores,3,,2026-11-21T12:00:00Z,1.5"
    assert json.loads(invoke(api, "metrics", "--rank", "3", "-o", "json", "gpt").stdout) == answer
    assert invoke(api, "metrics", "--rank", "3", "--attempt", "1", "gpt").exit_code == 2


NODE = "GET /v1/nodes/g1/metrics"


def node_figures(**changes: Any) -> dict[str, Any]:
    at = [f"2026-11-21T12:0{minute}:00Z" for minute in range(3)]
    of_gpu = {"name": "gpu.used", "unit": "%", "kind": "gauge", "description": "Share of time"}
    series = [
        {"name": "cpu.used", "unit": "cores", "kind": "counter", "description": "Time", "values": [1.0, None, 3.0]},
        *(of_gpu | {"gpu": gpu, "values": [90.0, 95.0, 97.0 + gpu]} for gpu in range(2)),
    ]
    held = {"since": at[0], "until": at[2], "gpus": [0, 1]}
    holders = [{"namespace": "vision", "run": "gpt"} | held, {"namespace": "", "run": ""} | held | {"gpus": [1]}]
    return {"node": "g1", "at": at, "series": series, "holders": holders, "gpus": 2, "lastAt": ""} | changes


def test_a_nodes_figures_are_plotted_with_the_runs_that_held_it() -> None:
    """A run that the person may not read has no name."""
    api = FakeWebApi([], {NODE: node_figures()})
    result = invoke(api, "metrics", "--node", "g1", "--since", "1d", "--gpu", "1", "gpu.")
    lines = printed(result.stdout)
    assert lines[0] == "cpu.used of g1: 3 cores" and "gpu.used of g1: 97%, 98%" in lines
    assert [line.split()[:1] for line in lines[-3:]] == [["RUN"], ["(a"], ["vision/gpt"]]
    assert lines[-1].split()[1] == "0-1"
    assert api.calls[-1].query == {"since": ["1d"], "name": ["gpu."], "gpu": ["1"]}
    assert printed(invoke(api, "metrics", "--node", "g1", "-o", "csv").stdout)[:3] == [
        "name,unit,node,gpu,at,value",
        "cpu.used,cores,g1,,2026-11-21T12:00:00Z,1.0",
        "cpu.used,cores,g1,,2026-11-21T12:02:00Z,3.0",
    ]
    assert printed(invoke(api, "metrics", "--node", "g1", "--list").stdout)[1].split()[:3] == ["cpu.used", "3", "cores"]
    assert json.loads(invoke(api, "metrics", "--node", "g1", "-o", "json").stdout) == node_figures()


def test_a_node_without_figures_says_why() -> None:
    api = FakeWebApi([], {NODE: node_figures(at=[], series=[], holders=[])})
    assert "No agent reported g1 in the last week" in invoke(api, "metrics", "--node", "g1").stdout
    api.answers[NODE] = node_figures(at=[], series=[], holders=[], lastAt="2026-11-20T09:00:00Z")
    assert "The last report is of 2026-11-20T09:00:00Z" in invoke(api, "metrics", "--node", "g1").stdout
    for wrong in (["--node", "g1", "--rank", "0"], ["--gpu", "0", "gpt"], []):
        assert invoke(api, "metrics", *wrong).exit_code == 2


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (2**31, "bytes", "2Gi"),
        (1e6, "bytes/s", "977Ki/s"),
        (97.4, "%", "97%"),
        (0.00123, "", "0.00123"),
        (123456789.0, "count", "123456789"),
        (0x24, "bits", "0x24"),
        (12.5, "1/s", "12.5/s"),
        (64.0, "°C", "64 °C"),
    ],
)
def test_values_are_short(value: float, unit: str, words: str) -> None:
    assert value_words(value, unit) == words
