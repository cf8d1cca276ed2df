"""The guard of the sending process limits its connections and files, for any URL and any service's code."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import pytest

from kajitori.messages.guard import Guard, Refusal, Rules, is_allowed

PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"]
INSIDE = [
    "127.0.0.1",
    "10.96.0.1",
    "172.16.3.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:10.96.0.1",
    "64:ff9b::a60:1",
    "2002:a60:1::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed_unless_denied(address: str) -> None:
    found = ipaddress.ip_address(address)
    assert is_allowed(found, [], [])
    assert not is_allowed(found, [], [ipaddress.ip_network("93.184.216.0/24"), ipaddress.ip_network("2606:2800::/32")])


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside_are_refused_unless_the_policy_names_them(address: str) -> None:
    """Also those that are hidden inside another address."""
    found = ipaddress.ip_address(address)
    assert not is_allowed(found, [], [])
    assert is_allowed(found, [ipaddress.ip_network(found)], [])


@pytest.mark.parametrize(
    ("event", "arguments", "why"),
    [
        ("socket.connect", (socket.AF_INET, ("10.0.0.1", 80)), "notifications.networks"),
        ("socket.sendto", (socket.AF_INET, ("10.0.0.1", 53)), "notifications.networks"),
        ("socket.connect", (socket.AF_INET, ("metadata.internal", 80)), "was not looked up"),
        ("socket.connect", (socket.AF_UNIX, "/run/docker.sock"), "only connections over IP"),
        ("socket.getaddrinfo", ("kubernetes.default.svc", 443), "notifications.hosts"),
        ("open", ("/var/run/secrets/kubernetes.io/serviceaccount/token", "r", 0), "files"),
        ("open", ("/proc/self/environ", "r", 0), "files"),
        ("open", ("/usr/../etc/shadow", "r", 0), "files"),
        ("open", ("/usr/lib/x", "w", 1), "files"),
        ("subprocess.Popen", ("sh", ["sh"], None, None), "subprocess.Popen"),
        ("os.system", (b"id",), "os.system"),
        ("syslog.openlog", (), "syslog"),
    ],
)
def test_everything_else_is_refused_with_its_reason(event: str, arguments: tuple[object, ...], why: str) -> None:
    guard = Guard(Rules(hosts=("*.example.org",)))
    if event.startswith("socket.") and isinstance(arguments[0], socket.AddressFamily):
        with socket.socket(arguments[0], socket.SOCK_DGRAM) as sock, pytest.raises(Refusal):
            guard.watch(event, (sock, *arguments[1:]))
    else:
        with pytest.raises(Refusal):
            guard.watch(event, arguments)
    assert why in guard.take_refusal() and not guard.take_refusal()


def test_what_services_need_is_allowed() -> None:
    guard = Guard(Rules(hosts=("*.example.org", "example.org")))
    with socket.socket(socket.AF_INET) as sock:
        guard.watch("socket.connect", (sock, ("93.184.216.34", 443)))
    guard.watch("socket.getaddrinfo", ("hooks.example.org", 443))
    guard.watch("open", (str(Path(pytest.__file__)), "r", 0))
    guard.watch("compile", (b"", ""))
    assert not guard.take_refusal()
