"""A Web API with a run that `kaji run` makes and follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    log_frames,
    ndjson,
    view,
)

RUN = "/v1/runs/vision/bert"


def log(*lines: str) -> list[bytes]:
    return log_frames(*lines)


def api_with_run(end: dict[str, Any], *before: dict[str, Any], **more: Any) -> FakeWebApi:
    """Return a Web API with a run that goes through these views to its end."""
    first = before[0] if before else view("bert", "Queued")
    remaining = [*before, end]

    def watch() -> Iterator[bytes]:
        """Yield the present view and every later one; a client that reconnects begins with the view of that time."""
        yield ndjson(remaining[:1])[0]
        while len(remaining) > 1:
            del remaining[0]
            yield ndjson(remaining[:1])[0]

    answers = {"POST /v1/runs": (201, first), f"GET {RUN}/watch": lambda _: watch()}
    return FakeWebApi([end], answers=answers | more)


def ended(phase: str = "Succeeded", **status: Any) -> dict[str, Any]:
    return view("bert", phase, status=status)


ANSWER = {
    "run": view("bert", "Queued", spec={"resources": {"gpu": 8, "gpuType": "h100"}}),
    "manifests": [{"kind": "Pod", "metadata": {"name": "bert-1-0"}}, {"kind": "Service"}],
    "findings": [{"code": "DefaultMemory", "message": "memory is 2Gi, the default"}],
    "start": {"message": "nothing fits now"},
}
"""The answer to a dry run."""
