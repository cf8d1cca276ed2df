"""What `kaji traffic` prints."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, printed

ALL = {"counted": 4, "silent": "", "silentCount": 0, "uncountedPods": 0}


def count(size: int, rate: int = 0) -> dict[str, int]:
    return {"bytes": size, "packets": size // 1000, "bytesPerSecond": rate}


def row(name: str, **more: Any) -> dict[str, Any]:
    classes = [
        {"name": "internal", "received": count(2048), "sent": count(3 << 30, 1 << 20)},
        {"name": "internet", "received": count(0), "sent": count(1_500_000)},
    ]
    return {"name": name, "classes": classes, **more}


def listing(*items: dict[str, Any], nodes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    known = {"items": list(items), "total": len(items), "orderClass": "internet", "rateSeconds": 300, "kept": True}
    return {**known, "nodes": nodes or ALL, "at": "2026-11-21T12:00:00Z", **more}


def test_who_talks() -> None:
    """A line for each class of addresses; how many are not shown is said."""
    answer = listing(row("bert", namespace="vision", user="alice"), total=3)
    api = FakeWebApi(answers={"GET /v1/traffic": answer})
    result = invoke(api, "traffic", "--limit", "1")
    assert printed(result.stdout) == [
        "RUN           USER    CLASS       IN     OUT   IN/S   OUT/S",
        "vision/bert   alice   internal   2Ki     3Gi            1Mi",
        "vision/bert   alice   internet     0   1.4Mi",
        "… and 2 more (--limit)",
    ]
    assert result.stderr == ""
    assert api.calls[0].query == {"by": ["run"], "limit": ["1"]}
    wide = printed(invoke(api, "traffic", "--by", "user", "--class", "internal", "-o", "wide").stdout)
    assert wide[0].split() == ["USER", "CLASS", "IN", "OUT", "IN/S", "OUT/S", "PACKETS", "IN", "PACKETS", "OUT"]
    assert api.calls[1].query == {"by": ["user"], "class": ["internal"], "limit": ["20"]}
    assert json.loads(invoke(api, "traffic", "-o", "json").stdout) == answer


def test_runs_that_are_not_shown_are_counted() -> None:
    """With the command that shows their sums."""
    api = FakeWebApi(answers={"GET /v1/traffic": listing(row("bert", namespace="vision", user="alice"), hidden=2)})
    said = printed(invoke(api, "traffic").stderr)
    assert said == ["2 runs of namespaces that you may not read: kaji traffic --by namespace has their sums."]


def test_one_run() -> None:
    """With each node's share, where it had several."""
    answer = listing(row("n1"), row("n2"), run=row("gpt", namespace="vision", user="alice"))
    api = FakeWebApi(RUNS, {"GET /v1/runs/vision/gpt/traffic": answer})
    lines = printed(invoke(api, "traffic", "gp").stdout)
    assert lines[0].split()[0] == "RUN"
    assert lines[3:6] == ["", "By node", "  NODE   CLASS       IN     OUT"]
    assert lines[6].split() == ["n1", "internal", "2Ki", "3Gi"]
    answer["run"]["classes"] = []
    assert invoke(api, "traffic", "gpt").stdout == "Nothing was counted of this run.\n"


def test_what_is_not_known_is_said() -> None:
    """On stderr, beside figures that may be too small."""
    nodes = {"counted": 2, "silent": "gpu-[1-2]", "silentCount": 2, "uncountedPods": 1}
    said = invoke(FakeWebApi(answers={"GET /v1/traffic": listing(nodes=nodes, kept=False)}), "traffic")
    assert said.stdout == "Nothing was counted.\n"
    assert printed(said.stderr) == [
        "2 nodes told nothing lately, so that this may be too little: gpu-[1-2]",
        "1 Pod can't be counted: see kajitori_agent_uncounted_pods of each node.",
        "The server keeps no totals (it has no --blobs): those of ended runs go with it.",
    ]
    nobody = {"counted": 0, "silent": "gpu-[1-2]", "silentCount": 2, "uncountedPods": 0}
    said = invoke(FakeWebApi(answers={"GET /v1/traffic": listing(nodes=nobody)}), "traffic")
    assert "No node is counted now: `kaji agent --report`" in said.stderr
