"""Streams from the API server: logs, watches, and the WebSockets of exec and port-forward."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from enum import IntEnum
from types import TracebackType
from typing import Any

import aiohttp
import msgspec

from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.connection.failures import connection_failed
from kajitori.kube.errors import ConnectionFailed
from kajitori.kube.spdy.ports import PortChannel
from kajitori.kube.spdy.session import Session
from kajitori.kube.spdy.wires import WebSocketWire

EXEC_PROTOCOL = "v5.channel.k8s.io"


class ByteStream:
    """The body of an answer, in pieces as they arrive. Close it, or use it as an async context manager."""

    def __init__(self, config: KubeConfig, response: aiohttp.ClientResponse) -> None:
        self._config = config
        self._response = response

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield the pieces. Raises ConnectionFailed if the connection breaks, and TimeoutError after too long a
        silence."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise connection_failed(self._config, error) from error
        finally:
            self._response.close()

    async def aclose(self) -> None:
        """Close the connection."""
        self._response.close()

    async def __aenter__(self) -> ByteStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()


class Channel(IntEnum):
    """The first byte of each message of `v5.channel.k8s.io`."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class ExecStream:
    """A program that runs in a container. Iterate for its output; `exit_code` is known when the iteration has ended."""

    def __init__(self, config: KubeConfig, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._config = config
        self._socket = socket
        self.exit_code: int | None = None
        self.message = ""
        """The server's message about the end; empty if the program exited with 0."""

    async def __aiter__(self) -> AsyncGenerator[tuple[Channel, bytes]]:
        """Yield pieces of standard output and error. Raises ConnectionFailed if the connection breaks before
        the end."""
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, payload = message.data[0], message.data[1:]
                if channel in (Channel.STDOUT, Channel.STDERR) and payload:
                    yield Channel(channel), payload
                elif channel == Channel.ERROR:
                    self.exit_code, self.message = exit_of(payload)
                    return
        except (aiohttp.ClientError, OSError) as error:
            raise connection_failed(self._config, error) from error
        finally:
            await self._socket.close()
        raise ConnectionFailed(
            f"the API server at {self._config.server} broke the connection before the program ended", hint="try again"
        )

    async def write(self, data: bytes) -> None:
        """Send a piece of standard input."""
        await self._send(Channel.STDIN, data)

    async def close_stdin(self) -> None:
        """Signal the end of standard input."""
        await self._send(Channel.CLOSE, bytes([Channel.STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Send the terminal's new size."""
        await self._send(Channel.RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))

    async def aclose(self) -> None:
        """Close the connection; the kubelet decides what happens to the program."""
        await self._socket.close()

    async def __aenter__(self) -> ExecStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._socket.close()

    async def _send(self, channel: Channel, payload: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes([channel]) + payload)
        except (aiohttp.ClientError, OSError) as error:
            raise connection_failed(self._config, error) from error


class PortStream:
    """A connection to a port of a Pod over a WebSocket of its own.

    Close it, or use it as an async context manager. Unread bytes are then discarded.
    """

    def __init__(self, session: Session, channel: PortChannel, target: str) -> None:
        """Use `PortStream.over`."""
        self._session = session
        self._channel = channel
        self._serving = asyncio.create_task(session.run(), name=f"stream to {target}")

    @classmethod
    async def over(cls, config: KubeConfig, socket: aiohttp.ClientWebSocketResponse, pod: str, port: int) -> PortStream:
        """Connect to the port over an open WebSocket, which belongs to the stream from then on."""
        session = Session(WebSocketWire(socket), is_client=True)
        target = f"port {port} of Pod {pod}"
        try:
            channel = await PortChannel.open(session, port, 0, target)
        except BaseException as error:
            await socket.close()
            if isinstance(error, aiohttp.ClientError | OSError):
                raise connection_failed(config, error) from error
            raise
        return cls(session, channel, target)

    async def read(self) -> bytes:
        """As `PortChannel.read`."""
        return await self._channel.read()

    async def write(self, data: bytes) -> None:
        """As `PortChannel.write`."""
        await self._channel.write(data)

    async def end_writing(self) -> None:
        """As `PortChannel.end_writing`."""
        await self._channel.end_writing()

    async def aclose(self) -> None:
        """Close the connection."""
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)
        await self._session.close()

    async def __aenter__(self) -> PortStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def exit_of(payload: bytes) -> tuple[int | None, str]:
    """Return the exit code and the message of the Status that ends an exec. There is no exit code if the program did
    not run to its end."""
    try:
        document: dict[str, Any] = msgspec.json.decode(payload, type=dict[str, Any])
    except msgspec.DecodeError:
        return None, payload.decode(errors="replace")
    if document.get("status") == "Success":
        return 0, ""
    message = str(document.get("message") or document.get("reason") or "")
    if document.get("reason") == "NonZeroExitCode":
        for cause in (document.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
                return int(cause["message"]), message
    return None, message
