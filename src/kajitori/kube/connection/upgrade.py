"""Takes a connection over from aiohttp once the server has upgraded it."""

from __future__ import annotations

import aiohttp

from kajitori.kube.connection.joined import JoinedEnd


class Upgraded:
    """A connection that the server has upgraded."""

    def __init__(self, response: aiohttp.ClientResponse, end: JoinedEnd) -> None:
        self.headers = response.headers
        self._response = response
        connection = response.connection
        assert connection is not None and connection.protocol is not None and connection.transport is not None
        early = _Early()
        connection.protocol.set_parser(early, early)  # receives bytes that arrived together with the answer
        end.connection_made(connection.transport)
        connection.transport.set_protocol(end)
        if early.data:
            end.take(memoryview(early.data))

    def close(self) -> None:
        """Close the connection."""
        self._response.close()


class _Early:
    """Receives the first bytes of an upgraded connection, in the place of a parser of aiohttp."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        pass
