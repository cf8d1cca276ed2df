"""The output of `kaji gpus` and `kaji nodes`."""

from __future__ import annotations

from typing import Any

from tests.unit.cli.fake_web_api import FakeWebApi, invoke, printed

BOARD = {
    "types": [
        {"type": "a100", "total": 64, "used": 0, "free": 64, "broken": 0},
        {"type": "h100", "total": 64, "used": 32, "idle": 8, "free": 24, "broken": 8},
    ],
    "users": [
        {
            "owner": "alice",
            "gpus": 32,
            "idle": 8,
            "since": "2026-11-20T12:00:00Z",
            "types": {"h100": 32},
            "runs": [
                {
                    "name": "bert",
                    "namespace": "vision",
                    "gpus": 32,
                    "idle": 8,
                    "type": "h100",
                    "nodes": "gpu-[1-4]",
                    "since": "2026-11-20T12:00:00Z",
                }
            ],
        }
    ],
}


def test_gpus_are_shown_by_type_and_by_user() -> None:
    result = invoke(FakeWebApi(answers={"GET /v1/gpus": BOARD}), "gpus")
    assert printed(result.stdout) == [
        "TYPE   FREE   USED   IDLE   BROKEN   TOTAL",
        "a100     64      0      0        0      64   ░░░░░░░░░░░░░░░░░░░░",
        "h100     24     32      8        8      64   ██████████▒▒░░░░░░░░",
        "",
        "USER    GPUS                IDLE   SINCE      TYPES     RUNS",
        "alice     32   ██░░░░░░░░      8   24 hours   32 h100   bert",
    ]


def test_gpus_wide_lists_runs_with_nodes_and_age() -> None:
    result = invoke(FakeWebApi(answers={"GET /v1/gpus": BOARD}), "gpus", "-o", "wide")
    assert printed(result.stdout)[-2:] == [
        "RUN    USER    TEAM     GPUS   IDLE   TYPE   SINCE      NODES",
        "bert   alice   vision     32      8   h100   24 hours   gpu-[1-4]",
    ]


def test_the_public_board_has_owners_and_no_runs() -> None:
    held = {"owner": "alice", "namespace": "vision", "type": "h100", "gpus": 32, "idle": 8}
    board = {"at": "", "types": BOARD["types"], "holdings": [held | {"since": "2026-11-20T12:00:00Z"}]}
    result = invoke(FakeWebApi(answers={"GET /v1/board": board}), "gpus", "--public")
    assert printed(result.stdout)[-2:] == [
        "OWNER   TEAM     GPUS   IDLE   TYPE   SINCE",
        "alice   vision     32      8   h100   24 hours",
    ]


GUARANTEES = [
    {"namespace": "vision", "gpuType": "h100", "gpus": {"total": 16, "used": 32}},
    {"namespace": "data", "cpuMillis": {"total": 64000, "used": 500}, "memoryBytes": {"total": 2**38, "used": 0}},
]


def test_gpus_by_team_show_guarantees_and_borrowed_gpus() -> None:
    """A long list of runs is cut, except in the wide format."""
    runs = [{"name": f"run-{number}", "namespace": "vision", "gpus": 4, "type": "h100"} for number in range(8)]
    team = {"namespace": "vision", "gpus": 32, "types": {"h100": 32}, "runs": runs}
    board = BOARD | {"teams": [team], "guarantees": GUARANTEES}
    result = invoke(FakeWebApi(answers={"GET /v1/gpus": board}), "gpus", "--by", "team")
    assert printed(result.stdout)[4:] == [
        "TEAM     GPUS                IDLE   SINCE   TYPES     RUNS",
        "vision     32   ██░░░░░░░░      0           32 h100   run-0, run-1, run-2, run-3, run-4 and 3 more",
        "",
        "TEAM     IS GUARANTEED   AMOUNT   IN USE                BEYOND IT",
        "vision   h100 GPUs           16       32   ██████████   16 borrowed",
        "data     cores               64      0.5   █░░░░░░░░░",
        "data     memory           256Gi        0   ░░░░░░░░░░",
    ]
    wide = invoke(FakeWebApi(answers={"GET /v1/gpus": board}), "gpus", "--by", "team", "-o", "wide")
    assert "run-6, run-7" in wide.stdout


def test_a_cluster_without_gpus_is_described_in_words() -> None:
    result = invoke(FakeWebApi(answers={"GET /v1/gpus": {"types": [], "users": []}}), "gpus")
    assert result.stdout == "This cluster has no GPUs.\n"


