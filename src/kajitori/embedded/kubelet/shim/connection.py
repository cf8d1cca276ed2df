"""A kubelet's connection to a shim: orders, commands beside the program, attached remotes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket

from . import process, tree
from .attachment import Attachment

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from typing import Any, Protocol

    class ServedContainer(Protocol):
        """The part of a shim that its connections use."""

        identity: process.Identity
        leader: int
        killing: bool
        stdin: int
        poll: select.poll
        connections: dict[int, Connection]
        awaited: dict[int, Connection]

        def stop(self, number: int, grace_seconds: float) -> None: ...

        def signal_leader(self, number: int) -> None: ...

        def close_stdin(self) -> None: ...


MESSAGE_BYTES = 256 * 1024


class Connection:
    """A kubelet's connection: orders to the container, or one command executed in it.

    Messages are JSON: `{"do": "stop", "signal": 15, "grace_seconds": 30}`, `{"do": "signal", "signal": 1}`, `{"do":
    "exec", "argv": [...], "tty": false}` with the descriptors for its standard streams. The answers to an exec are
    `{"pid": …}` and, when it has ended, `{"exit_code": …}`; or `{"error": …, "exit_code": …}`. Closing the connection
    ends the command, but not what it left in the background with other streams.

    `{"do": "attach"}` with a descriptor for standard output, and one for standard error unless the program has a
    terminal, copies the program's further output to them. The answer is `{"attached": true}`, with a descriptor of the
    program's input or terminal if it has one. Both close when the container has ended. `{"do": "close_stdin"}` ends the
    program's input for good.
    """

    def __init__(self, shim: ServedContainer, connected: socket.socket) -> None:
        self.shim = shim
        self.socket = connected
        self.pid = 0
        self._streams: frozenset[tuple[int, int]] = frozenset()
        """The files that are the command's standard streams."""
        self.attachment: Attachment | None = None

    def receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, MESSAGE_BYTES, 3)
        except OSError:
            data, fds = b"", []
        if not data:
            self.close()
            return
        for fd in fds:  # otherwise commands would inherit these descriptors and keep them open
            os.set_inheritable(fd, False)
        try:
            self._obey(json.loads(data), fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _obey(self, order: dict[str, Any], fds: list[int]) -> None:
        shim = self.shim
        if order["do"] == "stop":
            shim.stop(int(order["signal"]), float(order["grace_seconds"]))
            self._answer({"done": True})
        elif order["do"] == "signal":
            if self.pid:
                tree.signal_command(self.pid, self._streams, int(order["signal"]))
            else:
                shim.signal_leader(int(order["signal"]))
            self._answer({"done": True})
        elif order["do"] == "exec":
            if not shim.leader or shim.killing:
                self._answer({"error": "the container's program has ended", "exit_code": 126})
                return
            tty = bool(order["tty"])
            stdio = (fds[0], fds[0], fds[0]) if tty else (fds[0], fds[1], fds[2])
            try:
                self.pid = process.start(
                    shim.identity, order["argv"], stdio, tty=tty, beside=shim.leader, dies_with_us=False
                )
            except process.StartFailure as failure:
                self._answer({"error": failure.message, "exit_code": failure.exit_code})
                return
            self._streams = frozenset(map(tree.file_of, stdio))
            self._answer({"pid": self.pid})
        elif order["do"] == "attach":
            if not shim.leader or shim.killing:
                self._answer({"error": "the container's program has ended"})
                return
            self.attachment = Attachment(dict(zip(("stdout", "stderr"), map(os.dup, fds), strict=False)))
            self._answer({"attached": True}, [shim.stdin] if shim.stdin >= 0 else [])
        elif order["do"] == "close_stdin":
            shim.close_stdin()
            self._answer({"done": True})

    def ended(self, exit_code: int) -> None:
        self.pid = 0
        self._answer({"exit_code": exit_code})
        self.close()

    def close(self) -> None:
        if self.pid:
            tree.signal_command(self.pid, self._streams, signal.SIGKILL)
            self.pid = 0
        if self.attachment is not None:
            for fd in [fd for fd, connection in self.shim.awaited.items() if connection is self]:
                self.shim.poll.unregister(fd)
                del self.shim.awaited[fd]
            self.attachment.close()
            self.attachment = None
        if self.socket.fileno() in self.shim.connections:
            self.shim.poll.unregister(self.socket)
            del self.shim.connections[self.socket.fileno()]
        self.socket.close()

    def _answer(self, document: dict[str, Any], fds: list[int] | None = None) -> None:
        with contextlib.suppress(OSError):
            socket.send_fds(self.socket, [json.dumps(document).encode()], fds or [])
