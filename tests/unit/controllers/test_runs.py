"""What the run controller believes of what it wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving

from kajitori.controllers.runs import Memory, RunController
from kajitori.core.policy import default_policy
from kajitori.kube.cluster import ClusterView
from kajitori.kube.mirror import Mirror
from kajitori.kube.objects import ObjectMeta, RunObject
from kajitori.policyfile import PolicyFile

KEY = ("vision", "bert")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(("stored", "believed"), [("5", 0), ("9", 9)])
async def test_a_write_that_a_backup_took_back_is_not_waited_for(stored: str, believed: int) -> None:
    """The API server is asked, after a while; where it has the write, the mirror is only slow."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "bert", "namespace": "vision", "resourceVersion": stored}})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with serving(app) as url, client_of(url) as client:
        mirror = Mirror(client)
        view = ClusterView(mirror, PolicyFile(None, without_file=default_policy()))
        controller = RunController(client, mirror, view, now=lambda: NOW)
        meta = ObjectMeta(name="bert", namespace="vision", uid="u1", resource_version="5")
        mirror.runs[KEY] = RunObject(metadata=meta, spec=msgspec.Raw(b"{}"))
        memory = controller._memory[KEY] = Memory(written_version=9, written_at=NOW - timedelta(seconds=1))
        await controller._reconcile(KEY)
        assert memory.written_version == 9, "it may still come"
        memory.written_at = NOW - timedelta(minutes=1)
        await controller._reconcile(KEY)
        assert memory.written_version == believed
