"""Network namespaces without names: held by open files of the test, they are gone when the test closes them or ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network namespace with its loopback interface up."""

    def __init__(self, name: str, path: Path | None = None) -> None:
        """Create a namespace, or open the existing one at `path`."""
        self.name = name
        self._fd = -1
        if path is not None:
            self._fd = os.open(path, os.O_RDONLY)
            return
        failed: list[OSError] = []

        def make() -> None:  # an open file keeps the namespace when the thread ends
            try:
                check(LIBC.unshare(NEWNET))
                self._fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        self.run("ip link set lo up")

    @property
    def path(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def run(self, command: str, *, stdin: str | None = None) -> str:
        """Return what a shell command prints in the namespace. Asserts that it succeeds."""
        words = ["nsenter", f"--net={self.path}", "sh", "-c", command]
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{self.name}: {command}: {done.stderr}"
        return done.stdout

    def inside(self, function: Callable[[], T]) -> T:
        """Call a function in the namespace and return its value. Sockets that it creates stay in the namespace."""
        return inside(self.path, function)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def inside(path: str, function: Callable[[], T]) -> T:
    """Call a function in the network namespace of this file. Sockets that it creates stay in the namespace."""

    def enter() -> T:
        with open(path, "rb") as file:
            check(LIBC.setns(file.fileno(), NEWNET))
        return function()

    with ThreadPoolExecutor(1) as thread:  # a thread of its own, because the namespace belongs to the thread
        return thread.submit(enter).result()


def connect(one: Namespace, its_end: str, other: Namespace, others_end: str) -> None:
    """Connect two namespaces with a veth pair, and bring both ends up."""
    one.run(
        f"ip link add {its_end} type veth peer name {others_end} netns {other.path} && ip link set {its_end} up &&"
        f"nsenter --net={other.path} ip link set {others_end} up"
    )


@contextlib.contextmanager
def namespaces(*names: str) -> Iterator[dict[str, Namespace]]:
    """Create a namespace for each name. Skip the test, with the reason, if this machine does not allow it."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run as root")
    if missing := [tool for tool in ("ip", "nft", "nsenter") if shutil.which(tool) is None]:
        pytest.skip(f"{', '.join(missing)} not on $PATH: apt-get install iproute2 nftables util-linux")
    if not Path("/proc/sys/net/ipv6").exists():
        pytest.skip("this kernel has no IPv6: boot it without ipv6.disable=1")
    made: dict[str, Namespace] = {}
    try:
        try:
            for name in names:
                made[name] = Namespace(name)
        except PermissionError as error:
            pytest.skip(f"network namespaces are not permitted ({error}): run with CAP_SYS_ADMIN")
        yield made
    finally:
        for namespace in made.values():
            namespace.close()


class Server:
    """A server on IPv4 and IPv6 that answers each connection with the address from which it came."""

    def __init__(self, where: Namespace, port: int) -> None:
        self._listener = where.inside(
            lambda: socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        )
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, peer = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(peer[0].removeprefix("::ffff:").encode())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def call(where: Namespace, address: str, port: int, *, seconds: float = 30.0) -> tuple[str, str]:
    """Connect from `where`; return the address that the server sees and the address that answers."""

    def ask() -> tuple[str, str]:
        with socket.create_connection((address, port), seconds) as connection:
            return connection.recv(100).decode(), connection.getpeername()[0]

    return where.inside(ask)


def knock(where: Namespace, address: str, port: int, *, source: str | None = None) -> socket.socket:
    """Start a connection without waiting: return a socket that has sent its first packet."""

    def begin() -> socket.socket:
        connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        connection.setblocking(False)
        if source is not None:
            connection.bind((source, 0))
        connection.connect_ex((address, port))
        return connection

    return where.inside(begin)


def answered(connection: socket.socket) -> bool:
    """Return whether a connection was accepted or refused, rather than ignored."""
    return bool(select.select([], [connection], [], 0)[1])


def check(result: int) -> None:
    """Raise the error of a LIBC call that failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise (
            PermissionError(number, os.strerror(number)) if number in (1, 13) else OSError(number, os.strerror(number))
        )
