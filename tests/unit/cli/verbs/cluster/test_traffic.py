"""The output of `kaji traffic`."""

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


def test_traffic_has_a_line_for_each_class_of_addresses() -> None:
    """The number of runs that are not shown is printed."""
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


def test_runs_that_the_user_may_not_see_are_counted() -> None:
    """The command for their sums is named."""
    api = FakeWebApi(answers={"GET /v1/traffic": listing(row("bert", namespace="vision", user="alice"), hidden=2)})
    notes = printed(invoke(api, "traffic").stderr)
    assert notes == ["2 runs of namespaces that you may not read: kaji traffic --by namespace has their sums."]


def test_traffic_of_a_run_is_shown_with_each_nodes_share() -> None:
    answer = listing(row("n1"), row("n2"), run=row("gpt", namespace="vision", user="alice"))
    api = FakeWebApi(RUNS, {"GET /v1/runs/vision/gpt/traffic": answer})
    lines = printed(invoke(api, "traffic", "gp").stdout)
    assert lines[0].split()[0] == "RUN"
    assert lines[3:6] == ["", "By node", "  NODE   CLASS       IN     OUT"]
    assert lines[6].split() == ["n1", "internal", "2Ki", "3Gi"]
    answer["run"]["classes"] = []
    assert invoke(api, "traffic", "gpt").stdout == "Nothing was counted of this run.\n"


def test_incomplete_traffic_figures_are_noted_on_stderr() -> None:
    nodes = {"counted": 2, "silent": "gpu-[1-2]", "silentCount": 2, "uncountedPods": 1}
    result = invoke(FakeWebApi(answers={"GET /v1/traffic": listing(nodes=nodes, kept=False)}), "traffic")
    assert result.stdout == "Nothing was counted.\n"
    assert printed(result.stderr) == [
        "2 nodes told nothing lately, so that this may be too little: gpu-[1-2]",
        "1 Pod can't be counted: see kajitori_agent_uncounted_pods of each node.",
        "The server keeps no totals (it has no --blobs): those of ended runs go with it.",
    ]
    silent = {"counted": 0, "silent": "gpu-[1-2]", "silentCount": 2, "uncountedPods": 0}
    result = invoke(FakeWebApi(answers={"GET /v1/traffic": listing(nodes=silent)}), "traffic")
    assert "No node is counted now: `kaji agent --report`" in result.stderr


def test_traffic_since_a_time_comes_from_history() -> None:
    """The number of hours without a record is shown, so that they are not mistaken for hours without traffic."""
    classes = [{"name": "internet", "received": 2048, "sent": 3 << 30}]
    hours: list[Any] = [None, classes, None, []]
    points = [{"at": f"2026-11-21T1{hour}:00:00Z", "classes": found} for hour, found in enumerate(hours)]
    answer = {"by": "user", "name": "", "since": "s", "until": "u", "intervalSeconds": 3600, "orderClass": "internet"}
    answer |= {"items": [{"name": "alice", "classes": classes}], "total": 1, "points": points}
    api = FakeWebApi(answers={"GET /v1/traffic/history": answer})
    result = invoke(api, "traffic", "--since", "2026-11-21T10:00:00Z", "--by", "user")
    assert printed(result.stdout) == ["USER    CLASS       IN   OUT", "alice   internet   2Ki   3Gi"]
    assert printed(result.stderr) == [
        "Traffic is recorded since 2026-11-21T11:00:00Z.",
        "No server recorded anything in 1 hour; traffic of that time is in the hour after it.",
    ]
    assert api.calls[0].query == {"by": ["user"], "limit": ["20"], "since": ["2026-11-21T10:00:00Z"]}
    refused = invoke(api, "traffic", "--since", "7d", "--by", "node")
    assert (refused.exit_code, "leave out --since" in refused.stderr) == (2, True)
