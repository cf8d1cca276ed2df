"""What a start of a gang needs besides its Pods."""

from __future__ import annotations

import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving, status_of

from kajitori.controllers.attempts import StartRefused, key_of_tickets
from kajitori.core import first_step
from kajitori.core.reasons import Reason
from kajitori.core.status import Attempt

WITH_STEP = Attempt(number=1, nodes="n", template={"spec": {"initContainers": [{"name": first_step.CONTAINER}]}})


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (404, "NotFound")])
async def test_a_controller_without_rights_on_the_key_says_so(code: int, reason: str) -> None:
    """The start is refused in words that people read, and nothing waits for the deadline."""

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response(status_of(code, f"{request.method} it is not for you", reason), status=code)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with serving(app) as url, client_of(url) as client:
        with pytest.raises(StartRefused, match=r"the key of members' tickets: .*not for you") as caught:
            await key_of_tickets(client, WITH_STEP, "kajitori")
    assert caught.value.reason is Reason.ADMISSION


async def test_members_without_a_first_step_need_no_key() -> None:
    """Nobody is asked for one."""
    async with client_of("http://127.0.0.1:1") as client:
        assert await key_of_tickets(client, Attempt(number=1, nodes="n", template={"spec": {}}), "kajitori") is None
