"""Measure the network between two members: the throughput of TCP, and the largest packet that passes unfragmented.

`kaji network bench` sends the text of this file as an argument of python3. So it works in any image with Python, and
needs no installed Kajitori.

    serve SECONDS                                prints `listening on PORT`; ends when told to, or after that time
    measure ADDRESS PORT SECONDS STREAMS         prints the result as one line of JSON, and ends the other side
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any

_CHUNK = bytes(1 << 18)
_HEADERS = {socket.AF_INET: 20 + 8, socket.AF_INET6: 40 + 8}
"""Bytes of the IP and UDP headers."""
_SMALLEST = {socket.AF_INET: 576, socket.AF_INET6: 1280}
"""Packet size that every host must accept (RFC 791, RFC 8200)."""
_LARGEST = 65_535
_DISCOVER = {socket.AF_INET: (socket.IPPROTO_IP, 10), socket.AF_INET6: (socket.IPPROTO_IPV6, 23)}
"""IP_MTU_DISCOVER and IPV6_MTU_DISCOVER of linux/in.h and linux/in6.h."""
_PROBE = 3
"""IP_PMTUDISC_PROBE: never fragment, whatever MTU the kernel assumes for the path."""
_TRIES = 2
_LAST_TRIES = 12
"""Tries for the probes that decide the result."""
_TIMEOUT_SECONDS = 0.25


def serve(seconds: float) -> None:
    """Accept connections and datagrams until a client sends the end."""
    listener = socket.create_server(("", 0)) if not socket.has_dualstack_ipv6() else _dual_stack()
    port = listener.getsockname()[1]
    echo = socket.socket(listener.family, socket.SOCK_DGRAM)
    if listener.family == socket.AF_INET6:
        echo.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    echo.bind(("", port))
    done = threading.Event()
    threading.Thread(target=_echo, args=(echo,), daemon=True).start()
    threading.Thread(target=_accept, args=(listener, done), daemon=True).start()
    _say(f"listening on {port}")
    if not done.wait(seconds):
        sys.exit(f"no client came within {seconds:g} s")


def _dual_stack() -> socket.socket:
    return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)


def _echo(sock: socket.socket) -> None:
    """Answer each datagram with its number and size."""
    while True:
        data, sender = sock.recvfrom(_LARGEST)
        sock.sendto(struct.pack("!II", *struct.unpack("!I", data[:4]), len(data)), sender)


def _accept(listener: socket.socket, done: threading.Event) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_receive, args=(connection, done), daemon=True).start()


def _receive(connection: socket.socket, done: threading.Event) -> None:
    """Count received bytes, and answer with their number and the time; a connection without data is the end."""
    with connection:
        room, received, began = bytearray(1 << 20), 0, 0.0
        while count := connection.recv_into(room):
            began = began or time.monotonic()
            received += count
        if not received:
            done.set()
            return
        connection.sendall(json.dumps([received, time.monotonic() - began]).encode())


def measure(address: str, port: int, seconds: float, streams: int) -> dict[str, Any]:
    """Return the bits per second of all streams, as counted by the other side, and the path's MTU in bytes.

    The MTU is 0 if no datagram was answered.
    """
    found: dict[str, Any] = {"mtu": path_mtu(address, port)}
    counted: list[Any] = []
    threads = [threading.Thread(target=_send, args=(address, port, seconds, counted)) for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counted) < streams:
        sys.exit(f"{streams - len(counted)} of {streams} connections to {address} port {port} broke")
    found["bitsPerSecond"] = round(8 * sum(count[0] for count in counted) / max(count[1] for count in counted))
    end(address, port)
    return found


def end(address: str, port: int) -> None:
    """Tell the other side to end."""
    socket.create_connection((address, port), timeout=10).close()


def _send(address: str, port: int, seconds: float, counted: list[Any]) -> None:
    with socket.create_connection((address, port), timeout=30) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(_CHUNK)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while more := connection.recv(4096):
            answer += more
    counted.append(json.loads(answer))


def path_mtu(address: str, port: int) -> int:
    """Return the largest packet size that passes unfragmented, by bisection; no router needs to report anything."""
    family, _, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(*_DISCOVER[family], _PROBE)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        sock.settimeout(_TIMEOUT_SECONDS)
        sock.connect(target)
        return largest(sock, _HEADERS[family], _SMALLEST[family])


def largest(sock: socket.socket, header: int, smallest: int) -> int:
    """Return the largest packet size for a connected socket."""
    low = smallest
    if not _passes(sock, low - header, _LAST_TRIES):
        return 0
    while True:
        high = _LARGEST
        while low < high:
            middle = (low + high + 1) // 2
            if _passes(sock, middle - header, _TRIES):
                low = middle
            else:
                high = middle - 1
        # On a busy machine answers may have been late, so that the search ended too early: try one byte more.
        if low == _LARGEST or not _passes(sock, low + 1 - header, _LAST_TRIES):
            return low
        low += 1


def _passes(sock: socket.socket, size: int, tries: int) -> bool:
    """Return whether a datagram of this size is answered."""
    for _ in range(tries):
        number = struct.unpack("!I", os.urandom(4))[0]
        try:
            sock.send(struct.pack("!I", number).ljust(size, b"\0"))
            while struct.unpack("!II", sock.recv(8)) != (number, size):
                pass
        except socket.timeout:  # noqa: UP041 (the image's own Python may be an old one)
            continue
        except OSError:  # larger than the interface's MTU, or a router refused it
            return False
        return True
    return False


def main(words: list[str]) -> None:
    """Run one of the commands in the module's docstring."""
    if words[0] == "serve":
        serve(float(words[1]))
    else:
        _say(json.dumps(measure(words[1], int(words[2]), float(words[3]), int(words[4]))))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
