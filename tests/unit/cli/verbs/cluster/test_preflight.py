"""`kaji preflight`, and the health of a node in `kaji nodes`."""

from __future__ import annotations

import json
from typing import Any

from tests.helpers.output_schemas import check_output
from tests.unit.cli.fake_web_api import FakeWebApi, invoke, problem

PASSED = {"state": "passed", "at": "2026-11-21T12:00:00Z", "run": "test-b", "says": ""}
FAILED = {"state": "failed", "at": "2026-11-21T12:00:00Z", "run": "test-b", "namespace": "ops", "says": "7 of 8 GPUs"}
BEFORE = {"state": "passed", "at": "2026-11-20T12:00:00Z", "run": "test-a"}
TESTING = {"state": "testing", "run": "test-b", "says": "needs 8 h100 on 1 whole node; nothing fits now"}


def node(name: str, test: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    amounts = {key: {"total": 8, "used": 0} for key in ("gpus", "cpuMillis", "memoryBytes", "pods")}
    empty = {"draining": False, "labels": {}, "taints": [], "gpuType": "", "partialGpus": {}, "domains": {}}
    facts = {"ready": True, "schedulable": True, "testable": True, "why": "", "createdAt": "2026-11-01T12:00:00Z"}
    return {"name": name, "test": test, **facts, **amounts, **empty, **more}


def nodes(*views: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(views)}


def test_preflight_waits_and_shows_each_result() -> None:
    """A result from before the request does not count."""
    out = node("g2", FAILED, why="unhealthy: PreflightFailed: 7 of 8 GPUs")
    api = FakeWebApi(
        answers={"POST /v1/preflight": {"nodes": ["g1", "g2"]}},
        queues={
            "GET /v1/nodes": [
                nodes(node("g1", BEFORE), node("g2")),
                nodes(node("g1", BEFORE), node("g2", {"state": "asked"})),
                nodes(node("g1", TESTING), out),
                nodes(node("g1", PASSED), out),
            ]
        },
    )
    result = invoke(api, "preflight", "g1", "g2")
    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["NODE", "TEST", "POOL", "SAYS"],
        ["g1", "passed", "in"],
        ["g2", "failed", "out", "7", "of", "8", "GPUs"],
    ]
    assert result.stderr.splitlines() == [
        "0 of 2 tested; g1 waits for its turn; g2 waits for its turn",
        "1 of 2 tested; g1: needs 8 h100 on 1 whole node; nothing fits now",
    ]


def test_preflight_all_tests_suitable_nodes_and_counts_the_others() -> None:
    known = nodes(node("g1"), node("g2", ready=False), node("n1", testable=False))
    api = FakeWebApi(answers={"GET /v1/nodes": known, "POST /v1/preflight": {"nodes": ["g1"]}})
    result = invoke(api, "preflight", "--all", "--no-wait")
    assert (result.exit_code, result.stdout) == (0, "g1\n")
    told = json.loads(invoke(api, "preflight", "--all", "--no-wait", "-o", "json").stdout)
    check_output(told, "verbs/preflight")
    assert result.stderr.splitlines() == [
        "note: policy has no test for 1 of 3 nodes",
        "note: 1 of 3 nodes are not ready or cordoned, and are not tested",
    ]


def test_preflight_exits_with_0_if_all_nodes_passed() -> None:
    api = FakeWebApi(
        answers={"POST /v1/preflight": {"nodes": ["g1"]}, "GET /v1/nodes": nodes(node("g1", PASSED))},
        queues={"GET /v1/nodes": [nodes(node("g1"))]},
    )
    assert invoke(api, "preflight", "g1").exit_code == 0


def test_preflight_refuses_wrong_arguments_and_untestable_nodes() -> None:
    api = FakeWebApi(answers={"GET /v1/nodes": nodes(node("n1", testable=False))})
    for words, message in (
        ((), "name nodes, or say --all"),
        (("g1", "--all"), "name nodes, or say --all"),
        (("--all",), "policy has no test for any node"),
    ):
        result = invoke(api, "preflight", *words)
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    api.answers["POST /v1/preflight"] = problem(422, "Invalid", "n1 can't be tested: policy names no image")
    result = invoke(api, "preflight", "n1")
    assert (result.exit_code, "policy names no image" in result.stderr) == (2, True)


def test_a_node_shows_its_health_and_can_be_put_back_into_the_pool() -> None:
    health = [
        {"at": "2026-11-21T09:00:00Z", "says": "passed its test", "evidence": []},
        {"at": "2026-11-21T10:00:00Z", "says": "out of the pool: MembersFail; run a", "evidence": ["run a", "run b"]},
    ]
    view = node("g1", FAILED, why="unhealthy: MembersFail: run a", health=health)
    api = FakeWebApi(answers={"GET /v1/nodes/g1": view, "POST /v1/nodes/g1/healthy": node("g1")})
    shown = invoke(api, "nodes", "g1").stdout
    assert "Ready, out" in shown
    assert "failed 2026-11-21T12:00:00Z; kaji logs -N ops test-b" in shown
    lines = [line.strip() for line in shown.splitlines()]
    at = lines.index("2026-11-21T10:00:00Z   out of the pool: MembersFail; run a")
    assert lines[at + 1] == "run b"
    assert invoke(api, "nodes", "g1", "--healthy").stdout == "g1\n"
    assert "--healthy needs a node" in invoke(api, "nodes", "--healthy").stderr
