"""A run with members that print, for the tests of logs."""

from __future__ import annotations

from typing import Any

import httpx2
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.fake_programs import FakeLog, Object

PATH = "/v1/runs/team/bert/logs"


def at(second: float, text: str) -> str:
    return f"2026-11-21T10:00:{second:012.9f}Z {text}"


def put_run(world: World, *, attempt: int = 1, phase: str = "Running", replicas: int = 1) -> Object:
    return world.kubernetes.put("runs", run("bert", replicas=replicas) | {"status": attempts(attempt, phase=phase)})


def put_member(
    world: World, made: Object, log: FakeLog, *, attempt: int = 1, rank: int = 0, phase: str = "Running"
) -> None:
    member = world.kubernetes.put("pods", pod(made, attempt=attempt, rank=rank, phase=phase))
    world.kubernetes.logs["team", member["metadata"]["name"]] = log


async def read(http: httpx2.AsyncClient, **params: Any) -> str:
    response = await http.get(PATH, params=params)
    assert response.status_code == 200, response.text
    return response.text
