"""The relay over HTTP: streams of lines, who may read them, and lines while the API server is unreachable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from tests.unit.cluster.platform.fake_tokens import Agents
from tests.unit.kube.fake_api import FakeApi, WatchFault, client_of, fake_api

from kajitori.agent.relay import RelayPods
from kajitori.agent.servers import Servers
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.platform.agents import REVIEW_SECONDS, AgentTokens
from kajitori.core.traffic.node_feed import Line, decode_line
from kajitori.errors import Unavailable
from kajitori.kube.resources import PODS
from kajitori.relay.server import RelayServer

TOKEN = "a-long-random-word"


@asynccontextmanager
async def relaying(
    alive_seconds: float = 60.0, token: str = "", agents: AgentTokens | None = None
) -> AsyncIterator[tuple[FakeApi, RelayServer]]:
    async with fake_api() as api:
        api.put("a", nodeName="n1")
        async with client_of(api.url) as client, Mirror(client, [PODS]) as mirror:
            await mirror.wait_synced()
            async with RelayServer(mirror, alive_seconds=alive_seconds, token=token, agents=agents) as relay:
                yield api, relay


async def line_of(answer: aiohttp.ClientResponse) -> Line:
    async with asyncio.timeout(10):
        return decode_line(await answer.content.readline())


async def test_a_stream_has_the_changes_of_one_node() -> None:
    """A new stream continues where the last one ended, without repetition."""
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


async def test_idle_streams_have_lines_with_the_age_of_the_state() -> None:
    """Also while the API server is unreachable."""
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
async def test_clients_without_the_token_are_refused(shown: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {shown}"} if shown else {}
    async with (
        relaying(token=TOKEN) as (_, relay),
        aiohttp.ClientSession(relay.url) as http,
        http.get("/v1/nodes/n1/pods", headers=headers) as answer,
    ):
        assert answer.status == status
        if status == 401:
            assert set(await answer.json()) == {"code", "message"}


async def ended(answer: aiohttp.ClientResponse) -> list[str]:
    """Return the names of Pods in the stream's lines until it ends."""
    async with asyncio.timeout(10):
        return [pod.name for line in (await answer.content.read()).splitlines() for pod in decode_line(line).pods]


async def test_a_stream_ends_with_the_token_that_opened_it() -> None:
    """A client that returns with a newer token gets what it missed, without repetition."""
    agents = Agents()
    old = agents.token(life=600)
    async with (
        relaying(alive_seconds=0.05, agents=agents.tokens) as (api, relay),
        aiohttp.ClientSession(relay.url) as http,
    ):
        async with http.get("/v1/nodes/n1/pods", headers=bearer(old)) as answer:
            stamp = (await line_of(answer)).stamp
            agents.clock += 600
            api.put("b", nodeName="n1")
            assert await ended(answer) == []
        async with http.get("/v1/nodes/n1/pods", headers=bearer(old)) as answer:
            assert answer.status == 401
        fresh = agents.token(life=600)
        async with http.get("/v1/nodes/n1/pods", headers=bearer(fresh), params={"since": stamp}) as answer:
            assert sorted(pod.name for pod in (await line_of(answer)).pods) == ["a", "b"]
    assert agents.asked == [old, old, fresh]


@pytest.mark.parametrize("how", ["its Pod is gone", "the API server takes it no more"])
async def test_a_stream_ends_when_its_token_is_revoked(how: str) -> None:
    """Long before the token's own end."""
    agents = Agents()
    token = agents.token()
    async with (
        relaying(alive_seconds=0.05, agents=agents.tokens) as (_, relay),
        aiohttp.ClientSession(relay.url) as http,
        http.get("/v1/nodes/n1/pods", headers=bearer(token)) as answer,
    ):
        await line_of(answer)
        if how == "its Pod is gone":
            agents.pods.clear()
        else:
            agents.revoked.add(token)
            agents.clock += REVIEW_SECONDS
        await ended(answer)


async def test_an_agent_loses_nothing_when_its_token_is_replaced(tmp_path: Path) -> None:
    """It reads the newer one from its file when the stream ends, and continues."""
    agents = Agents()
    file = tmp_path / "token"
    file.write_text(agents.token(life=600))
    async with relaying(alive_seconds=0.05, agents=agents.tokens) as (api, relay):
        followed = RelayPods(Servers([relay.url], file), "n1", interface_of=lambda _: "", chance=lambda: 0.1)
        followed.start()
        try:
            await known(followed, {"a"})
            agents.clock += 480
            file.write_text(agents.token(life=600))
            api.put("b", nodeName="n1")
            await known(followed, {"a", "b"})
            assert len(agents.asked) == 1, "the stream goes on with the token that opened it"
            agents.clock += 120
            api.remove("a")
            api.put("c", nodeName="n1")
            await known(followed, {"b", "c"})
            assert len(agents.asked) == 2
        finally:
            await asyncio.to_thread(followed.stop)


async def known(pods: RelayPods, names: set[str]) -> None:
    """Wait until the agent knows exactly these Pods."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(ConnectionError):
                if {pod.name for pod in pods.pods().values()} == names:
                    return
            await asyncio.sleep(0.02)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_streams_end_with_the_relay() -> None:
    """So that clients connect to another relay at once."""
    async with fake_api() as api, client_of(api.url) as client, Mirror(client, [PODS]) as mirror:
        await mirror.wait_synced()
        relay = RelayServer(mirror)
        await relay.start()
        async with aiohttp.ClientSession(relay.url) as http, http.get("/v1/nodes/n1/pods") as answer:
            await line_of(answer)
            await relay.stop()
            async with asyncio.timeout(10):
                assert await answer.content.readline() == b""


async def test_an_address_in_use_is_named() -> None:
    async with relaying() as (_, relay), fake_api() as api, client_of(api.url) as client:
        port = int(relay.url.rpartition(":")[2])
        with pytest.raises(Unavailable, match=f"can't listen at 127.0.0.1, port {port}"):
            await RelayServer(Mirror(client, [PODS]), port=port).start()
