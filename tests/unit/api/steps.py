"""Steps that tests of the Web API share."""

from __future__ import annotations

from typing import Any

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run


async def get(world: World, path: str) -> Any:
    """Return what the Web API answers to a request that succeeds."""
    response = await world.http.get(path)
    assert response.status_code == 200, response.text
    return response.json()


async def hold(world: World, name: str, *, owner: str, node: str, gpus: int) -> None:
    """Create a running run with one member, which holds GPUs of a node."""
    made = world.kubernetes.put("runs", run(name, owner=owner) | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made, node=node, gpus=gpus))
