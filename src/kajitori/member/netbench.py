"""Measures the network between two members: how much TCP carries, and the largest packet that passes whole.

`kaji network bench` sends this file's text along as a program's argument: it needs python3 and nothing else, so that
any image will do, and it takes no notice of how Kajitori is installed.

    serve SECONDS                                prints `listening on PORT`; ends when told to, or after that time
    measure ADDRESS PORT SECONDS STREAMS         prints what it found as one line of JSON, and ends the other side
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
"""Of IP and UDP, in bytes."""
_SMALLEST = {socket.AF_INET: 576, socket.AF_INET6: 1280}
"""What every host has to take (RFC 791, RFC 8200)."""
_LARGEST = 65_535
_DISCOVER = {socket.AF_INET: (socket.IPPROTO_IP, 10), socket.AF_INET6: (socket.IPPROTO_IPV6, 23)}
"""IP_MTU_DISCOVER and IPV6_MTU_DISCOVER of linux/in.h and linux/in6.h."""
_PROBE = 3
"""IP_PMTUDISC_PROBE: never in pieces, whatever the kernel believes of the way."""
_TRIES = 2
_LAST_TRIES = 12
"""Of what the answer hangs on."""
_PATIENCE_SECONDS = 0.25


def serve(seconds: float) -> None:
    """Takes connections and datagrams until one says that all is done."""
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
        sys.exit(f"nobody came within {seconds:g} s")


def _dual_stack() -> socket.socket:
    return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)


def _echo(sock: socket.socket) -> None:
    """Answers each datagram with its number and its size."""
    while True:
        data, sender = sock.recvfrom(_LARGEST)
        sock.sendto(struct.pack("!II", *struct.unpack("!I", data[:4]), len(data)), sender)


def _accept(listener: socket.socket, done: threading.Event) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_receive, args=(connection, done), daemon=True).start()


def _receive(connection: socket.socket, done: threading.Event) -> None:
    """Counts what comes, and says how much it was and how long that took; who sends nothing is done with all."""
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
    """Bits a second of all streams together, as the other side counted them, and the path's MTU in bytes; 0 where no
    datagram came back at all."""
    found: dict[str, Any] = {"mtu": path_mtu(address, port)}
    counted: list[Any] = []
    threads = [threading.Thread(target=_send, args=(address, port, seconds, counted)) for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counted) < streams:
        sys.exit(f"{streams - len(counted)} of {streams} connections to {address} port {port} broke")
    found["bitsPerSecond"] = round(8 * sum(each[0] for each in counted) / max(each[1] for each in counted))
    end(address, port)
    return found


def end(address: str, port: int) -> None:
    """Tells the other side that all is done."""
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
    """The largest packet that comes through whole, found by halving; it needs no router to say that one is too big."""
    family, _, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(*_DISCOVER[family], _PROBE)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        sock.settimeout(_PATIENCE_SECONDS)
        sock.connect(target)
        return largest(sock, _HEADERS[family], _SMALLEST[family])


def largest(sock: socket.socket, header: int, smallest: int) -> int:
    """The same, by a socket that leads there."""
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
        # Answers may have been late, of a busy machine: then the search ended just below such a size.
        if low == _LARGEST or not _passes(sock, low + 1 - header, _LAST_TRIES):
            return low
        low += 1


def _passes(sock: socket.socket, size: int, tries: int) -> bool:
    """Whether a datagram with so much in it is answered."""
    for _ in range(tries):
        number = struct.unpack("!I", os.urandom(4))[0]
        try:
            sock.send(struct.pack("!I", number).ljust(size, b"\0"))
            while struct.unpack("!II", sock.recv(8)) != (number, size):
                pass
        except socket.timeout:  # noqa: UP041 (of the image's own Python, which may be an old one)
            continue
        except OSError:  # larger than the interface takes, or somebody on the way says so
            return False
        return True
    return False


def main(words: list[str]) -> None:
    """As the module's text says."""
    if words[0] == "serve":
        serve(float(words[1]))
    else:
        _say(json.dumps(measure(words[1], int(words[2]), float(words[3]), int(words[4]))))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
