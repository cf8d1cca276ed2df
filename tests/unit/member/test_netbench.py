"""The program of `kaji network bench`, over loopback and through a router with a smaller MTU behind it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from tests.helpers.network.netns import Namespace, connect, namespaces

from kajitori.member import netbench

PROGRAM = Path(netbench.__file__).read_text()


def command(*words: str) -> list[str]:
    """Return the run's command, with the program's text as an argument."""
    return [sys.executable, "-I", "-c", PROGRAM, *words]


@contextmanager
def serving(*inside: str) -> Iterator[str]:
    """Run a server and yield its port; it has ended by itself at the end."""
    with subprocess.Popen([*inside, *command("serve", "60")], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
            assert server.wait(30) == 0
        finally:
            with suppress(ProcessLookupError):
                server.kill()


def measured(address: str, port: str, inside: Sequence[str] = (), streams: int = 1) -> dict[str, int]:
    words = [*inside, *command("measure", address, port, "0.2", str(streams))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_both_families_are_measured_over_loopback(address: str) -> None:
    """One server for both; loopback carries the largest packets."""
    with serving() as port:
        found = measured(address, port, streams=2)
    assert found["mtu"] == 65_535
    assert found["bitsPerSecond"] > 0


def test_a_smaller_mtu_in_the_middle_is_found() -> None:
    """1400 bytes behind a router, though both ends' interfaces have 1500."""
    with namespaces("a", "router", "b") as line:
        _lay(**line)
        for address in ("10.0.2.2", "fd02::2"):
            with serving(*_in(line["b"])) as port:
                found = measured(address, port, _in(line["a"]))
            assert found["mtu"] == 1400
            assert found["bitsPerSecond"] > 0


def test_a_smaller_mtu_is_found_without_icmp() -> None:
    """A router that drops large packets silently, so that TCP would hang."""
    with namespaces("a", "router", "b") as line:
        _lay(**line)
        line["router"].run(
            "nft 'add table inet t; add chain inet t out { type filter hook output priority 0; };"
            "add rule inet t out icmp type destination-unreachable drop;"
            "add rule inet t out icmpv6 type packet-too-big drop'"
        )
        with serving(*_in(line["b"])) as port:
            there = ("fd02::2", int(port))
            assert line["a"].inside(partial(netbench.path_mtu, *there)) == 1400
            line["a"].inside(partial(netbench.end, *there))


class Late:
    """A socket on a path with an MTU of 1400; the first answers for some sizes come too late."""

    def __init__(self, *late: int) -> None:
        self.late = {size - 28: netbench._TRIES for size in late}
        self.size = 0
        self.asked: list[int] = []

    def send(self, data: bytes) -> None:
        self.size, self.number = len(data), data[:4]
        self.asked.append(self.size + 28)

    def recv(self, room: int) -> bytes:
        if self.size > 1400 - 28 or self.late.get(self.size, 0) > 0:
            self.late[self.size] = self.late.get(self.size, 0) - 1
            raise TimeoutError
        return self.number + self.size.to_bytes(4, "big")


def test_late_answers_do_not_reduce_the_measured_mtu() -> None:
    """The result of the search is checked once more."""
    on_time = Late()
    assert netbench.largest(cast(socket.socket, on_time), 28, 576) == 1400
    answered = sorted({size for size in on_time.asked if 576 < size <= 1400})
    assert len(answered) > 2
    for late in (answered[:1], answered[-1:], answered):
        assert netbench.largest(cast(socket.socket, Late(*late)), 28, 576) == 1400


class Echoing:
    """A socket that returns answers to earlier packets first, and for some sizes another size."""

    def __init__(self, cut: int = 65_535) -> None:
        self.cut = cut
        self.answers: list[bytes] = []

    def send(self, data: bytes) -> None:
        if len(data) > 1472:
            raise OSError("message too long")
        size = len(data) if len(data) <= self.cut else 8
        self.answers += [b"then" + size.to_bytes(4, "big"), data[:4] + size.to_bytes(4, "big")]

    def recv(self, room: int) -> bytes:
        if not self.answers:
            raise TimeoutError
        return self.answers.pop(0)


def test_only_the_answer_to_a_packet_counts() -> None:
    """Not the answer to an earlier one, or to one that arrived truncated; a size that the interface refuses does not
    pass."""
    assert netbench.largest(cast(socket.socket, Echoing()), 28, 576) == 1500
    assert netbench.largest(cast(socket.socket, Echoing(cut=1000)), 28, 576) == 1028


def test_throughput_is_the_sum_over_the_slowest_streams_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the other end counted: 3 MB in 2 s are 12 Mbit/s. A broken stream gives no result."""
    counted = [[1_000_000, 1.0], [2_000_000, 2.0]]
    told: list[tuple[str, int]] = []

    def send(address: str, port: int, seconds: float, found: list[object]) -> None:
        if counted:
            found.append(counted.pop())

    monkeypatch.setattr(netbench, "_send", send)
    monkeypatch.setattr(netbench, "path_mtu", lambda address, port: 1450)
    monkeypatch.setattr(netbench, "end", lambda address, port: told.append((address, port)))
    assert netbench.measure("10.8.0.4", 44, 1.0, 2) == {"mtu": 1450, "bitsPerSecond": 12_000_000}
    assert told == [("10.8.0.4", 44)]
    counted.append([1, 1.0])
    with pytest.raises(SystemExit, match=r"^2 of 3 connections to 10\.8\.0\.4 port 44 broke$"):
        netbench.measure("10.8.0.4", 44, 1.0, 3)
    assert len(told) == 1


def test_a_server_without_clients_ends_with_a_message() -> None:
    done = subprocess.run(command("serve", "0.01"), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "no client came within 0.01 s\n")
    assert done.stdout.startswith("listening on ")


def test_without_answers_the_mtu_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netbench, "_TIMEOUT_SECONDS", 0.01)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert netbench.path_mtu("127.0.0.1", silent.getsockname()[1]) == 0


def _in(where: Namespace) -> list[str]:
    return ["nsenter", f"--net={where.path}"]


def _lay(a: Namespace, router: Namespace, b: Namespace) -> None:
    """Build a network: a (1500) - router - (1400) b."""
    connect(a, "eth0", router, "left")
    connect(b, "eth0", router, "right")
    a.run("ip addr add 10.0.1.2/24 dev eth0; ip addr add fd01::2/64 dev eth0 nodad")
    b.run("ip addr add 10.0.2.2/24 dev eth0; ip addr add fd02::2/64 dev eth0 nodad")
    router.run("ip addr add 10.0.1.1/24 dev left; ip addr add fd01::1/64 dev left nodad")
    router.run("ip addr add 10.0.2.1/24 dev right; ip addr add fd02::1/64 dev right nodad")
    router.run("ip link set right mtu 1400; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
    for host, gateway in ((a, "1"), (b, "2")):
        host.run(f"ip route add default via 10.0.{gateway}.1; ip -6 route add default via fd0{gateway}::1")