def node(name: str, **more: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name, "ready": True, "schedulable": True, "why": "", "gpuType": "h100"}
    document |= {"gpus": {"total": 8, "used": 8}, "cpuMillis": {"total": 64000, "used": 32500}}
    document |= {"memoryBytes": {"total": 2**38, "used": 3 * 2**29}, "pods": {"total": 110, "used": 3}}
    document |= {"domains": {"zone": "a", "rack": "r1"}, "taints": ["gpu=:NoSchedule"], "labels": {"a": "b"}}
    return {**document, "createdAt": "2026-11-11T12:00:00Z", **more}


NODES = [
    node("gpu-1"),
    node("gpu-2", ready=False, why="not ready for 5m", gpus={"total": 8, "used": 0}),
    node("cpu-1", gpus={"total": 0, "used": 0}, gpuType="", schedulable=False, why="cordoned"),
]


def test_nodes_show_their_usage_and_why_they_take_no_work() -> None:
    result = invoke(FakeWebApi(answers={"GET /v1/nodes": {"items": NODES}}), "nodes")
    assert printed(result.stdout) == [
        "NAME    STATUS            GPUS   TYPE       CPU        MEMORY    PODS   TAKES NO WORK",
        "gpu-1   Ready              8/8   h100   32.5/64   1.5Gi/256Gi   3/110",
        "gpu-2   NotReady           0/8   h100   32.5/64   1.5Gi/256Gi   3/110   not ready for 5m",
        "cpu-1   Ready, cordoned                 32.5/64   1.5Gi/256Gi   3/110   cordoned",
    ]


def test_gpus_by_node_show_broken_ones() -> None:
    """Nodes without GPUs are left out; GPUs of a node that takes no work are broken."""
    result = invoke(FakeWebApi(answers={"GET /v1/nodes": {"items": NODES}}), "gpus", "--nodes")
    assert printed(result.stdout) == [
        "NODE    TYPE   FREE   TOTAL              TAKES NO WORK",
        "gpu-1   h100      0       8   ████████",
        "gpu-2   h100      0       8   ▒▒▒▒▒▒▒▒   not ready for 5m",
    ]


def test_the_page_of_a_node_lists_its_amounts_and_pods() -> None:
    used = {"holder": "vision/bert", "owner": "alice", "isRun": True, "pod": "bert-1-0", "rank": 0, "gpus": 8}
    used |= {"cpuMillis": 32500, "memoryBytes": 2**30, "since": "2026-11-21T11:00:00Z"}
    foreign = {"holder": "kube-system/proxy", "isRun": False, "pod": "proxy", "cpuMillis": 100, "memoryBytes": 2**20}
    api = FakeWebApi(answers={"GET /v1/nodes/gpu-1": node("gpu-1", members=[used, foreign])})
    lines = printed(invoke(api, "nodes", "gpu-1").stdout)
    assert lines[:5] == [
        "Name     gpu-1",
        "Status   Ready",
        "Created  10 days ago",
        "GPUs     8/8 h100",
        "CPU      32.5/64",
    ]
    assert lines[-3:] == [
        "  RUN                     RANK   OWNER   GPUS    CPU   MEMORY   SINCE           POD",
        "  vision/bert                0   alice      8   32.5      1Gi   About an hour   bert-1-0",
        "  Pod kube-system/proxy                          0.1      1Mi                   proxy",
    ]


def test_nodes_list_slices_beside_whole_gpus() -> None:
    amounts = {name: {"total": 0, "used": 0} for name in ("cpuMillis", "memoryBytes", "pods")}
    slices = {"h100-mig-1g.10gb": {"total": 7, "used": 3}}
    mixed = {"name": "n1", "gpuType": "h100", "gpus": {"total": 4, "used": 1}, "partialGpus": slices, **amounts}
    none = {"name": "n2", "gpuType": "", "gpus": {"total": 0, "used": 0}, "partialGpus": {}, **amounts}
    web = FakeWebApi(answers={"GET /v1/nodes": {"items": [mixed, none]}})
    lines = printed(invoke(web, "nodes").stdout)
    assert "1/4, 3/7   h100, h100-mig-1g.10gb" in lines[1]
    lines = printed(invoke(web, "gpus", "--nodes").stdout)
    assert [line.split()[:4] for line in lines[1:]] == [
        ["n1", "h100", "3", "4"],
        ["n1", "h100-mig-1g.10gb", "4", "7"],
    ]
