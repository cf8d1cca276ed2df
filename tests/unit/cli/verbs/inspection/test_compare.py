"""The output of `kaji compare`."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, printed


def row(part: str, name: str, *values: str) -> dict[str, Any]:
    return {"part": part, "name": name, "values": list(values), "differs": len(set(values)) > 1}


POINT = {"at": "2026-11-21T12:00:00Z", "attempt": 1, "p50": 0.5}
FIGURE = {"name": "train.loss", "unit": "", "description": "", "lines": [{"run": 1, "points": [POINT]}]}
ANSWER = {
    "runs": [{"name": name, "namespace": "vision"} for name in ("gpt", "mnist")],
    "missing": [],
    "rows": [
        row("asked", "--lr", "1e-3", "3e-4"),
        row("asked", "image", "a", "a"),
        row("figures", "train.loss", "", "0.5"),
    ],
    "figures": [FIGURE],
}


def test_runs_are_compared_by_what_differs() -> None:
    """The server finds what that is; `--all` also shows what is the same. The curves are CSV."""
    api = FakeWebApi(RUNS, {"GET /v1/compare": ANSWER})
    result = invoke(api, "compare", "gpt", "mni")
    assert printed(result.stdout) == [
        "",
        "Asked for",
        "         gpt    mnist",
        "  --lr   1e-3   3e-4",
        "",
        "Last values of what the programs wrote (median of all ranks)",
        "               gpt   mnist",
        "  train.loss         0.5",
    ]
    assert printed(result.stderr) == ["Values that are the same: 1 (kaji compare --all)"]
    assert [call.query for call in api.calls_to("GET", "/v1/compare")] == [{"run": ["vision/gpt", "vision/mnist"]}]
    assert "  image   a      a" in printed(invoke(api, "compare", "--all", "gpt", "mnist").stdout)
    assert json.loads(invoke(api, "compare", "-o", "json", "gpt", "mnist").stdout) == ANSWER
    assert printed(invoke(api, "compare", "-o", "csv", "gpt", "mnist").stdout) == [
        "run,name,unit,at,attempt,p50",
        "vision/mnist,train.loss,,2026-11-21T12:00:00Z,1,0.5",
    ]
