"""What a failed health check printed is read from the Events of one Pod, and only when a run becomes unhealthy."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web
from tests.helpers.scenes.gangs import NOW, member
from tests.unit.kube.fake_api import client_of, serving

from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.health_output import TRIES, HealthOutputs
from kajitori.controllers.workqueue import WorkQueue
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.health import RunHealth
from kajitori.kube.metadata import ObjectMeta

RUN = RunObject(metadata=ObjectMeta(name="web", namespace="vision", uid="u1"), spec=msgspec.Raw(b"{}"))
KEY = ("vision", "web")


def unhealthy(ranks: str, since: str = "2026-11-21T12:00:00Z") -> RunStatus:
    return RunStatus(health=RunHealth(status="unhealthy", since=since, unhealthy=1, ranks=ranks))


async def test_the_newest_event_tells_what_the_check_printed() -> None:
    """The kubelet may write it a little later. Nothing is asked while the run is healthy or the output is known."""
    events: list[dict[str, Any]] = []
    asked: list[str] = []

    async def list_events(request: web.Request) -> web.Response:
        asked.append(request.query["fieldSelector"])
        return web.json_response({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": events})

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/vision/events", list_events)
    async with serving(app) as url, client_of(url) as client:
        outputs, members = HealthOutputs(client, WorkQueue(lambda: NOW)), [member(0), member(1)]
        healthy = RunStatus(health=RunHealth(status="healthy", healthy=2))
        assert await outputs.added(KEY, RUN, healthy, members) is healthy and not asked
        status = unhealthy("1")
        assert await outputs.added(KEY, RUN, status, members) is status
        assert asked == ["involvedObject.uid=uid-1-1,reason=Unhealthy"]
        for minute, text in enumerate(("Readiness probe failed: no file", "Readiness probe failed: refused: x")):
            meta = {"name": f"e{minute}", "namespace": "vision"}
            events.append({"metadata": meta, "message": text, "lastTimestamp": f"2026-11-21T12:0{minute}:00Z"})
        told = await outputs.added(KEY, RUN, status, members)
        assert told.health is not None and told.health.output == "refused: x"
        assert await outputs.added(KEY, RUN, told, members) is told and len(asked) == 2
        events.clear()
        for _ in range(TRIES + 2):
            await outputs.added(KEY, RUN, unhealthy("0", "2026-11-21T13:00:00Z"), members)
        assert len(asked) == 2 + TRIES, "no answer ever came"
