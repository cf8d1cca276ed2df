"""A relay between clients and a server that breaks its connections on demand, as a NAT or a sleeping laptop does."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator


class Relay:
    """Passes connections on to `find()`, a host and a port, which may differ for each."""

    def __init__(self, find: Callable[[], tuple[str, int]]) -> None:
        self._find = find
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Relay]:
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        try:
            yield self
        finally:
            self._listener.close()
            self.break_all()

    def break_all(self) -> None:
        """Reset every open connection at both ends."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._find())
            except OSError:
                client.close()
                continue
            self._ends += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=_pass_on, args=(one, other), name="relay", daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
