"""A command inside a member, over a WebSocket that speaks Kubernetes' `v5.channel.k8s.io`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from kajitori.cli.connection.http import error_of, run_path
from kajitori.cli.connection.target import Target
from kajitori.cli.terminal import say
from kajitori.cli.words.runs import View
from kajitori.client.connection import Response
from kajitori.errors import KajitoriError, Unavailable

PROTOCOL = Subprotocol("v5.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK_BYTES = 32 * 1024
_OPEN_SECONDS = 15.0


NO_STDIN = -1


def execute(
    target: Target,
    run: View,
    command: Sequence[str],
    *,
    rank: int,
    stdin: int = NO_STDIN,
    tty: bool = False,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
    debug: bool = False,
) -> int:
    """Run the command in the member of this rank and return its exit code.

    `stdin` is a descriptor that is passed on to its end, or `NO_STDIN`. The command's output goes to `stdout` and
    `stderr`, by default those of this process. Raises Unavailable if the connection breaks before the command ends.
    """
    flags = [("rank", str(rank))] + [("stdin", "true")] * (stdin >= 0) + [("tty", "true")] * tty
    query = urlencode([*(("command", word) for word in command), *flags])
    path = run_path(run, "/exec")
    if debug:
        say(f"> WebSocket {target.url}{path}")
    url = "ws" + target.url.removeprefix("http") + f"{path}?{query}"
    outputs = {STDOUT: stdout or sys.stdout.buffer, STDERR: stderr or sys.stderr.buffer}
    return asyncio.run(_execute(url, target, outputs, stdin, tty=tty))


async def _execute(url: str, target: Target, outputs: Mapping[int, BinaryIO], stdin: int, *, tty: bool) -> int:
    socket = await _connect(url, target)
    with _terminal(tty) as resized:
        try:
            send = partial(_send_from_thread, socket, asyncio.get_running_loop())
            threading.Thread(target=_send_input, args=(send, stdin, resized), name="stdin", daemon=True).start()
            return await _receive(socket, outputs)
        finally:
            await socket.close()


async def _connect(url: str, target: Target) -> ClientConnection:
    """Open the WebSocket. The event loop alone reads and writes the connection: two threads must not use one TLS
    connection at the same time, which is why this is not the synchronous client of `websockets`."""
    try:
        return await connect(
            url,
            subprotocols=[PROTOCOL],
            additional_headers={"Authorization": f"Bearer {target.token}"},
            proxy=None if target.is_local else True,
            ssl=target.tls() if url.startswith("wss") else None,
            open_timeout=_OPEN_SECONDS,
            max_size=None,
            compression=None,
        )
    except InvalidStatus as error:
        raise _refusal(error, target) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise Unavailable(f"{target.url} can't be reached: {error}", hint=target.way_out) from error


def _refusal(error: InvalidStatus, target: Target) -> KajitoriError:
    """Return the error for an answer that refuses the WebSocket."""
    body = bytes(error.response.body or b"")
    return error_of(Response(error.response.status_code, {}, iter([body]), target.url))


async def _receive(socket: ClientConnection, outputs: Mapping[int, BinaryIO]) -> int:
    """Write the command's output until it ends, and return its exit code."""
    try:
        async for message in socket:
            data = message.encode() if isinstance(message, str) else message
            if not data:
                continue
            channel, payload = data[0], data[1:]
            if channel in outputs:
                outputs[channel].write(payload)
                outputs[channel].flush()
            elif channel == STATUS:
                return _exit_code(payload)
    except ConnectionClosed as error:
        reason = error.rcvd.reason if error.rcvd is not None else ""
        raise Unavailable(reason or "the connection broke while the command ran") from error
    raise Unavailable("the connection ended before the command did")


def _exit_code(payload: bytes) -> int:
    """Return the exit code in a Kubernetes Status. Raises KajitoriError if the command did not run."""
    try:
        status = json.loads(payload)
    except ValueError as error:
        raise Unavailable("the server did not say how the command ended") from error
    if status.get("status") == "Success":
        return 0
    causes: list[Mapping[str, Any]] = (status.get("details") or {}).get("causes") or []
    for cause in causes:
        if cause.get("reason") == "ExitCode":
            with contextlib.suppress(ValueError, KeyError):
                return int(cause["message"])
    raise KajitoriError(str(status.get("message") or "the command could not be run"))


Send = Callable[[bytes], None]


def _send_from_thread(socket: ClientConnection, loop: asyncio.AbstractEventLoop, message: bytes) -> None:
    """Send a message from another thread than the event loop's, and wait until the connection has taken it. Raises
    RuntimeError if the loop has ended."""
    sending = socket.send(message)
    try:
        future = asyncio.run_coroutine_threadsafe(sending, loop)
    except RuntimeError:
        sending.close()  # else Python warns on the user's terminal that it was never awaited
        raise
    future.result()


def _send_input(send: Send, stdin: int, resized: int) -> None:
    """Pass on stdin and the size of the window until the connection ends. Runs in a thread of its own, because stdin
    may be a file, which no event loop can wait for."""
    sources = [source for source in (resized, stdin) if source >= 0]
    try:
        if resized >= 0:
            _send_size(send)
        while sources:
            ready, _, _ = select.select(sources, [], [])
            if resized in ready:
                os.read(resized, 1024)
                _send_size(send)
            if stdin in ready:
                data = os.read(stdin, _CHUNK_BYTES)
                if data:
                    send(bytes([STDIN]) + data)
                else:
                    sources.remove(stdin)
                    send(bytes([CLOSE, STDIN]))
    except (ConnectionClosed, CancelledError, OSError, RuntimeError, ValueError):
        return  # the connection, or with it the event loop, has ended


def _send_size(send: Send) -> None:
    columns, lines = shutil.get_terminal_size()
    send(bytes([RESIZE]) + json.dumps({"Width": columns, "Height": lines}).encode())


@contextlib.contextmanager
def _terminal(tty: bool) -> Iterator[int]:
    """Put the terminal into raw mode, because the member's own terminal echoes and edits lines.

    Yields a descriptor that becomes readable when the size of the window changes, or -1 if `tty` is False.
    """
    if not tty:
        yield -1
        return
    import termios
    import tty as terminal

    before = termios.tcgetattr(0)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def changed(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"!")

    handler = signal.signal(signal.SIGWINCH, changed)
    terminal.setraw(0)
    try:
        yield reader
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)
        os.close(writer)
