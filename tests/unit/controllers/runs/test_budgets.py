"""A run does not depend on its disruption budget."""

from __future__ import annotations

import msgspec
import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving, status_of

from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.budgets import BudgetKeeper
from kajitori.kube.metadata import ObjectMeta

RUN = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="u1"), spec=msgspec.Raw(b"{}"))
SPEC = {"minAvailable": 2, "selector": {"matchLabels": {"a": "b"}}}


async def test_without_the_right_to_write_budgets_a_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The refusal is logged once, and the write is not repeated before another budget is wanted."""
    asked = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.json_response(status_of(403, "not for you", "Forbidden"), status=403)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with serving(app) as url, client_of(url) as client:
        keeper = BudgetKeeper(client)
        for wanted in (SPEC, SPEC, None, None):
            await keeper.keep(RUN, wanted)
        assert asked == ["GET", "POST"]
        await keeper.keep(RUN, SPEC)
        assert asked == ["GET", "POST", "POST"]
    assert "run vision/bert has no disruption budget: not for you" in caplog.text
