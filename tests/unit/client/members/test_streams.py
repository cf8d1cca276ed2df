"""Streams to members."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, view
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import Frame, Opcode
from websockets.protocol import Event

from kajitori.client.members import streams
from kajitori.client.members.streams import COMMAND_PROTOCOL, command_request, running
from kajitori.client.target import Target
from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.errors import InvalidInput, Unavailable
from kajitori.kube.connection.joined import PING_SECONDS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sh", "-c", "x" * 140_000], "a word has 140,000 bytes, and programs get at most 131,071"),
        (["rm", *["x" * 90_000] * 12], r"takes 1,080,\d+ bytes of an address, and 1,000,000 fit"),
    ],
)
def test_a_command_that_no_program_can_get_is_refused_with_the_way_out(words: list[str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        command_request(Target("http://127.0.0.1:1", TOKEN), view("bert"), words)
    assert "kaji exec -i RUN sh < FILE" in refused.value.faults[0].hint


async def test_writes_to_a_connection_that_was_reset_are_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Answers to the pings that had come while a laptop slept filled the terminal of `kaji attach` when it woke up."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.transport.abort()
        for _ in range(20):
            writer.write(b"pong")
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


async def test_a_server_that_vanishes_silently_ends_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and what is sent, and answers nothing: not even pings."""

    async def swallow(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with serve(swallow, "127.0.0.1", 0, subprotocols=[COMMAND_PROTOCOL], ping_interval=None) as served:
        target = Target(f"http://127.0.0.1:{next(iter(served.sockets)).getsockname()[1]}", TOKEN)
        with pytest.raises(Unavailable, match="broke while the command ran: the server was silent for 45 seconds"):
            async with running(target, *command_request(target, view("bert"), ["sleep", "9"])) as stream:
                socket = stream._socket
                assert isinstance(socket, streams.WatchedConnection)
                monkeypatch.setattr(socket, "_heard_at", socket.loop.time() - streams.SILENCE_SECONDS)
                socket.loop.call_soon(socket._look_now)
                async for _ in stream.output():
                    pass


@pytest.mark.parametrize("reads", [True, False])
async def test_a_server_counts_as_silent_only_while_its_bytes_are_read(
    reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has arrived may wait for a slow reader of the command's output."""

    async def swallow(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with serve(swallow, "127.0.0.1", 0, subprotocols=[COMMAND_PROTOCOL]) as served:
        target = Target(f"http://127.0.0.1:{next(iter(served.sockets)).getsockname()[1]}", TOKEN)
        async with running(target, *command_request(target, view("bert"), ["true"])) as stream:
            socket = stream._socket
            assert isinstance(socket, streams.WatchedConnection)
            if not reads:
                socket.transport.pause_reading()
            monkeypatch.setattr(socket, "_heard_at", socket.loop.time() - streams.SILENCE_SECONDS)
            socket._look_now()
            assert socket.was_silent == reads
            socket.transport.abort()


async def test_a_command_that_was_stopped_first_reads_what_arrived_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """After SIGCONT (Ctrl-Z and fg), its overdue timers run before its socket is read."""

    async def swallow(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with serve(swallow, "127.0.0.1", 0, subprotocols=[COMMAND_PROTOCOL]) as served:
        target = Target(f"http://127.0.0.1:{next(iter(served.sockets)).getsockname()[1]}", TOKEN)
        async with running(target, *command_request(target, view("bert"), ["true"])) as stream:
            socket = stream._socket
            assert isinstance(socket, streams.WatchedConnection)
            monkeypatch.setattr(socket, "_heard_at", socket.loop.time() - 2 * streams.SILENCE_SECONDS)
            assert socket._look is not None
            socket._look.cancel()
            monkeypatch.setattr(socket, "_look", socket.loop.call_at(socket.loop.time() - 40, socket._look_now))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not socket.was_silent
            assert 0 < socket._look.when() - socket.loop.time() <= streams.SILENCE_SECONDS, "it looks again"
            socket.transport.abort()


async def test_an_idle_command_pings_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may be silent for hours, and proxies close connections on which nothing is sent."""
    monkeypatch.setattr(streams, "PING_SECONDS", 0.01)
    pinged = asyncio.Event()

    class Counting(ServerConnection):
        pings = 0

        def process_event(self, event: Event) -> None:
            if isinstance(event, Frame) and event.opcode is Opcode.PING:
                self.pings += 1
                if self.pings == 5:
                    pinged.set()
            super().process_event(event)

    async def answer(socket: ServerConnection) -> None:
        await pinged.wait()
        await socket.send(bytes([streams.Channel.STATUS]) + b'{"status": "Success"}')

    options: Any = {"create_connection": Counting, "ping_interval": None, "subprotocols": [COMMAND_PROTOCOL]}
    async with serve(answer, "127.0.0.1", 0, **options) as served:
        target = Target(f"http://127.0.0.1:{next(iter(served.sockets)).getsockname()[1]}", TOKEN)
        async with running(target, *command_request(target, view("bert"), ["train"])) as stream:
            assert [piece async for piece in stream.output()] == []
    assert stream.exit_code == 0


def test_pings_are_more_frequent_than_proxies_expect() -> None:
    """Many proxies cut a connection that was idle for 60 s, and some after 10 s. They count for each direction."""
    assert 2 * PING_SECONDS < 10
    assert 2 * PING_SECONDS < streams.SILENCE_SECONDS, "an unanswered ping delays the next one"


class Proxy:
    """A proxy of a company: it takes CONNECT alone, and leads every host to the same port of this machine."""

    def __init__(self, port: int) -> None:
        self.asked: list[bytes] = []
        self._port = port
        self._both: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        inside, outside = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copy(reader, outside), _copy(inside, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.mark.parametrize("variable", ["http_proxy", "ALL_PROXY"])
async def test_streams_take_the_proxy_that_requests_take(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also its user and password. $NO_PROXY names servers that are reached without it."""

    async def answer(socket: ServerConnection) -> None:
        await socket.send(bytes([streams.Channel.STATUS]) + b'{"status": "Success"}')

    async with serve(answer, "127.0.0.1", 0, subprotocols=[COMMAND_PROTOCOL]) as served:
        proxy = Proxy(next(iter(served.sockets)).getsockname()[1])
        async with await asyncio.start_server(proxy.take, "127.0.0.1", 0) as listening:
            monkeypatch.setenv(variable, f"http://ada:secret@127.0.0.1:{listening.sockets[0].getsockname()[1]}")
            target = Target("http://kaji.example.org:8600", TOKEN)
            async with running(target, *command_request(target, view("bert"), ["true"])) as stream:
                assert [piece async for piece in stream.output()] == []
    assert stream.exit_code == 0
    (asked,) = proxy.asked
    assert asked.startswith(b"CONNECT kaji.example.org:8600 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic YWRhOnNlY3JldA==\r\n" in asked
    monkeypatch.setenv("NO_PROXY", ".example.org")
    assert streams._proxy_of(target) is None


@pytest.mark.parametrize("server_scheme", ["http", "https"])
async def test_streams_take_a_proxy_that_is_spoken_to_by_tls(
    server_scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS to an https server then goes through TLS to the proxy."""
    of_proxy, of_server = ensure_certificates(tmp_path / "proxy"), ensure_certificates(tmp_path / "server")
    monkeypatch.setenv("SSL_CERT_FILE", str(of_proxy.ca))
    proxy_tls, server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    proxy_tls.load_cert_chain(of_proxy.server, of_proxy.server_key)
    server_tls.load_cert_chain(of_server.server, of_server.server_key)

    async def answer(socket: ServerConnection) -> None:
        await socket.send(bytes([streams.Channel.STATUS]) + b'{"status": "Success"}')

    given = server_tls if server_scheme == "https" else None
    async with serve(answer, "127.0.0.1", 0, subprotocols=[COMMAND_PROTOCOL], ssl=given) as served:
        port = next(iter(served.sockets)).getsockname()[1]
        proxy = Proxy(port)
        async with await asyncio.start_server(proxy.take, "127.0.0.1", 0, ssl=proxy_tls) as listening:
            address = f"ada:secret@127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            monkeypatch.setenv("ALL_PROXY", f"https://{address}")
            target = Target(f"{server_scheme}://localhost:{port}", TOKEN, ca=of_server.ca)
            monkeypatch.setattr(Target, "is_local", False)  # the certificate's names are of this machine alone
            async with running(target, *command_request(target, view("bert"), ["true"])) as stream:
                assert [piece async for piece in stream.output()] == []
    assert stream.exit_code == 0
    assert proxy.asked[0].startswith(b"CONNECT localhost:%d HTTP/1.1\r\n" % port)


async def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("ftp://127.0.0.1:1", "socks5://127.0.0.1:1", "http://127.0.0.1:1"):
        monkeypatch.setenv("http_proxy", url)
        target = Target("http://kaji.example.org:8600", TOKEN)
        with pytest.raises(Unavailable, match="can't be reached"):
            async with running(target, *command_request(target, view("bert"), ["true"])):
                pass
