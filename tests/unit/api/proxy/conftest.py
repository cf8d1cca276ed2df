"""The scene of the tests of the proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from aiohttp import web
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.proxy.scene import Program, Scene

from kajitori.api.serving.server import ApiServer
from kajitori.core.proxy.addresses import parse_origins


@pytest.fixture
async def scene(world: World) -> AsyncIterator[Scene]:
    """Ada's notebook in namespace team, with a program; programs have origins of their own."""
    made = world.kubernetes.put("runs", run("nb", type="notebook") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    made = world.kubernetes.put("runs", run("plain") | {"status": attempts(1, phase="Running")})
    world.kubernetes.put("pods", pod(made))
    await world.caught_up()
    program = Program()
    server = web.Server(program.answer)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    program.port = runner.addresses[0][1]
    world.change("programs", origins=parse_origins("http://*.localhost"), open_port=program.open)
    async with ApiServer(world.app) as web_api, httpx2.AsyncClient(timeout=20.0) as http:
        yield Scene(world, program, web_api, http)
    await runner.cleanup()
