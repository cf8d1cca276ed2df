"""The version of the API in which an engine is asked, from answers of real engines to `GET /version`."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.errors import Unavailable

DOCKER_20 = {
    "Platform": {"Name": ""},
    "Components": [{"Name": "Engine", "Version": "20.10.24+dfsg1", "Details": {"ApiVersion": "1.41"}}],
    "Version": "20.10.24+dfsg1",
    "ApiVersion": "1.41",
    "MinAPIVersion": "1.12",
}
PODMAN_4 = {
    "Components": [{"Name": "Podman Engine", "Version": "4.3.1", "Details": {"APIVersion": "4.3.1"}}],
    "Version": "4.3.1",
    "ApiVersion": "1.41",
    "MinAPIVersion": "1.24",
}


@asynccontextmanager
async def answering(document: dict[str, Any]) -> AsyncIterator[tuple[EngineClient, list[str]]]:
    """Yield a client of an engine that answers everything with this document, and the paths that it is asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response(document)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    with tempfile.TemporaryDirectory() as folder:  # the path of a Unix socket holds 107 bytes
        socket = str(Path(folder) / "s")
        await web.UnixSite(runner, socket).start()
        yield EngineClient(socket), asked
        await runner.cleanup()


@pytest.mark.parametrize(
    ("document", "name", "api"),
    [
        (DOCKER_20, "docker", "/v1.41"),
        (PODMAN_4, "podman", "/v1.41"),
        ({"Version": "29.0.1", "ApiVersion": "1.52", "MinAPIVersion": "1.44"}, "docker", "/v1.44"),
        ({"Version": "28.5.2", "ApiVersion": "1.51", "MinAPIVersion": "1.24"}, "docker", "/v1.44"),
        ({"Version": "99", "ApiVersion": "1.99", "MinAPIVersion": "1.90"}, "docker", "/v1.90"),
    ],
)
async def test_requests_are_in_the_newest_version_that_both_sides_know(
    document: dict[str, Any], name: str, api: str
) -> None:
    async with answering(document) as (client, asked):
        found = await client.version()
        assert (found.name, found.version, found.api) == (name, document["Version"], api)
        await EngineClient(client.socket, found.api).info()
    assert asked == ["/version", f"{api}/info"]


async def test_an_engine_that_is_too_old_is_refused_with_the_version_that_is_needed() -> None:
    async with answering({"Version": "18.09.1", "ApiVersion": "1.39", "MinAPIVersion": "1.12"}) as (client, _):
        with pytest.raises(Unavailable, match=r"docker 18\.09\.1 .* too old: .* 1\.39 .* 1\.40 is needed"):
            await client.version()


async def test_the_health_check_of_an_image_is_told_by_podmans_own_api_too() -> None:
    """Podman 4.3 leaves it out of its answer in Docker's format."""
    check = {"Test": ["CMD-SHELL", "test -e /ready"], "Retries": 2}
    async with answering({"Config": {"Healthcheck": check}}) as (client, asked):
        assert await client.image_health("a:1") == check and asked == ["/images/a:1/json"]
    async with answering({"Config": {}, "Healthcheck": check}) as (client, asked):
        assert await client.image_health("a:1") == check and asked[1:] == ["/v4.0.0/libpod/images/a:1/json"]
    async with answering({"Config": None}) as (client, _):
        assert await client.image_health("a:1") == {}
