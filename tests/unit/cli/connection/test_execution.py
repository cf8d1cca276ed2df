"""The connection of `kaji exec` to a Web API with TLS."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import pty
import select
import signal
import ssl
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import ServerConnection, serve

from kajitori.cli.connection.execution import _Sender, execute, raw_terminal
from kajitori.client.members.streams import COMMAND_PROTOCOL, Channel, CommandStream
from kajitori.client.target import Target
from kajitori.embedded.apiserver.certificates import ensure_certificates


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Target]:
    """A Web API with TLS, whose members answer any command with `here`."""
    certificates = ensure_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    ports: list[int] = []
    listening, over = threading.Event(), asyncio.Event()

    async def handler(socket: ServerConnection) -> None:
        await socket.send(bytes([Channel.STDOUT]) + b"here")
        await socket.send(bytes([Channel.STATUS]) + b'{"status": "Success"}')

    async def main() -> None:
        async with serve(
            handler, "127.0.0.1", 0, ssl=context, subprotocols=[COMMAND_PROTOCOL], compression=None
        ) as socket:
            ports.append(socket.sockets[0].getsockname()[1])
            listening.set()
            await over.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    listening.wait()
    yield Target(url=f"https://127.0.0.1:{ports[0]}", token="secret", ca=certificates.ca)
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def test_one_thread_alone_uses_the_tls_connection(server: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL's connections are not thread-safe: with a thread that reads and one that writes, one in 200 executions
    failed with "did not receive a valid HTTP response"."""
    threads: set[int] = set()

    def noted(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def method(self: Any, *args: Any, **options: Any) -> Any:
            threads.add(threading.get_ident())
            return original(self, *args, **options)

        monkeypatch.setattr(kind, name, method)

    serving = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    for kind, names in ((ssl.SSLSocket, ("recv", "send")), (ssl.SSLObject, ("read", "write"))):
        for name in names:
            noted(kind, name)
    output = io.BytesIO()
    assert execute(server, {"namespace": "vision", "name": "bert"}, ["ls"], rank=0, stdout=output) == 0
    assert output.getvalue() == b"here"
    assert len(threads - serving) == 1


def test_input_after_the_end_leaves_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    """A key that is pressed, or a file that is still read, while the command ends."""

    class Socket:
        async def send(self, message: bytes) -> None:
            """Take the message."""

    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(RuntimeError):
        stream = CommandStream(cast(ClientConnection, Socket()))
        _Sender(stream, loop).send(stream.write(b"late"))
    gc.collect()
    assert not recwarn.list


@pytest.fixture
def keyboard() -> Iterator[int]:
    """A terminal as standard input; yields the descriptor of who types."""
    own, (keys, terminal) = os.dup(0), pty.openpty()
    os.dup2(terminal, 0)
    yield keys
    os.dup2(own, 0)
    for descriptor in (own, keys, terminal):
        os.close(descriptor)


def is_raw() -> bool:
    return not termios.tcgetattr(0)[3] & termios.ICANON


def test_what_was_typed_before_the_program_has_the_terminal_is_for_the_program(keyboard: int) -> None:
    """A run waits in the queue while its user types, or the connection has broken for a moment."""
    os.write(keyboard, b"ls -l")
    with raw_terminal(True):
        assert select.select([0], [], [], 0)[0] and os.read(0, 100) == b"ls -l"
    assert not is_raw()


def test_a_command_that_was_stopped_takes_the_terminal_again(keyboard: int) -> None:
    """The user's shell changes the mode of the terminal meanwhile, and perhaps its size."""
    with raw_terminal(True) as resized:
        before = termios.tcgetattr(0)
        before[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(0, termios.TCSANOW, before)
        signal.raise_signal(signal.SIGCONT)
        assert is_raw()
        assert os.read(resized, 100) == b"!"
