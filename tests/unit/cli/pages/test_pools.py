"""Pools of nodes that can grow, in the output of the command line."""

from __future__ import annotations

from typing import Any

from tests.unit.cli.fake_web_api import FakeWebApi, invoke, view
from tests.unit.cli.verbs.inspection.test_waiting import PLACE

POOLS = [{"name": "spot", "gpuType": "a100", "gpus": 8, "nodes": 1, "maxNodes": 4, "askedFor": 3}]
SHOWN = [
    "Pools that can grow",
    "  POOL   TYPE   GPUS EACH   NODES   AT MOST   ASKED FOR",
    "  spot   a100           8       1         4           3",
]


def printed(answers: dict[str, Any], *arguments: str) -> list[str]:
    api = FakeWebApi([view("bert", "Queued")], answers=answers)
    return [line.rstrip() for line in invoke(api, *arguments).stdout.splitlines()]


def test_the_board_and_the_nodes_show_pools_that_can_grow() -> None:
    """This holds for a cluster without GPUs, too."""
    lines = printed({"GET /v1/gpus": {"types": [], "users": [], "pools": POOLS}}, "gpus")
    assert lines == ["This cluster has no GPUs.", "", *SHOWN]
    types = [{"type": "h100", "total": 8, "used": 0, "free": 8, "broken": 0}]
    lines = printed({"GET /v1/gpus": {"types": types, "users": [], "pools": POOLS}}, "gpus")
    assert lines[-3:] == SHOWN
    assert printed({"GET /v1/nodes": {"items": [], "pools": POOLS}}, "nodes")[-3:] == SHOWN
    assert "Pools that can grow" not in printed({"GET /v1/nodes": {"items": []}}, "nodes")


def test_a_run_whose_pool_grows_is_not_told_that_nothing_starts_it() -> None:
    """The cluster is too small for it now, but nodes are being provisioned."""
    message = "requested 3 nodes of pool spot 3m ago: accepted, provisioning; needs 24 a100 on 3 whole nodes"
    answer = {"phase": "Queued", "reason": "ProvisioningNodes", "message": message, "members": 3, "fitNow": 0}
    answer["place"] = PLACE
    lines = printed({"GET /v1/runs/vision/bert/explain": answer | {"grows": True}}, "explain", "bert")
    assert lines[:2] == ["bert: Queued, ProvisioningNodes", f"  {message}"] and "Nothing starts it" not in lines
    assert "Nothing starts it" in printed({"GET /v1/runs/vision/bert/explain": answer}, "explain", "bert")
