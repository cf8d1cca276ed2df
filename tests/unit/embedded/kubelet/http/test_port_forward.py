"""Port-forward by the kubelet's own API: SPDY, SPDY in a WebSocket, and a WebSocket with channels."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from tests.unit.embedded.kubelet.conftest import BOUND_SECONDS, Machine, until

from kajitori.embedded.kubelet.http import port_forward, remote
from kajitori.embedded.kubelet.settings import ServerSettings
from kajitori.kube.spdy import session as spdy_session
from kajitori.kube.spdy.frames import (
    Connection,
    DataReceived,
    Event,
    StreamOpened,
    StreamReplied,
    StreamReset,
)

TOKEN = "a-token-of-this-test"
PATH = "/portForward/default/p"
TUNNEL, CHANNELS = "SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io"


class Api:
    """A kubelet with a Pod `p` on the machine's network. The test itself listens on the Pod's ports."""

    def __init__(self, machine: Machine, trust: ssl.SSLContext, session: aiohttp.ClientSession) -> None:
        self.machine = machine
        self.trust = trust
        self.session = session
        self.headers = {"Authorization": f"Bearer {TOKEN}"}

    @property
    def port(self) -> int:
        return self.machine.kubelet.node.port

    def websocket(self, protocol: str, query: str = "", **options: Any) -> Any:
        url = f"https://127.0.0.1:{self.port}{PATH}{query}"
        return self.session.ws_connect(url, protocols=(protocol,), headers=self.headers, **options)

    async def answer(self, method: str, query: str = "", **headers: str) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.port}{PATH}{query}"
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, url, headers={**self.headers, **given}) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path) as made:
        yield made


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Api]:
    machine = Machine(folder / "kubelet", server=ServerSettings(bearer_tokens=frozenset({TOKEN})))
    await machine.start()
    await machine.cluster.submit("p", "sleep", "1000")
    await machine.phase("p", "Running")
    trust = ssl.create_default_context(cafile=str(machine.root / "pki/127.0.0.1.crt"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield Api(machine, trust, session)
    await machine.tear_down()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """Start a server; yield its port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Client:
    """A SPDY client. `wait` reads until a condition holds."""

    def __init__(self, receive: Callable[[], Coroutine[Any, Any, bytes]], send: Callable[[bytes], Any]) -> None:
        self.connection = Connection(is_client=True)
        self.data: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()
        self.accepted: set[int] = set()
        self.is_over = False
        self._receive = receive
        self._send = send

    async def send(self, data: bytes) -> None:
        await self._send(data)

    async def open(self, **headers: str) -> int:
        number, frame = self.connection.open(headers)
        self.data[number] = b""
        await self.send(frame)
        return number

    async def connect(self, port: int, request: int = 1) -> tuple[int, int]:
        """Open a connection; return its streams for data and for errors."""
        errors = await self.open(streamtype="error", port=str(port), requestid=str(request))
        await self.end(errors)
        return await self.open(streamtype="data", port=str(port), requestid=str(request)), errors

    async def write(self, stream: int, data: bytes) -> None:
        await self.send(b"".join(self.connection.data(stream, data)))

    async def end(self, stream: int) -> None:
        await self.send(b"".join(self.connection.data(stream, b"", end=True)))

    async def wait(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(BOUND_SECONDS):
            while not condition():
                assert not self.is_over, "the connection has ended"
                data = await self._receive()
                self.is_over = not data
                for event in self.connection.receive(data):
                    self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case StreamReplied(stream, _, _):
                self.accepted.add(stream)
            case DataReceived(stream, data, ended):
                self.data[stream] += data
                self.ended |= {stream} if ended else set()
            case StreamReset(stream, _):
                self.reset.add(stream)
            case StreamOpened():
                raise AssertionError("a kubelet opens no streams")


@asynccontextmanager
async def upgraded(api: Api, protocol: str = "portforward.k8s.io", path: str = PATH) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port, ssl=api.trust)
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{api.port}", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    lines += [f"X-Stream-Protocol-Version: {protocol}", f"Authorization: Bearer {TOKEN}", "Content-Length: 0"]
    writer.write("\r\n".join((*lines, "", "")).encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), BOUND_SECONDS)
    assert head.startswith(b"HTTP/1.1 101 "), head

    async def send(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    try:
        yield Client(lambda: reader.read(65536), send)
    finally:
        writer.close()


@asynccontextmanager
async def tunnelled(api: Api) -> AsyncIterator[Client]:
    async with api.websocket(TUNNEL) as websocket:
        assert websocket.protocol == TUNNEL

        async def receive() -> bytes:
            message = await websocket.receive()
            return message.data if message.type is aiohttp.WSMsgType.BINARY else b""

        yield Client(receive, websocket.send_bytes)


@pytest.mark.parametrize("connected", [upgraded, tunnelled])
async def test_each_direction_of_a_connection_ends_separately(api: Api, connected: Callable[[Api], Any]) -> None:
    """The program sees the client's end; its answer and its own end still arrive."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read())[::-1])
        writer.close()

    async with listening(serve) as port, connected(api) as client:
        data, errors = await client.connect(port)
        await client.write(data, b"hello")
        await client.end(data)
        await client.wait(lambda: {data, errors} <= client.ended)
        assert (client.data[data], client.data[errors]) == (b"olleh", b"")


def test_connections_are_forwarded_under_uvloop(tmp_path: Path) -> None:
    """The servers run on uvloop. Its transports are no `asyncio.Transport`, and exec over SPDY once failed for that
    reason."""

    async def story() -> None:
        async with running(tmp_path) as api:
            for connected in (upgraded, tunnelled):
                await test_each_direction_of_a_connection_ends_separately(api, connected)
            async with upgraded(
                api, "v4.channel.k8s.io", "/exec/default/p/main?command=cat&input=1&output=1"
            ) as client:
                streams = [await client.open(streamtype=name) for name in ("error", "stdin", "stdout")]
                await client.write(streams[1], b"hello")
                await client.end(streams[1])
                await client.wait(lambda: streams[0] in client.ended)
                assert client.data == {
                    streams[0]: b'{"metadata": {}, "status": "Success"}',
                    streams[1]: b"",
                    streams[2]: b"hello",
                }

    uvloop.run(story())


async def test_a_program_that_closed_its_output_still_gets_input(api: Api) -> None:
    heard = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all")
        writer.write_eof()
        assert await reader.read() == b"late words"
        heard.set()
        writer.close()

    async with listening(serve) as port, upgraded(api) as client:
        data, errors = await client.connect(port)
        await client.wait(lambda: data in client.ended)
        late = b"".join((*client.connection.data(data, b"late "), *client.connection.data(data, b"words", end=True)))
        await client.send(late)
        await asyncio.wait_for(heard.wait(), BOUND_SECONDS)
        await client.wait(lambda: errors in client.ended)
        assert client.data == {data: b"all", errors: b""}


async def test_a_stream_that_the_client_resets_ends_for_the_program(api: Api) -> None:
    """The stream for errors ends, too, since kubectl waits for that. Other connections continue."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    async with listening(serve) as port, listening(echo) as other, upgraded(api) as client:
        data, errors = await client.connect(port)
        await client.wait(lambda: data in client.accepted)
        await client.send(client.connection.reset(data))
        await asyncio.wait_for(ended.wait(), BOUND_SECONDS)
        await client.wait(lambda: errors in client.ended)
        second, _ = await client.connect(other, 2)
        await client.write(second, b"on")
        await client.wait(lambda: client.data[second] == b"on")


async def test_the_reason_for_an_unreachable_port_is_sent(api: Api) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with upgraded(api) as client:
        data, errors = await client.connect(port)
        await client.wait(lambda: errors in client.ended)
        said = f"nothing listens on port {port} of localhost in the Pod: connection refused"
        assert said in client.data[errors].decode()
        await client.wait(lambda: data in client.ended | client.reset)


@pytest.mark.parametrize(
    "headers",
    [
        {"streamtype": "data", "requestid": "1"},
        {"streamtype": "data", "port": "0", "requestid": "1"},
        {"streamtype": "data", "port": "65536", "requestid": "1"},
        {"streamtype": "data", "port": "8" * 5000, "requestid": "1"},
        {"streamtype": "stdin", "port": "80", "requestid": "1"},
        {"streamtype": "error", "port": "80", "requestid": "0"},
        {"streamtype": "data", "port": "81", "requestid": "0"},
    ],
)
async def test_invalid_streams_are_refused(api: Api, headers: dict[str, str]) -> None:
    """The last two repeat or contradict a stream that is open already."""
    async with upgraded(api) as client:
        first = await client.open(streamtype="error", port="80", requestid="0")
        refused = await client.open(**headers)
        await client.wait(lambda: refused in client.reset)
        assert first in client.accepted


async def test_a_connection_without_its_second_stream_is_reset(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "STREAMS_SECONDS", 0.01)
    async with upgraded(api) as client:
        errors = await client.open(streamtype="error", port="80", requestid="1")
        await client.wait(lambda: errors in client.reset)


async def test_hostile_bytes_end_only_their_own_connection(api: Api) -> None:
    """An invalid frame, a frame that is too long, noise."""
    async with listening(echo) as port, upgraded(api) as other:
        data, _ = await other.connect(port)
        for hostile in (
            b"\x80\x02\x00\x01" + bytes(12),
            struct.pack(">II", 1 << 31 | 3 << 16 | 1, 1 << 23),
            b"GET /\r\n" * 9,
        ):
            async with upgraded(api) as client:
                await client.send(hostile)
                with pytest.raises((AssertionError, ConnectionError)):
                    await client.wait(lambda: False)
        await other.write(data, b"still here")
        await other.wait(lambda: other.data[data] == b"still here")


async def test_a_program_that_does_not_read_pauses_its_client(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet keeps no more than its limit, and all bytes arrive after the program reads."""
    monkeypatch.setattr(spdy_session, "UNREAD_BYTES", 100_000)
    sessions: list[spdy_session.Session] = []
    made = spdy_session.Session.__init__

    def noted(session: spdy_session.Session, *args: Any) -> None:
        made(session, *args)
        sessions.append(session)

    monkeypatch.setattr(spdy_session.Session, "__init__", noted)
    reads, size, got = asyncio.Event(), 30 << 20, []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reads.wait()
        while piece := await reader.read(1 << 20):
            got.append(len(piece))
        writer.write(b"all")
        writer.close()

    async with listening(serve) as port, upgraded(api) as client:
        data, _ = await client.connect(port)
        await client.wait(lambda: data in client.accepted)
        sent = 0
        for _ in range(size >> 20):
            sending = asyncio.create_task(client.write(data, bytes(1 << 20)))
            sent += 1 << 20
            await asyncio.wait({sending}, timeout=0.5)
            if not sending.done():
                break
        assert not sending.done(), "the client has to wait"
        assert 0 < sessions[0]._unread_bytes < 1 << 20
        reads.set()
        await sending
        await client.end(data)
        await client.wait(lambda: client.data[data] == b"all")
        assert sum(got) == sent


@pytest.mark.parametrize("connected", [upgraded, tunnelled])
async def test_a_client_that_does_not_read_is_disconnected_with_its_pod(
    api: Api, monkeypatch: pytest.MonkeyPatch, connected: Callable[[Api], Any]
) -> None:
    """The kubelet does not wait until the client has read everything."""
    monkeypatch.setattr(spdy_session, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(port_forward, "CLOSE_SECONDS", 0.05)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(bytes(1 << 20))
                await writer.drain()

    before = residue()
    async with listening(serve) as port, connected(api) as client:
        await client.connect(port)
        await client.wait(lambda: sum(map(len, client.data.values())) > 1 << 20)
        api.machine.cluster.vanish("p")
        await until(lambda: not api.machine.kubelet.workers)
    await until(lambda: all(now <= then for now, then in zip(residue(), before, strict=True)))


async def test_forwarding_ends_with_its_pod(api: Api) -> None:
    """No task, no open file and no connection to the program is left."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    await until(lambda: api.machine.cluster.phase("p") == "Running")
    before = residue()
    async with listening(serve) as port, upgraded(api) as client:
        data, _ = await client.connect(port)
        await client.wait(lambda: data in client.accepted)
        api.machine.cluster.vanish("p")
        with pytest.raises((AssertionError, ConnectionError)):
            await client.wait(lambda: False)
        await asyncio.wait_for(ended.wait(), BOUND_SECONDS)
    await until(lambda: all(now <= then for now, then in zip(residue(), before, strict=True)))
    assert await api.answer("POST", Upgrade="SPDY/3.1") == (404, 'pod "p" does not exist on this node\n')


def residue() -> tuple[int, int]:
    """Return the number of tasks and of open files of this process, in which the kubelet runs."""
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))


