"""Connections to ports of a Pod as streams of a SPDY session, as kubelets serve them (`portforward.k8s.io`)."""

from __future__ import annotations

import contextlib

from kajitori.kube.errors import ConnectionFailed, PortUnreachable
from kajitori.kube.spdy.session import PassOn, Session, Stream

PORT_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
"""SPDY tunnelled in a WebSocket (KEP-4006), as kubectl does it. The older protocol of channels can't end
one direction only."""


class PortChannel:
    """A connection to a port. Each of the two directions ends by itself.

    The kubelet does not tell when it has connected to the port. If it can't, reading raises PortUnreachable.
    """

    def __init__(self, session: Session, data: Stream, errors: Stream, target: str) -> None:
        """Use `PortChannel.open`."""
        self._session = session
        self._data = data
        self._errors = errors
        self._target = target

    @classmethod
    async def open(cls, session: Session, port: int, number: int, target: str) -> PortChannel:
        """Connect to a port. `number` identifies the connection in its session. Raises ConnectionError."""
        headers = {"port": str(port), "requestid": str(number)}
        errors = await session.open({**headers, "streamtype": "error"})
        await errors.close()  # this side sends no errors
        data = await session.open({**headers, "streamtype": "data"})
        return cls(session, data, errors, target)

    async def read(self, pass_on: PassOn | None = None) -> bytes:
        """Return the next bytes of the program, or no bytes once it has ended its direction.

        While this waits, `pass_on` may take bytes at once; only the others are returned. Raises PortUnreachable if the
        kubelet can't connect to the port, ConnectionFailed if the connection breaks.
        """
        try:
            data = await self._data.read(pass_on)
        except ConnectionResetError:
            raise self._failure_of_connection() from None
        if not data:
            self._raise_refusal()
        return data

    async def write(self, data: bytes | memoryview) -> None:
        """Send bytes; wait while the program does not read. Raises PortUnreachable and ConnectionFailed."""
        try:
            await self._data.write(data)
        except ConnectionError:
            raise self._failure_of_connection() from None

    async def end_writing(self) -> None:
        """End this side's direction; the program can still send. Does nothing if the connection is gone."""
        with contextlib.suppress(ConnectionError):
            await self._data.close()

    async def aclose(self) -> None:
        """Close the connection; the session goes on."""
        with contextlib.suppress(ConnectionError):
            await self._data.reset()
            await self._errors.reset()

    def _raise_refusal(self) -> None:
        """Raise the error that the kubelet sent on the stream for errors, if any. It sends the error before it ends the
        stream of data."""
        message = self._errors.read_arrived().decode(errors="replace").strip()
        if "connection refused" in message.lower():
            hint = "the program must listen on 127.0.0.1 or on all addresses; it may need some time to start"
            raise PortUnreachable(f"nothing listens on {self._target}", hint=hint, is_refusal=True)
        if message:
            raise PortUnreachable(f"{self._target} can't be reached: {message}")

    def _failure_of_connection(self) -> ConnectionFailed:
        self._raise_refusal()
        return ConnectionFailed(f"the connection to {self._target} broke", hint="try again")
