"""The relay over HTTP: streams of lines, who may read them, and what is said while the API server is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.unit.kube.fake_api import FakeApi, WatchFault, client_of, fake_api

from kajitori.core.node_feed import Line, decode_line
from kajitori.errors import Unavailable
from kajitori.kube.mirror import Mirror
from kajitori.kube.resources import PODS
from kajitori.relay.server import RelayServer

TOKEN = "a-long-random-word"


@asynccontextmanager
async def relaying(alive_seconds: float = 60.0, token: str = "") -> AsyncIterator[tuple[FakeApi, RelayServer]]:
    async with fake_api() as api:
        api.put("a", nodeName="n1")
        async with client_of(api.url) as client, Mirror(client, [PODS]) as mirror:
            await mirror.wait_synced()
            async with RelayServer(mirror, alive_seconds=alive_seconds, token=token) as relay:
                yield api, relay


async def line_of(answer: aiohttp.ClientResponse) -> Line:
    async with asyncio.timeout(10):
        return decode_line(await answer.content.readline())


async def test_a_stream_tells_of_one_node_as_it_changes() -> None:
    """And from where it was broken off, nothing twice."""
    async with relaying() as (api, relay), aiohttp.ClientSession(relay.url) as http:
        async with http.get("/v1/nodes/n1/pods") as answer:
            first = await line_of(answer)
            assert first.whole and [pod.name for pod in first.pods] == ["a"]
            api.put("b", nodeName="n1")
            second = await line_of(answer)
            assert (second.whole, [pod.name for pod in second.pods]) == (False, ["b"])
        async with http.get("/v1/nodes/n1/pods", params={"since": second.stamp}) as answer:
            again = await line_of(answer)
            assert (again.whole, again.pods, again.gone) == (False, (), ())


async def test_a_line_comes_also_when_nothing_happens_and_says_how_old_it_is() -> None:
    """The API server that is away is no reason to say nothing."""
    async with relaying(alive_seconds=0.05) as (api, relay), aiohttp.ClientSession(relay.url) as http:
        async with http.get("/v1/nodes/n1/pods") as answer:
            assert (await line_of(answer)).age_seconds == 0
            api.watch_answers.extend([503] * 50)
            api.fail_watches(WatchFault.BREAK)
            while not (await line_of(answer)).age_seconds:
                pass
        async with http.get("/v1/nodes/n1/pods") as answer:
            late = await line_of(answer)
            assert late.whole and [pod.name for pod in late.pods] == ["a"]
        async with http.get("/metrics") as answer:
            figures = await answer.text()
        assert "kajitori_relay_streams" in figures
        async with http.get("/healthz") as answer:
            assert answer.status == 200


@pytest.mark.parametrize(("shown", "status"), [(TOKEN, 200), ("another", 401), ("", 401), ("ü", 401)])
async def test_who_does_not_show_the_token_is_told_nothing(shown: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {shown}"} if shown else {}
    async with (
        relaying(token=TOKEN) as (_, relay),
        aiohttp.ClientSession(relay.url) as http,
        http.get("/v1/nodes/n1/pods", headers=headers) as answer,
    ):
        assert answer.status == status
        if status == 401:
            assert set(await answer.json()) == {"code", "message"}


async def test_streams_end_with_the_relay() -> None:
    """So that whoever follows asks another one at once."""
    async with fake_api() as api, client_of(api.url) as client, Mirror(client, [PODS]) as mirror:
        await mirror.wait_synced()
        relay = RelayServer(mirror)
        await relay.start()
        async with aiohttp.ClientSession(relay.url) as http, http.get("/v1/nodes/n1/pods") as answer:
            await line_of(answer)
            await relay.stop()
            async with asyncio.timeout(10):
                assert await answer.content.readline() == b""


async def test_an_address_that_is_taken_is_said() -> None:
    async with relaying() as (_, relay), fake_api() as api, client_of(api.url) as client:
        port = int(relay.url.rpartition(":")[2])
        with pytest.raises(Unavailable, match=f"can't listen at 127.0.0.1, port {port}"):
            await RelayServer(Mirror(client, [PODS]), port=port).start()
