"""The route that writes the `kaji run` command for a request."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import World


@pytest.mark.parametrize(
    ("request_body", "text"),
    [
        ({"spec": {"image": "x", "args": ["echo", "a b"]}}, "kaji run x echo 'a b'"),
        ({"name": "bert", "namespace": "team", "spec": {"image": "x"}}, "kaji run --namespace team --name bert x"),
        ({"name": "B!", "spec": {"image": "x", "resources": {"memory": "lots", "gpu": 2}}}, "kaji run --gpus 2 x"),
        ({"name": "n", "spec": {"image": "x", "type": "notebook"}}, "kaji notebook n --image x"),
        ({"spec": {"image": "quay.io/jupyter/minimal-notebook", "type": "notebook"}}, "kaji notebook"),
        ({"spec": {"image": "x", "qos": "burstable"}}, "kaji run x  # without qos"),
    ],
)
async def test_a_request_has_a_command_line(world: World, request_body: dict[str, Any], text: str) -> None:
    """Parts that cannot be read are left out of it."""
    answer = await world.http.post("/v1/command-line", json=request_body)
    assert answer.status_code == 200 and answer.json()["text"] == text


async def test_a_request_without_a_spec_is_refused(world: World) -> None:
    answer = await world.http.post("/v1/command-line", json={"name": "x"})
    assert answer.status_code == 422 and answer.json()["faults"][0]["field"] == "spec"
