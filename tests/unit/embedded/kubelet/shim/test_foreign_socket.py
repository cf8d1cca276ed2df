"""Ports in the network of a process that is in another user namespace."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE

import pytest

from kajitori.embedded.kubelet.http.port_forward import PodPorts

LISTENER = """
import socket, subprocess
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
server.accept()[0].sendall(b"inside")
"""


async def test_a_port_in_the_network_of_another_user_namespace_is_reached() -> None:
    """What rootless Docker calls the machine's network is in a user namespace of its own."""
    inside = ("unshare", "--user", "--map-root-user", "--net")
    allowed = await asyncio.create_subprocess_exec(*inside, "ip", "link", stdout=DEVNULL, stderr=DEVNULL)
    if await allowed.wait():
        pytest.skip("no user namespaces, or no ip")
    listener = await asyncio.create_subprocess_exec(*inside, sys.executable, "-c", LISTENER, stdout=PIPE)
    ports = PodPorts("p", "u", "", asyncio.Event().wait, listener.pid)
    try:
        assert listener.stdout is not None
        port = int(await listener.stdout.readline())
        with await ports.connect(port) as connection:
            assert await asyncio.get_running_loop().sock_recv(connection, 100) == b"inside"
        with pytest.raises(ConnectionRefusedError):
            await PodPorts("p", "u", "", asyncio.Event().wait).connect(port)
    finally:
        listener.kill()
        await listener.wait()
    with pytest.raises(FileNotFoundError):
        await ports.connect(port)
