"""Changes of the run that a caller has seen, which may have been deleted and replaced by another one of its name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.conftest import NOW, World
from tests.unit.api.fake_kubernetes import attempts, run

UNTIL = f"{NOW.replace(hour=13):%Y-%m-%dT%H:%M:%SZ}"
CALLS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", "/stop", {"grace": "0s"}),
    ("POST", "/resume", None),
    ("POST", "/park", None),
    ("POST", "/keep", {"until": UNTIL}),
    ("POST", "/labels", {"set": {"a": "b"}}),
    ("POST", "/note", {"text": "mine"}),
    ("PATCH", "", {"priority": "low"}),
    ("DELETE", "", None),
    ("DELETE", "?grace=0s", None),
]


@pytest.mark.parametrize(("method", "rest", "body"), CALLS, ids=[f"{method} {rest}" for method, rest, _ in CALLS])
async def test_another_run_of_the_same_name_is_left_alone(
    world: World, method: str, rest: str, body: dict[str, Any] | None
) -> None:
    """`run.stop()` in a notebook stopped another run, if the first one was deleted and the name was used again."""
    phase = "Stopped" if rest == "/resume" else "Running"
    made = world.kubernetes.put("runs", run("bert") | {"status": attempts(1, phase=phase)})
    await world.caught_up()

    async def call(expected: str) -> Any:
        headers = {"If-Match": expected}
        return await world.http.request(method, f"/v1/runs/team/bert{rest}", json=body, headers=headers)

    refused = await call('"uid-of-another"')
    assert (refused.status_code, refused.json()["detail"]) == (
        404,
        "bert was deleted, and another run has its name now",
    )
    assert world.kubernetes.objects["runs", "team", "bert"] == made
    done = await call(f'"{made["metadata"]["uid"]}"' if method == "POST" else "*")
    assert done.status_code in (200, 202), done.text
