"""What the proxy passes between callers and programs: bodies, endless answers, WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.api.proxy.scene import Scene, ada, dial
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from kajitori.api.proxy import websockets


async def test_strange_answers_of_programs_are_no_bugs(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A status that HTTP does not know and an address that is none were bugs of the server, with a traceback in its
    log for each request."""
    place = f"{scene.server.url}/proxy/team/plain/8888"
    answer = await scene.http.get(f"{place}/strange", headers=ada())
    assert (answer.status_code, "799" in answer.text) == (502, True)
    answer = await scene.http.get(f"{place}/broken", headers=ada())
    assert (answer.status_code, answer.headers["location"]) == (302, "http://[broken")
    with pytest.raises(InvalidStatus) as refused:
        await dial(scene, scene.server.url, ada(), path="/proxy/team/plain/8888/strange")
    assert refused.value.response.status_code == 502
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_large_bodies_pass_both_ways(scene: Scene) -> None:
    base = f"{scene.server.url}/proxy/team/plain/8888"

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65_536

    up = await scene.http.post(f"{base}/upload", content=parts(), headers=ada())
    assert up.json() == {"bytes": 64 * 65_536}
    up = await scene.http.put(f"{base}/upload", content=b"x" * (3 << 20), headers=ada())
    assert up.json() == {"bytes": 3 << 20}
    down = await scene.http.get(f"{base}/download", headers=ada())
    assert len(down.content) == 64 * 65_536
    head = await scene.http.head(f"{base}/x", headers=ada())
    assert (head.status_code, head.content) == (200, b"")


async def test_answers_without_an_end_stop_with_their_reader(scene: Scene) -> None:
    """And with the right to connect."""
    url = f"{scene.server.url}/proxy/team/plain/8888/forever"
    async with scene.http.stream("GET", url, headers=ada()) as answer:
        assert await anext(answer.aiter_raw()) == b"first"
    while scene.world.api.callers.sessions._streaming:  # noqa: ASYNC110 - nothing tells of its end
        await asyncio.sleep(0)
    async with scene.http.stream("GET", url, headers=ada()) as answer:
        parts = answer.aiter_raw()
        await anext(parts)
        scene.world.kubernetes.denied.add(("ada", "create", "pods/portforward", "team"))
        await scene.world.api.callers.sessions.recheck()
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(parts)


async def test_websockets_pass_as_bytes(scene: Scene) -> None:
    """Large messages and sub-protocols too; they end with the right to connect."""
    async with await dial(scene, scene.server.url, ada(), path="/proxy/team/plain/8888/socket") as socket:
        assert socket.subprotocol == "kernel"
        large = b"x" * (3 << 20)
        await socket.send(large)
        assert await socket.recv() == large
        scene.world.kubernetes.denied.add(("ada", "create", "pods/portforward", "team"))
        await scene.world.api.callers.sessions.recheck()
        await socket.wait_closed()
    with pytest.raises(InvalidStatus) as refused:
        await dial(scene, scene.server.url, ada(), path="/proxy/team/none/8888/socket")
    assert refused.value.response.status_code == 404


async def test_an_idle_websocket_is_pinged_and_the_programs_own_pings_are_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program gets the browser's answers; it never has to ping by itself."""
    monkeypatch.setattr(websockets, "PING_SECONDS", 0.01)
    async with await dial(scene, scene.server.url, ada(), path="/proxy/team/plain/8888/idle") as socket:
        assert await socket.recv() == "PONG"


@given(st.lists(st.sampled_from([0, 1, 125, 126, 65_535, 65_536]), max_size=4), st.lists(st.integers(0, 140_000)))
def test_a_ping_goes_between_frames_however_their_bytes_are_split(sizes: list[int], cuts: list[int]) -> None:
    """Frames end where the library for WebSockets ends them, masked or not."""
    sent, ends = b"", {0}
    for number, size in enumerate(sizes):
        sent += Frame(Opcode.BINARY, bytes(size)).serialize(mask=bool(number % 2))
        ends.add(len(sent))
    frames, position = websockets.FrameEnds(), 0
    for cut in sorted({*(min(cut, len(sent)) for cut in cuts), *ends}):
        frames.passed(sent[position:cut])
        position = cut
        assert frames.is_between == (cut in ends)