async def test_ports_as_channels_of_a_websocket(api: Api) -> None:
    """Both channels of a port begin with its number. Data and errors have channels of their own."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        silent = taken.getsockname()[1]
    async with listening(echo) as port, api.websocket(CHANNELS, f"?port={port},{silent}") as websocket:
        firsts = [await websocket.receive_bytes() for _ in range(4)]
        numbers = [struct.pack("<H", number) for number in (port, port, silent, silent)]
        assert firsts == [bytes([channel]) + number for channel, number in enumerate(numbers)]
        error = await websocket.receive_bytes()
        assert (error[0], b"connection refused" in error) == (3, True)
        for ignored in (b"", b"\x02nobody listens", b"\x01not for errors", b"\x63no such channel"):
            await websocket.send_bytes(ignored)
        await websocket.send_bytes(b"\x00hello")
        assert await websocket.receive_bytes() == b"\x00hello"


async def test_a_websocket_ends_with_the_last_of_its_programs(api: Api) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.close()

    async with listening(serve) as port, api.websocket(CHANNELS, f"?port={port}") as websocket:
        got = [message.data async for message in websocket]
        assert (got[2:], websocket.close_code) == ([b"\x00bye"], 1000)


async def test_idle_clients_are_pinged_and_need_not_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings keep proxies from closing the connection. A busy client is not disconnected."""
    monkeypatch.setattr(spdy_session, "PING_SECONDS", 0.01)
    monkeypatch.setattr(remote, "PING_SECONDS", 0.01)
    async with listening(echo) as port:
        async with upgraded(api) as client:
            data, _ = await client.connect(port)
            await client.wait(lambda: client.connection.take_queued().count(b"\x80\x03\x00\x06") >= 1)
            await client.wait(lambda: client.connection.take_queued().count(b"\x80\x03\x00\x06") >= 1)
            await client.write(data, b"here")
            await client.wait(lambda: client.data[data] == b"here")
        async with api.websocket(CHANNELS, f"?port={port}", autoping=False) as websocket:
            pings = 0
            while pings < 20:
                pings += (await websocket.receive()).type is aiohttp.WSMsgType.PING
            await websocket.send_bytes(b"\x00here")
            while (message := await websocket.receive()).type is aiohttp.WSMsgType.PING:
                pass
            assert message.data == b"\x00here"


@pytest.mark.parametrize(
    ("query", "headers", "said"),
    [
        ("", {"Upgrade": "SPDY/3.1", "X_Stream_Protocol_Version": "v4.channel.k8s.io"}, "speaks portforward.k8s.io"),
        ("", {}, "speaks SPDY/3.1 and WebSocket with SPDY/3.1+portforward.k8s.io"),
        ("?port=0", {}, "must be a port"),
        (f"?port={','.join(['80'] * 128)}", {}, "at most 127"),
    ],
)
async def test_unknown_protocols_and_ports_are_refused(
    api: Api, query: str, headers: dict[str, str], said: str
) -> None:
    status, text = await api.answer("POST", query, **headers)
    assert (status, said in text) == (400, True), text
