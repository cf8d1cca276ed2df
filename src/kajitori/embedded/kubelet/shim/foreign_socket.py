"""A process that creates a socket in the network of another process.

It works even if that network belongs to another user namespace, as with rootless Docker. A thread can't do this, since
it can't enter a user namespace. The arguments are the other process and the socket's family. Standard input is a Unix
socket to which the new socket is sent.
"""

from __future__ import annotations

import os
import socket
import sys

from . import syscalls

PROGRAM = "import sys; sys.path.append({folder!r}); from shim.foreign_socket import main; main()"


def main() -> None:
    """Send the socket; or the number of the error, in decimals."""
    answer = socket.socket(fileno=0)
    pid, family = int(sys.argv[1]), int(sys.argv[2])
    try:
        kinds = [("user", syscalls.CLONE_NEWUSER), ("net", syscalls.CLONE_NEWNET)]
        kinds = [(name, kind) for name, kind in kinds if not is_shared(pid, name)]
        opened = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind) for name, kind in kinds]
        for fd, kind in opened:
            syscalls.setns(fd, kind)
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        answer.send(str(error.errno).encode())
    else:
        socket.send_fds(answer, [b"0"], [made.fileno()])


def is_shared(pid: int, name: str) -> bool:
    """Return whether a process is in our namespace of this kind (`net`, `user`). Raises OSError if it is gone."""
    return os.path.samestat(os.stat(f"/proc/{pid}/ns/{name}"), os.stat(f"/proc/self/ns/{name}"))
